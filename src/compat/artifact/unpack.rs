//! Decompresses a part of a fatbin, up to a size: LZ4 as nvcc 12 and older write it, zstd as nvcc 13 does.
//! The main function is [`unpack`].

use std::io::Read as _;

use super::contents::Compression;
use super::error::ArtifactError;

/// The longest part that is decompressed. It is done to read a header and some names, and most parts are smaller.
pub(super) const LONGEST: u64 = 8 << 20;

/// The bytes of a part whose header says that they are `size` after decompression; none if that is more than is
/// decompressed here, or if the compression is not known.
pub(super) fn unpack(compression: Compression, packed: &[u8], size: u64) -> Result<Option<Vec<u8>>, ArtifactError> {
    if size > LONGEST {
        return Ok(None);
    }
    let length = usize::try_from(size).unwrap_or(0);
    let malformed = |why: String| ArtifactError::Malformed { form: "compressed part", why };
    let unpacked = match compression {
        Compression::Lz4 => {
            let mut out = vec![0; length];
            let written = lz4_flex::block::decompress_into(packed, &mut out)
                .map_err(|error| malformed(format!("LZ4: {error}")))?;
            out.truncate(written);
            out
        }
        Compression::Zstd => {
            let zstd = |error: &dyn std::fmt::Display| malformed(format!("zstd: {error}"));
            let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(packed, LONGEST);
            let mut out = Vec::with_capacity(length);
            // One byte more than it says shows that it says too little.
            decoder
                .map_err(|error| zstd(&error))?
                .take(size + 1)
                .read_to_end(&mut out)
                .map_err(|error| zstd(&error))?;
            out
        }
        Compression::Other => return Ok(None),
    };
    if unpacked.len() == length {
        Ok(Some(unpacked))
    } else {
        Err(malformed(format!("it is {} bytes after decompression, and its header says {size}", unpacked.len())))
    }
}

//! Where the bytes of a large artifact come from: a file that is read piece by piece, or memory. The trait is
//! [`Source`]; [`Window`] reads it a few kilobytes at a time, so that a library of 500 MB is never in memory.

use std::io;

use super::error::{ArtifactError, SurveyError};

/// Bytes that can be read from any place. Nothing here opens a file: the caller does.
pub trait Source {
    /// How many there are.
    fn size(&self) -> u64;

    /// Fills `into` with those from `offset` on; an error if they are not all there.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let found = super::bytes::slice(self, offset, into.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(found);
        Ok(())
    }
}

/// What is read at once. Headers of parts lie some hundred kilobytes apart, so that more would mostly be read in vain.
const WINDOW: u64 = 4 << 10;

/// A view on a few kilobytes of a source, which moves where it is asked to.
pub(super) struct Window<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(super) fn new(source: &'a dyn Source) -> Self {
        Self { source, start: 0, bytes: Vec::new() }
    }

    /// The bytes from `offset` on, at most a window's length and no more than there are up to `end`.
    pub(super) fn at(&mut self, offset: u64, end: u64) -> Result<&[u8], SurveyError> {
        let end = end.min(self.source.size());
        let wanted = end.saturating_sub(offset).min(WINDOW);
        let has = self.start + self.bytes.len() as u64;
        // A header is at most a few dozen bytes long; with less than that left, the window moves.
        let enough = offset >= self.start && offset + wanted.min(128) <= has;
        if !enough {
            self.bytes = read(self.source, offset, wanted)?;
            self.start = offset;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        let length = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(rest.len());
        Ok(rest.get(..length).unwrap_or_default())
    }
}

/// `length` bytes from `offset` on. The caller bounds the length.
pub(super) fn read(source: &dyn Source, offset: u64, length: u64) -> Result<Vec<u8>, SurveyError> {
    let needs = offset.saturating_add(length);
    if needs > source.size() {
        let error = ArtifactError::Truncated { what: "what was to be read".into(), needs, has: source.size() };
        return Err(error.into());
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let unreadable = |error: io::Error| SurveyError::Unreadable { offset, why: error.to_string() };
    source.read_at(offset, &mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

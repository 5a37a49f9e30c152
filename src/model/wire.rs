//! What crosses the container's border: one JSON [`Request`] in, framed [`Frame`]s out on stdout.
//!
//! A frame is one line, `ctk-frame 1 NONCE LENGTH SHA256 PAYLOAD`, opened by a record separator (U+001E). Everything
//! else on stdout is noise. The nonce is the run's secret, so that text printed by a compiler or a kernel cannot pass
//! for a frame; length and hash show damage; the [`Frame::Final`] count shows loss.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::arch::Arch;
use super::kernel::Kernel;
use super::matrix::Measure;
use super::outcome::{Code, Outcome, Stage};
use super::path::PathId;
use super::record::{Artifact, Bits, Gpu, GpuMode, Loaded, LoadedFile, Timings};
use super::stack::StackFiles;
use super::version::Version;

/// The version of the protocol. Host and container must agree.
pub const WIRE: u32 = 1;

/// The longest payload that is accepted, in bytes: an artifact of 12 MB in base64, with room to spare.
pub const MAX_PAYLOAD: usize = 24 << 20;

const MARK: &str = "\u{1e}ctk-frame ";

/// A line that is no frame is handed on in pieces of about this size, in bytes, so that an endless one takes no memory.
const MAX_NOISE: usize = 64 << 10;

/// Everything that `ctk-bench run` is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`WIRE`].
    pub wire: u32,
    /// 32 hexadecimal digits that only this run knows.
    pub nonce: String,
    /// Whether and which GPU to use.
    pub gpu: GpuWish,
    /// The toolkit's files, as the container sees them.
    pub toolkit: ToolkitFiles,
    /// The kernel.
    pub kernel: Kernel,
    /// What to do, in order.
    pub tasks: Vec<Task>,
    /// How often to launch.
    pub measure: Measure,
    /// How the host's cost of a launch is measured.
    #[serde(default)]
    pub launches: HostLaunches,
    /// The deadline of one path, in milliseconds.
    pub path_timeout_ms: u64,
    /// A writable folder for everything that is made; compilers' temporaries go below it too.
    pub work: PathBuf,
    /// The Python packages; none where no task needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackFiles>,
}

/// How the host's cost of a launch is measured: batches of launches that the GPU is done with at once, timed without
/// the wait at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLaunches {
    /// Elements, or all that there are where those are fewer: so few that the GPU keeps up with the host.
    pub n: u64,
    /// Launches in a batch: fewer than a stream's queue holds (1024), or the host would wait for the GPU.
    pub batch: u32,
    /// Batches, of whose times the median is taken.
    pub batches: u32,
}

impl Default for HostLaunches {
    /// With 1000 elements an H200's host was seen to take 3.2 us a launch, and the Python libraries 5.5 to 24.5.
    fn default() -> Self {
        Self { n: 1000, batch: 64, batches: 21 }
    }
}

/// Whether and which GPU to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuWish {
    /// Do not open the driver.
    None,
    /// The first GPU that is visible.
    First,
    /// The GPU with this index or UUID.
    Device(String),
}

/// One path to carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The cell's id.
    pub cell: String,
    /// The path.
    pub path: PathId,
    /// What to build for.
    pub arch: Arch,
}

/// Where the toolkit's files are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolkitFiles {
    /// The version that the cell claims; what is loaded is held against it.
    pub version: Version,
    /// Folders to look in, best first: `/usr/local/cuda-12.6`, or the root of unpacked wheels.
    pub roots: Vec<PathBuf>,
    /// SHA-256 of files that the host has hashed already, by the path that the container sees.
    #[serde(default)]
    pub hashes: BTreeMap<PathBuf, String>,
}

/// One message out of the container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Frame {
    /// What the container is, and what driver and GPU it sees. A worker that replaces a dead one says it again.
    Hello(Box<Hello>),
    /// A path entered a stage.
    Stage {
        /// The cell's id.
        cell: String,
        /// The stage.
        stage: Stage,
    },
    /// A path ended.
    Path(Box<PathResult>),
    /// Nothing more will come.
    Final {
        /// How many [`Frame::Path`] frames were sent.
        count: usize,
    },
}

/// What the container is, and what driver and GPU it sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of `ctk-bench`.
    pub bench: String,
    /// The container's C library, where it is glibc.
    pub glibc: Option<String>,
    /// Whether a driver was opened, and whose.
    pub gpu_mode: GpuMode,
    /// The libcuda that was opened.
    pub driver: Option<LoadedFile>,
    /// The GPU.
    pub gpu: Option<Gpu>,
    /// Why there is no GPU, though one was wished for.
    pub failure: Option<Failure>,
}

/// A stage that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stage.
    pub stage: Stage,
    /// The code, where there is one.
    pub code: Option<Code>,
    /// One line: why.
    pub reason: String,
    /// The raw text behind it.
    pub detail: Option<String>,
}

/// How one path ended, inside the container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// The cell's id.
    pub cell: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it failed.
    pub stage: Option<Stage>,
    /// What it failed with.
    pub code: Option<Code>,
    /// One line: why.
    pub reason: Option<String>,
    /// The raw text behind it.
    pub detail: Option<String>,
    /// The libraries and programs that were really used.
    pub loaded: Loaded,
    /// What was handed to the driver, or would have been.
    pub artifact: Option<Artifact>,
    /// The artifact's bytes in base64, so that the host can keep them.
    pub artifact_base64: Option<String>,
    /// Milliseconds and rates.
    pub timings: Timings,
    /// The caches of compiled kernels that those depend on.
    #[serde(default)]
    pub caches: Vec<super::kernel_cache::KernelCache>,
    /// The comparison.
    pub bits: Option<Bits>,
    /// The UUID of the GPU that launched it.
    pub gpu: Option<String>,
}

impl PathResult {
    /// A result with nothing learned yet.
    #[must_use]
    pub fn new(cell: &str, outcome: Outcome) -> Self {
        Self {
            cell: cell.into(),
            outcome,
            stage: None,
            code: None,
            reason: None,
            detail: None,
            loaded: Loaded::default(),
            artifact: None,
            artifact_base64: None,
            timings: Timings::default(),
            caches: Vec::new(),
            bits: None,
            gpu: None,
        }
    }

    /// A path that failed.
    #[must_use]
    pub fn failed(cell: &str, failure: Failure) -> Self {
        Self {
            stage: Some(failure.stage),
            code: failure.code,
            reason: Some(failure.reason),
            detail: failure.detail,
            ..Self::new(cell, Outcome::Fail)
        }
    }
}

/// One frame as a line of text, ready to be written in one piece.
///
/// # Panics
/// Never: a frame's JSON has only string keys.
#[must_use]
pub fn encode(nonce: &str, frame: &Frame) -> String {
    let payload = serde_json::to_string(frame).expect("a frame holds only finite numbers, strings and string keys");
    format!("\n{MARK}{WIRE} {nonce} {} {} {payload}\n", payload.len(), hex(&Sha256::digest(payload.as_bytes())))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A piece of what came out of a container.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A frame whose nonce, length and hash are right.
    Frame(Box<Frame>),
    /// A line that is no frame.
    Noise(String),
    /// A line that opens as a frame of this run and is not whole, or cannot be read.
    Damaged(String),
}

/// Takes a stream of bytes apart into [`Piece`]s, in whatever chunks it comes.
#[derive(Debug)]
pub struct Decoder {
    nonce: String,
    line: Vec<u8>,
    /// Whether the line opens as a frame of this run: then it is kept whole.
    opened: bool,
    /// The rest of an overlong frame is dropped until its end.
    overlong: bool,
}

impl Decoder {
    /// A decoder for frames with this nonce.
    #[must_use]
    pub fn new(nonce: &str) -> Self {
        Self { nonce: nonce.into(), line: Vec::new(), opened: false, overlong: false }
    }

    /// Takes the next chunk and gives the pieces that it completes. Empty lines are dropped.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            let text = if ends { &part[..part.len() - 1] } else { part };
            for text in text.chunks(MAX_NOISE) {
                pieces.extend(self.extend(text));
            }
            if ends {
                pieces.extend(self.take_line());
            }
        }
        pieces
    }

    /// Adds to the line. One that has grown long and is no frame of this run is handed on as far as it has come.
    fn extend(&mut self, text: &[u8]) -> Option<Piece> {
        if !self.overlong {
            let room = (MAX_PAYLOAD + 1024).saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            self.overlong = text.len() > room;
        }
        if self.opened || self.line.len() <= MAX_NOISE {
            return None;
        }
        let opening = format!("{MARK}{WIRE} {} ", self.nonce);
        let separators = self.line.iter().enumerate().filter(|(_, byte)| **byte == 0x1e);
        self.opened = separators.into_iter().any(|(at, _)| self.line[at..].starts_with(opening.as_bytes()));
        if self.opened {
            return None;
        }
        // The opening of a frame may lie across two chunks, so its length stays.
        let rest = self.line.split_off(self.line.len() - opening.len());
        let noise = std::mem::replace(&mut self.line, rest);
        Some(Piece::Noise(String::from_utf8_lossy(&noise).into_owned()))
    }

    /// Takes what is left after the last line end.
    pub fn finish(&mut self) -> Vec<Piece> {
        self.take_line().into_iter().collect()
    }

    fn take_line(&mut self) -> Option<Piece> {
        let line = std::mem::take(&mut self.line);
        let overlong = std::mem::take(&mut self.overlong);
        self.opened = false;
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if text.is_empty() {
            return None;
        }
        let Some(at) = text.find(MARK) else { return Some(Piece::Noise(text.into())) };
        let head = &text[at + MARK.len()..];
        // A frame of somebody else's is noise: its nonce is not ours.
        let mut fields = head.splitn(5, ' ');
        let (version, nonce) = (fields.next(), fields.next());
        if nonce != Some(self.nonce.as_str()) {
            return Some(Piece::Noise(text.into()));
        }
        if overlong {
            return Some(Piece::Damaged("a frame is longer than is accepted".into()));
        }
        Some(match read(version, fields.next(), fields.next(), fields.next()) {
            Ok(frame) => Piece::Frame(Box::new(frame)),
            Err(why) => Piece::Damaged(why),
        })
    }
}

fn read(
    version: Option<&str>,
    length: Option<&str>,
    hash: Option<&str>,
    payload: Option<&str>,
) -> Result<Frame, String> {
    let version = version.unwrap_or_default();
    if version != WIRE.to_string() {
        return Err(format!("a frame has protocol version {version:?}, not {WIRE}: ctk-bench and ctk-matrix differ"));
    }
    let payload = payload.ok_or("a frame ends before its payload")?;
    if length != Some(payload.len().to_string().as_str()) {
        return Err(format!("a frame says {} bytes and has {}", length.unwrap_or_default(), payload.len()));
    }
    if hash != Some(hex(&Sha256::digest(payload.as_bytes())).as_str()) {
        return Err("a frame's hash is not that of its payload".into());
    }
    serde_json::from_str(payload).map_err(|error| format!("a frame cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "00112233445566778899aabbccddeeff";

    fn decode(bytes: &[u8], chunk: usize) -> Vec<Piece> {
        let mut decoder = Decoder::new(NONCE);
        let mut pieces: Vec<_> = bytes.chunks(chunk).flat_map(|chunk| decoder.push(chunk)).collect();
        pieces.extend(decoder.finish());
        pieces
    }

    #[test]
    fn frames_come_back_from_any_chunking_and_between_noise() {
        let frame = Frame::Final { count: 7 };
        let text = format!("banner without line end{}noise\n{}", encode(NONCE, &frame), encode(NONCE, &frame));
        for chunk in [1, 2, 3, 7, 1000] {
            let pieces = decode(text.as_bytes(), chunk);
            let frame = Piece::Frame(Box::new(frame.clone()));
            let noise = |text: &str| Piece::Noise(text.into());
            assert_eq!(
                pieces,
                [noise("banner without line end"), frame.clone(), noise("noise"), frame],
                "chunk {chunk}"
            );
        }
    }

    #[test]
    fn a_forged_frame_is_noise() {
        let forged = encode("ffffffffffffffffffffffffffffffff", &Frame::Final { count: 1 });
        assert!(matches!(decode(forged.as_bytes(), 64).as_slice(), [Piece::Noise(_)]));
    }

    #[test]
    fn every_damage_to_a_frame_shows() {
        let whole = encode(NONCE, &Frame::Stage { cell: "c".into(), stage: Stage::Load });
        assert!(matches!(decode(whole.as_bytes(), 9).as_slice(), [Piece::Frame(_)]));
        let payload_at = whole.find('{').unwrap();
        for cut in payload_at..whole.len() - 2 {
            let pieces = decode(&whole.as_bytes()[..cut], 64);
            assert!(matches!(pieces.as_slice(), [Piece::Damaged(_)]), "cut at {cut}: {pieces:?}");
        }
        let flipped = whole.replace("\"load\"", "\"lord\"");
        assert!(matches!(decode(flipped.as_bytes(), 64).as_slice(), [Piece::Damaged(_)]));
        let newer = whole.replacen("ctk-frame 1", "ctk-frame 2", 1);
        assert!(matches!(decode(newer.as_bytes(), 64).as_slice(), [Piece::Damaged(_)]));
    }

    #[test]
    fn an_endless_line_takes_little_memory_and_loses_nothing() {
        let mut decoder = Decoder::new(NONCE);
        let (chunk, mut noise) = (vec![b'x'; 1 << 20], 0);
        for _ in 0..64 {
            for piece in decoder.push(&chunk) {
                let Piece::Noise(text) = piece else { panic!("{piece:?}") };
                noise += text.len();
            }
            assert!(decoder.line.capacity() <= 4 * MAX_NOISE, "{}", decoder.line.capacity());
        }
        let end = decoder.push(b"\n");
        let [Piece::Noise(text)] = end.as_slice() else { panic!("{end:?}") };
        assert_eq!(noise + text.len(), 64 << 20);
        assert!(matches!(
            decoder.push(encode(NONCE, &Frame::Final { count: 0 }).as_bytes()).as_slice(),
            [Piece::Frame(_)]
        ));
    }

    #[test]
    fn a_long_frame_is_kept_whole_also_behind_a_long_line_without_end() {
        let long = Frame::Stage { cell: "c".repeat(3 * MAX_NOISE), stage: Stage::Load };
        for before in [0, MAX_NOISE - 20, MAX_NOISE, 2 * MAX_NOISE + 5] {
            let text = "x".repeat(before) + encode(NONCE, &long).trim_start();
            for chunk in [1000, 16 << 10, 1 << 20] {
                let frames =
                    decode(text.as_bytes(), chunk).into_iter().filter(|piece| matches!(piece, Piece::Frame(_)));
                assert_eq!(frames.collect::<Vec<_>>(), [Piece::Frame(Box::new(long.clone()))], "{before} {chunk}");
            }
        }
    }

    #[test]
    fn a_frame_that_is_longer_than_is_accepted_is_damaged_and_a_forged_one_takes_no_memory() {
        let mut decoder = Decoder::new(NONCE);
        let mut pieces = decoder.push(format!("{MARK}1 {NONCE} 99 00 ").as_bytes());
        for _ in 0..26 {
            pieces.extend(decoder.push(&vec![b'y'; 1 << 20]));
        }
        assert!(decoder.line.len() <= MAX_PAYLOAD + 1024);
        pieces.extend(decoder.push(b"\n"));
        assert!(matches!(pieces.as_slice(), [Piece::Damaged(_)]), "{}", pieces.len());
        let mut decoder = Decoder::new(NONCE);
        decoder.push(format!("{MARK}1 {} 99 00 ", "f".repeat(32)).as_bytes());
        decoder.push(&vec![b'y'; 8 << 20]);
        assert!(decoder.line.capacity() <= 4 * MAX_NOISE);
    }
}

//! What an engine keeps of a job's output. Its main type is [`Output`]: stdout, taken apart as it is read, so that a job
//! that writes without end takes no memory. `Tail` keeps the last of stderr, `Head` the first of a file.

use std::fmt::Write as _;

use crate::model::wire::{Decoder, Frame, Piece};

/// How much of a job's frames is kept, in bytes: some artifacts of 12 MB in base64, with room to spare.
const MAX_FRAMES: usize = 64 << 20;
/// How much of what is no frame is kept, from the start and from the end, in bytes: what a person would read.
const NOISE_HEAD: usize = 1 << 20;
const NOISE_TAIL: usize = 512 << 10;
/// How much of a job's stderr is kept, in bytes: a page of a compiler's complaints.
pub(crate) const MAX_STDERR: usize = 64 << 10;

/// How much of a job's stdout is handed on for display while it runs, in bytes. Its receiver may be slow.
pub(crate) const MAX_SHOWN: usize = 8 << 20;

/// What a job wrote to its standard output.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// Its frames, in order.
    pub frames: Vec<Frame>,
    /// What is wrong with the last frame that was not whole.
    pub damage: Option<String>,
    /// Everything else, in lines: the first and the last of it, and between them a line that says what is left out.
    pub noise: String,
    /// Whether frames may be missing: there was more than is kept, or than the engine gave back.
    pub cut: bool,
}

impl Output {
    /// Whether nothing is missing: the final frame is there, and as many results as it says.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let results = self.frames.iter().filter(|frame| matches!(frame, Frame::Path(_))).count();
        matches!(self.frames.last(), Some(Frame::Final { count }) if *count == results) && self.damage.is_none()
    }
}

/// Takes stdout apart as it comes.
#[derive(Debug)]
pub(crate) struct Collector {
    decoder: Decoder,
    output: Output,
    /// Bytes that were read, and bytes of frames that are kept.
    read: u64,
    framed: usize,
    tail: Tail,
    /// Bytes of noise that the head has no room for.
    beyond: usize,
}

impl Collector {
    pub(crate) fn new(nonce: &str) -> Self {
        let (decoder, output, tail) = (Decoder::new(nonce), Output::default(), Tail::default());
        Self { decoder, output, read: 0, framed: 0, tail, beyond: 0 }
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.read += piece.len() as u64;
        for piece in self.decoder.push(piece) {
            self.take(piece);
        }
    }

    /// Bytes that were read.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Says that something may be missing.
    pub(crate) fn cut(&mut self) {
        self.output.cut = true;
    }

    /// What was read. `written` is how much the job is known to have written.
    pub(crate) fn finish(mut self, written: u64) -> Output {
        for piece in self.decoder.finish() {
            self.take(piece);
        }
        let mut output = self.output;
        output.cut |= written > self.read;
        if self.beyond > 0 {
            let mut tail = self.tail.text(NOISE_TAIL);
            if self.beyond > NOISE_TAIL {
                // A line that begins before the tail is left out too.
                let begin = tail.find('\n').map_or(0, |at| at + 1);
                tail.drain(..begin);
                let left_out = self.beyond - tail.len();
                let _ = writeln!(output.noise, "[{left_out} bytes are left out here]");
            }
            output.noise.push_str(&tail);
        }
        output
    }

    fn take(&mut self, piece: Piece) {
        let line = match piece {
            Piece::Frame(frame) => {
                self.framed += weight(&frame);
                if self.framed > MAX_FRAMES {
                    self.output.cut = true;
                } else {
                    self.output.frames.push(*frame);
                }
                return;
            }
            Piece::Noise(line) => line,
            Piece::Damaged(why) => {
                let line = format!("[damaged frame] {why}");
                self.output.damage = Some(why);
                line
            }
        };
        if self.beyond == 0 && self.output.noise.len() + line.len() < NOISE_HEAD {
            self.output.noise.push_str(&line);
            self.output.noise.push('\n');
        } else {
            self.beyond += line.len() + 1;
            self.tail.push(line.as_bytes(), NOISE_TAIL);
            self.tail.push(b"\n", NOISE_TAIL);
        }
    }
}

/// About how much memory a frame takes.
fn weight(frame: &Frame) -> usize {
    /// Names, numbers and hashes, which `ctk-bench` keeps short.
    const REST: usize = 1 << 10;
    let long = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    REST + match frame {
        Frame::Path(result) => long(&result.artifact_base64) + long(&result.detail) + long(&result.reason),
        Frame::Stage { cell, .. } => cell.len(),
        Frame::Hello(_) | Frame::Final { .. } => 0,
    }
}

/// The first bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// What was kept.
    pub(crate) bytes: Vec<u8>,
    /// Whether there was more.
    pub(crate) cut: bool,
}

impl Head {
    /// Takes the next piece. Returns false when there is no room left.
    pub(crate) fn push(&mut self, piece: &[u8], room: usize) -> bool {
        let take = piece.len().min(room.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&piece[..take]);
        self.cut |= take < piece.len();
        !self.cut
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: &[u8], room: usize) {
        self.bytes.extend_from_slice(piece);
        // Cutting only at twice the room keeps the cost a byte constant.
        if self.bytes.len() > 2 * room {
            self.bytes.drain(..self.bytes.len() - room);
        }
    }

    /// The last `room` bytes, as text.
    pub(crate) fn text(&self, room: usize) -> String {
        let from = self.bytes.len().saturating_sub(room);
        String::from_utf8_lossy(&self.bytes[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::{Outcome, Stage};
    use crate::model::wire::{PathResult, encode};

    const NONCE: &str = "00112233445566778899aabbccddeeff";

    fn collected(pieces: impl IntoIterator<Item = Vec<u8>>) -> Output {
        let mut collector = Collector::new(NONCE);
        pieces.into_iter().for_each(|piece| collector.push(&piece));
        collector.finish(0)
    }

    #[test]
    fn frames_are_kept_and_of_endless_noise_the_first_and_the_last() {
        let last = encode(NONCE, &Frame::Final { count: 0 }).into_bytes();
        let lines = (0..400_000).map(|number| format!("line {number:06}\n").into_bytes());
        let output = collected(lines.chain([last]));
        assert!(output.is_whole() && !output.cut);
        let noise: Vec<&str> = output.noise.lines().collect();
        assert_eq!((noise[0], noise[noise.len() - 1]), ("line 000000", "line 399999"));
        let left_out = noise.iter().position(|line| line.starts_with('[')).unwrap();
        let kept = output.noise.len() - noise[left_out].len() - 1;
        assert_eq!(noise[left_out], format!("[{} bytes are left out here]", 12 * 400_000 - kept));
        assert!(output.noise.len() <= NOISE_HEAD + NOISE_TAIL + 100);
        assert_eq!(collected([b"a\n\xff".to_vec(), b"b".to_vec()]).noise, "a\n\u{fffd}b\n");
    }

    #[test]
    fn frames_beyond_the_room_are_cut_and_so_is_what_the_engine_did_not_give_back() {
        let frame = Frame::Stage { cell: "c".repeat(1 << 20), stage: Stage::Load };
        let output = collected((0..70).map(|_| encode(NONCE, &frame).into_bytes()));
        assert!(output.cut && (60..=64).contains(&output.frames.len()), "{}", output.frames.len());
        let mut collector = Collector::new(NONCE);
        collector.push(b"abc");
        assert!(collector.finish(4).cut);
    }

    #[test]
    fn output_without_its_final_frame_or_with_another_count_is_not_whole() {
        let result = Frame::Path(Box::new(PathResult::new("c", Outcome::Built)));
        let whole =
            |frames: &[&Frame]| collected(frames.iter().map(|frame| encode(NONCE, frame).into_bytes())).is_whole();
        let last = Frame::Final { count: 1 };
        assert!(whole(&[&result, &last]));
        assert!(!whole(&[&result]) && !whole(&[&last]) && !whole(&[&last, &result]) && !whole(&[]));
    }

    #[test]
    fn a_head_keeps_the_first_bytes_and_says_when_there_were_more() {
        let mut head = Head::default();
        assert!(head.push(b"abc", 5));
        assert!(head.push(b"de", 5));
        assert!(!head.push(b"f", 5));
        assert_eq!((head.bytes.as_slice(), head.cut), (b"abcde".as_slice(), true));
    }

    #[test]
    fn a_tail_keeps_the_last_bytes_in_whatever_pieces_they_come() {
        for piece in [1, 3, 100] {
            let mut tail = Tail::default();
            let text = "ab".repeat(47) + "474849";
            text.as_bytes().chunks(piece).for_each(|piece| tail.push(piece, 6));
            assert_eq!(tail.text(6), "474849");
            assert!(tail.bytes.len() <= 100);
        }
    }
}

//! What an engine keeps of a job's output: the first of stdout ([`Head`]) and the last of stderr ([`Tail`]).

/// How much of a job's stdout is kept, in bytes: some artifacts of 12 MB in base64, with room to spare.
pub(crate) const MAX_STDOUT: usize = 64 << 20;
/// How much of a job's stderr is kept, in bytes: a page of a compiler's complaints.
pub(crate) const MAX_STDERR: usize = 64 << 10;

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

//! Keeps plain progress lines to a few a second, for logs that people scroll through. Its main type is [`Gate`].

use std::time::{Duration, Instant};

/// Lines that pass in one [`PERIOD`].
const LINES: usize = 5;
/// How long a count of lines holds.
const PERIOD: Duration = Duration::from_secs(1);

/// Lets the first lines of each second pass, and counts the others.
#[derive(Debug)]
pub(super) struct Gate {
    since: Instant,
    passed: usize,
    held: usize,
}

impl Gate {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, passed: 0, held: 0 }
    }

    /// What is to be printed for this line: itself and, before it, how many were held back; or nothing.
    pub(super) fn pass(&mut self, line: String, now: Instant) -> Vec<String> {
        if now.duration_since(self.since) >= PERIOD {
            self.since = now;
            self.passed = 0;
        }
        if self.passed >= LINES {
            self.held += 1;
            return Vec::new();
        }
        self.passed += 1;
        self.rest().into_iter().chain([line]).collect()
    }

    /// How many lines were held back since the last that passed, in words.
    pub(super) fn rest(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        (held > 0).then(|| format!("({held} more lines; the report has everything)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_counted_and_not_lost() {
        let start = Instant::now();
        let mut gate = Gate::new(start);
        let shown: Vec<String> = (0..12).flat_map(|n| gate.pass(n.to_string(), start)).collect();
        assert_eq!(shown, ["0", "1", "2", "3", "4"]);
        let later = gate.pass("later".into(), start + PERIOD);
        assert_eq!(later, ["(7 more lines; the report has everything)", "later"]);
        assert_eq!(gate.rest(), None);
    }
}

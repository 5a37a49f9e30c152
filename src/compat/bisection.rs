//! Finds where a row of versions turns from good to bad with few trials. Its main type is [`Bisection`]: a synchronous
//! state machine that is told what each trial saw.

use crate::model::claim::TrialVerdict;

/// A search over versions in ascending order. It takes what it finds to turn once between its ends; that it does is not
/// shown, since the versions between are not all tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Bisection {
    seen: Vec<Option<TrialVerdict>>,
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Two versions that differ, with nothing between them but versions that cannot be tested.
    Between {
        /// The older one.
        below: usize,
        /// The newer one.
        above: usize,
        /// What the older one is.
        older: TrialVerdict,
    },
    /// The oldest and the newest that can be tested are alike.
    Alike(TrialVerdict),
    /// None can be tested.
    Nothing,
}

impl Bisection {
    /// A search over `count` versions.
    pub fn new(count: usize) -> Self {
        Self { seen: vec![None; count] }
    }

    /// The version to be tried next; none when the search has come to its end.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        // The ends come first: the newest, because it may settle everything, then the oldest.
        let newest = self.seen.iter().rposition(|seen| *seen != Some(TrialVerdict::Untestable))?;
        if self.seen[newest].is_none() {
            return Some(newest);
        }
        let oldest = self.seen.iter().position(|seen| *seen != Some(TrialVerdict::Untestable))?;
        if self.seen[oldest].is_none() {
            return Some(oldest);
        }
        let (below, above) = self.narrowest()?;
        let middle = usize::midpoint(below, above);
        // The nearest to the middle that has not been tried: an untestable one is stepped round.
        (below + 1..above).filter(|at| self.seen[*at].is_none()).min_by_key(|at| at.abs_diff(middle))
    }

    /// Takes down what was seen of a version.
    pub fn saw(&mut self, at: usize, verdict: TrialVerdict) {
        if let Some(seen) = self.seen.get_mut(at) {
            *seen = Some(verdict);
        }
    }

    /// What was found.
    #[must_use]
    pub fn turn(&self) -> Turn {
        if let Some((below, above)) = self.narrowest()
            && let Some(older) = self.seen[below]
        {
            return Turn::Between { below, above, older };
        }
        match self.told().next() {
            Some((_, verdict)) => Turn::Alike(verdict),
            None => Turn::Nothing,
        }
    }

    /// The closest two neighbours, among those of which something is known, that differ; the oldest such pair.
    fn narrowest(&self) -> Option<(usize, usize)> {
        let told: Vec<(usize, TrialVerdict)> = self.told().collect();
        told.windows(2).find(|pair| pair[0].1 != pair[1].1).map(|pair| (pair[0].0, pair[1].0))
    }

    fn told(&self) -> impl Iterator<Item = (usize, TrialVerdict)> {
        let told = |(at, seen): (usize, &Option<TrialVerdict>)| seen.map(|verdict| (at, verdict));
        self.seen.iter().enumerate().filter_map(told).filter(|(_, verdict)| *verdict != TrialVerdict::Untestable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TrialVerdict::{Bad, Good, Untestable};

    /// Searches a row written as `g`, `b` and `u`; gives what was found and how many trials it took.
    fn search(row: &str) -> (Turn, usize) {
        let verdict = |letter| match letter {
            b'g' => Good,
            b'b' => Bad,
            _ => Untestable,
        };
        let mut bisection = Bisection::new(row.len());
        let mut trials = 0;
        while let Some(at) = bisection.next() {
            assert!(bisection.seen[at].is_none(), "{row}: {at} is tried twice");
            bisection.saw(at, verdict(row.as_bytes()[at]));
            trials += 1;
        }
        (bisection.turn(), trials)
    }

    #[test]
    fn every_single_turn_is_found_whichever_way_it_goes() {
        for count in 2..40_usize {
            for good in 1..count {
                let row = "g".repeat(good) + &"b".repeat(count - good);
                let (turn, trials) = search(&row);
                assert_eq!(turn, Turn::Between { below: good - 1, above: good, older: Good }, "{row}");
                let most = 2 + (usize::BITS - (count - 1).leading_zeros()) as usize;
                assert!(trials <= most, "{row}: {trials} trials");
                let back: String = row.chars().rev().collect();
                let below = count - good;
                assert_eq!(search(&back).0, Turn::Between { below: below - 1, above: below, older: Bad }, "{back}");
            }
        }
    }

    #[test]
    fn ends_that_are_alike_are_said_to_be_after_two_trials() {
        assert_eq!(search("ggggggggg"), (Turn::Alike(Good), 2));
        assert_eq!(search("bbbb"), (Turn::Alike(Bad), 2));
        assert_eq!(search("g"), (Turn::Alike(Good), 1));
        assert_eq!(search(""), (Turn::Nothing, 0));
        // What the middle hides is not seen, which is why the report says what was tried.
        assert_eq!(search("ggbgg").0, Turn::Alike(Good));
    }

    #[test]
    fn versions_that_cannot_be_tested_are_stepped_round() {
        assert_eq!(search("uuu").0, Turn::Nothing);
        assert_eq!(search("ugguub").0, Turn::Between { below: 2, above: 5, older: Good });
        assert_eq!(search("gubuu").0, Turn::Between { below: 0, above: 2, older: Good });
        assert_eq!(search("ggggguuuuubbbb").0, Turn::Between { below: 4, above: 10, older: Good });
        assert_eq!(search("ugu").0, Turn::Alike(Good));
    }

    #[test]
    fn of_several_turns_one_that_is_real_is_found() {
        for row in ["gbgb", "gbbgggb", "ggbbggbb"] {
            let Turn::Between { below, above, .. } = search(row).0 else { panic!("{row}") };
            assert_ne!(row.as_bytes()[below], row.as_bytes()[above]);
            assert_eq!(above, below + 1);
        }
    }
}

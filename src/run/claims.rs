//! Puts claims about packages to the test: resolves, imports, compiles, and looks for boundaries. Its main type is
//! [`ClaimRunner`]; claims about cells need nothing of it, since records decide them.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::compat::bisection::{Bisection, Turn};
use crate::model::claim::{
    Boundary, BoundaryAsk, ClaimResult, ClaimVerdict, PackageAction, PackageTest, PlannedClaim, TrialVerdict, Tried,
};
use crate::model::event::RunEvent;
use crate::toolkit::packages::{Interpreter, PackageError, Packages, Seen, Versions, meets, names_version};

/// An import or a compile is given at least so long, whatever the limit for one path: the first import of a library
/// reads hundreds of files.
const LEAST: Duration = Duration::from_mins(2);

/// Puts claims about packages to the test, one after the other.
#[derive(Debug)]
pub struct ClaimRunner {
    /// What asks pip and runs environments.
    pub packages: Packages,
    /// The deadline of one import or compile.
    pub limit: Duration,
}

/// What came of a test, before it is put into words with its claim.
struct Found {
    verdict: ClaimVerdict,
    expected: bool,
    reason: String,
    evidence: Vec<String>,
    detail: Option<String>,
    boundary: Option<Boundary>,
}

impl Found {
    fn new(verdict: ClaimVerdict, reason: impl Into<String>) -> Self {
        let expected = verdict != ClaimVerdict::DoesNotHold;
        Self { verdict, expected, reason: reason.into(), evidence: Vec::new(), detail: None, boundary: None }
    }

    fn evidence(self, evidence: Vec<String>) -> Self {
        Self { evidence, ..self }
    }
}

impl ClaimRunner {
    /// Tests those of the claims that speak of packages, and tells what comes of each the moment it is known. A
    /// cancellation ends it, and what was not tested gets no result.
    pub async fn run(
        &self,
        claims: &[PlannedClaim],
        tell: &UnboundedSender<RunEvent>,
        mut cancel: watch::Receiver<bool>,
    ) {
        let work = async {
            for claim in claims {
                let Some(test) = &claim.packages else { continue };
                let step = |step: String| {
                    let _ = tell.send(RunEvent::ClaimStep { says: claim.says.clone(), step });
                };
                step("testing".into());
                let found = self.test(test, &step).await.unwrap_or_else(|error| Found {
                    expected: error.foreseen(),
                    detail: error.detail().map(ToOwned::to_owned),
                    ..Found::new(ClaimVerdict::NotTested, error.to_string())
                });
                let _ = tell.send(RunEvent::ClaimFinished(Box::new(result(claim, found))));
            }
        };
        let cancelled = async {
            if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancelled => {}
            () = work => {}
        }
    }

    async fn test(&self, test: &PackageTest, step: &(dyn Fn(String) + Sync)) -> Result<Found, PackageError> {
        let wanted = test.python.as_deref();
        let python = match (self.packages.interpreter(wanted).await, &test.action) {
            (Ok(python), _) => python,
            // pip can choose for a Python that is not here, but for what only that Python can say.
            (Err(PackageError::NoInterpreter { wanted }), PackageAction::Resolve(gives)) if test.boundary.is_none() => {
                let own = self.packages.interpreter(None).await?;
                let seen = self.packages.choose(&own, Some(&wanted), &test.packages).await?;
                let mut found = verdict(test, gives, &seen);
                found.evidence.push(format!(
                    "chosen for Python {wanted}, which is not here, by the pip of Python {}: what packages ask for on \
                     some Pythons only was read as that of the latter",
                    own.version
                ));
                return Ok(found);
            }
            (Err(error), _) => return Err(error),
        };
        if let Some(ask) = &test.boundary {
            return self.boundary(test, ask, &python, step).await;
        }
        let seen = self.act(test, &python, &test.packages).await?;
        let gives: &[String] = if let PackageAction::Resolve(gives) = &test.action { gives } else { &[] };
        let mut found = verdict(test, gives, &seen);
        found.evidence.push(format!("with Python {}", python.version));
        Ok(found)
    }

    async fn act(&self, test: &PackageTest, python: &Interpreter, packages: &[String]) -> Result<Seen, PackageError> {
        let host = test.python.as_deref() == Some("host");
        self.packages.act(python, host, packages, &test.action, self.limit.max(LEAST)).await
    }

    async fn boundary(
        &self,
        test: &PackageTest,
        ask: &BoundaryAsk,
        python: &Interpreter,
        step: &(dyn Fn(String) + Sync),
    ) -> Result<Found, PackageError> {
        let there = self.packages.versions(python, &ask.package, &ask.range).await?;
        let mut search = Bisection::new(there.usable.len());
        let mut tried: Vec<Tried> = Vec::new();
        while let Some(at) = search.next() {
            let version = &there.usable[at];
            let mut packages = test.packages.clone();
            packages.push(format!("{}=={version}", ask.package));
            let seen = self.act(test, python, &packages).await?;
            let (verdict, saw) = trial(test, &seen);
            step(format!("{} {version}: {}", ask.package, word(verdict)));
            search.saw(at, verdict);
            tried.push(Tried { version: version.clone(), verdict, saw });
        }
        Ok(bounded(ask, python, &there, search.turn(), tried))
    }
}

fn result(claim: &PlannedClaim, found: Found) -> ClaimResult {
    ClaimResult {
        says: claim.says.clone(),
        verdict: found.verdict,
        expected: found.expected,
        cells: Vec::new(),
        observe: None,
        packages: claim.packages.clone(),
        reason: found.reason,
        evidence: found.evidence,
        detail: found.detail.filter(|detail| !detail.trim().is_empty()),
        boundary: found.boundary,
    }
}

/// What was seen, held against what is claimed.
fn verdict(test: &PackageTest, gives: &[String], seen: &Seen) -> Found {
    let action = &test.action;
    match (seen, &test.fails_with) {
        (Seen::Works { saw, packages }, None) => {
            let wrong = gives.iter().filter(|requirement| meets(packages, requirement) != Some(true));
            let wrong: Vec<&str> = wrong.map(String::as_str).collect();
            let found = if wrong.is_empty() {
                let does = if matches!(action, PackageAction::Resolve(_)) { "" } else { " succeeds" };
                Found::new(ClaimVerdict::Holds, format!("{action}{does}: {saw}"))
            } else {
                Found::new(
                    ClaimVerdict::DoesNotHold,
                    format!("{action}: the choice does not meet {}", wrong.join(", ")),
                )
            };
            found.evidence(listing(packages))
        }
        (Seen::Works { saw, packages }, Some(wanted)) => {
            let reason = format!("{action} was to fail with `{wanted}`, and succeeds: {saw}");
            Found::new(ClaimVerdict::DoesNotHold, reason).evidence(listing(packages))
        }
        (Seen::Fails { saw, detail, packages, .. }, Some(wanted)) if says(saw, detail, wanted) => Found {
            detail: Some(detail.clone()),
            ..Found::new(ClaimVerdict::Holds, format!("{action} fails: {saw}")).evidence(listing(packages))
        },
        // A library that needs the real driver says nothing of the claim where there is none.
        (Seen::Fails { saw, detail, packages, driver: true }, _) => Found {
            detail: Some(detail.clone()),
            ..Found::new(ClaimVerdict::NotTested, format!("{action} needs NVIDIA's driver, which is not here: {saw}"))
                .evidence(listing(packages))
        },
        (Seen::Fails { saw, detail, packages, .. }, claimed) => {
            let instead = claimed.as_ref().map_or(String::new(), |wanted| format!(", and not with `{wanted}`"));
            Found {
                detail: Some(detail.clone()),
                ..Found::new(ClaimVerdict::DoesNotHold, format!("{action} fails{instead}: {saw}"))
                    .evidence(listing(packages))
            }
        }
    }
}

fn says(saw: &str, detail: &str, text: &str) -> bool {
    saw.contains(text) || detail.contains(text)
}

fn listing(packages: &[String]) -> Vec<String> {
    if packages.is_empty() { Vec::new() } else { vec![packages.join(", ")] }
}

/// What a version is, and what was seen of it.
fn trial(test: &PackageTest, seen: &Seen) -> (TrialVerdict, String) {
    match (seen, &test.fails_with) {
        (Seen::Works { saw, .. }, _) => (TrialVerdict::Good, saw.clone()),
        (Seen::Fails { saw, driver: true, .. }, None) => (TrialVerdict::Untestable, saw.clone()),
        (Seen::Fails { saw, detail, .. }, Some(wanted)) if !says(saw, detail, wanted) => {
            (TrialVerdict::Untestable, saw.clone())
        }
        (Seen::Fails { saw, .. }, _) => (TrialVerdict::Bad, saw.clone()),
    }
}

const fn word(verdict: TrialVerdict) -> &'static str {
    match verdict {
        TrialVerdict::Good => "good",
        TrialVerdict::Bad => "bad",
        TrialVerdict::Untestable => "cannot be tested",
    }
}

/// What a search has found, in words and against what is claimed.
fn bounded(ask: &BoundaryAsk, python: &Interpreter, there: &Versions, turn: Turn, tried: Vec<Tried>) -> Found {
    let package = &ask.package;
    let mut boundary = Boundary {
        package: package.clone(),
        python: python.version.clone(),
        last_good: None,
        first_bad: None,
        newest: there.usable.last().cloned(),
        without_wheel: there.without_wheel.clone(),
        tried,
    };
    let newest = boundary.newest.clone().unwrap_or_default();
    // Those that are newer are beyond what this Python can show.
    let beyond = match there.newer_without_wheel().as_slice() {
        [] => String::new(),
        [one] => format!("; {one} exists and has no wheel for Python {}", python.series()),
        [first, .., last] => format!("; {first} to {last} exist and have no wheel for Python {}", python.series()),
    };
    let (reason, found) = match turn {
        Turn::Between { below, above, older } => {
            let (below, above) = (there.usable[below].clone(), there.usable[above].clone());
            let words = if older == TrialVerdict::Good {
                format!("{package} {below} is the last good version, {above} the first bad")
            } else {
                format!("{package} {below} is the last bad version, {above} the first good")
            };
            let (good, bad) = if older == TrialVerdict::Good { (below, above) } else { (above, below) };
            (boundary.last_good, boundary.first_bad) = (Some(good), Some(bad));
            (words, true)
        }
        Turn::Alike(TrialVerdict::Good) => {
            boundary.last_good = Some(newest.clone());
            (
                format!("no bad version: {package} {newest} is the newest for Python {}, and good", python.series()),
                false,
            )
        }
        Turn::Alike(_) => {
            boundary.first_bad = there.usable.first().cloned();
            (format!("no good version: {package} is bad from {} to {newest}", first(there)), false)
        }
        Turn::Nothing => (format!("no version of {package} could be tested"), false),
    };
    let reason = format!("{reason}{beyond}");
    let wrong: Vec<String> =
        [("last good", &ask.last_good, &boundary.last_good), ("first bad", &ask.first_bad, &boundary.first_bad)]
            .into_iter()
            .filter_map(|(what, claimed, found)| {
                let claimed = claimed.as_ref()?;
                // What has no wheel for this Python speaks neither for nor against it.
                let told = found.as_ref().is_none_or(|found| names_version(claimed, found));
                (!told).then(|| format!("the {what} version was to be {claimed}"))
            })
            .collect();
    let mut result = if !wrong.is_empty() {
        Found::new(ClaimVerdict::DoesNotHold, format!("{reason}; {}", wrong.join(", ")))
    } else if found {
        Found::new(ClaimVerdict::Holds, reason)
    } else {
        Found::new(ClaimVerdict::NotTested, reason)
    };
    result.evidence = boundary.tried.iter().map(line(package)).collect();
    result.evidence.push(format!("with Python {}", python.version));
    result.boundary = Some(boundary);
    result
}

fn first(there: &Versions) -> &str {
    there.usable.first().map_or("", String::as_str)
}

fn line(package: &str) -> impl Fn(&Tried) -> String {
    move |tried| format!("{package} {} {}: {}", tried.version, word(tried.verdict), tried.saw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TrialVerdict::{Bad, Good};

    fn python() -> Interpreter {
        Interpreter { program: "python3".into(), version: "3.11.7".into() }
    }

    fn there(usable: &[&str], without: &[&str]) -> Versions {
        let own = |list: &[&str]| list.iter().map(|version| (*version).to_owned()).collect();
        Versions { usable: own(usable), without_wheel: own(without) }
    }

    /// `verdict expected: reason` of a search that claims `last_good` and `first_bad`.
    fn said(there: &Versions, turn: Turn, last_good: Option<&str>, first_bad: Option<&str>) -> String {
        let own = |text: Option<&str>| text.map(ToOwned::to_owned);
        let ask = BoundaryAsk {
            package: "numpy".into(),
            range: ">=2".into(),
            last_good: own(last_good),
            first_bad: own(first_bad),
        };
        let found = bounded(&ask, &python(), there, turn, Vec::new());
        format!("{} {}: {}", found.verdict.name(), if found.expected { "yes" } else { "no" }, found.reason)
    }

    #[test]
    fn a_boundary_that_was_found_is_held_against_the_claim() {
        let there = there(&["2.3.0", "2.4.6", "2.5.0"], &[]);
        let turn = Turn::Between { below: 1, above: 2, older: Good };
        let words = "numpy 2.4.6 is the last good version, 2.5.0 the first bad";
        assert_eq!(said(&there, turn, None, None), format!("holds yes: {words}"));
        assert_eq!(said(&there, turn, Some("2.4"), Some("2.5.0")), format!("holds yes: {words}"));
        let wrong = format!("does-not-hold no: {words}; the last good version was to be 1.26");
        assert_eq!(said(&there, turn, Some("1.26"), Some("2.5")), wrong);
        let back = Turn::Between { below: 0, above: 1, older: Bad };
        assert_eq!(
            said(&there, back, None, None),
            "holds yes: numpy 2.3.0 is the last bad version, 2.4.6 the first good"
        );
    }

    #[test]
    fn where_this_python_ends_before_the_boundary_the_report_says_so() {
        let there = there(&["2.0.0", "2.4.6"], &["2.5.0", "2.5.5"]);
        let words = "no bad version: numpy 2.4.6 is the newest for Python 3.11, and good; 2.5.0 to 2.5.5 exist and have \
                     no wheel for Python 3.11";
        assert_eq!(said(&there, Turn::Alike(Good), None, None), format!("not-tested yes: {words}"));
        assert_eq!(said(&there, Turn::Alike(Good), Some("2.4"), Some("2.5.0")), format!("not-tested yes: {words}"));
        let wrong = said(&there, Turn::Alike(Good), Some("2.3"), None);
        assert_eq!(wrong, format!("does-not-hold no: {words}; the last good version was to be 2.3"));
        assert!(said(&there, Turn::Alike(Bad), None, Some("2.5")).starts_with("does-not-hold no: no good version"));
        assert_eq!(
            said(&there, Turn::Nothing, None, None),
            "not-tested yes: no version of numpy could be tested; 2.5.0 to 2.5.5 exist and have no wheel for Python 3.11"
        );
    }

    fn test(fails_with: Option<&str>) -> PackageTest {
        PackageTest {
            python: None,
            packages: vec!["a".into()],
            action: PackageAction::Import("a".into()),
            fails_with: fails_with.map(Into::into),
            boundary: None,
        }
    }

    #[test]
    fn a_failure_for_want_of_a_driver_says_nothing_unless_it_is_what_is_claimed() {
        let seen = Seen::Fails {
            saw: "at import: ImportError: libcuda.so.1: cannot open shared object file".into(),
            detail: "Traceback".into(),
            packages: vec!["a 1".into()],
            driver: true,
        };
        let of = |fails_with| verdict(&test(fails_with), &[], &seen).verdict;
        assert_eq!(of(None), ClaimVerdict::NotTested);
        assert_eq!(of(Some("row_stack")), ClaimVerdict::NotTested);
        assert_eq!(of(Some("libcuda.so.1")), ClaimVerdict::Holds);
        assert_eq!(trial(&test(None), &seen).0, TrialVerdict::Untestable);
        let other = Seen::Fails { saw: "other".into(), detail: String::new(), packages: Vec::new(), driver: false };
        assert_eq!(trial(&test(Some("row_stack")), &other).0, TrialVerdict::Untestable);
        assert_eq!(trial(&test(None), &other).0, TrialVerdict::Bad);
        assert_eq!(verdict(&test(None), &[], &other).verdict, ClaimVerdict::DoesNotHold);
    }
}

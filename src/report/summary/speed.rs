//! How the paths of one toolkit compare where each had a process of its own: the time to its first result, what a launch
//! costs the host, and the steady mean, each as a multiple of the driver path's. Its main type is [`SpeedTable`].

use super::grid::Common;
use super::places::Places;
use super::tables::{NOTHING, number};
use crate::model::outcome::Outcome;
use crate::model::path::{Family, PathId};
use crate::model::record::{Record, Report, Timings};
use crate::model::units;

/// The columns of a [`SpeedTable`].
pub const SPEED_COLUMNS: [&str; 7] = ["path", "result ms", "times", "launch us", "times", "mean ms", "times"];

/// The paths of one toolkit against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedTable {
    /// `toolkit 12.6, kernel vector_add, arch 9.0, stack lesson`.
    pub title: String,
    /// The texts under [`SPEED_COLUMNS`].
    pub rows: Vec<[String; 7]>,
    /// What is compared with what, and how the driver path stands against the best Python library.
    pub lines: Vec<String>,
}

/// One path and its times.
struct Entry<'a> {
    path: PathId,
    timings: &'a Timings,
}

/// A table where every path that passed knows the time from the start of its process to its first result. Where paths
/// share a process, only those that it was started for know it, and theirs includes what was made for the others.
pub(super) fn tables(report: &Report, places: &Places) -> Vec<SpeedTable> {
    let mut groups: Vec<(String, Common, Vec<&Record>)> = Vec::new();
    let timed = |record: &Record| record.outcome == Outcome::Pass && record.timings.mean_ms.is_some();
    for (index, record) in report.cells.iter().enumerate().filter(|(_, record)| timed(record)) {
        let common = Common::of(&record.axes, places.of(index));
        let toolkit = &record.axes.toolkit;
        match groups.iter_mut().find(|(name, other, _)| name == toolkit && *other == common) {
            Some((.., records)) => records.push(record),
            None => groups.push((toolkit.clone(), common, vec![record])),
        }
    }
    groups
        .into_iter()
        .filter(|(.., records)| records.len() > 1 && records.iter().all(|record| record.timings.result_ms.is_some()))
        .map(|(toolkit, common, records)| {
            let entries: Vec<Entry<'_>> =
                records.iter().map(|record| Entry { path: record.axes.path, timings: &record.timings }).collect();
            table(format!("toolkit {toolkit}, {}", common.title()), &entries)
        })
        .collect()
}

fn table(title: String, entries: &[Entry<'_>]) -> SpeedTable {
    let base = base(entries);
    let row = |entry: &Entry<'_>| {
        let Entry { path, timings } = entry;
        let times = |of: fn(&Timings) -> Option<f64>| ratio(of(timings), of(base.timings)).unwrap_or(NOTHING.into());
        [
            path.to_string(),
            number(timings.result_ms, units::millis),
            times(|timings| timings.result_ms),
            number(timings.launch_ms, units::micros),
            times(|timings| timings.launch_ms),
            number(timings.mean_ms, units::millis),
            times(|timings| timings.mean_ms),
        ]
    };
    let mut lines = vec![format!(
        "result: from the start of the path's own process to its first verified result. times: as a multiple of {}.",
        base.path
    )];
    lines.extend(against(entries, base, "has its first result", "sooner", |timings| timings.result_ms));
    lines.extend(against(entries, base, "launches", "cheaper", |timings| timings.launch_ms));
    SpeedTable { title, rows: entries.iter().map(row).collect(), lines }
}

/// What the others are compared with: the driver path that is first done, or whichever is.
fn base<'a, 'e>(entries: &'e [Entry<'a>]) -> &'e Entry<'a> {
    let time = |entry: &&Entry<'_>| entry.timings.result_ms.unwrap_or(f64::INFINITY);
    let first = |a: &&Entry<'_>, b: &&Entry<'_>| time(a).total_cmp(&time(b));
    let driver = entries.iter().filter(|entry| entry.path.family == Family::Driver).min_by(first);
    driver.or_else(|| entries.iter().min_by(first)).unwrap_or(&entries[0])
}

/// How the driver path stands against the Python library that is best in this.
fn against(
    entries: &[Entry<'_>],
    base: &Entry<'_>,
    does: &str,
    better: &str,
    of: fn(&Timings) -> Option<f64>,
) -> Option<String> {
    let libraries = entries.iter().filter(|entry| entry.path.family.is_python());
    let known = libraries.filter_map(|entry| Some((entry.path, of(entry.timings)?)));
    let (best, time) = known.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let times = ratio(Some(time), of(base.timings))?;
    (base.path.family == Family::Driver)
        .then(|| format!("{} {does} {times} times {better} than the best Python library there, {best}.", base.path))
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<String> {
    let (value, base) = (value?, base.filter(|base| *base > 0.0)?);
    Some(units::times(value / base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::read;
    use crate::report::testing::{record, run};

    fn report(paths: &[(&str, Option<f64>, f64)]) -> Report {
        let cells = paths.iter().map(|(path, result_ms, launch_ms)| {
            let mut record = record("r1", "12.6", Outcome::Pass);
            record.axes.path = path.parse().unwrap();
            record.id = format!("path={path}");
            record.timings = Timings {
                result_ms: *result_ms,
                launch_ms: Some(*launch_ms),
                mean_ms: Some(0.0171),
                ..Timings::default()
            };
            record
        });
        read::report(vec![run("r1", "2026-12-01T10:00:00Z")], cells.collect(), Vec::new(), Vec::new())
    }

    #[test]
    fn each_path_is_a_multiple_of_the_driver_path_that_is_first_done() {
        let report = report(&[
            ("driver-ptx", Some(600.0), 0.0033),
            ("driver-fatbin", Some(500.0), 0.0032),
            ("cuda-core", Some(1500.0), 0.0055),
            ("cupy", Some(2000.0), 0.0048),
        ]);
        let tables = tables(&report, &Places::new(&report));
        assert_eq!(tables.len(), 1);
        let rows: Vec<String> = tables[0].rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            rows,
            [
                "driver-ptx 600 1.20 3.30 1.03 0.0171 1.00",
                "driver-fatbin 500 1.00 3.20 1.00 0.0171 1.00",
                "cuda-core 1500 3.00 5.50 1.72 0.0171 1.00",
                "cupy 2000 4.00 4.80 1.50 0.0171 1.00",
            ]
        );
        assert_eq!(
            tables[0].lines[1..],
            [
                "driver-fatbin has its first result 3.00 times sooner than the best Python library there, cuda-core.",
                "driver-fatbin launches 1.50 times cheaper than the best Python library there, cupy.",
            ]
        );
    }

    #[test]
    fn where_only_the_first_path_paid_for_its_process_nothing_is_compared() {
        for late in [None, Some(900.0)] {
            let paths = [("driver-ptx", Some(600.0), 0.0033), ("nvrtc-ptx", None, 0.0032), ("cupy", late, 0.0048)];
            let report = report(&paths);
            assert_eq!(tables(&report, &Places::new(&report)), []);
        }
    }
}

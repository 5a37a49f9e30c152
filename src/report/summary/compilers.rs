//! Which compiler a Python library really used, which need not be its toolkit's. The main function is [`words`].

use crate::model::path::{Family, PathId};
use crate::model::record::Record;

/// How `four_ways.py` says that it found another NVRTC than the toolkit's.
const NOT: &str = " was used, and not ";

/// A remark for one table: `NVRTC 12.6, not the toolkit's 12.4, for cuda-core, cupy; nvcc 12.4.131 for pycuda`. None where no library said what it used.
pub(super) fn words(records: &[&Record]) -> Option<String> {
    let mut groups: Vec<(String, Vec<PathId>)> = Vec::new();
    for record in records {
        let Some(words) = compiler(record) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, paths)) => paths.push(record.axes.path),
            None => groups.push((words, vec![record.axes.path])),
        }
    }
    let each = groups.into_iter().map(|(words, paths)| {
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        format!("{words} for {}", paths.join(", "))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join("; "))
}

fn compiler(record: &Record) -> Option<String> {
    let loaded = &record.loaded;
    match record.axes.path.family {
        Family::Driver | Family::Nvrtc | Family::Nvcc | Family::Numba => None,
        Family::CudaCore | Family::Cupy => {
            let version = &loaded.nvrtc.as_ref()?.version;
            let used = format!("NVRTC {version}");
            let other = record.reason.as_ref().and_then(|reason| reason.strip_prefix(&used)?.strip_prefix(NOT));
            Some(other.map_or_else(|| used.clone(), |other| format!("{used}, not {other},")))
        }
        Family::Pycuda => Some(format!("nvcc {}", loaded.nvcc.as_ref()?.version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::Outcome;
    use crate::model::record::{Loaded, LoadedFile};
    use crate::report::testing::record;

    fn used(path: &str, nvrtc: Option<&str>, nvcc: Option<&str>, reason: Option<&str>) -> Record {
        let file = |version: &str| LoadedFile { path: "/x".into(), version: version.into(), sha256: "00".into() };
        let mut record = record("r", "12.4", Outcome::Pass);
        record.axes.path = path.parse().unwrap();
        record.loaded = Loaded { nvrtc: nvrtc.map(file), nvcc: nvcc.map(file), ..Loaded::default() };
        record.reason = reason.map(Into::into);
        record
    }

    #[test]
    fn libraries_are_named_with_the_compiler_that_they_used() {
        let other = "NVRTC 12.6 was used, and not the toolkit's 12.4";
        let all = [
            used("nvrtc-cubin", Some("12.4"), None, None),
            used("cuda-core", Some("12.6"), None, Some(other)),
            used("cupy", Some("12.6"), None, Some(other)),
            used("numba", Some("12.6"), None, None),
            used("pycuda", None, Some("12.4.131"), None),
        ];
        let all: Vec<&Record> = all.iter().collect();
        assert_eq!(
            words(&all).unwrap(),
            "NVRTC 12.6, not the toolkit's 12.4, for cuda-core, cupy; nvcc 12.4.131 for pycuda"
        );
        let program = include_str!("../../bench/python/four_ways.py");
        assert!(program.contains(&format!("\"NVRTC %s{NOT}the toolkit's %s\"")), "the program says it otherwise");
        let same = used("cupy", Some("12.4"), None, Some("1 of 4 elements have the wrong bits"));
        assert_eq!(words(&[&same]).as_deref(), Some("NVRTC 12.4 for cupy"));
        assert_eq!(words(&all[..1]), None);
    }
}

//! What is said of the caches of compiled kernels: which were cold, and where one was warm. The main functions are
//! [`words`] and [`warm`].

use crate::model::kernel_cache::{CacheState, KernelCache};
use crate::model::record::Record;

/// Which caches were cold before each compile, and which are off; none where nothing is known.
pub(super) fn words(cells: &[&Record]) -> Option<String> {
    let of = |state: CacheState| {
        let mut names: Vec<&str> = Vec::new();
        for cache in cells.iter().flat_map(|cell| &cell.caches).filter(|cache| cache.state == state) {
            if !names.contains(&cache.of.as_str()) {
                names.push(&cache.of);
            }
        }
        names.iter().map(|name| format!("{name}'s")).collect::<Vec<_>>().join(", ")
    };
    let states = [
        (CacheState::Cold, "cold before the compile"),
        (CacheState::Warm, "WARM before a compile"),
        (CacheState::Off, "off"),
    ];
    let each = states.map(|(state, what)| (of(state), what)).into_iter().filter(|(names, _)| !names.is_empty());
    let words: Vec<String> = each.map(|(names, what)| format!("{what}: {names}")).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Whether a cache had something in it before the path compiled.
pub(super) fn is_warm(record: &Record) -> bool {
    record.caches.iter().any(|cache| cache.state == CacheState::Warm)
}

/// What a warm cache means for the times of a cell.
pub(super) fn warm(record: &Record) -> Option<String> {
    let warm = |cache: &&KernelCache| cache.state == CacheState::Warm;
    let held = record.caches.iter().filter(warm).map(|cache| {
        format!("{}'s cache held {} file{}", cache.of, cache.found, if cache.found == 1 { "" } else { "s" })
    });
    let held: Vec<String> = held.collect();
    (!held.is_empty()).then(|| {
        let (path, toolkit) = (record.axes.path, &record.axes.toolkit);
        format!(
            "WARM CACHE: {} before {path} on {toolkit} compiled, so its build or first may hold no compile",
            held.join(", ")
        )
    })
}

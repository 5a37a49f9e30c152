//! `docs/compatibility.md` is what the catalogue says today.

#![cfg(feature = "host")]

mod support;

use support::Scene;

#[test]
fn the_committed_page_is_what_the_catalogue_prints() {
    let printed = Scene::new().ctk_matrix(&["toolkit", "table"]).assert_code(0).stdout;
    let committed = include_str!("../docs/compatibility.md");
    let differs = printed.lines().zip(committed.lines()).find(|(printed, committed)| printed != committed);
    assert_eq!(differs, None, "run `ctk-matrix toolkit table > docs/compatibility.md`");
    assert_eq!(printed, committed);
    // Every cell of every table is in its column.
    let mut columns = None;
    for line in printed.lines() {
        let bars = line.replace("\\|", "").matches('|').count();
        if line.starts_with('|') {
            assert_eq!(*columns.get_or_insert(bars), bars, "{line}");
        } else {
            columns = None;
        }
    }
}

//! The compatibility grid: toolkits down, paths across. Its main type is [`Grid`].

use std::collections::HashMap;

use super::mark::Mark;
use super::mode_of;
use super::places::Places;
use crate::model::arch::Arch;
use crate::model::axes::Axes;
use crate::model::path::PathId;
use crate::model::record::{Record, Report};

/// One grid: everything but toolkit and path is the same in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// What is the same: `kernel vector_add, arch 9.0`.
    pub title: String,
    /// The paths, in report order.
    pub columns: Vec<String>,
    /// For each toolkit, in plan order, its name and a mark for each path; none where there is no such cell.
    pub rows: Vec<(String, Vec<Option<Mark>>)>,
}

/// What is the same in one grid or table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Common {
    kernel: String,
    arch: String,
    stack: Option<String>,
    place: String,
}

impl Common {
    pub(super) fn of(axes: &Axes, place: &str) -> Self {
        Self {
            kernel: axes.kernel.clone(),
            arch: axes.arch.to_string(),
            stack: axes.stack.clone(),
            place: place.into(),
        }
    }

    pub(super) fn title(&self) -> String {
        let stack = self.stack.as_ref().map_or(String::new(), |stack| format!(", stack {stack}"));
        format!("kernel {}, arch {}{stack}{}", self.kernel, self.arch, Places::suffix(&self.place))
    }
}

pub(super) fn grids(report: &Report, places: &Places) -> Vec<Grid> {
    grids_of(report, places, |record| Some(Mark::of(record, mode_of(report, &record.run))))
}

/// The same grids for each machine that is not here, by what the rules say of it.
pub(super) fn fleet(report: &Report, places: &Places) -> Vec<Grid> {
    let mut machines: Vec<(&str, &str)> = Vec::new();
    for one in report.cells.iter().flat_map(|record| &record.fleet) {
        let machine = (one.driver.as_str(), one.gpu.as_str());
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let mut all = Vec::new();
    for (driver, gpu) in machines {
        let grids = grids_of(report, places, |record| {
            let said = record.fleet.iter().find(|one| one.driver == driver && one.gpu == gpu);
            said.map(|one| Mark::predicted(&one.predicted))
        });
        all.extend(
            grids.into_iter().map(|grid| Grid { title: format!("{gpu} with driver {driver}: {}", grid.title), ..grid }),
        );
    }
    all
}

fn grids_of(report: &Report, places: &Places, mark: impl Fn(&Record) -> Option<Mark>) -> Vec<Grid> {
    let used = used(report);
    let mut grids: Vec<Grid> = Vec::new();
    let mut grid_of: HashMap<Common, usize> = HashMap::new();
    let mut row_of: HashMap<(usize, &str), usize> = HashMap::new();
    for (index, record) in report.cells.iter().enumerate() {
        let common = Common::of(&record.axes, places.of(index));
        let paths: Vec<PathId> =
            PathId::ALL.into_iter().filter(|path| used[&ways(&record.axes)].contains(path)).collect();
        let Some(column) = paths.iter().position(|path| *path == record.axes.path) else { continue };
        let title = common.title();
        let at = *grid_of.entry(common).or_insert_with(|| {
            let columns = paths.iter().map(ToString::to_string).collect();
            grids.push(Grid { title, columns, rows: Vec::new() });
            grids.len() - 1
        });
        let rows = &mut grids[at].rows;
        let row = *row_of.entry((at, record.axes.toolkit.as_str())).or_insert_with(|| {
            rows.push((record.axes.toolkit.clone(), excluded(report, &record.axes, &paths)));
            rows.len() - 1
        });
        rows[row].1[column] = mark(record);
    }
    grids
}

/// What decides which paths lead to a cell.
type Ways<'a> = (&'a str, Arch, Option<&'a str>);

fn ways(axes: &Axes) -> Ways<'_> {
    (&axes.kernel, axes.arch, axes.stack.as_deref())
}

/// The paths by which some toolkit's cell with one kernel, architecture and stack is reached.
fn used(report: &Report) -> HashMap<Ways<'_>, Vec<PathId>> {
    let mut used: HashMap<Ways<'_>, Vec<PathId>> = HashMap::new();
    for record in &report.cells {
        let paths = used.entry(ways(&record.axes)).or_default();
        if !paths.contains(&record.axes.path) {
            paths.push(record.axes.path);
        }
    }
    used
}

/// A row with only the excluded combinations in it.
fn excluded(report: &Report, axes: &Axes, paths: &[PathId]) -> Vec<Option<Mark>> {
    let is_excluded = |path: PathId| {
        let wanted = Axes { path, ..axes.clone() };
        report.excluded.iter().any(|excluded| excluded.axes == wanted)
    };
    paths.iter().map(|path| is_excluded(*path).then(Mark::excluded)).collect()
}

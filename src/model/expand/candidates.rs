//! Every combination that a matrix speaks of, sorted, each either a cell or left out for a reason.
//! Its main type is [`Candidates`].

use std::collections::HashMap;

use super::error::PlanError;
use crate::model::arch::Arch;
use crate::model::axes::Axes;
use crate::model::fleet::FleetEntry;
use crate::model::kernel::Kernel;
use crate::model::matrix::{ArchChoice, Include, Matrix, Toolkit};
use crate::model::path::{Family, PathId, PathPattern};
use crate::model::version::Version;

/// More combinations than anyone waits for, and few enough to be held in memory.
const MOST: usize = 100_000;

/// All combinations, in report order.
pub(super) struct Candidates {
    /// The matrix's toolkits, then those that `include:` adds.
    pub(super) toolkits: Vec<Toolkit>,
    pub(super) list: Vec<Candidate>,
}

/// One combination.
#[derive(Clone)]
pub(super) struct Candidate {
    /// Index into [`Candidates::toolkits`].
    pub(super) toolkit: usize,
    /// Index into [`Matrix::kernels`].
    pub(super) kernel: usize,
    /// Index into [`Matrix::stacks`].
    pub(super) stack: Option<usize>,
    /// Where its capability stands among all.
    arch: usize,
    pub(super) axes: Axes,
    /// Why it is no cell; none if it is one.
    pub(super) out: Option<Out>,
}

/// Why a combination is no cell.
#[derive(Clone)]
pub(super) struct Out {
    pub(super) reason: String,
    pub(super) link: Option<String>,
}

impl Out {
    fn because(reason: String) -> Self {
        Self { reason, link: None }
    }
}

impl Candidates {
    pub(super) fn of(matrix: &Matrix, native: Arch) -> Result<Self, PlanError> {
        let mut archs = match &matrix.arch {
            ArchChoice::Native => vec![native],
            ArchChoice::List(list) => list.clone(),
        };
        for arch in matrix.fleet.iter().filter_map(FleetEntry::cc) {
            // What is built for a machine that is not here is all that can be known of it.
            if !archs.contains(&arch) {
                archs.push(arch);
            }
        }
        let own_archs = archs.len();
        archs.extend(matrix.include.iter().filter_map(|rule| rule.arch));
        let toolkits = toolkits(matrix);
        let forms: Vec<_> = matrix.kernels.iter().map(|kernel| matrix_forms(matrix, kernel)).collect();
        let too_many = || PlanError::TooMany { origin: matrix.origin.clone(), most: MOST };

        // Without stacks there is one combination without one. With any, the toolkit's own paths run beside each stack's
        // libraries: in the same container, on the same GPU, in the same table.
        let stacks: Vec<Option<usize>> = stacks(matrix);
        let a_toolkit: usize =
            forms.iter().map(Vec::len).sum::<usize>().saturating_mul(own_archs).saturating_mul(stacks.len());
        if a_toolkit.saturating_mul(matrix.toolkits.len()) > MOST {
            return Err(too_many());
        }
        let among: Vec<Version> = toolkits.iter().map(|toolkit| toolkit.version).collect();
        let mut list = Vec::with_capacity(a_toolkit * matrix.toolkits.len());
        for (toolkit, entry) in matrix.toolkits.iter().enumerate() {
            for (kernel, forms) in forms.iter().enumerate() {
                for stack in &stacks {
                    let apart = apart(matrix, entry, *stack);
                    for (arch, value) in archs[..own_archs].iter().enumerate() {
                        for (path, lack) in forms {
                            let axes = axes(matrix, (entry, kernel, *stack), *value, *path);
                            let out = excluded(matrix, &axes, entry.version, &among)
                                .or_else(|| lack.clone().or_else(|| apart.clone()).map(Out::because));
                            list.push(Candidate { toolkit, kernel, stack: *stack, arch, axes, out });
                        }
                    }
                }
            }
        }
        let mut these = Self { toolkits, list };
        these.include(matrix, &archs, own_archs).ok_or_else(too_many)?;
        these.list.sort_by_key(Candidate::key);
        Ok(these)
    }

    /// Adds what `include:` names. `None` if that is too much.
    fn include(&mut self, matrix: &Matrix, archs: &[Arch], own_archs: usize) -> Option<()> {
        if matrix.include.is_empty() {
            return Some(());
        }
        let key = |axes: &Axes| (axes.toolkit.clone(), axes.kernel.clone(), axes.stack.clone(), axes.arch, axes.path);
        let mut known: HashMap<_, usize> =
            self.list.iter().enumerate().map(|(index, candidate)| (key(&candidate.axes), index)).collect();
        for rule in &matrix.include {
            let toolkit = self.toolkits.iter().position(|toolkit| toolkit.name == rule.toolkit.name)?;
            let kernels = matrix.kernels.iter().enumerate();
            for (kernel, entry) in kernels.filter(|(_, kernel)| named(rule, kernel)) {
                let chosen: &[Arch] = rule.arch.as_ref().map_or(&archs[..own_archs], std::slice::from_ref);
                let combined =
                    stacks(matrix).into_iter().flat_map(|stack| chosen.iter().map(move |arch| (stack, arch)));
                for (stack, value) in combined {
                    let apart = apart(matrix, &self.toolkits[toolkit], stack);
                    for (path, lack) in forms(rule.path, entry, matrix) {
                        let axes = axes(matrix, (&self.toolkits[toolkit], kernel, stack), *value, path);
                        let out = lack.or_else(|| apart.clone()).map(Out::because);
                        let arch = archs.iter().position(|other| other == value)?;
                        if let Some(index) = known.get(&key(&axes)) {
                            // A rule brings back what `exclude:` took.
                            self.list[*index].out = out;
                        } else {
                            known.insert(key(&axes), self.list.len());
                            self.list.push(Candidate { toolkit, kernel, stack, arch, axes, out });
                        }
                    }
                }
                if self.list.len() > MOST {
                    return None;
                }
            }
        }
        Some(())
    }
}

impl Candidate {
    fn key(&self) -> (usize, usize, Option<usize>, usize, PathId) {
        // The order of families and forms is the order of reports.
        (self.toolkit, self.kernel, self.stack, self.arch, self.axes.path)
    }
}

fn named(rule: &Include, kernel: &Kernel) -> bool {
    rule.kernel.as_ref().is_none_or(|name| *name == kernel.name)
}

fn toolkits(matrix: &Matrix) -> Vec<Toolkit> {
    let mut toolkits = matrix.toolkits.clone();
    for rule in &matrix.include {
        if !toolkits.iter().any(|toolkit| toolkit.name == rule.toolkit.name) {
            toolkits.push(rule.toolkit.clone());
        }
    }
    toolkits
}

fn stacks(matrix: &Matrix) -> Vec<Option<usize>> {
    if matrix.stacks.is_empty() { vec![None] } else { (0..matrix.stacks.len()).map(Some).collect() }
}

fn axes(matrix: &Matrix, at: (&Toolkit, usize, Option<usize>), arch: Arch, path: PathId) -> Axes {
    let (toolkit, kernel, stack) = at;
    Axes {
        toolkit: toolkit.name.clone(),
        path,
        kernel: matrix.kernels[kernel].name.clone(),
        arch,
        stack: stack.map(|stack| matrix.stacks[stack].name.clone()),
    }
}

/// Why a toolkit and a stack share no container, whatever the path.
fn apart(matrix: &Matrix, toolkit: &Toolkit, stack: Option<usize>) -> Option<String> {
    matrix.stacks[stack?].apart_from(toolkit)
}

fn excluded(matrix: &Matrix, axes: &Axes, version: Version, among: &[Version]) -> Option<Out> {
    let rule = matrix.exclude.iter().find(|rule| rule.pattern.matches(axes, version, among))?;
    Some(Out { reason: rule.reason.clone(), link: rule.link.clone() })
}

fn matrix_forms(matrix: &Matrix, kernel: &Kernel) -> Vec<(PathId, Option<String>)> {
    matrix.paths.iter().flat_map(|pattern| forms(*pattern, kernel, matrix)).collect()
}

/// The paths that a pattern stands for with this kernel, each with the reason why it cannot be a cell, if it cannot.
fn forms(pattern: PathPattern, kernel: &Kernel, matrix: &Matrix) -> Vec<(PathId, Option<String>)> {
    let paths = PathId::ALL.into_iter().filter(|path| pattern.matches(*path));
    let lacking: Vec<_> = paths.map(|path| (path, lack(path, kernel, matrix))).collect();
    // `driver` stands for the artifacts that there are. Only if there are none is their absence worth a word.
    if pattern == PathPattern::Family(Family::Driver) && !kernel.prebuilt.is_empty() {
        return lacking.into_iter().filter(|(_, lack)| lack.is_none()).collect();
    }
    lacking
}

fn lack(path: PathId, kernel: &Kernel, matrix: &Matrix) -> Option<String> {
    let name = &kernel.name;
    if path.family.is_python() && matrix.stacks.is_empty() {
        return Some("a Python library needs a stack: name one under `stacks`".into());
    }
    match path.family {
        Family::Numba if kernel.launch.is_none() => {
            Some(format!("Numba compiles Python, and kernel {name} is CUDA C++; only vector_add is written in both"))
        }
        Family::Driver if kernel.prebuilt.contains_key(&path.form) => None,
        Family::Driver => {
            let form = path.form;
            Some(format!("kernel {name} has no {form} made beforehand; name an artifact as {{file: {name}.{form}, …}}"))
        }
        _ if kernel.source.is_some() => None,
        Family::Nvrtc | Family::Nvcc | Family::CudaCore | Family::Cupy | Family::Numba | Family::Pycuda => {
            Some(format!("kernel {name} is an artifact without source; only the driver family loads it"))
        }
    }
}

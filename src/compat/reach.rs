//! On which GPUs, with which drivers, the fatbins of a file run: [`reach`] asks [`super::runs_on`] for every fatbin that
//! a [`Survey`] found and every GPU that is known.

use super::artifact::Survey;
use super::runs_on::{Piece, PieceKind, Runs, gpus, runs_on};
use crate::model::arch::Arch;

/// How much of a file runs on one kind of GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The GPU's compute capability.
    pub gpu: Arch,
    /// How many of the fatbins have something for it; 0 or 1 for an artifact that is no library.
    pub fatbins: u64,
    /// The oldest driver branch that takes all of those; none if none has anything.
    pub from: Option<u32>,
    /// The newest driver branch; none if every later one will do.
    pub until: Option<u32>,
    /// What is taken: `sm_90` or `compute_90`, each once.
    pub by: Vec<String>,
    /// Whether the driver compiles PTX for some of it.
    pub compiled: bool,
}

/// One entry for every GPU that is known, lowest capability first.
#[must_use]
pub fn reach(survey: &Survey) -> Vec<Reach> {
    let shapes: Vec<(Vec<Piece>, u64)> =
        survey.shapes.iter().map(|shape| (survey.pieces(shape), shape.count)).collect();
    gpus().into_iter().map(|gpu| on(&shapes, gpu)).collect()
}

fn on(shapes: &[(Vec<Piece>, u64)], gpu: Arch) -> Reach {
    let mut reach = Reach { gpu, fatbins: 0, from: None, until: None, by: Vec::new(), compiled: false };
    for (pieces, count) in shapes {
        let Some(Runs { from, until, by, .. }) = runs_on(pieces, gpu) else { continue };
        reach.fatbins += count;
        reach.from = reach.from.max(Some(from));
        reach.until = match (reach.until, until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let target = match by.kind {
            PieceKind::Ptx(_) => by.arch.compute(),
            PieceKind::Cubin(_) => by.arch.sm(),
        };
        reach.compiled |= matches!(by.kind, PieceKind::Ptx(_));
        if !reach.by.contains(&target) {
            reach.by.push(target);
        }
    }
    reach.by.sort();
    reach
}

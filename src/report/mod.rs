//! Records in, text out: the folder of a run, the one view model, and the renderers that read it.
//! Renderers are pure functions from [`summary::Summary`]; only [`progress`] writes to a stream by itself.

pub mod claims;
pub mod error;
mod files;
mod gate;
pub mod journal;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod merge;
pub mod progress;
pub mod read;
pub mod summary;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod text;

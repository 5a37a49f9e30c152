//! Pure rules: what is known of toolkits and drivers, what an artifact holds, what will load where, what a code
//! or a text means, and whether a cell came out as expected. Nothing here does input or output.

pub mod artifact;
pub mod catalogue;
pub mod codes;
pub mod explain;
pub mod judge;
pub mod page;
pub mod predict;
pub mod require;
mod whole;

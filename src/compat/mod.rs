//! Pure rules: what is known of toolkits and drivers, what an artifact holds, what will load where, what a code
//! or a text means, and whether a cell came out as expected. Nothing here does input or output.

pub mod artifact;
#[cfg(feature = "host")]
pub mod bisection;
pub mod catalogue;
#[cfg(feature = "host")]
pub mod claims;
pub mod codes;
pub mod explain;
pub mod judge;
pub mod page;
pub mod predict;
#[cfg(feature = "host")]
pub mod reach;
pub mod require;
pub mod runs_on;
mod whole;

//! Pure data: what a user asks for, what will be done, what crosses the container's border, what came out.
//! Nothing here does input or output, reads a clock, or imports from a sibling folder.

pub mod arch;
pub mod axes;
pub mod canary;
pub mod claim;
pub mod download;
pub mod event;
#[cfg(feature = "host")]
pub mod expand;
pub mod fleet;
pub mod kernel;
pub mod kernel_cache;
pub mod lock;
pub mod locked_stack;
pub mod matrix;
#[cfg(feature = "host")]
pub(crate) mod nearest;
pub mod outcome;
pub mod path;
pub mod place;
pub mod plan;
pub mod record;
pub mod selector;
#[cfg(feature = "host")]
pub mod spec;
pub mod stack;
pub mod units;
pub mod version;
pub mod wire;

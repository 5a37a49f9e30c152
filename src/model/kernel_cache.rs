//! The caches in which a Python library or the driver keeps compiled kernels, as the program that compiles found them:
//! what was in one already is no compile. The main type is [`KernelCache`].

use serde::{Deserialize, Serialize};

/// One cache on disk, looked at before a path's build and after its first launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCache {
    /// Whose it is: `CuPy`, or `the driver`.
    pub of: String,
    /// What it was before the build.
    pub state: CacheState,
    /// Files in it before the build.
    #[serde(default)]
    pub found: u64,
    /// Files that the path left in it.
    #[serde(default)]
    pub kept: u64,
}

/// What a cache was before a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Nothing was in it, so what was compiled was compiled.
    Cold,
    /// Something was in it, so a compile may have been a look into it.
    Warm,
    /// It is switched off, and nothing was written to it.
    Off,
}

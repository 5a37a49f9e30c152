//! The test suite's `libcuda.so.1`: the CUDA driver API over host memory, for machines without a GPU.
//!
//! It is an independent reading of the rules. It parses each image itself, takes or refuses it by the driver version
//! and the GPU that the environment names ([`config`]), and computes what the shipped kernels compute; it shares no
//! code with `ctk_matrix`, so that a mistake there and a mistake here do not hide each other. Where no real driver was
//! asked, the comment says "a guess". `cargo test` builds it as an example and `cargo install` leaves it out.
//!
//! To be found as a driver it is copied to `libcuda.so.580.159.04` (the version of `CTK_FAKE_DRIVER`) in some folder,
//! with `libcuda.so.1` a link to that, and the folder goes on `LD_LIBRARY_PATH`. A copy and not a link, because
//! `/proc/self/maps` shows a link's target.
//!
//! | file | holds |
//! |---|---|
//! | [`api`] | the exported C functions, one file per noun of the driver API |
//! | [`image`] | PTX, cubin and fatbin: what each is, and whether this driver takes it for this GPU |
//! | [`state`] | what lives between calls: contexts, memory, streams, events, modules, a pending error |
//! | [`kernel`] | what the shipped kernels compute |
//! | [`config`], [`branch`], [`gpu`], [`fault`] | which driver and GPU to be, and which faults to have |

mod api;
mod branch;
mod code;
mod config;
mod fault;
mod gpu;
mod image;
mod kernel;
mod memory;
mod state;

//! Carries a plan out. [`runner`] does the waiting, [`dispatcher`] decides; nothing here prints.

mod canary;
pub mod claims;
pub mod dispatcher;
pub mod gpu;
pub mod gpu_lock;
pub mod harvest;
pub mod images;
mod locked;
mod locked_stacks;
mod measure;
pub mod names;
pub mod nonce;
pub mod provision;
pub mod recorder;
mod requirement;
pub mod runner;
mod stack_place;
pub mod worker;

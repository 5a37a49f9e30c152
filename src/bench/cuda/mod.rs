//! The CUDA driver, in three layers: [`table`] is libcuda's functions as they are, [`call`] turns codes into
//! `Result`s, and the owned handles ([`Context`], [`Stream`], [`Buffer`], `Event`, `Module`, `Function`) free what they hold.
//!
//! Handles and attributes have cudarc's types. cudarc's own loader is not used: it tries unversioned names first and
//! panics on what is missing.

mod buffer;
mod call;
mod context;
mod device;
mod error;
mod module;
mod open;
mod stream;
mod table;

pub(super) use self::buffer::Buffer;
pub(super) use self::context::Context;
pub(super) use self::device::NoDevice;
pub(super) use self::device::{Device, Wish};
pub(super) use self::error::CudaError;
pub(super) use self::module::Resources;
pub(super) use self::open::{Driver, NotStarted};
pub(super) use self::stream::Stream;

//! Where a job runs: a Docker-compatible engine or a child process, behind one type.
//! Its main types are [`Engine`], [`JobSpec`] (what is to run) and [`JobEnd`] (what came of it).

pub mod attach;
pub mod docker;
pub mod job;
pub mod process;

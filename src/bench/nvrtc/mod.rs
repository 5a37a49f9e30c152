//! NVRTC, the toolkit's runtime compiler: [`mod@find`] names the one file that is meant, [`table`] is its functions as
//! they are, [`library`] the opened library with its version held against the toolkit's, [`program`] one compilation.

mod find;
mod library;
mod program;
mod table;

pub(super) use self::find::find;
pub(super) use self::library::Nvrtc;
pub(super) use self::program::NotCompiled;

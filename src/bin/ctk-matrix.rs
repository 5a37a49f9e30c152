//! The host program. Everything is in the library's `cli`.

fn main() {}

//! The reader of one artifact: PTX, a cubin, a fatbin.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(not(feature = "libfuzzer"))]
mod plain;

fn target(bytes: &[u8]) {
    drop(ctk_matrix::compat::artifact::read(bytes));
}

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    plain::main(target);
}

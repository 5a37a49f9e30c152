//! Codes and texts in a log.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(not(feature = "libfuzzer"))]
mod plain;

fn target(bytes: &[u8]) {
    drop(ctk_matrix::compat::explain::Findings::of(&String::from_utf8_lossy(bytes)));
}

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    plain::main(target);
}

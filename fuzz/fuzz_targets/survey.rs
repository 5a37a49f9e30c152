//! The survey of a large file, and what is concluded from it.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(not(feature = "libfuzzer"))]
mod plain;

fn target(bytes: &[u8]) {
    if let Ok(survey) = ctk_matrix::compat::artifact::Survey::of(&bytes) { drop(ctk_matrix::compat::reach::reach(&survey)) };
}

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    plain::main(target);
}

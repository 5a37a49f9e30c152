//! A target without libFuzzer: every file that is named goes through it once, whole and with each of its first bytes
//! changed, so that a corpus or a crash can be run with any toolchain.

/// Runs a target over the files that the command line names.
pub fn main(target: impl Fn(&[u8])) {
    let mut count = 0_u64;
    for name in std::env::args_os().skip(1) {
        let bytes = match std::fs::read(&name) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("{}: {error}", name.display());
                std::process::exit(2);
            }
        };
        target(&bytes);
        count += 1;
        for at in 0..bytes.len().min(512) {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] = value;
                target(&changed);
                target(&changed[..at]);
                count += 2;
            }
        }
    }
    println!("{count} inputs");
}

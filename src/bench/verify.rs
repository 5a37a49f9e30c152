//! The bit-for-bit comparison. Its main type is [`Reference`]: the inputs' one definition is `model::kernel`.

use sha2::{Digest as _, Sha256};

use crate::model::kernel;
use crate::model::record::{Bits, Mismatch};
use crate::model::wire;

/// A NaN with a payload of our own: what the output holds before each launch that is to be proved. It is no sum of two
/// inputs, so that an element which nobody wrote is a mismatch.
pub(super) const POISON: u32 = 0x7FC0_DEAD;

/// What the output must be, as the bytes in device memory.
pub(super) struct Reference {
    bytes: Vec<u8>,
    sha256: String,
}

impl Reference {
    /// The expected output of `n` elements.
    pub(super) fn new(n: u32) -> Self {
        let bytes = bytes_of(n, kernel::expected);
        Self { sha256: wire::hex(&Sha256::digest(&bytes)), bytes }
    }

    /// Compares every element's bits.
    pub(super) fn compare(&self, output: &[u8]) -> Bits {
        let mut mismatches = 0;
        let mut first = None;
        let elements = |bytes: &[u8]| -> Vec<[u8; 4]> { bytes.as_chunks().0.to_vec() };
        // Equal bytes are equal bits and have an equal hash; the elements are looked at one by one only where there is
        // something to tell.
        let sha256 = if *output == *self.bytes {
            self.sha256.clone()
        } else {
            for (index, (got, want)) in (0..).zip(elements(output).into_iter().zip(elements(&self.bytes))) {
                if got != want {
                    mismatches += 1;
                    first.get_or_insert_with(|| Mismatch {
                        index,
                        got: digits(f32::from_le_bytes(got)),
                        want: digits(f32::from_le_bytes(want)),
                    });
                }
            }
            wire::hex(&Sha256::digest(output))
        };
        let checked = output.len().min(self.bytes.len()) / 4;
        Bits { checked: checked as u64, mismatches, first, sha256 }
    }
}

/// The little-endian bytes of `value` at 0 to `n`.
pub(super) fn bytes_of(n: u32, value: impl Fn(u32) -> f32) -> Vec<u8> {
    let mut bytes = vec![0; 4 * n as usize];
    for (element, index) in bytes.as_chunks_mut().0.iter_mut().zip(0..n) {
        *element = value(index).to_le_bytes();
    }
    bytes
}

/// Nine significant digits, which tell every float32 apart; a NaN by its bits.
fn digits(value: f32) -> String {
    if value.is_nan() {
        return format!("NaN (0x{:08x})", value.to_bits());
    }
    if value.is_infinite() || value == 0.0 {
        return format!("{value}");
    }
    let scientific = format!("{value:.8e}");
    // The exponent after rounding, so that 9.999999999 is shown as 10.0000000.
    let exponent: i32 = scientific.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    match usize::try_from(8 - exponent) {
        Ok(decimals) if exponent >= -5 => format!("{value:.decimals$}"),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_compared_by_its_bits() {
        let n = 1000;
        let reference = Reference::new(n);
        let mut output = bytes_of(n, kernel::expected);
        let sha256 = wire::hex(&Sha256::digest(&output));
        let right = reference.compare(&output);
        assert_eq!(right, Bits { checked: 1000, mismatches: 0, first: None, sha256 });

        // The lowest bit of element 7, and poison left in the last.
        output[28] ^= 1;
        output[3996..].copy_from_slice(&POISON.to_le_bytes());
        let wrong = reference.compare(&output);
        assert_eq!((wrong.checked, wrong.mismatches), (1000, 2));
        let first = wrong.first.unwrap();
        assert_eq!(first.index, 7);
        assert_ne!(first.got, first.want);
        assert_eq!(first.want.parse::<f32>().unwrap().to_bits(), kernel::expected(7).to_bits());
        assert_ne!(wrong.sha256, right.sha256);
    }

    #[test]
    fn numbers_have_nine_digits_that_read_back() {
        for value in [2.345_678_9_f32, 1.0, -3.999_999_8, 1.0e-5, 123_456_790.0, 1.0e20, f32::MIN_POSITIVE] {
            let text = digits(value);
            assert_eq!(text.parse::<f32>().unwrap().to_bits(), value.to_bits(), "{text}");
            let mantissa = text.split('e').next().unwrap();
            let significant = mantissa.trim_start_matches(['-', '0', '.']).bytes().filter(u8::is_ascii_digit).count();
            assert_eq!(significant, 9, "{text}");
        }
        assert_eq!(digits(f32::from_bits(POISON)), "NaN (0x7fc0dead)");
        assert_eq!(digits(f32::NEG_INFINITY), "-inf");
    }
}

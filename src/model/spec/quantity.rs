//! Durations and sizes as a matrix file writes them: `120s`, `8GiB`. Its main functions are [`millis`] and [`bytes`].

/// Milliseconds in `500ms`, `120s`, `2m` or `1h`.
pub(super) fn millis(text: &str) -> Option<u64> {
    quantity(text, &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)])
}

/// Bytes in `512MiB`, `8GiB`, `8GB`: binary units have an `i`, decimal ones do not.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let binary = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    let decimal = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
    quantity(text, &binary).or_else(|| quantity(text, &decimal))
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let border = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(border);
    let factor = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_has_its_size() {
        assert_eq!(
            ["500ms", "120s", "2m", "1h", "2 m"].map(millis),
            [500, 120_000, 120_000, 3_600_000, 120_000].map(Some)
        );
        assert_eq!(["512MiB", "8GiB", "8GB"].map(bytes), [512 << 20, 8 << 30, 8_000_000_000].map(Some));
    }

    #[test]
    fn a_number_without_a_known_unit_is_refused() {
        for text in ["120", "", "s", "1.5s", "-1s", "120 sec", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(millis(text), None, "{text:?}");
        }
        for text in ["8", "8G", "8gb", "GiB", "0x8GiB"] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }
}

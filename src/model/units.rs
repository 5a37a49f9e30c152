//! Numbers as people read them. Data holds milliseconds and bytes; only this file turns them into text.

/// `1.5 MB`: decimal units, three significant digits.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", digits(value), UNITS[unit]) }
}

/// Milliseconds as the lesson's table prints them: three digits that matter, and never more than four decimals.
#[must_use]
pub fn millis(value: f64) -> String {
    let value = value.max(0.0);
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else if value >= 1.0 {
        format!("{value:.2}")
    } else if value >= 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.4}")
    }
}

/// Milliseconds in microseconds, with three digits that matter.
#[must_use]
pub fn micros(value: f64) -> String {
    digits(value.max(0.0) * 1e3)
}

/// How many times as much, with three digits that matter: `1.73`.
#[must_use]
pub fn times(value: f64) -> String {
    digits(value.max(0.0))
}

/// A duration of a whole run: `0.8 s`, `12 s`, `3 min 05 s`.
#[must_use]
pub fn seconds(value: f64) -> String {
    let value = value.max(0.0);
    if value < 9.95 {
        format!("{value:.1} s")
    } else if value < 99.5 {
        format!("{value:.0} s")
    } else {
        let whole = value.round();
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    }
}

/// Gigabytes (1e9 bytes) a second.
#[must_use]
pub fn gbps(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { digits(value) }
}

fn digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_decimal_unit() {
        let shown: Vec<_> = [0, 999, 1000, 1_536_000, 99_950_000, 999_600_000, 2_920_000_000].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "1.54 MB", "100 MB", "1.00 GB", "2.92 GB"]);
    }

    #[test]
    fn milliseconds_keep_the_digits_that_matter() {
        let shown: Vec<_> = [0.01707, 0.14, 1.5, 24.53, 758.2].map(millis).into();
        assert_eq!(shown, ["0.0171", "0.140", "1.50", "24.5", "758"]);
    }

    #[test]
    fn durations_grow_minutes() {
        let shown: Vec<_> = [0.84, 12.3, 185.0, 119.9].map(seconds).into();
        assert_eq!(shown, ["0.8 s", "12 s", "3 min 05 s", "2 min 00 s"]);
    }
}

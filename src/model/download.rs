//! What there is to fetch of Python packages, in words. The main type is [`PackageDownload`].

use std::fmt;

use super::units;

/// Packages that pip is about to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageDownload {
    /// How many there are.
    pub packages: usize,
    /// How many of them have a size that nobody tells.
    pub untold: usize,
    /// The size of the others, in bytes.
    pub bytes: u64,
}

impl PackageDownload {
    /// All their bytes; none where some are not known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        (self.untold == 0).then_some(self.bytes)
    }
}

impl FromIterator<Option<u64>> for PackageDownload {
    /// One size for each package.
    fn from_iter<I: IntoIterator<Item = Option<u64>>>(sizes: I) -> Self {
        let mut download = Self { packages: 0, untold: 0, bytes: 0 };
        for size in sizes {
            download.packages += 1;
            download.untold += usize::from(size.is_none());
            download.bytes = download.bytes.saturating_add(size.unwrap_or_default());
        }
        download
    }
}

impl fmt::Display for PackageDownload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packages, untold, bytes } = self;
        let noun = if *packages == 1 { "package" } else { "packages" };
        let bytes = units::bytes(*bytes);
        // pip does not say what is in its cache, whose files are not fetched again.
        match *untold {
            0 => write!(f, "{packages} {noun}, {bytes} to fetch (less what pip has cached)"),
            untold if untold == *packages => {
                write!(f, "{packages} {noun} to fetch, of a size that the index does not tell")
            }
            untold => write!(
                f,
                "{packages} {noun}, more than {bytes} to fetch (less what pip has cached): the index does not tell the \
                 size of {untold}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_as_far_as_it_is_known() {
        let said = |sizes: &[Option<u64>]| sizes.iter().copied().collect::<PackageDownload>().to_string();
        assert_eq!(
            said(&[Some(200_000_000), Some(12_000_000)]),
            "2 packages, 212 MB to fetch (less what pip has cached)"
        );
        assert_eq!(said(&[None]), "1 package to fetch, of a size that the index does not tell");
        assert_eq!(
            said(&[Some(1_000_000), None, None]),
            "3 packages, more than 1.00 MB to fetch (less what pip has cached): the index does not tell the size of 2"
        );
    }
}

//! Little-endian numbers at an offset of a byte slice. Every access is checked; none can panic.

/// `length` bytes at `offset`; none if they are not all there.
pub(super) fn slice(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    bytes.get(start..end)
}

/// `N` bytes at `offset`.
fn array<const N: usize>(bytes: &[u8], offset: u64) -> Option<[u8; N]> {
    slice(bytes, offset, N as u64)?.try_into().ok()
}

/// An unsigned 16-bit number.
pub(super) fn u16_at(bytes: &[u8], offset: u64) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// An unsigned 32-bit number.
pub(super) fn u32_at(bytes: &[u8], offset: u64) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// An unsigned 64-bit number.
pub(super) fn u64_at(bytes: &[u8], offset: u64) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

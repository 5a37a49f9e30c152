//! Numbers that nobody can guess: frame nonces and run ids.

/// 32 hexadecimal digits.
///
/// # Panics
/// If the system has no random numbers, which leaves nothing to trust.
#[must_use]
pub fn random() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    crate::model::wire::hex(&bytes)
}

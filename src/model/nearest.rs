//! The nearest valid word to one that was mistyped. Its main function is [`nearest`].

/// No valid word is longer; comparing costs the product of the lengths.
const LONGEST: usize = 64;

/// The candidate that takes the fewest edits to reach from `word`, if that is at most a third of its letters.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= length.max(candidate.len()).div_ceil(3) && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The cure for a mistyped word: the nearest one, or else all of them.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, candidates.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of {}", listed(candidates)),
    }
}

/// `a`, `b`, `c` in backquotes; a long list is cut.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 20;
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    let more = words.len().saturating_sub(MOST);
    let shown = words[..words.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_finds_none() {
        let words = ["toolkits", "paths", "kernels", "arch", "nvrtc-cubin", "nvcc-cubin"];
        let near = |word| nearest(word, words);
        assert_eq!(near("toolkit"), Some("toolkits"));
        assert_eq!(near("kernal"), Some("kernels"));
        assert_eq!(near("ARCH"), Some("arch"));
        assert_eq!(near("nvrtc-cubbin"), Some("nvrtc-cubin"));
        assert_eq!(near("zzzzzz"), None);
        assert_eq!(near("x"), None);
        assert_eq!(near(&"toolkits".repeat(100)), None);
        assert_eq!(suggestion("zzz", ["a", "b"]), "write one of `a`, `b`");
    }
}

//! Splits PTX text into tokens with their lines, without comments and without the lines that only debuggers read.
//! The main type is [`Token`].

/// A word, a mark or a quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Its characters.
    pub(super) text: &'a str,
    /// Its line, from 1.
    pub(super) line: usize,
}

/// Directives that end with their line and not with a semicolon.
const OF_A_LINE: [&str; 2] = [".loc", ".file"];

/// All tokens. An unclosed comment or quotation ends at the end of the text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if first == '"' {
            (rest[1..].find('"').map_or(rest.len(), |end| end + 2), true)
        } else if is_word(first) {
            (rest.find(|other| !is_word(other)).unwrap_or(rest.len()), true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (token, after) = rest.split_at(length);
        if OF_A_LINE.contains(&token) {
            // The line end is left in place, so that it is counted like any other.
            rest = &after[after.find('\n').unwrap_or(after.len())..];
            continue;
        }
        if is_token {
            tokens.push(Token { text: token, line });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    tokens
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '%' | '.')
}

//! What pip's text means. The main function is [`diagnose`]: pure, so that every text that pip is known to print can be
//! held against it.

use super::error::ProvisionError;

/// Texts of pip and its urllib3 for an index that cannot be reached, from pip 20 to 25.
pub(super) const NETWORK: [&str; 13] = [
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "NameResolutionError",
    "ProxyError",
    "SSLError",
    "Max retries exceeded",
    "connection broken by",
    "Could not fetch URL",
    "Connection refused",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "ERROR: HTTP error",
];

/// How pip ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipEnd {
    /// It exited by itself.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// The most lines of pip's output that are kept, and the most characters of each.
const KEPT_LINES: usize = 12;
const KEPT_CHARS: usize = 400;

/// What a failed pip means. `requirements` are what it was to install, `full` is the error for a full disk.
pub(crate) fn diagnose(
    python: &str,
    requirements: &[String],
    end: PipEnd,
    output: &str,
    full: ProvisionError,
) -> ProvisionError {
    let has = |text: &str| output.contains(text);
    let any = |texts: &[&str]| texts.iter().any(|text| output.contains(text));
    let detail = decisive(output);
    let named = || {
        let blamed =
            output.lines().filter(|line| line.starts_with("ERROR: No matching") || line.contains(" from http"));
        let found =
            blamed.filter_map(|line| requirements.iter().find(|requirement| line.contains(*requirement))).next_back();
        found.cloned().unwrap_or_else(|| requirements.join(" "))
    };
    let no_match = any(&["No matching distribution found", "Could not find a version that satisfies"]);
    // A connection that broke and was made again is no failure: then the index did list its versions.
    let listed_nothing = has("(from versions: none)");
    if let PipEnd::Signal(signal) = end {
        return ProvisionError::Killed { signal, detail };
    }
    if any(&["[Errno 28]", "No space left on device", "[Errno 122]", "Disk quota exceeded"]) {
        full
    } else if has("DO NOT MATCH THE HASHES") {
        ProvisionError::HashMismatch { requirement: named(), detail }
    } else if no_match && !(listed_nothing && any(&NETWORK)) {
        ProvisionError::NoMatch { requirement: named(), detail }
    } else if any(&NETWORK) {
        ProvisionError::Unreachable { detail }
    } else if has("No module named pip") {
        ProvisionError::NoPip { python: python.into(), detail }
    } else {
        match end {
            // What a shell, or a shim such as pyenv's, answers for a program that is not there or may not be run.
            PipEnd::Code(126 | 127) => {
                let cause = detail.lines().last().unwrap_or("exit status 127").into();
                ProvisionError::NoPython { python: python.into(), cause }
            }
            PipEnd::Code(code) | PipEnd::Signal(code) => {
                let line = detail.lines().last().unwrap_or("it printed nothing").into();
                ProvisionError::Pip { code, line, requirements: requirements.join(" "), detail }
            }
        }
    }
}

/// The lines that decide: errors, warnings, and what a hash was; else the last ones.
pub(super) fn decisive(output: &str) -> String {
    let lines: Vec<String> = output.lines().map(clean).filter(|line| !line.is_empty()).collect();
    let decides = |line: &String| {
        let line = line.trim_start();
        // What pip says of the feature that it was asked to use.
        if line.contains("lazily downloaded wheels") {
            return false;
        }
        ["ERROR", "WARNING", "Expected sha256", "Got  ", "error:"].iter().any(|start| line.starts_with(start))
            || line.contains("No module named")
            || line.contains("Error: ")
            // A compiler's, of a package that is built from source.
            || line.contains(": error: ")
            || line.contains(": fatal error: ")
            || line.contains("cannot find -l")
    };
    let deciding: Vec<&String> = lines.iter().filter(|line| decides(line)).collect();
    let kept = if deciding.is_empty() { lines.iter().collect() } else { deciding };
    let kept: Vec<&str> = kept[kept.len().saturating_sub(KEPT_LINES)..].iter().map(|line| line.as_str()).collect();
    kept.join("\n")
}

/// One line without control characters, and without the user and password of an index's address: reports are shown to
/// others.
pub(super) fn clean(line: &str) -> String {
    let mut text: String = line.chars().filter(|letter| !letter.is_control()).take(KEPT_CHARS).collect();
    let mut from = 0;
    while let Some(scheme) = text[from..].find("://") {
        let start = from + scheme + 3;
        let end = text[start..].find(['/', ' ', '\'', '"', ')', ',']).map_or(text.len(), |end| start + end);
        if let Some(at) = text[start..end].rfind('@') {
            text.replace_range(start..start + at, "****");
        }
        from = start;
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32, output: &str) -> ProvisionError {
        let requirements = ["nvidia-a==12.0.1".to_owned(), "nvidia-b==12.0.2".to_owned()];
        diagnose("python3", &requirements, PipEnd::Code(code), output, ProvisionError::NoHome)
    }

    #[test]
    fn the_requirement_that_failed_is_named() {
        let output = "Collecting nvidia-a==12.0.1\n\
            ERROR: Could not find a version that satisfies the requirement nvidia-b==12.0.2 (from versions: 12.0.9)\n\
            ERROR: No matching distribution found for nvidia-b==12.0.2\n";
        let ProvisionError::NoMatch { requirement, detail } = of(1, output) else { panic!("{:?}", of(1, output)) };
        assert_eq!(requirement, "nvidia-b==12.0.2");
        assert_eq!(detail.lines().count(), 2);
    }

    #[test]
    fn an_index_that_lists_nothing_after_broken_connections_was_not_reached() {
        let broken =
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError()': /simple/a/\n";
        let nothing =
            "ERROR: Could not find a version that satisfies the requirement nvidia-a==12.0.1 (from versions: none)\n";
        assert!(matches!(of(1, &format!("{broken}{nothing}")), ProvisionError::Unreachable { .. }));
        assert!(matches!(of(1, nothing), ProvisionError::NoMatch { .. }));
        let listed = nothing.replace("none", "12.0.9");
        assert!(matches!(of(1, &format!("{broken}{listed}")), ProvisionError::NoMatch { .. }));
    }

    #[test]
    fn a_text_that_is_not_known_is_shown() {
        assert_eq!(
            of(2, "usage: pip\n\u{1b}[31merror:\u{1b}[0m no such option: --target\n").to_string(),
            "pip failed with exit status 2: [31merror:[0m no such option: --target; the command by hand is `python3 -m \
             pip install nvidia-a==12.0.1 nvidia-b==12.0.2`"
        );
        assert!(matches!(of(127, "pyenv: python3: command not found"), ProvisionError::NoPython { .. }));
    }

    #[test]
    fn passwords_in_addresses_are_not_kept() {
        let line = "ERROR: HTTP error 401 for https://me:se@cret@index.example/simple/ and http://other.example/a@b";
        assert_eq!(
            clean(line),
            "ERROR: HTTP error 401 for https://****@index.example/simple/ and http://other.example/a@b"
        );
    }
}

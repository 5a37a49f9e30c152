//! Checks of single words and numbers, for the table in `shape.rs`. Each looks at the text alone; what depends on other
//! parts of the file (names, duplicates, files) is looked at later.

use super::error::{Complaint, quoted};
use super::{Known, quantity};
use crate::model::arch::Arch;
use crate::model::matrix::Processes;
use crate::model::nearest::{listed, nearest, suggestion};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::{Family, PathId, PathPattern};
use crate::model::selector::Selector;
use crate::model::version::Version;

type Checked = Result<(), Complaint>;

/// The longest name of a toolkit or kernel: it goes into ids, file names and table columns.
const LONGEST_NAME: usize = 64;
/// Docker refuses less.
const LEAST_MEMORY: u64 = 6 << 20;
/// 1 PiB; Docker takes a signed number.
const MOST_MEMORY: u64 = 1 << 50;
/// A path that takes a day hangs.
const LONGEST_TIMEOUT_MS: u64 = 24 * 3_600_000;
/// A million launches of the shipped kernel take under a minute on any GPU; more is a typing error.
const MOST_LAUNCHES: u64 = 1_000_000;

/// Outcomes that a cell can be expected to have. The others are verdicts on an expectation, or say that the run
/// itself went wrong.
pub(super) const EXPECTABLE: [Outcome; 9] = [
    Outcome::Pass,
    Outcome::Built,
    Outcome::Loaded,
    Outcome::Skip,
    Outcome::WrongResult,
    Outcome::Fail,
    Outcome::Timeout,
    Outcome::Crashed,
    Outcome::Oom,
];

/// `version:` of the file.
pub(super) fn format(number: u64) -> Checked {
    if number == 1 {
        return Ok(());
    }
    Err(Complaint::new(format!("format version {number} is not known: this program reads version 1"))
        .help("write `version: 1`, or use a newer ctk-matrix"))
}

/// Any text but none.
pub(super) fn some_text(text: &str, _: &Known<'_>) -> Checked {
    if text.trim().is_empty() { Err(Complaint::new("the text is empty")) } else { Ok(()) }
}

/// A toolkit version or a set of them, at least one of which exists.
pub(super) fn versions(text: &str, known: &Known<'_>) -> Checked {
    let selector: Selector = text.parse().map_err(|_| not_versions(text, known))?;
    if let Some(exact) = selector.exact() {
        return published(exact, known);
    }
    if known.versions.iter().any(|version| selector.matches(*version, known.versions)) {
        return Ok(());
    }
    Err(Complaint::new(format!("{} matches no known toolkit", quoted(text))).help(known.span()))
}

/// One toolkit version. Whether it has to be a known one depends on the keys beside it; one that was never published
/// is none.
pub(super) fn version(text: &str, known: &Known<'_>) -> Checked {
    let version: Version = text.parse().map_err(|_| {
        let message = format!("{} is not a toolkit version", quoted(text));
        Complaint::new(message).help(near_version(text, known, "write a major and a minor number: \"12.6\""))
    })?;
    if beyond(version, known) { Ok(()) } else { published(version, known) }
}

/// Whether a version is older or newer than all that are known.
pub(super) fn beyond(version: Version, known: &Known<'_>) -> bool {
    let (oldest, newest) = (known.versions.iter().min(), known.versions.iter().max());
    oldest.is_some_and(|oldest| version < *oldest) || newest.is_some_and(|newest| version > *newest)
}

/// Whether there is such a toolkit.
pub(super) fn published(version: Version, known: &Known<'_>) -> Checked {
    if known.versions.contains(&version) {
        return Ok(());
    }
    if let Some(reason) = (known.not_published)(version) {
        let near = known.versions.iter().filter(|other| other.major == version.major);
        let near = near.min_by_key(|other| other.minor.abs_diff(version.minor));
        let complaint = Complaint::new(format!("CUDA Toolkit {version} was never published: {reason}"));
        return Err(match near {
            Some(near) => complaint.help(format!("write \"{near}\"")),
            None => complaint,
        });
    }
    let (oldest, newest) = (known.versions.iter().min(), known.versions.iter().max());
    let message = match (oldest, newest) {
        (Some(oldest), _) if version < *oldest => format!("CUDA Toolkit {version} is older than all that are known"),
        (_, Some(newest)) if version > *newest => format!("CUDA Toolkit {version} is newer than all that are known"),
        _ => format!("there is no CUDA Toolkit {version}"),
    };
    let help = if beyond(version, known) {
        format!("{}; another is measured where it lies: {{version: \"{version}\", dir: …}} or image: …", known.span())
    } else {
        near_version(&version.to_string(), known, "")
    };
    Err(Complaint::new(message).help(help))
}

/// The complaint about text that names no versions.
pub(super) fn not_versions(text: &str, known: &Known<'_>) -> Complaint {
    let forms = "write \"12.4\", \"12.x\", \">=12.4 <13\", `oldest` or `newest`";
    Complaint::new(format!("{} is not a toolkit version or a range of them", quoted(text)))
        .help(near_version(text, known, forms))
}

fn near_version(text: &str, known: &Known<'_>, otherwise: &str) -> String {
    let names: Vec<String> = known.versions.iter().map(ToString::to_string).collect();
    let words = names.iter().map(String::as_str).chain(["oldest", "newest"]);
    // `12.6.3` is a release of 12.6, and near to 12.3 only by its letters.
    if let Some((release, _)) = text.rsplit_once('.')
        && release.parse().is_ok_and(|version| known.versions.contains(&version))
    {
        return format!("write \"{release}\": the patch level is not part of it");
    }
    let hint = match nearest(text, words) {
        Some(near) if text.parse::<Version>().is_err() => format!("did you mean `{near}`?"),
        _ => otherwise.to_owned(),
    };
    if hint.is_empty() { known.span() } else { hint }
}

/// A path or a family.
pub(super) fn path(text: &str, _: &Known<'_>) -> Checked {
    if text.parse::<PathPattern>().is_ok() {
        return Ok(());
    }
    let complaint = Complaint::new(format!("{} is not a path", quoted(text)));
    if text == "nvrtc-fatbin" {
        return Err(complaint.help("NVRTC makes no fatbin: write `nvrtc-ptx`, `nvrtc-cubin` or `nvcc-fatbin`"));
    }
    Err(complaint.help(suggestion(text, path_words().iter().map(String::as_str))))
}

/// Every family and every path.
pub(super) fn path_words() -> Vec<String> {
    let families = Family::ALL.map(|family| family.name().to_owned());
    // A Python library is a family of one path with the same name.
    let forms = PathId::ALL.into_iter().filter(|path| !path.family.is_python());
    families.into_iter().chain(forms.map(|path| path.to_string())).collect()
}

/// A compute capability.
pub(super) fn arch(text: &str, _: &Known<'_>) -> Checked {
    if text.parse::<Arch>().is_ok() {
        return Ok(());
    }
    let complaint = Complaint::new(format!("{} is not a compute capability", quoted(text)));
    let digits = ["sm_", "compute_"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    Err(match Arch::from_digits(digits) {
        Some(arch) => complaint.help(format!("write \"{arch}\"")),
        None => complaint.help("write it as \"9.0\" or \"9.0a\""),
    })
}

/// A compute capability or `native`.
pub(super) fn arch_or_native(text: &str, known: &Known<'_>) -> Checked {
    match text {
        "native" => Ok(()),
        _ if nearest(text, ["native"]).is_some() => {
            Err(Complaint::new(format!("{} is not a compute capability", quoted(text))).help("did you mean `native`?"))
        }
        _ => arch(text, known),
    }
}

/// The name of a toolkit entry.
pub(super) fn toolkit_name(text: &str, _: &Known<'_>) -> Checked {
    name(text, "toolkit")
}

/// The name of a kernel.
pub(super) fn kernel_name(text: &str, _: &Known<'_>) -> Checked {
    name(text, "kernel")
}

/// The name of a stack.
pub(super) fn stack_name(text: &str, _: &Known<'_>) -> Checked {
    name(text, "stack")
}

/// A Python version, or `host`.
pub(super) fn python(text: &str, _: &Known<'_>) -> Checked {
    let minor = text.strip_prefix("3.").is_some_and(|minor| (1..=2).contains(&minor.len()) && digits(minor));
    if minor || text == "host" {
        return Ok(());
    }
    let complaint = Complaint::new(format!("{} is not a Python version", quoted(text)));
    let patch = text.rsplit_once('.').map(|(release, _)| release).filter(|release| python(release, &NOTHING).is_ok());
    Err(match (patch, nearest(text, ["host"])) {
        (Some(release), _) => complaint.help(format!("write \"{release}\": the patch level is not part of it")),
        (None, Some(near)) => complaint.help(format!("did you mean `{near}`?")),
        (None, None) => complaint.help("write \"3.11\", or `host` for the machine's python3 with what it has"),
    })
}

const NOTHING: Known<'static> = Known { versions: &[], not_published: &|_| None };

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A requirement as pip takes it, without an address, a marker or an option.
pub(super) fn package(text: &str, _: &Known<'_>) -> Checked {
    let complaint = || Complaint::new(format!("{} is not a package that pip can install by name", quoted(text)));
    let cure = "write a name and a version: \"numpy==1.26.4\", \"cuda-core[cu12]==1.1.1\"";
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let end = text.find(|letter| !of_name(letter)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let edges = |name: &str| name.starts_with(char::is_alphanumeric) && name.ends_with(char::is_alphanumeric);
    let (extras, versions) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or_else(|| complaint().help(cure))?,
        None => ("", rest),
    };
    let extras = extras.chars().all(|letter| of_name(letter) || letter == ',');
    let clause = |clause: &str| {
        let version = ["===", "==", ">=", "<=", "~=", "!=", ">", "<"].iter().find_map(|sign| clause.strip_prefix(sign));
        version.is_some_and(|version| {
            !version.is_empty()
                && version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".*+!-_".contains(letter))
        })
    };
    if edges(name) && extras && (versions.is_empty() || versions.split(',').all(clause)) {
        return Ok(());
    }
    if text.contains("://") || text.contains('@') {
        return Err(complaint().help("name it by its version: an address may give another file tomorrow"));
    }
    Err(complaint().help(cure))
}

fn name(text: &str, of: &str) -> Checked {
    let complaint = |why: &str| {
        Err(Complaint::new(format!("{} cannot be the name of a {of}: {why}", quoted(text)))
            .help("use letters, digits, `.`, `_`, `+` and `-`, and begin with a letter or digit"))
    };
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    if text.contains("..") {
        complaint("it holds `..`")
    } else if text.len() > LONGEST_NAME {
        complaint("it is longer than 64 letters")
    } else if !text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        complaint("it does not begin with a letter or digit")
    } else if let Some(letter) = text.chars().find(|letter| !fits(*letter)) {
        complaint(&format!("it holds {}", quoted(&letter.to_string())))
    } else {
        Ok(())
    }
}

/// A kernel file, relative to the matrix file.
pub(super) fn kernel_file(text: &str, _: &Known<'_>) -> Checked {
    let complaint = |why: &str| Err(Complaint::new(format!("{} {why}", quoted(text))));
    let inside =
        |complaint: Checked| complaint.map_err(|it| it.help("put the file beside the matrix file or below it"));
    if text.starts_with(['/', '~']) || text.get(1..2) == Some(":") {
        return inside(complaint("is not relative to the matrix file's folder"));
    }
    if text.split(['/', '\\']).any(|part| part == "..") {
        return inside(complaint("leaves the matrix file's folder"));
    }
    if text.is_empty() || text.chars().any(char::is_control) || text.contains('\\') {
        return complaint("is not a file name");
    }
    let ending = text.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, ending)| ending);
    if matches!(ending, Some("cu" | "cuh" | "ptx" | "cubin" | "fatbin")) {
        return Ok(());
    }
    complaint("is neither CUDA C++ nor an artifact").map_err(|it| {
        it.help("name a file that ends in `.cu` or `.cuh` (compiled), or in `.ptx`, `.cubin` or `.fatbin` (loaded)")
    })
}

/// A function's name as the driver takes it.
pub(super) fn entry(text: &str, _: &Known<'_>) -> Checked {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == '$';
    if text.starts_with(first) && text.chars().all(|letter| first(letter) || letter.is_ascii_digit()) {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not the name of a function", quoted(text)))
        .help("write it as in the artifact: `saxpy` with `extern \"C\"`, else mangled (`_Z5saxpyPf`)"))
}

/// An image reference.
pub(super) fn image(text: &str, _: &Known<'_>) -> Checked {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@".contains(letter);
    if text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && text.chars().all(fits) {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not an image", quoted(text)))
        .help("write it as \"nvidia/cuda:12.6.3-devel-ubuntu22.04\""))
}

/// An outcome that can be expected.
pub(super) fn outcome(text: &str, _: &Known<'_>) -> Checked {
    if EXPECTABLE.iter().any(|outcome| outcome.name() == text) {
        return Ok(());
    }
    let complaint = if Outcome::ALL.iter().any(|outcome| outcome.name() == text) {
        Complaint::new(format!("{} cannot be expected of a cell", quoted(text)))
    } else {
        Complaint::new(format!("{} is not an outcome", quoted(text)))
    };
    Err(match text {
        "expected-fail" | "unexpected-pass" => {
            complaint.help("write what the cell itself does: `fail`; that it was expected is what the report adds")
        }
        _ => complaint.help(suggestion(text, EXPECTABLE.iter().map(|outcome| outcome.name()))),
    })
}

/// A stage.
pub(super) fn stage(text: &str, _: &Known<'_>) -> Checked {
    if Stage::ALL.iter().any(|stage| stage.name() == text) {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not a stage", quoted(text)))
        .help(suggestion(text, Stage::ALL.iter().map(|stage| stage.name()))))
}

/// The name of a code.
pub(super) fn code(text: &str, _: &Known<'_>) -> Checked {
    let named = text.starts_with(|letter: char| letter.is_ascii_uppercase())
        && text.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    if named {
        return Ok(());
    }
    let complaint = Complaint::new(format!("{} is not the name of a code", quoted(text)));
    Err(if text.bytes().all(|byte| byte.is_ascii_digit()) {
        complaint.help(format!("`ctk-matrix explain {text}` tells the name"))
    } else {
        complaint.help("write it as `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`")
    })
}

/// `warmup:`.
pub(super) fn warmup(number: u64) -> Checked {
    between(number, 0, MOST_LAUNCHES)
}

/// `timed:`.
pub(super) fn timed(number: u64) -> Checked {
    between(number, 1, MOST_LAUNCHES)
}

/// `process:` of `measure:`.
pub(super) fn process(text: &str, _: &Known<'_>) -> Checked {
    if text.parse::<Processes>().is_ok() {
        return Ok(());
    }
    let known = listed(Processes::ALL.map(Processes::name));
    Err(Complaint::new(format!("{} is not a way to share processes: {known}", quoted(text))))
}

/// `pids:`. The most is what Linux takes.
pub(super) fn pids(number: u64) -> Checked {
    between(number, 1, 4_194_304)
}

fn between(number: u64, least: u64, most: u64) -> Checked {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(Complaint::new(format!("{number} is out of range: {least} to {most}")))
}

/// `timeout:`.
pub(super) fn timeout(text: &str, _: &Known<'_>) -> Checked {
    let units = listed(["500ms", "120s", "2m"]);
    match quantity::millis(text) {
        Some(1..=LONGEST_TIMEOUT_MS) => Ok(()),
        Some(_) => Err(Complaint::new(format!("{} is out of range: `1ms` to `24h`", quoted(text)))),
        None => Err(Complaint::new(format!("{} is not a duration", quoted(text)))
            .help(format!("write a whole number and a unit: {units}"))),
    }
}

/// `memory:`.
pub(super) fn memory(text: &str, _: &Known<'_>) -> Checked {
    match quantity::bytes(text) {
        Some(LEAST_MEMORY..=MOST_MEMORY) => Ok(()),
        Some(size) if size > MOST_MEMORY => {
            Err(Complaint::new(format!("{} is more than any machine has", quoted(text))))
        }
        Some(_) => Err(Complaint::new(format!("{} is too little: Docker takes no less than `6MiB`", quoted(text)))),
        None => Err(Complaint::new(format!("{} is not a size", quoted(text)))
            .help(format!("write a whole number and a unit: {}", listed(["8GiB", "512MiB", "8GB"])))),
    }
}

//! Says what a failure means, why it happens in containers, and what to do: [`explain`].
//! The tables beside this file hold one entry for each known code or text, each with its source. [`meanings`] gives all
//! that a code can mean, and [`Findings`] goes through a log.

mod compilers;
mod driver;
mod engine;
mod loader;
mod log;
mod named;
mod nvrtc;
mod provision;
mod rule;
#[cfg(test)]
mod said;

pub use log::{Finding, Findings};
pub use named::{codes_in, query};

use crate::model::outcome::{Code, Stage};
use crate::model::record::Explanation;

/// The tables. Within one, the first entry that applies wins; a table of texts that contain others' stands earlier.
const TABLES: [&[rule::Rule]; 6] =
    [driver::RULES, nvrtc::RULES, engine::RULES, compilers::RULES, provision::RULES, loader::RULES];

/// What a failure means; none if that is not known.
///
/// The code decides before the text does, because a log can quote anything. `text` is whatever was said: a reason, a
/// compiler's log, an engine's message. A stage or code that is not known is no hindrance.
#[must_use]
pub fn explain(stage: Option<Stage>, code: Option<&Code>, text: &str) -> Option<Explanation> {
    let text = text.to_lowercase();
    let rules = || TABLES.iter().copied().flatten().filter(|rule| rule.applies(stage, code, &text));
    let by_code = rules().filter(|rule| !rule.code.is_empty());
    let by_text = rules().filter(|rule| rule.code.is_empty());
    // Where the stage is not known, what is true of any stage is the better guess.
    let (anywhere, elsewhere): (Vec<_>, Vec<_>) = by_text.partition(|rule| stage.is_some() || rule.stages.is_empty());
    by_code.chain(anywhere).chain(elsewhere).next().map(rule::Rule::explanation)
}

/// One of the things that a code can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// It means this where one of these is in what was said; empty for what it means otherwise.
    pub with: Vec<String>,
    /// What it means.
    pub explanation: Explanation,
}

/// Everything that a code can mean, the general last; empty if nothing is known of it.
#[must_use]
pub fn meanings(code: &Code) -> Vec<Meaning> {
    let rules = TABLES.iter().copied().flatten().filter(|rule| rule.code == code.name);
    rules
        .map(|rule| Meaning {
            with: rule.texts.iter().map(|text| (*text).to_owned()).collect(),
            explanation: rule.explanation(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::codes;

    fn what(stage: Option<Stage>, code: impl Into<Option<Code>>, text: &str) -> String {
        explain(stage, code.into().as_ref(), text).map(|explanation| explanation.what).unwrap_or_default()
    }

    fn said(text: &str) -> String {
        what(None, None, text)
    }

    #[test]
    fn every_entry_says_everything_and_is_keyed_on_something() {
        for rule in TABLES.iter().copied().flatten() {
            assert!(!rule.code.is_empty() || !rule.texts.is_empty(), "{rule:?}");
            for said in [rule.what, rule.why, rule.remedy, rule.source] {
                assert!(!said.is_empty() && said.trim() == said && !said.ends_with('.'), "{rule:?}");
            }
            assert!(rule.texts.iter().all(|text| *text == text.to_lowercase()), "{rule:?}");
        }
    }

    #[test]
    fn no_entry_is_hidden_behind_another() {
        for rule in TABLES.iter().copied().flatten() {
            let code = (!rule.code.is_empty()).then(|| Code { name: rule.code.into(), number: 0 });
            let texts = if rule.texts.is_empty() { &[""] } else { rule.texts };
            for text in texts {
                let found = explain(rule.stages.first().copied(), code.as_ref(), text);
                assert_eq!(found, Some(rule.explanation()), "{text:?}");
            }
        }
    }

    #[test]
    fn the_codes_of_the_tables_are_codes_of_the_headers() {
        let named = |prefix: &str, name: fn(u32) -> String| {
            let known: Vec<_> = (0..1000).map(name).collect();
            for rule in TABLES.iter().copied().flatten().filter(|rule| rule.code.starts_with(prefix)) {
                assert!(known.iter().any(|known| known == rule.code), "{}", rule.code);
            }
        };
        named("CUDA_ERROR_", |number| codes::driver(number).name);
        named("NVRTC_ERROR_", |number| codes::nvrtc(i32::try_from(number).unwrap()).name);
        named("SIG", |number| codes::signal(i32::try_from(number).unwrap()).name);
    }

    #[test]
    fn the_codes_that_matter_in_containers_are_all_explained() {
        let driver = [
            1, 2, 3, 34, 35, 36, 46, 100, 101, 200, 201, 209, 218, 220, 221, 222, 223, 224, 225, 226, 227, 300, 301,
            302, 303, 304, 500, 700, 716, 719, 800, 801, 802, 803, 804, 805, 807, 919, 999,
        ];
        for number in driver {
            assert_ne!(what(None, codes::driver(number), ""), "", "{number}");
        }
        for number in 1..=18 {
            assert_ne!(what(None, Some(codes::nvrtc(number)), ""), "", "{number}");
        }
    }

    #[test]
    fn the_code_decides_before_the_text_and_the_text_where_the_code_says_nothing() {
        let ptx = "the PTX is newer than the driver";
        assert_eq!(what(Some(Stage::Load), Some(codes::driver(222)), "Unsupported .version 9.1"), ptx);
        assert_eq!(what(Some(Stage::Load), Some(codes::driver(222)), "gcc: No such file or directory"), ptx);
        let exit = Code { name: "EXIT".into(), number: 1 };
        let gcc = "crt/host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 15";
        assert_eq!(what(Some(Stage::Build), Some(exit), gcc), "the host's gcc is newer than this nvcc accepts");
    }

    #[test]
    fn one_code_can_mean_different_things_with_different_texts() {
        let arch = "nvrtc: error: invalid value for --gpu-architecture (-arch)";
        assert_eq!(what(None, Some(codes::nvrtc(5)), arch), "this NVRTC does not know the architecture");
        let option = "nvrtc: error: unrecognized option --nonsense found";
        assert_eq!(what(None, Some(codes::nvrtc(5)), option), "NVRTC does not take one of the options");
        let target = "SM version specified by .target is higher than default SM version assumed";
        assert_eq!(what(None, Some(codes::driver(218)), target), "the PTX is for a higher architecture than the GPU's");
        assert_eq!(what(None, Some(codes::driver(218)), "syntax error"), "the driver cannot compile the PTX");
    }

    #[test]
    fn engine_texts_are_told_apart_even_where_one_contains_the_other() {
        let request = r#"Error response from daemon: could not select device driver "" with capabilities: [[gpu]]"#;
        assert_eq!(said(request), "the engine knows no way to give a GPU to a container");
        let cdi = r#"could not select device driver "cdi" with capabilities: []"#;
        assert_eq!(said(cdi), "the engine's support for CDI is off");
        let library = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open \
                       shared object file: no such file or directory: unknown";
        assert_eq!(said(library), "the NVIDIA container tools find no driver on the host");
        let libcuda = "libcuda.so.1: cannot open shared object file: No such file or directory";
        assert_eq!(said(libcuda), "there is no driver library in the container");
        let other = "libfoo.so.3: cannot open shared object file: No such file or directory";
        assert_eq!(said(other), "a library is missing");
    }

    #[test]
    fn a_refused_connection_means_pip_s_network_at_provision_and_the_engine_at_start() {
        let refused = "connect error: Connection refused";
        assert_eq!(what(Some(Stage::Provision), None, refused), "pip has no way to the package index");
        assert_eq!(what(Some(Stage::Start), None, refused), "no engine answers");
    }

    #[test]
    fn pip_without_a_network_is_not_taken_for_a_missing_package() {
        let text = "WARNING: Retrying after connection broken by 'NewConnectionError(... Temporary failure in name \
                    resolution)'\nERROR: No matching distribution found for nvidia-cuda-nvrtc-cu12==12.6.85";
        assert_eq!(what(Some(Stage::Provision), None, text), "pip has no way to the package index");
        let missing = "ERROR: No matching distribution found for nvidia-cuda-nvrtc-cu12==12.6.85";
        assert_eq!(said(missing), "the package index has no such wheel for this machine");
    }

    #[test]
    fn what_is_not_known_is_not_explained() {
        assert_eq!(explain(None, None, ""), None);
        assert_eq!(explain(None, None, "everything went fine"), None);
        assert_eq!(explain(Some(Stage::Load), Some(&codes::driver(12345)), "no idea"), None);
    }
}

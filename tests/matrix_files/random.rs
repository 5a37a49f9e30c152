//! Whatever bytes come: never a panic, every error has its place, and every plan has unique ids that read back.

use std::collections::HashSet;

use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::expand::{self, Selection};
use ctk_matrix::model::plan::Plan;
use ctk_matrix::model::spec::builtin;
use proptest::prelude::*;

use crate::{EXAMPLE, read, sound, versions};

/// Pieces of matrix files, for making files that are nearly right.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "version: 1",
        "toolkits:",
        "'12.6'",
        "12.10",
        "[",
        "]",
        "{",
        "}",
        ",",
        ": ",
        "\n",
        "\n  ",
        "- ",
        "#",
        "&a",
        "*a",
        "!!str ",
        "---",
        "\"",
        "'",
        "|",
        ">",
        "? ",
        "é",
        "\t",
        "\u{0}",
        "paths",
        "nvrtc",
        "exclude",
        "reason: r",
        "~",
        "{name: a, version: '12.4'}",
        "arch: native",
        "\r",
        "\u{feff}",
        "%",
        "@",
        "`",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

/// A sound text with a few pieces put in and a few characters taken out.
fn mutated() -> impl Strategy<Value = String> {
    let cut = (any::<prop::sample::Index>(), 0..4_usize, piece());
    (prop::sample::select(vec![EXAMPLE, builtin::MATRIX_YAML]), prop::collection::vec(cut, 1..5)).prop_map(
        |(text, cuts)| {
            let mut letters: Vec<char> = text.chars().collect();
            for (at, count, piece) in cuts {
                let at = at.index(letters.len());
                let end = (at + count).min(letters.len());
                letters.splice(at..end, piece.chars());
            }
            letters.into_iter().collect()
        },
    )
}

/// Whatever is read is either a matrix that can be planned or errors that can be shown, and each has its place.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    match read(bytes) {
        Ok(matrix) => {
            if let Ok(plan) = expand::expand(&matrix, &Selection::default(), Arch::WITHOUT_GPU) {
                unique_and_parsed_back(&plan)?;
            }
        }
        Err(errors) => {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                let before = &errors.text[..error.span.start];
                prop_assert_eq!(error.line, 1 + before.matches('\n').count());
                let line = before.rsplit('\n').next().unwrap_or_default();
                prop_assert_eq!(error.column, 1 + line.chars().count());
            }
            prop_assert!(!errors.render(false).contains('\x1b'));
        }
    }
    Ok(())
}

fn unique_and_parsed_back(plan: &Plan) -> Result<(), TestCaseError> {
    let mut seen = HashSet::new();
    for cell in &plan.cells {
        prop_assert!(seen.insert(&cell.id), "{} is there twice", cell.id);
        let pairs: Vec<(&str, &str)> = cell.id.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let read: Vec<_> =
            ["arch", "kernel", "path", "toolkit"].into_iter().zip(pairs.iter().map(|pair| pair.1)).collect();
        prop_assert_eq!(&pairs, &read);
        prop_assert_eq!(read[0].1.parse().ok(), Some(cell.axes.arch));
        prop_assert_eq!(read[1].1, &cell.axes.kernel);
        prop_assert_eq!(read[2].1.parse().ok(), Some(cell.axes.path));
        prop_assert_eq!(read[3].1, &cell.axes.toolkit);
    }
    let in_jobs: Vec<usize> = plan.jobs.iter().flat_map(|job| job.cells.iter().copied()).collect();
    prop_assert_eq!(in_jobs, (0..plan.cells.len()).collect::<Vec<_>>());
    for job in &plan.jobs {
        for cell in &job.cells {
            prop_assert_eq!(&plan.cells[*cell].axes.toolkit, &plan.toolkits[job.toolkit].name);
            prop_assert_eq!(&plan.cells[*cell].axes.kernel, &plan.kernels[job.kernel].name);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        holds(&bytes)?;
    }

    #[test]
    fn arbitrary_pieces_of_yaml_are_never_a_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        holds(pieces.concat().as_bytes())?;
    }

    #[test]
    fn a_mutated_matrix_is_never_a_panic(text in mutated()) {
        holds(text.as_bytes())?;
    }

    #[test]
    fn every_planned_id_is_unique_and_reads_back(
        toolkits in prop::sample::subsequence(versions(), 1..16),
        archs in prop::sample::subsequence(vec!["7.5", "8.0", "9.0", "9.0a", "12.1f"], 1..5),
        paths in prop::sample::subsequence(vec!["driver", "nvrtc-ptx", "nvrtc-cubin", "nvcc"], 1..4),
        kernels in prop::sample::subsequence(vec!["vector_add", "marked", "{file: sub/saxpy.ptx, entry: f}"], 1..3),
        excluded in prop::sample::subsequence(versions(), 0..3),
    ) {
        let toolkits: Vec<_> = toolkits.iter().map(|version| format!("'{version}'")).collect();
        let archs: Vec<_> = archs.iter().map(|arch| format!("'{arch}'")).collect();
        let rules: Vec<_> = excluded.iter().map(|version| format!("{{toolkit: '{version}', reason: r}}")).collect();
        let text = format!(
            "version: 1\ntoolkits: [{}]\narch: [{}]\npaths: [{}]\nkernels: [{}]\nexclude: [{}]\n",
            toolkits.join(","), archs.join(","), paths.join(","), kernels.join(","), rules.join(",")
        );
        let matrix = sound(&text);
        if let Ok(plan) = expand::expand(&matrix, &Selection::default(), Arch::WITHOUT_GPU) {
            unique_and_parsed_back(&plan)?;
        }
    }
}

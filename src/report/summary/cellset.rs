//! Names several cells in few words: `nvcc-ptx, nvcc-cubin on 12.0, 12.6`. Its main type is [`CellSet`].

use crate::model::axes::Axes;
use crate::model::record::Report;

/// Which axes tell the cells of a report apart, beside toolkit and path.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellSet {
    kernels: bool,
    archs: bool,
}

impl CellSet {
    pub(super) fn new(report: &Report) -> Self {
        let differs = |value: &dyn Fn(&Axes) -> String| {
            let mut values = report.cells.iter().map(|record| value(&record.axes));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        Self { kernels: differs(&|axes| axes.kernel.clone()), archs: differs(&|axes| axes.arch.to_string()) }
    }

    /// The axes beside toolkit and path that are worth naming, as ` (kernel k, arch 9.0)`, or nothing.
    pub(super) fn rest(self, axes: &Axes) -> String {
        let mut parts = Vec::new();
        if self.kernels {
            parts.push(format!("kernel {}", axes.kernel));
        }
        if self.archs {
            parts.push(format!("arch {}", axes.arch));
        }
        if let Some(stack) = &axes.stack {
            parts.push(format!("stack {stack}"));
        }
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }

    /// The cells in few words, in their order: toolkits that share a list of paths are named together.
    pub(super) fn words(self, cells: &[&Axes]) -> String {
        // Toolkit and rest, with the paths.
        let mut lists: Vec<((&str, String), Vec<String>)> = Vec::new();
        for axes in cells {
            let key = (axes.toolkit.as_str(), self.rest(axes));
            let path = axes.path.to_string();
            match lists.iter_mut().find(|(known, _)| *known == key) {
                Some((_, paths)) if paths.contains(&path) => {}
                Some((_, paths)) => paths.push(path),
                None => lists.push((key, vec![path])),
            }
        }
        let mut groups: Vec<(Vec<String>, String, Vec<&str>)> = Vec::new();
        for ((toolkit, rest), paths) in lists {
            match groups.iter_mut().find(|(known, same, _)| *known == paths && *same == rest) {
                Some((_, _, toolkits)) => toolkits.push(toolkit),
                None => groups.push((paths, rest, vec![toolkit])),
            }
        }
        let words: Vec<String> = groups
            .into_iter()
            .map(|(paths, rest, toolkits)| format!("{} on {}{rest}", paths.join(", "), toolkits.join(", ")))
            .collect();
        words.join("; ")
    }

    /// The command that runs these cells again, and where they are no full product, a few more.
    pub(super) fn again(self, cells: &[&Axes]) -> String {
        let mut command = String::from("ctk-matrix run");
        let mut named = Vec::new();
        for (axis, value) in cells.iter().flat_map(|axes| {
            [
                Some(("toolkit", axes.toolkit.clone())),
                Some(("path", axes.path.to_string())),
                self.kernels.then(|| ("kernel", axes.kernel.clone())),
                self.archs.then(|| ("arch", axes.arch.to_string())),
                axes.stack.clone().map(|stack| ("stack", stack)),
            ]
            .into_iter()
            .flatten()
        }) {
            named.push((axis, value));
        }
        for axis in ["toolkit", "path", "kernel", "arch", "stack"] {
            let mut said: Vec<&str> = Vec::new();
            for (_, value) in named.iter().filter(|(name, _)| *name == axis) {
                if !said.contains(&value.as_str()) {
                    said.push(value);
                    command.push_str(" --select ");
                    command.push_str(&shell_word(&format!("{axis}={value}")));
                }
            }
        }
        command
    }
}

/// A word as a POSIX shell reads it back.
fn shell_word(word: &str) -> String {
    if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=._-+/:@".contains(&byte)) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;

    const ALIKE: CellSet = CellSet { kernels: false, archs: false };

    fn axes(toolkit: &str, path: &str) -> Axes {
        Axes {
            toolkit: toolkit.into(),
            path: path.parse().unwrap(),
            kernel: "k".into(),
            arch: Arch::new(9, 0),
            stack: None,
        }
    }

    #[test]
    fn toolkits_with_the_same_paths_are_named_together() {
        let cells = [("12.0", "nvcc-ptx"), ("12.0", "nvcc-cubin"), ("12.6", "nvcc-ptx"), ("12.6", "nvcc-cubin")];
        let cells: Vec<Axes> = cells.iter().map(|(toolkit, path)| axes(toolkit, path)).collect();
        let mut cells: Vec<&Axes> = cells.iter().collect();
        assert_eq!(ALIKE.words(&cells), "nvcc-ptx, nvcc-cubin on 12.0, 12.6");
        let other = axes("13.0", "nvcc-ptx");
        cells.push(&other);
        assert_eq!(ALIKE.words(&cells), "nvcc-ptx, nvcc-cubin on 12.0, 12.6; nvcc-ptx on 13.0");
        let all = CellSet { kernels: true, archs: true };
        assert_eq!(all.words(&cells[4..]), "nvcc-ptx on 13.0 (kernel k, arch 9.0)");
    }

    #[test]
    fn the_command_selects_the_cells_and_survives_a_shell() {
        let cells = [axes("12.6", "nvcc-ptx"), axes("it's; rm -rf", "nvcc-ptx")];
        assert_eq!(
            ALIKE.again(&[&cells[0], &cells[1]]),
            "ctk-matrix run --select toolkit=12.6 --select 'toolkit=it'\\''s; rm -rf' --select path=nvcc-ptx"
        );
    }
}

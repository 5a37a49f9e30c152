//! Paths as reports show them: from `$CACHE`, `$HOME` or the container's root, so that a report can be shown to
//! others. Its main type is [`PathNames`].

use std::path::{Path, PathBuf};

/// Shortens paths of this machine.
#[derive(Debug, Clone, Default)]
pub struct PathNames {
    /// Folders and what stands for them, longest first.
    prefixes: Vec<(PathBuf, &'static str)>,
}

impl PathNames {
    /// Names for the cache folder and the user's home.
    #[must_use]
    pub fn new(cache: Option<&Path>, home: Option<&Path>) -> Self {
        let named = [(cache, "$CACHE"), (home, "$HOME")];
        let mut prefixes: Vec<_> = named
            .into_iter()
            .filter_map(|(path, name)| path.filter(|path| path.parent().is_some()).map(|path| (path.to_owned(), name)))
            .collect();
        prefixes.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        Self { prefixes }
    }

    /// A path of this machine, shortened.
    #[must_use]
    pub fn shorten(&self, path: &Path) -> String {
        for (prefix, name) in &self.prefixes {
            if let Ok(rest) = path.strip_prefix(prefix) {
                return if rest.as_os_str().is_empty() { (*name).into() } else { format!("{name}/{}", rest.display()) };
            }
        }
        path.display().to_string()
    }

    /// A path as a job saw it, translated back by `mapped` (job's folder, host's folder) and shortened.
    #[must_use]
    pub fn translate(&self, path: &str, mapped: &[(PathBuf, PathBuf)]) -> String {
        let path = Path::new(path);
        for (inside, outside) in mapped {
            if let Ok(rest) = path.strip_prefix(inside) {
                return self.shorten(&if rest.as_os_str().is_empty() { outside.clone() } else { outside.join(rest) });
            }
        }
        self.shorten(path)
    }

    /// A text, such as a compiler's log, with every occurrence of the job's and this machine's folders replaced.
    #[must_use]
    pub fn translate_text(&self, text: &str, mapped: &[(PathBuf, PathBuf)]) -> String {
        let mut text = text.to_owned();
        let inside = mapped.iter().map(|(inside, outside)| (inside.as_path(), self.shorten(outside)));
        let outside = self.prefixes.iter().map(|(path, name)| (path.as_path(), (*name).to_owned()));
        for (path, name) in inside.chain(outside) {
            text = replace_folder(&text, &path.display().to_string(), &name);
        }
        text
    }
}

/// Replaces `folder` where it ends at a path border, so that `/home/me` does not change `/home/me2`.
fn replace_folder(text: &str, folder: &str, name: &str) -> String {
    if folder.len() < 2 {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let after = &rest[at + folder.len()..];
        let border = after.chars().next().is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')));
        out.push_str(&rest[..at]);
        out.push_str(if border { name } else { folder });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> PathNames {
        PathNames::new(Some(Path::new("/home/me/.cache/ctk-matrix")), Some(Path::new("/home/me")))
    }

    #[test]
    fn the_longest_folder_names_a_path() {
        assert_eq!(names().shorten(Path::new("/home/me/.cache/ctk-matrix/toolkits/x")), "$CACHE/toolkits/x");
        assert_eq!(names().shorten(Path::new("/home/me/cuda")), "$HOME/cuda");
        assert_eq!(names().shorten(Path::new("/home/me2/cuda")), "/home/me2/cuda");
        assert_eq!(names().shorten(Path::new("/usr/lib/libcuda.so.1")), "/usr/lib/libcuda.so.1");
    }

    #[test]
    fn a_path_of_the_container_is_translated_back() {
        let mapped = [(PathBuf::from("/ctk/toolkit"), PathBuf::from("/home/me/.cache/ctk-matrix/toolkits/12.6"))];
        assert_eq!(names().translate("/ctk/toolkit/lib/x", &mapped), "$CACHE/toolkits/12.6/lib/x");
        let log = "/ctk/toolkit/include/a.h(3): error in /home/me2 and \"/home/me\"";
        assert_eq!(
            names().translate_text(log, &mapped),
            "$CACHE/toolkits/12.6/include/a.h(3): error in /home/me2 and \"$HOME\""
        );
    }

    #[test]
    fn the_root_as_home_shortens_nothing() {
        assert_eq!(PathNames::new(None, Some(Path::new("/"))).shorten(Path::new("/usr")), "/usr");
    }
}

//! Stacks on an image's own Python, bound into the image as a virtual environment, or what the image has already. The
//! main types are [`InImage`], what an engine found in the image, and [`Target`], the Python that wheels are for.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::baked::Facts;
use super::error::StackError;
use super::python::Interpreter;
use super::resolve::platform;
use super::{LIBRARIES, ReadyStack, StackAsk, files, record, warnings};
use crate::model::place::ImagePython;
use crate::model::stack::{Package, Stack, StackImage, StackRecord};

/// What is known of the image that a stack's jobs run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InImage {
    /// The image's id.
    pub id: String,
    /// The reference that names it.
    pub reference: String,
    /// Its C library: `2.41`.
    pub glibc: Option<String>,
    /// Its interpreters: the one that was asked for where it is there, else all.
    pub pythons: Vec<ImagePython>,
    /// What `docker/python.Dockerfile` left in it, if it was made by that.
    pub facts: Option<Vec<u8>>,
}

impl InImage {
    /// The interpreter of this release, `3.13`.
    pub(super) fn python(&self, wanted: &str) -> Result<&ImagePython, StackError> {
        let found = self.pythons.iter().find(|python| python.version == wanted);
        found.ok_or_else(|| self.lacks(format!("Python {wanted}")))
    }

    fn lacks(&self, wanted: String) -> StackError {
        let others = self.pythons.iter().map(|python| python.version.clone()).collect();
        StackError::NoPythonInImage { image: self.reference.clone(), wanted, others }
    }

    /// The record's word on it.
    pub(super) fn said(&self, ask: &StackAsk<'_>, python: &Path) -> StackImage {
        StackImage {
            toolkit: ask.toolkit.toolkit.name.clone(),
            base: self.reference.clone(),
            base_id: self.id.clone(),
            python: python.to_owned(),
            built: None,
        }
    }
}

/// The Python of an image that wheels are chosen for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) image: &'a InImage,
    pub(super) python: &'a ImagePython,
    /// An interpreter of this machine of the same release, by which pip reads the packages' conditions.
    pub(super) reader: Option<&'a Interpreter>,
}

impl Target<'_> {
    /// What of the image decides how an environment for it is made.
    pub(super) fn key(&self) -> String {
        let glibc = self.image.glibc.as_deref().unwrap_or("unknown");
        format!("of an image, {} {}, glibc {glibc}", self.python.version, self.python.program.display())
    }

    /// pip's options: wheels for that release, and for no newer C library than the image has.
    pub(super) fn platform(&self) -> Vec<OsString> {
        let glibc = self.image.glibc.as_deref().and_then(|glibc| glibc.split('.').nth(1)?.parse().ok());
        platform(&self.python.version, glibc, self.reader.is_some())
    }

    /// Why `pip check` was not asked, and what its conditions were read for.
    pub(super) fn unchecked(&self) -> String {
        let read = match self.reader {
            Some(reader) => format!("Python {}", reader.version),
            None => "this machine's own Python: there is none of that release here".into(),
        };
        let version = &self.python.version;
        format!("not asked: the environment is for Python {version} of an image; its conditions were read by {read}")
    }

    /// A virtual environment without a pip of its own, for the interpreter at its place in the image: the link leads
    /// nowhere on this machine.
    pub(super) fn environment(&self, tree: &Path) -> io::Result<()> {
        let program = &self.python.program;
        let home = program.parent().unwrap_or(Path::new("/")).display();
        let version = &self.python.version;
        let settings = format!("home = {home}\ninclude-system-site-packages = false\nversion = {version}\n");
        fs::create_dir_all(tree.join("bin"))?;
        fs::write(tree.join("pyvenv.cfg"), settings)?;
        symlink(program, tree.join("bin/python3"))
    }
}

/// What an image's `python3` has.
pub(super) fn host(ask: &StackAsk<'_>, image: &InImage) -> Result<ReadyStack, StackError> {
    let reference = &image.reference;
    let python = image.pythons.first().ok_or_else(|| image.lacks("`python3`".into()))?;
    let facts = image.facts.as_deref().map(|text| Facts::read(text, reference)).transpose()?;
    let packages: Vec<Package> = facts.as_ref().map(|facts| facts.packages.clone()).unwrap_or_default();
    let has = Stack { packages: packages.iter().map(|package| package.name.clone()).collect(), ..ask.stack.clone() };
    // What else an image has, only its cells say.
    let absent = LIBRARIES.into_iter().filter(|family| !has.names(*family));
    let absent = absent.map(|family| (family, format!("the Python of image {reference} has no {}", family.name())));
    let unsaid = || format!("not asked: the packages are in image {reference}");
    Ok(ReadyStack {
        absent: absent.collect(),
        failed: Vec::new(),
        files: files(ask.stack, "python3".into(), Vec::new()),
        folders: Vec::new(),
        place: None,
        record: StackRecord {
            python_version: facts.as_ref().map_or_else(|| python.version.clone(), |facts| facts.python.clone()),
            images: vec![image.said(ask, &python.program)],
            warnings: warnings::warnings(&[], &packages),
            check: facts.map_or_else(unsaid, |facts| facts.check),
            resolved: packages,
            ..record(ask.stack)
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(glibc: &str) -> InImage {
        let python = |version: &str| ImagePython {
            version: version.into(),
            program: format!("/usr/bin/python{version}").into(),
        };
        InImage {
            id: "sha256:1".into(),
            reference: "my-python".into(),
            glibc: Some(glibc.into()),
            pythons: vec![python("3.12"), python("3.13")],
            facts: None,
        }
    }

    #[test]
    fn wheels_are_chosen_for_the_images_python_and_c_library() {
        let image = image("2.18");
        let target = Target { image: &image, python: image.python("3.13").unwrap(), reader: None };
        assert_eq!(target.platform(), platform("3.13", Some(18), false));
        assert_eq!(target.key(), "of an image, 3.13 /usr/bin/python3.13, glibc 2.18");
    }

    #[test]
    fn the_environment_leads_to_the_interpreter_in_the_image_and_may_be_hashed_here() {
        let scratch = tempfile::tempdir().unwrap();
        let mut image = image("2.41");
        image.pythons[1].program = "/nowhere/bin/python3.13".into();
        let target = Target { image: &image, python: image.python("3.13").unwrap(), reader: None };
        target.environment(scratch.path()).unwrap();
        assert_eq!(
            fs::read_to_string(scratch.path().join("pyvenv.cfg")).unwrap(),
            "home = /nowhere/bin\ninclude-system-site-packages = false\nversion = 3.13\n"
        );
        assert_eq!(fs::read_link(scratch.path().join("bin/python3")).unwrap(), Path::new("/nowhere/bin/python3.13"));
        assert!(super::super::super::tree::finish(scratch.path()).unwrap().files.is_empty());
    }

    #[test]
    fn a_release_that_the_image_has_not_is_named_with_those_that_it_has() {
        let text = |image: &InImage| image.python("3.11").unwrap_err().to_string();
        let there = image("2.41");
        assert_eq!(
            text(&there),
            "image my-python has no Python 3.11 (there is 3.12, 3.13): name the version that it has, or another image"
        );
        let without = InImage { pythons: Vec::new(), ..there };
        assert_eq!(
            text(&without),
            "image my-python has no Python 3.11 (there is none): name the version that it has, or another image"
        );
    }
}

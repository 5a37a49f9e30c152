//! Images with this machine's own Python in them, made without a registry. Its main type is [`PythonImage`].

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What of a Python its image must have, as it says itself. What is only for development or its own tests stays behind.
const ASK: &str = "\
import json, os, sys, sysconfig
files = []
def tree(root, skip=()):
    for folder, names, own in os.walk(root):
        names[:] = [name for name in names if name not in skip and not name.startswith('config-')]
        files.extend(os.path.join(folder, name) for name in own)
tree(sysconfig.get_path('stdlib'), ('test', 'tests', 'site-packages', 'dist-packages', '__pycache__', 'idlelib', 'tkinter'))
try:
    import pip
    tree(pip.__path__[0], ('__pycache__',))
except ImportError:
    pass
program = os.path.realpath(getattr(sys, '_base_executable', sys.executable))
print(json.dumps({'version': '%d.%d' % sys.version_info[:2], 'program': program, 'files': files}))";

/// What the build of an image runs of its own.
const TOOLS: [&str; 12] = ["sh", "rm", "ls", "grep", "tr", "sort", "cut", "cat", "chmod", "mv", "touch", "tee"];

/// An image with this machine's Python, removed when it is dropped.
pub(crate) struct PythonImage {
    pub(crate) name: String,
    /// `3.11`.
    pub(crate) version: String,
}

impl PythonImage {
    /// Imports it, with an empty folder where a toolkit would be. `needs` are files whose libraries are to be there.
    pub(crate) fn import(name: &str, bench: &str, needs: &[PathBuf]) -> Self {
        let said = Command::new("python3").args(["-I", "-c", ASK]).output().unwrap().stdout;
        let said: Value = serde_json::from_slice(&said).expect("python3 says what it is");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (version, program) = (text(&said["version"]), text(&said["program"]));
        let mut files: BTreeSet<String> = said["files"].as_array().unwrap().iter().map(text).collect();
        let mut programs: Vec<String> = TOOLS.iter().map(|tool| which(tool)).collect();
        // Where `RUN` looks for it, whether or not that is the same folder.
        programs.extend(["/bin/sh".to_owned(), bench.to_owned(), program.clone()]);
        programs
            .extend(files.iter().filter(|file| Path::new(file).extension().is_some_and(|end| end == "so")).cloned());
        let listed = Command::new("ldd").args(&programs).args(needs).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
        files.extend(libraries.map(ToOwned::to_owned));
        files.extend(programs);

        let folder = tempfile::tempdir().unwrap();
        // The name by which a Dockerfile asks for the interpreter, beside `python3`.
        let bin = program.rsplit_once('/').unwrap().0.to_owned();
        let own = format!("{bin}/python{version}");
        std::fs::create_dir_all(folder.path().join(&bin[1..])).unwrap();
        std::fs::create_dir_all(folder.path().join("usr/local/cuda")).unwrap();
        std::fs::copy(&program, folder.path().join(&own[1..])).unwrap();
        std::os::unix::fs::symlink(format!("python{version}"), folder.path().join(&bin[1..]).join("python3")).unwrap();
        files.retain(|file| *file != own && *file != format!("{bin}/python3"));
        let list = folder.path().join("list");
        let lines = files.iter().fold(String::new(), |mut lines, file| {
            let _ = writeln!(lines, "{}", &file[1..]);
            lines
        });
        std::fs::write(&list, lines).unwrap();
        let archive = folder.path().join("image.tar");
        // Links are followed: a library's name need not lead anywhere else in the image.
        let mut create = Command::new("tar");
        create.args(["--create", "--dereference", "--no-recursion", "--directory", "/"]);
        create.arg("--file").arg(&archive).arg("--files-from").arg(&list);
        run(create);
        let mut append = Command::new("tar");
        append.arg("--append").arg("--file").arg(&archive).arg("--directory").arg(folder.path());
        append.args([&bin[1..], "usr/local/cuda"]);
        run(append);
        let name = format!("ctk-test/{name}:{}", std::process::id());
        let path = format!("ENV PATH={bin}:/usr/local/bin:/usr/bin:/bin");
        let mut import = Command::new("docker");
        import.args(["import", "--change", &path]).arg(&archive).arg(&name);
        run(import);
        Self { name, version }
    }
}

impl Drop for PythonImage {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes an image, if it is there.
pub(crate) fn remove(name: &str) {
    let _ = Command::new("docker").args(["image", "rm", "--force", name]).stdout(Stdio::null()).status();
}

fn which(tool: &str) -> String {
    let found = ["/usr/bin", "/bin"].map(|folder| format!("{folder}/{tool}"));
    found.into_iter().find(|path| Path::new(path).exists()).unwrap_or_else(|| panic!("there is no {tool}"))
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

//! `kernels:`, from names and files to what is compiled and loaded. Its main function is [`lower`].
//! A named kernel is `kernels/NAME.cu` beside the matrix file, of which the snippet counts, else the one built in; a
//! `{file, …}` is taken whole.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::builtin::{self, VECTOR_ADD};
use super::check;
use super::error::{Complaint, quoted};
use super::lower::Lower;
use super::node::Node;
use super::raw::{RawKernel, RawKernelEntry};
use crate::model::kernel::{Kernel, Launch, Prebuilt, snippet, wrap};
use crate::model::path::Form;

/// The largest kernel file, in bytes: a request that carries three artifacts in base64 stays far below what a container
/// is sent.
const MAX_FILE: usize = 4 << 20;

/// The kernels, and the names that were written, whether or not their files could be used.
pub(super) struct Lowered {
    pub(super) kernels: Vec<Kernel>,
    pub(super) names: Vec<String>,
}

/// The kernels in the order written; the shipped one if none is.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Option<Vec<RawKernel>>, node: &Node) -> Lowered {
    let written = raw.is_some();
    let raw = raw.unwrap_or_else(|| vec![RawKernel::Name(VECTOR_ADD.into())]);
    let nodes = if written { node.items() } else { std::slice::from_ref(node) };
    let mut lowered = Lowered { kernels: Vec::new(), names: Vec::new() };
    let mut places = Vec::new();
    for (raw, node) in raw.into_iter().zip(nodes) {
        let (name, kernel) = match raw {
            RawKernel::Name(name) => {
                let kernel = named(lower, &name, node);
                (name, kernel)
            }
            RawKernel::Entry(raw) => entry(lower, raw, node),
        };
        places.push(if node.get("name").is_some() { node.place("name") } else { node.place("file") });
        lowered.names.push(name);
        lowered.kernels.extend(kernel);
    }
    lower.distinct(lowered.names.iter().cloned().zip(places), "the kernel", "leave one out, or give it a `name`");
    lowered
}

fn named(lower: &mut Lower<'_>, name: &str, node: &Node) -> Option<Kernel> {
    let file = format!("kernels/{name}.cu");
    let kernel = match read(lower, &file) {
        Ok(Some(bytes)) => from_snippet(lower, name, &file, bytes),
        Ok(None) if name == VECTOR_ADD => Ok(builtin::builtin_kernel()),
        Ok(None) => Err(Complaint::new(format!("there is no kernel {}", quoted(name))).help(
            match crate::model::nearest::nearest(name, [VECTOR_ADD]) {
                Some(near) => format!("did you mean `{near}`? else put {} beside the matrix file", quoted(&file)),
                None => format!("put {} beside the matrix file; built in is `{VECTOR_ADD}`", quoted(&file)),
            },
        )),
        Err(complaint) => Err(complaint),
    };
    kernel.map_err(|complaint| lower.complain(node.span.clone(), complaint)).ok()
}

fn from_snippet(lower: &Lower<'_>, name: &str, file: &str, bytes: Vec<u8>) -> Result<Kernel, Complaint> {
    let text = utf8(file, bytes)?;
    let snippet = snippet(&text).map_err(|error| {
        let cure = format!("mark the kernel in it, or name the whole file: {{file: \"{file}\", entry: …}}");
        Complaint::new(format!("{}: {error}", quoted(file))).help(cure)
    })?;
    let shipped = builtin::builtin_kernel();
    let source = wrap(snippet);
    let mut prebuilt = BTreeMap::new();
    for form in [Form::Ptx, Form::Cubin, Form::Fatbin] {
        let origin = format!("kernels/prebuilt/{name}.{form}");
        if let Some(bytes) = read(lower, &origin)? {
            prebuilt.insert(form, Prebuilt { origin, base64: STANDARD.encode(bytes) });
        }
    }
    if name != VECTOR_ADD {
        let entry = only_function(snippet).ok_or_else(|| {
            Complaint::new(format!("{}: the snippet does not have exactly one `__global__` function", quoted(file)))
                .help(format!("say which: {{file: \"{file}\", entry: …}}"))
        })?;
        let name = name.to_owned();
        return Ok(Kernel { name, entry, options: Vec::new(), source: Some(source), prebuilt, launch: None });
    }
    // The shipped artifacts were made from these very characters, so they also serve a copy of the file.
    if shipped.source.as_deref() == Some(&source) {
        for (form, artifact) in shipped.prebuilt {
            prebuilt.entry(form).or_insert(artifact);
        }
    }
    Ok(Kernel { source: Some(source), prebuilt, launch: Some(Launch::VECTOR_ADD), ..shipped })
}

fn entry(lower: &mut Lower<'_>, raw: RawKernelEntry, node: &Node) -> (String, Option<Kernel>) {
    let file = raw.file;
    let (stem, ending) = file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).unwrap_or((&file, ""));
    let name = raw.name.clone().unwrap_or_else(|| stem.to_owned());
    if raw.name.is_none()
        && let Err(complaint) = check::kernel_name(&name, lower.known)
    {
        lower.complain(node.place("file"), complaint.help("give the kernel a `name`"));
    }
    let form = match ending {
        "ptx" => Some(Form::Ptx),
        "cubin" => Some(Form::Cubin),
        "fatbin" => Some(Form::Fatbin),
        _ => None,
    };
    if form.is_some() && !raw.options.is_empty() {
        let complaint = Complaint::new("an artifact is loaded as it is: compiler options mean nothing to it");
        lower.complain(node.place("options"), complaint.help("leave `options` out, or name the source"));
    }
    let content = match read(lower, &file) {
        Ok(Some(bytes)) if bytes.is_empty() => Err(Complaint::new(format!("{} is empty", quoted(&file)))),
        Ok(Some(bytes)) => match form {
            Some(form) => {
                let artifact = Prebuilt { origin: file.clone(), base64: STANDARD.encode(bytes) };
                Ok((None, BTreeMap::from([(form, artifact)])))
            }
            None => utf8(&file, bytes).map(|source| (Some(source), BTreeMap::new())),
        },
        Ok(None) => Err(Complaint::new(format!("there is no file {}", quoted(&file)))
            .help("its name is relative to the matrix file's folder")),
        Err(complaint) => Err(complaint),
    };
    let kernel = match content {
        Ok((source, prebuilt)) => {
            Some(Kernel { name: name.clone(), entry: raw.entry, options: raw.options, source, prebuilt, launch: None })
        }
        Err(complaint) => {
            lower.complain(node.place("file"), complaint);
            None
        }
    };
    (name, kernel)
}

/// The file's bytes; `None` if there is no such file.
fn read(lower: &Lower<'_>, file: &str) -> Result<Option<Vec<u8>>, Complaint> {
    match (lower.input.read)(&lower.input.dir.join(Path::new(file))) {
        Ok(bytes) if bytes.len() > MAX_FILE => {
            Err(Complaint::new(format!("{} is larger than {} MiB", quoted(file), MAX_FILE >> 20)))
        }
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Complaint::new(format!("{} cannot be read: {error}", quoted(file)))),
    }
}

fn utf8(file: &str, bytes: Vec<u8>) -> Result<String, Complaint> {
    String::from_utf8(bytes).map_err(|_| Complaint::new(format!("{} is not UTF-8 text", quoted(file))))
}

/// The name of the one `__global__` function: the word before the first parenthesis after it, launch bounds aside.
fn only_function(source: &str) -> Option<String> {
    let mut rest = source.split("__global__").skip(1);
    let (declared, None) = (rest.next()?, rest.next()) else { return None };
    let mut declared = declared.to_owned();
    if let Some(start) = declared.find("__launch_bounds__") {
        let length = declared[start..].find(')')? + 1;
        declared.replace_range(start..start + length, " ");
    }
    let before = declared.split('(').next()?.trim_end();
    let name = before.rsplit(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).next()?;
    (!name.is_empty() && !name.starts_with(|letter: char| letter.is_ascii_digit())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_function_of_a_snippet_is_found() {
        let found = |source| only_function(source);
        assert_eq!(found("__global__ void saxpy(float* x) { f(x); }"), Some("saxpy".into()));
        assert_eq!(found("__global__\nvoid __launch_bounds__(256) k_1 (int)"), Some("k_1".into()));
        assert_eq!(found("__global__ __launch_bounds__(256, 2) void k(int)"), Some("k".into()));
        assert_eq!(found("void f(int)"), None);
        assert_eq!(found("__global__ void f(); __global__ void g();"), None);
        assert_eq!(found("__global__ "), None);
    }
}

//! What is shipped inside the program: the matrix that is used where a folder has none, and the kernel with its
//! artifacts. Its main functions are [`matrix`] and [`builtin_kernel`].

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Input, Known, SpecErrors, read};
use crate::model::kernel::{Kernel, Launch, Prebuilt, snippet, wrap};
use crate::model::matrix::Matrix;
use crate::model::path::Form;

/// The shipped matrix, as `ctk-matrix` shows it to who wants to begin from it.
pub const MATRIX_YAML: &str = include_str!("../../../matrix.yaml");
/// How reports name the shipped matrix.
pub const ORIGIN: &str = "built-in";
/// The name of the shipped kernel.
pub const VECTOR_ADD: &str = "vector_add";

const VECTOR_ADD_CU: &str = include_str!("../../../kernels/vector_add.cu");
const VECTOR_ADD_PTX: &[u8] = include_bytes!("../../../kernels/prebuilt/vector_add.ptx");
const VECTOR_ADD_FATBIN: &[u8] = include_bytes!("../../../kernels/prebuilt/vector_add.fatbin");

/// The shipped matrix. It refers to no file beside it.
pub fn matrix(known: &Known<'_>) -> Result<Matrix, SpecErrors> {
    let nothing = |_: &Path| Err(io::ErrorKind::NotFound.into());
    read(&Input { origin: ORIGIN, bytes: MATRIX_YAML.as_bytes(), dir: Path::new(""), read: &nothing }, known)
}

/// The shipped kernel with its artifacts.
#[must_use]
pub fn builtin_kernel() -> Kernel {
    let artifact = |form: Form, bytes: &[u8]| {
        (form, Prebuilt { origin: format!("kernels/prebuilt/{VECTOR_ADD}.{form}"), base64: STANDARD.encode(bytes) })
    };
    Kernel {
        name: VECTOR_ADD.into(),
        entry: "vectorAdd".into(),
        options: Vec::new(),
        // The file is part of the program, and a test of the kernel's own holds its markers.
        source: snippet(VECTOR_ADD_CU).ok().map(wrap),
        prebuilt: BTreeMap::from([artifact(Form::Ptx, VECTOR_ADD_PTX), artifact(Form::Fatbin, VECTOR_ADD_FATBIN)]),
        launch: Some(Launch::VECTOR_ADD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_kernel_is_compiled_from_its_snippet() {
        let kernel = builtin_kernel();
        let source = kernel.source.unwrap();
        assert!(source.starts_with("extern \"C\" {\n__global__ void vectorAdd("), "{source}");
        assert!(source.ends_with("}\n}\n") && !source.contains("//"), "{source}");
    }
}

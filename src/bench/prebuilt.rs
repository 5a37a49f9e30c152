//! The driver family: an artifact that was made beforehand, the same bytes in every container.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::built::{Built, NotBuilt};
use crate::model::kernel::Kernel;
use crate::model::path::Form;

/// The kernel's artifact of this form.
pub(super) fn take(kernel: &Kernel, form: Form) -> Result<Built, NotBuilt> {
    let Some(prebuilt) = kernel.prebuilt.get(&form) else {
        return Err(NotBuilt::Skip(format!("the kernel {} has no prebuilt {form}", kernel.name)));
    };
    let bytes = STANDARD
        .decode(&prebuilt.base64)
        .map_err(|error| NotBuilt::fail(format!("{} did not arrive as it was sent: {error}", prebuilt.origin)))?;
    Ok(Built { bytes, producer: None, build_ms: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use sha2::{Digest as _, Sha256};

    use crate::compat::artifact;
    use crate::model::kernel;
    use crate::model::version::Version;
    use crate::model::wire::hex;

    const PTX: &[u8] = include_bytes!("../../kernels/prebuilt/vector_add.ptx");
    const FATBIN: &[u8] = include_bytes!("../../kernels/prebuilt/vector_add.fatbin");
    const PROVENANCE: &str = include_str!("../../kernels/prebuilt/PROVENANCE.json");
    const SOURCE: &str = include_str!("../../kernels/vector_add.cu");

    /// What `kernels/prebuilt/make.sh` wrote down.
    #[derive(Deserialize)]
    struct Provenance {
        source_sha256: String,
        files: BTreeMap<String, String>,
        steps: Vec<Step>,
    }

    #[derive(Deserialize)]
    struct Step {
        producer: String,
        source_sha256: String,
        target: String,
    }

    fn sha256(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    #[test]
    fn the_shipped_artifacts_were_made_from_the_snippet_as_it_is_now() {
        let provenance: Provenance = serde_json::from_str(PROVENANCE).unwrap();
        let snippet = kernel::wrap(kernel::snippet(SOURCE).unwrap());
        assert_eq!(provenance.source_sha256, sha256(snippet.as_bytes()), "run kernels/prebuilt/make.sh again");
        assert!(provenance.steps.iter().all(|step| step.source_sha256 == provenance.source_sha256));
        let files = [("vector_add.fatbin", sha256(FATBIN)), ("vector_add.ptx", sha256(PTX))];
        assert_eq!(provenance.files, files.map(|(name, hash)| (name.to_owned(), hash)).into_iter().collect());
        let steps: Vec<_> = provenance.steps.iter().map(|step| format!("{} {}", step.producer, step.target)).collect();
        assert_eq!(
            steps,
            [
                "NVRTC 12.0 compute_52",
                "NVRTC 12.4 sm_75",
                "NVRTC 12.4 sm_80",
                "NVRTC 12.4 sm_86",
                "NVRTC 12.4 sm_89",
                "NVRTC 12.4 sm_90",
                "NVRTC 12.9 sm_100",
                "NVRTC 12.9 sm_120",
            ]
        );
    }

    #[test]
    fn the_shipped_ptx_is_old_enough_for_every_driver_from_525() {
        let contents = artifact::read(PTX).unwrap();
        assert_eq!((contents.ptx_isa, contents.archs), (Some(Version::new(8, 0)), vec!["compute_52".to_owned()]));
        let names: Vec<_> = contents.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["vectorAdd"]);
    }

    #[test]
    fn the_shipped_fatbin_has_machine_code_for_seven_architectures_and_that_same_ptx_uncompressed() {
        let contents = artifact::read(FATBIN).unwrap();
        let archs = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_52"];
        assert_eq!(contents.archs, archs);
        assert_eq!((contents.ptx_isa, contents.compressed), (Some(Version::new(8, 0)), None));
        assert!(contents.kernels.iter().any(|kernel| kernel.name == "vectorAdd"));
        // fatbinary keeps every word of the PTX, and neither its comments nor its indentation.
        let start = FATBIN.windows(8).rposition(|window| window == b".version").unwrap();
        let inside = str::from_utf8(&FATBIN[start..]).unwrap();
        let shipped = str::from_utf8(PTX).unwrap();
        assert_eq!(words(inside.trim_end_matches('\0')), words(shipped));
    }

    fn words(ptx: &str) -> Vec<&str> {
        ptx.lines().flat_map(|line| line.split("//").next().unwrap_or("").split_whitespace()).collect()
    }
}

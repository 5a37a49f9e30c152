//! Which driver to be: read from the environment once, at the first call that needs it.
//! The main type is [`Config`].
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `CTK_FAKE_DRIVER` | `580.159.04` | the driver's version, and by its branch the CUDA version and the highest PTX ISA |
//! | `CTK_FAKE_GPU` | `H200` | `T4 A100 L4 H200 B200 B300 RTX5090`, several separated by commas, or `none` |
//! | `CTK_FAKE_UUID` | made up | UUIDs in the order of the GPUs, with or without `GPU-` |
//! | `CTK_FAKE_FAULT` | none | see [`crate::fault`] |
//! | `CUDA_VISIBLE_DEVICES` | all | as the real driver: indices or UUIDs; the first that is unknown ends the list |
//! | `CUDA_DISABLE_PTX_JIT`, `CUDA_FORCE_PTX_JIT` | 0 | as the real driver |
//! | `CUDA_MODULE_LOADING` | `LAZY` | as the real driver |

use std::env;
use std::sync::OnceLock;

use crate::branch::Driver;
use crate::fault::{self, Fault, Kind, Origin};
use crate::gpu::{Gpu, MODELS};

/// Which driver to be, with which GPUs and faults.
#[derive(Debug)]
pub(crate) struct Config {
    /// The driver.
    pub(crate) driver: Driver,
    /// The GPUs that this process may see, in its own order.
    pub(crate) gpus: Vec<Gpu>,
    /// PTX may not be compiled.
    pub(crate) jit_disabled: bool,
    /// Cubins may not be taken.
    pub(crate) jit_forced: bool,
    /// Functions are loaded when the module is.
    pub(crate) eager: bool,
    faults: Vec<Fault>,
}

static CONFIG: OnceLock<Result<Config, String>> = OnceLock::new();

/// The configuration, or what is wrong with it. A mistake is not passed over: a misspelt fault would make a test of
/// that fault green without it.
pub(crate) fn config() -> Result<&'static Config, &'static str> {
    CONFIG.get_or_init(Config::from_environment).as_ref().map_err(String::as_str)
}

impl Config {
    fn from_environment() -> Result<Self, String> {
        let text = |name: &str| env::var(name).ok();
        let driver = Driver::parse(&text("CTK_FAKE_DRIVER").unwrap_or_else(|| "580.159.04".into()))?;
        let mut gpus = gpus(&text("CTK_FAKE_GPU").unwrap_or_else(|| "H200".into()))?;
        for (gpu, uuid) in gpus.iter_mut().zip(text("CTK_FAKE_UUID").unwrap_or_default().split(',')) {
            if !uuid.is_empty() {
                gpu.uuid = parse_uuid(uuid).ok_or_else(|| format!("`{uuid}` is no UUID"))?;
            }
        }
        gpus.retain(|gpu| driver.cuda >= gpu.model.since);
        if let Some(visible) = text("CUDA_VISIBLE_DEVICES") {
            gpus = select(&gpus, &visible);
        }
        let is_one = |name: &str| text(name).is_some_and(|value| value == "1");
        Ok(Self {
            driver,
            gpus,
            jit_disabled: is_one("CUDA_DISABLE_PTX_JIT") || is_one("CUDA_DISABLE_JIT"),
            jit_forced: is_one("CUDA_FORCE_PTX_JIT") || is_one("CUDA_FORCE_JIT"),
            eager: text("CUDA_MODULE_LOADING").is_some_and(|value| value == "EAGER"),
            faults: fault::parse(&text("CTK_FAKE_FAULT").unwrap_or_default())?,
        })
    }

    /// Whether this process has a fault of this kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.faults.iter().any(|fault| fault.kind == kind)
    }

    /// The fault of this kind that meets this module.
    pub(crate) fn fault(&self, kind: Kind, origin: &Origin) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.meets(kind, origin))
    }
}

fn gpus(list: &str) -> Result<Vec<Gpu>, String> {
    if list == "none" {
        return Ok(Vec::new());
    }
    let one = |(place, name): (u8, &str)| {
        let model = MODELS.iter().find(|model| model.short.eq_ignore_ascii_case(name));
        let known = || MODELS.map(|model| model.short).join(" ");
        model.map(|model| Gpu::new(model, place)).ok_or_else(|| format!("no GPU `{name}`; known: {} none", known()))
    };
    (0..).zip(list.split(',').map(str::trim)).map(one).collect()
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hex = text.trim().strip_prefix("GPU-").unwrap_or(text.trim()).replace('-', "");
    let number = u128::from_str_radix(&hex, 16).ok()?;
    (hex.len() == 32).then(|| number.to_be_bytes())
}

/// The GPUs that `CUDA_VISIBLE_DEVICES` leaves: up to the first entry that names none.
fn select(gpus: &[Gpu], visible: &str) -> Vec<Gpu> {
    let find = |entry: &str| match entry.trim().parse::<usize>() {
        Ok(index) => gpus.get(index).copied(),
        // The start of a UUID is enough.
        Err(_) if entry.trim().starts_with("GPU-") => {
            gpus.iter().find(|gpu| gpu.uuid_text().starts_with(entry.trim())).copied()
        }
        Err(_) => None,
    };
    visible.split(',').map_while(find).collect()
}

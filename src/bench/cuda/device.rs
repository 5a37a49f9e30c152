//! One GPU: chosen by what was wished for, and described. The main type is [`Device`].

use std::ffi::c_int;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute};

use super::call::Calls;
use super::context::Context;
use super::error::CudaError;
use crate::model::arch::Arch;
use crate::model::record::Gpu;
use crate::model::version::Version;

/// Which GPU to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Wish<'a> {
    /// The first that is visible.
    First,
    /// The one with this index or UUID.
    Named(&'a str),
}

/// Why there is no such GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) enum NoDevice {
    /// The driver said so.
    Driver(CudaError),
    /// None of the visible ones has the UUID.
    Uuid {
        /// What was wished for.
        wish: String,
        /// What there is.
        visible: Vec<String>,
    },
}

impl From<CudaError> for NoDevice {
    fn from(error: CudaError) -> Self {
        Self::Driver(error)
    }
}

/// One GPU.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Device {
    pub(super) calls: &'static Calls,
    pub(super) raw: CUdevice,
    mig: bool,
}

impl Device {
    pub(super) fn choose(calls: &'static Calls, wish: Wish<'_>) -> Result<Self, NoDevice> {
        let device = |raw, mig| Self { calls, raw, mig };
        let text = match wish {
            Wish::First => return Ok(device(calls.device(0)?, false)),
            Wish::Named(text) => text,
        };
        if let Ok(index) = text.parse::<c_int>() {
            return Ok(device(calls.device(index)?, false));
        }
        // The driver gives the 16 bytes; whether they are written GPU- or MIG- is the caller's knowledge.
        let mig = text.starts_with("MIG-");
        let mut visible = Vec::new();
        for ordinal in 0..calls.device_count()? {
            let candidate = device(calls.device(ordinal)?, mig);
            let uuid = candidate.uuid()?;
            if uuid.eq_ignore_ascii_case(text) {
                return Ok(candidate);
            }
            visible.push(uuid);
        }
        Err(NoDevice::Uuid { wish: text.into(), visible })
    }

    /// `GPU-…`, or `MIG-…` where that was wished for.
    pub(in crate::bench) fn uuid(self) -> Result<String, CudaError> {
        Ok(format!("{}-{}", if self.mig { "MIG" } else { "GPU" }, hyphenated(self.calls.device_uuid(self.raw)?)))
    }

    /// What the driver says of the GPU. `driver` is the driver's version, which it does not say.
    pub(in crate::bench) fn describe(self, driver: String, cuda: Version) -> Result<Gpu, CudaError> {
        use CUdevice_attribute as Attribute;
        let ask = |attribute| self.calls.device_attribute(self.raw, attribute);
        let major = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let clock = ask(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let width = ask(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        let l2 = ask(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(Gpu {
            name: self.calls.device_name(self.raw)?,
            uuid: self.uuid()?,
            cc: Arch::new(u16::try_from(major).unwrap_or(0), u8::try_from(minor).unwrap_or(0)),
            driver,
            cuda,
            l2_bytes: u64::try_from(l2).unwrap_or(0),
            peak_gbps: peak_gbps(clock, width),
        })
    }

    /// The GPU's primary context, made current for this thread.
    pub(in crate::bench) fn primary_context(self) -> Result<Context, CudaError> {
        Context::retain(self)
    }
}

/// Two transfers a clock (double data rate), kHz and bits to GB/s. None where the driver does not know one of them.
fn peak_gbps(clock_khz: c_int, width_bits: c_int) -> Option<f64> {
    (clock_khz > 0 && width_bits > 0).then(|| 2.0 * f64::from(clock_khz) * 1e3 * f64::from(width_bits) / 8.0 / 1e9)
}

fn hyphenated(bytes: [u8; 16]) -> String {
    let digits = crate::model::wire::hex(&bytes);
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_data_sheet() {
        // H200: 3201 MHz, 6016 bit, 4814 GB/s.
        assert_eq!(peak_gbps(3_201_000, 6016).map(f64::round), Some(4814.0));
        assert_eq!(peak_gbps(0, 6016), None);
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|at| u8::try_from(at * 17).unwrap());
        assert_eq!(hyphenated(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}

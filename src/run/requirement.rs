//! What an image requires of its host, held against the GPU of this run: [`remark`].
//! The same image is refused at start by one attach mode and started by another, and fails later; so it is said.

use crate::compat::require::{Answer, Host, Requirement, Way, brand, enforced};
use crate::engine::attach::Attach;
use crate::model::record::Gpu;

/// One line on the `NVIDIA_REQUIRE_CUDA` of a toolkit's image. `docker` is the engine's version, where it is Docker.
#[must_use]
pub(super) fn remark(toolkit: &str, require: &str, gpu: &Gpu, attach: &Attach, docker: Option<&str>) -> String {
    let first = require.split_whitespace().next().unwrap_or_default();
    let asks = format!("{toolkit}: its image requires {first}");
    let Ok(requirement) = Requirement::parse(require) else {
        return format!("{asks} … in a form that is not understood");
    };
    let host = Host { cuda: gpu.cuda, driver: gpu.driver.parse().ok(), cc: Some(gpu.cc), brand: brand(&gpu.name) };
    let met = match requirement.answer(&host) {
        Answer::Satisfied => "this driver meets it".to_owned(),
        Answer::Unsatisfied { failing, .. } => format!("this driver does not meet it ({})", failing.join(", ")),
        Answer::Unknown => "whether this driver meets it is not known".to_owned(),
    };
    let checked = match way(attach, docker).map(|way| enforced(way, false)) {
        Some(Some(true)) => "is checked when the container starts",
        Some(Some(false)) => "is not checked when the container starts",
        Some(None) | None => "may be checked when the container starts",
    };
    format!("{asks}; {met}; with attach {} it {checked}", attach.name())
}

fn way(attach: &Attach, docker: Option<&str>) -> Option<Way> {
    Some(match attach {
        Attach::None => return None,
        Attach::Request { .. } => Way::Request { docker: docker.and_then(major_minor) },
        Attach::Runtime { .. } => Way::Runtime { toolkit: None },
        Attach::Cdi { .. } => Way::Cdi,
        Attach::Devices { .. } => Way::Devices,
    })
}

/// `28.5` of `28.5.2+dfsg4`.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '+', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;
    use crate::model::version::Version;

    fn said(require: &str, cuda: (u16, u16), driver: &str, attach: &Attach) -> String {
        let gpu = Gpu {
            name: "NVIDIA H200".into(),
            uuid: "GPU-1".into(),
            cc: Arch::new(9, 0),
            driver: driver.into(),
            cuda: Version::new(cuda.0, cuda.1),
            l2_bytes: 0,
            peak_gbps: None,
        };
        remark("12.6", require, &gpu, attach, Some("28.5.2+dfsg4"))
    }

    #[test]
    fn it_says_whether_the_driver_meets_it_and_whether_anything_checks() {
        let cdi = Attach::Cdi { device: "nvidia.com/gpu=0".into() };
        let request = Attach::Request { uuid: None };
        assert_eq!(
            said("cuda>=12.6 brand=tesla,driver>=470", (13, 0), "580.159.04", &cdi),
            "12.6: its image requires cuda>=12.6; this driver meets it; with attach cdi it is not checked when the \
             container starts"
        );
        assert_eq!(
            said("cuda>=12.6", (12, 2), "535.104.05", &request),
            "12.6: its image requires cuda>=12.6; this driver does not meet it (cuda>=12.6); with attach request it is \
             checked when the container starts"
        );
        assert_eq!(
            said("nonsense", (12, 2), "", &cdi),
            "12.6: its image requires nonsense … in a form that is not understood"
        );
    }
}

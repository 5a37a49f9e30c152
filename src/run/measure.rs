//! Measures a toolkit that the catalogue does not know: which PTX ISA it writes, which of the known architectures it
//! compiles for, and what its NVRTC is called. Its main type is [`Measured`].
//!
//! The same program does it in the same place as the toolkit's jobs, by compiling an empty kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::dispatcher::Input;
use super::harvest::Harvest;
use super::nonce;
use super::worker::Worker;
use crate::compat::catalogue;
use crate::compat::predict::Measured;
use crate::engine::attach::Attach;
use crate::engine::job::{BenchTask, JobSpec};
use crate::model::arch::Arch;
use crate::model::kernel::Kernel;
use crate::model::outcome::Outcome;
use crate::model::path::{Family, Form, PathId};
use crate::model::place::Provisioned;
use crate::model::wire::{GpuWish, HostLaunches, PathResult, Request, Task, ToolkitFiles, WIRE};

/// Time for a job beside those of the plan: opening a driver, or compiling an empty kernel some thirty times.
const DEADLINE: Duration = Duration::from_mins(2);

const PTX: PathId = PathId { family: Family::Nvrtc, form: Form::Ptx };
const CUBIN: PathId = PathId { family: Family::Nvrtc, form: Form::Cubin };

impl Worker {
    /// What was measured of this toolkit; none where the catalogue knows it, or where it has no NVRTC to ask.
    pub(super) async fn measured(
        &self,
        provisioned: &Provisioned,
        tell: &mpsc::UnboundedSender<Input>,
        cancel: &watch::Receiver<bool>,
    ) -> Option<Measured> {
        let toolkit = &provisioned.toolkit;
        if catalogue::facts(toolkit.version).is_some() {
            return None;
        }
        // Held while measuring, so that the jobs of one toolkit wait for one measurement.
        let mut known = self.measured.lock().await;
        if let Some(known) = known.get(&toolkit.name) {
            return known.clone();
        }
        let measured = self.measure(provisioned, cancel).await;
        let said = match &measured {
            Some(Measured { ptx_isa, targets, soname }) => {
                let targets: Vec<String> = targets.iter().map(|target| target.sm()).collect();
                format!("measured here: PTX ISA {ptx_isa}, {soname}, {}", targets.join(" "))
            }
            None => "nothing could be measured of it, so its predictions are guesses".to_owned(),
        };
        let note = format!("{}: CUDA {} is not in the catalogue; {said}", toolkit.name, toolkit.version);
        // The receiver outlives every job.
        let _ = tell.send(Input::Note(note));
        known.insert(toolkit.name.clone(), measured.clone());
        measured
    }

    async fn measure(&self, provisioned: &Provisioned, cancel: &watch::Receiver<bool>) -> Option<Measured> {
        let mut archs: Vec<Arch> =
            catalogue::toolkits().iter().flat_map(|facts| facts.targets.value.all().to_vec()).collect();
        archs.sort_unstable_by_key(|arch| (arch.number(), arch.mark));
        archs.dedup();
        let task = |path: PathId, arch: Arch| Task { cell: format!("{path} {arch}"), path, arch };
        let mut tasks = vec![task(PTX, Arch::WITHOUT_GPU)];
        tasks.extend(archs.iter().map(|arch| task(CUBIN, *arch)));
        let kernel = Kernel {
            name: "measure".into(),
            entry: "measure".into(),
            options: Vec::new(),
            source: Some("extern \"C\" __global__ void measure() {}\n".into()),
            prebuilt: BTreeMap::new(),
            launch: None,
        };
        let nonce = nonce::random();
        let spec = self.aside("measure", provisioned, &nonce, kernel.clone(), tasks, Attach::None);
        let (events, _unread) = mpsc::unbounded_channel();
        let mut end = self.engine.run(&spec, events, cancel.clone()).await;
        let mut harvest = Harvest::read(end.as_mut().map(|end| std::mem::take(&mut end.output)).unwrap_or_default());
        let mut take =
            |path: PathId, arch: Arch| -> PathResult { harvest.take(&task(path, arch).cell, &kernel, &end).result };
        let ptx = take(PTX, Arch::WITHOUT_GPU);
        let soname = ptx.loaded.nvrtc.map(|file| file.path)?;
        let soname = Path::new(&soname).file_name()?.to_string_lossy().into_owned();
        let targets = archs.into_iter().filter(|arch| take(CUBIN, *arch).outcome == Outcome::Built).collect();
        Some(Measured { ptx_isa: ptx.artifact?.ptx_isa?, targets, soname })
    }

    /// A job beside those of the plan, on the toolkit of one of them.
    pub(super) fn aside(
        &self,
        name: &str,
        provisioned: &Provisioned,
        nonce: &str,
        kernel: Kernel,
        tasks: Vec<Task>,
        attach: Attach,
    ) -> JobSpec {
        let request = Request {
            wire: WIRE,
            nonce: nonce.into(),
            gpu: if attach == Attach::None { GpuWish::None } else { self.gpu.wish() },
            toolkit: ToolkitFiles {
                version: provisioned.toolkit.version,
                roots: provisioned.roots.clone(),
                hashes: provisioned.hashes.clone(),
            },
            kernel,
            tasks,
            measure: self.plan.measure,
            launches: HostLaunches::default(),
            path_timeout_ms: self.plan.limits.timeout_ms,
            work: PathBuf::new(),
            stack: None,
        };
        JobSpec {
            run: self.run.clone(),
            job: name.into(),
            place: provisioned.place.clone(),
            task: BenchTask::Run {
                request: Box::new(request),
                toolkit_dir: provisioned.dir.clone(),
                folders: Vec::new(),
            },
            attach,
            limits: self.plan.limits,
            deadline: DEADLINE,
            env: self.env.clone(),
        }
    }
}

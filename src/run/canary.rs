//! Carries out the canary of a run on a GPU: the two cells of [`Canary`], by the same engine, program and frames as
//! every other cell, before the first job.

use tokio::sync::{mpsc, watch};

use super::harvest::Harvest;
use super::nonce;
use super::worker::Worker;
use crate::engine::attach::Attach;
use crate::model::arch::Arch;
use crate::model::canary::{Canary, CanaryEnd};
use crate::model::path::PathId;
use crate::model::place::Provisioned;
use crate::model::wire::Task;

impl Worker {
    /// Lets the canary out where the first job will run.
    pub(super) async fn let_canary_out(
        &self,
        provisioned: &Provisioned,
        attach: &Attach,
        cancel: &watch::Receiver<bool>,
    ) -> Canary {
        let nonce = nonce::random();
        let kernel = Canary::kernel();
        let task = |path: PathId| Task { cell: format!("canary {path}"), path, arch: Arch::WITHOUT_GPU };
        let tasks = vec![task(Canary::MUST_FAIL), task(Canary::MUST_NOT_APPLY)];
        let spec = self.aside("canary", provisioned, &nonce, kernel.clone(), tasks.clone(), attach.clone());
        let (events, _unread) = mpsc::unbounded_channel();
        let mut end = self.engine.run(&spec, events, cancel.clone()).await;
        let mut harvest = Harvest::read(end.as_mut().map(|end| std::mem::take(&mut end.output)).unwrap_or_default());
        let mut ended = |task: &Task| {
            let result = harvest.take(&task.cell, &kernel, &end).result;
            CanaryEnd { outcome: result.outcome, stage: result.stage, code: result.code, reason: result.reason }
        };
        Canary::new(ended(&tasks[0]), ended(&tasks[1]))
    }
}

//! What a run tells while it goes on: the one vocabulary that the runner emits and that the journal and the progress
//! lines read. Its main type is [`RunEvent`].

use super::download::PackageDownload;
use super::outcome::Stage;
use super::record::Record;
use super::stack::StackRecord;

/// Something that happened in a run.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The plan is carried out from here on.
    Started {
        /// Planned cells.
        cells: usize,
        /// Planned jobs.
        jobs: usize,
    },
    /// Something worth a line, that is not a failure of a cell: `12.7 MB to download`, `attach: devices`.
    Note(String),
    /// A toolkit is being put on this machine.
    Provision {
        /// The toolkit entry's name.
        toolkit: String,
        /// How far it is.
        step: ProvisionStep,
    },
    /// The packages of a stack are being put on this machine.
    StackStep {
        /// The stack's name.
        stack: String,
        /// How far it is.
        step: StackStep,
    },
    /// A stack of Python packages is on this machine, or what came of it is known.
    Stack(Box<StackRecord>),
    /// A container or process starts for a job.
    JobStarted {
        /// The job's id.
        job: String,
    },
    /// A path of a job entered a stage.
    JobStage {
        /// The job's id.
        job: String,
        /// The cell's id.
        cell: String,
        /// The stage.
        stage: Stage,
    },
    /// What a job wrote beside its frames: noise, to be logged.
    JobNoise {
        /// The job's id.
        job: String,
        /// Lines.
        text: String,
    },
    /// An artifact that a path made, before the record that names it.
    Artifact {
        /// The SHA-256 of its bytes, under which it is kept.
        sha256: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A cell ended. Boxed, since a record is large beside the other events.
    CellFinished(Box<Record>),
    /// A job's container or process is gone.
    JobFinished {
        /// The job's id.
        job: String,
    },
    /// A claim about packages is being put to the test.
    ClaimStep {
        /// The claim.
        says: String,
        /// How far it is: `numpy 2.3.5: good`.
        step: String,
    },
    /// What came of a claim about packages.
    ClaimFinished(Box<super::claim::ClaimResult>),
    /// A signal arrived; what runs is being ended.
    Cancelling,
    /// Nothing more will come.
    Finished,
}

/// How far the provisioning of one toolkit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisionStep {
    /// It starts; this many bytes are to be fetched, where known.
    Started {
        /// Bytes to fetch; none if the size is not known.
        bytes: Option<u64>,
    },
    /// So many bytes are there.
    Progress {
        /// Bytes fetched so far.
        done: u64,
    },
    /// It is there.
    Finished,
    /// It will not be there; the reason, in one line.
    Failed(String),
}

/// How far the packages of one stack are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackStep {
    /// It is known what pip will fetch.
    Started(PackageDownload),
    /// So many bytes are there.
    Progress {
        /// Bytes fetched so far.
        done: u64,
    },
    /// They are there, or will not be: the cells say which.
    Ended,
}

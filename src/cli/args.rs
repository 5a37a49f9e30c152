//! What can be typed. Its main type is [`Arguments`]; nothing here is interpreted.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

const EXIT_CODES: &str = "\
Exit codes:
    0  every cell came out as expected
    1  some cell did not, or the run proves nothing
    2  the command line is wrong
    3  matrix.yaml is wrong, or not what ctk.lock holds
    4  nothing is selected
    5  the engine or the GPU is missing, or refuses, though it is needed
  110  the report could not be written
  130, 143  interrupted, terminated";

/// One CUDA kernel, every way to load it, on every toolkit: one command, one report.
///
/// Start with `ctk-matrix plan` to see what would be done, then `ctk-matrix run`. Without a GPU everything is built and
/// inspected, and nothing launched; without Docker, child processes take the place of containers.
#[derive(Debug, Parser)]
#[command(version, after_long_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Fetch the toolkits, start a container for each, load the kernel by every path, and report.
    #[command(after_long_help = EXIT_CODES)]
    Run(RunArguments),
    /// Show the cells, what is left out and why, and what would be downloaded.
    Plan(PlanArguments),
    /// Render the report of one or several runs again.
    Report(ReportArguments),
    /// List or fetch toolkits.
    #[command(subcommand)]
    Toolkit(ToolkitArguments),
    /// Write ctk.lock beside the matrix: the digests and hashes of what it stands for now.
    ///
    /// No image is pulled and nothing is installed. pip is asked what the packages of each stack become.
    Lock(LockArguments),
    /// Remove containers and temporary folders that a killed run left behind.
    Gc(GcArguments),
    /// Say what a code or a text means, why it happens in containers, and what to do.
    ///
    /// The exit code is 0 if anything is known of it, else 1.
    Explain(ExplainArguments),
    /// Show what a file or an image holds, and on which drivers and GPUs it will run.
    ///
    /// A file is PTX, a cubin, a fatbin, or a library, object or program with fatbins in it.
    Inspect(InspectArguments),
    /// Say what works on this machine, what does not, and what to do about it.
    ///
    /// The exit code is 0 if the main job can run, else 5.
    Doctor(DoctorArguments),
    /// Print the JSON schema of matrix.yaml.
    Schema,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MatrixArguments {
    /// The matrix file [default: matrix.yaml in this folder, else the built-in one]
    #[arg(long, value_name = "FILE")]
    pub(crate) matrix: Option<PathBuf>,
    /// Only these cells: toolkit=12.6, toolkit='>=12.4 <13', path=nvrtc, kernel=NAME, arch=9.0. Repeat for more: within
    /// an axis one match is enough, and every named axis must match.
    #[arg(long, value_name = "AXIS=VALUE")]
    pub(crate) select: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArgument {
    /// Docker, or child processes where no daemon is there.
    Auto,
    /// A Docker-compatible engine.
    Docker,
    /// Child processes of this program.
    Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceArgument {
    /// The nvidia/cuda image if it is on this machine, else wheels.
    Auto,
    /// The nvidia/cuda image.
    Image,
    /// NVIDIA's Python packages.
    Wheels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectArgument {
    /// As far as they can get.
    Success,
    /// What the rules say beforehand.
    Predicted,
}

/// Where images come from, for every command that may ask a registry.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    /// Where toolkits come from that do not say it themselves. Only `image` pulls, and then whatever image is named.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) source: SourceArgument,
    /// Where NVIDIA's images are: a mirror has them under another name.
    #[arg(long, value_name = "NAME", env = "CTK_MATRIX_IMAGE_REPOSITORY", default_value = crate::run::images::NVIDIA)]
    pub(crate) image_repository: String,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) matrix: MatrixArguments,
    /// Where jobs run.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) engine: EngineArgument,
    #[command(flatten)]
    pub(crate) images: ImageArguments,
    /// The most that may be downloaded, wheels, images and the packages of stacks together, as far as their sizes are
    /// told: 2GB, 500MiB. Stacks are baked into images only if --locked holds every size. Not counted are a source
    /// package in a run without --locked, what building one needs, and what a distribution adds to an image.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_download: Option<u64>,
    /// Use what ctk.lock beside the matrix holds, or say in what this machine differs from it. Claims about packages are
    /// about what the index gives today: they are not held to it.
    #[arg(long)]
    pub(crate) locked: bool,
    /// Whether there is to be a GPU (auto, required, none), or how it is to reach the container (request, runtime,
    /// cdi, devices).
    #[arg(long, default_value = "auto", value_name = "MODE")]
    pub(crate) gpu: String,
    /// What cells without an `expect:` are to do. With `predicted`, what the rules say beforehand: a predicted failure
    /// that does not happen is then not as expected.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "success")]
    pub(crate) expect: ExpectArgument,
    /// The GPU to use, by index or UUID [default: the first of `CUDA_VISIBLE_DEVICES`, else the first]
    #[arg(long, value_name = "INDEX|UUID")]
    pub(crate) device: Option<String>,
    /// The folder for the report [default: runs/UTC-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Take up the run in this folder where it stopped: with the same matrix and selection, only the cells that have
    /// no final record are run.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) resume: Option<PathBuf>,
    /// Jobs side by side [default: 1 with a GPU, else one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// The ctk-bench to run in the containers [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) bench: Option<PathBuf>,
    /// Show no progress: only the report, on stdout.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) matrix: MatrixArguments,
    /// What `arch: native` stands for: a compute capability such as 9.0 [default: the GPU's, else 7.5]
    #[arg(long, value_name = "CC")]
    pub(crate) native: Option<String>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlanFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// What a run prints at its end.
    Terminal,
    /// For a pull request or a job summary.
    Markdown,
    /// report.json.
    Json,
    /// For a CI's test view.
    Junit,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folders of runs. Several are merged.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Say also what would load on the machines that this file lists under `fleet:`, by the artifacts of the run. The
    /// file is a matrix file.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: Option<PathBuf>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "terminal")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ToolkitArguments {
    /// List the toolkits that are known, and which are in the cache.
    List,
    /// Print the tables behind predictions, as docs/compatibility.md has them.
    Table,
    /// Put toolkits into the cache.
    Fetch {
        /// Versions or ranges: 12.6, 12.x, '>=12.4 <13', newest
        #[arg(required = true, value_name = "VERSION")]
        versions: Vec<String>,
        /// Show no progress.
        #[arg(long, short)]
        quiet: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GcArguments {
    /// Only say what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ExplainArguments {
    /// Codes by number or name (222, `CUDA_ERROR_NO_BINARY_FOR_GPU`), or a text that something said
    #[arg(value_name = "CODE|TEXT")]
    pub(crate) what: Vec<String>,
    /// A log to go through: everything that is known in it, each once
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// A file, or else an image that is on this machine
    #[arg(value_name = "FILE|IMAGE")]
    pub(crate) what: String,
    /// Write JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) matrix: MatrixArguments,
    /// Write JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LockArguments {
    #[command(flatten)]
    pub(crate) matrix: MatrixArguments,
    #[command(flatten)]
    pub(crate) images: ImageArguments,
    /// Where images are looked at.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) engine: EngineArgument,
    /// Show what changed, and write it.
    #[arg(long)]
    pub(crate) update: bool,
}

fn size(text: &str) -> Result<u64, String> {
    crate::model::spec::quantity::bytes(text).ok_or_else(|| "write a whole number and a unit: 2GB, 500MiB".to_owned())
}

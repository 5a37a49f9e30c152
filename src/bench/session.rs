//! What all paths of a worker share: the opened driver, one primary context, one set of buffers. The main types are
//! [`Gpu`], what was found, and [`Session`], what is launched on.

use std::thread::JoinHandle;

use super::cuda::{Buffer, Context, CudaError, Device, Driver, NoDevice, NotStarted, Stream, Wish};
use super::loaded::Hashing;
use super::verify::{POISON, Reference, bytes_of};
use crate::model::kernel::{self, Launch};
use crate::model::outcome::Stage;
use crate::model::record::{self, GpuMode, LoadedFile};
use crate::model::wire::{Failure, GpuWish};

/// The driver and the GPU, as far as they were found.
pub(super) struct Gpu {
    /// Whether a driver was opened, and whose.
    pub(super) mode: GpuMode,
    /// The libcuda that was opened, without its hash until [`Gpu::settle`].
    pub(super) file: Option<LoadedFile>,
    hashing: Option<Hashing>,
    /// What the driver says of the GPU.
    pub(super) facts: Option<record::Gpu>,
    /// Why nothing can be launched, though a GPU was wished for.
    pub(super) failure: Option<Failure>,
    device: Option<Device>,
}

impl Gpu {
    /// Opens the driver, unless no GPU is wished for.
    pub(super) fn open(wish: &GpuWish) -> Self {
        let mut gpu = Self { mode: GpuMode::None, file: None, hashing: None, facts: None, failure: None, device: None };
        let wish = match wish {
            GpuWish::None => return gpu,
            GpuWish::First => Wish::First,
            GpuWish::Device(name) => Wish::Named(name),
        };
        let (hashing, driver) = Driver::open();
        let file = hashing.as_ref().map(|hashing| hashing.known().clone());
        let found = match driver {
            Ok(driver) => {
                gpu.mode = driver.mode();
                find(driver, file.as_ref(), wish)
            }
            Err(error) => Err(Failure { detail: error.detail(), ..plain(error.to_string()) }),
        };
        (gpu.file, gpu.hashing) = (file, hashing);
        match found {
            Ok((device, facts)) => (gpu.device, gpu.facts) = (Some(device), Some(facts)),
            Err(failure) => gpu.failure = Some(failure),
        }
        gpu
    }

    /// Makes the primary context; a failure is kept.
    pub(super) fn context(&mut self) -> Option<Context> {
        let made = self.device?.primary_context();
        self.keep(made)
    }

    /// Makes the stream and the buffers; a failure is kept.
    pub(super) fn session<'c>(&mut self, context: &'c Context, data: Option<HostData>) -> Option<Session<'c>> {
        let made = Session::new(context, data);
        self.keep(made)
    }

    /// Waits for what is still being read of the driver's file.
    pub(super) fn settle(&mut self) {
        if let Some(hashing) = self.hashing.take() {
            self.file = Some(hashing.finish());
        }
    }

    fn keep<T>(&mut self, made: Result<T, CudaError>) -> Option<T> {
        made.map_err(|error| self.failure = Some(error.at(Stage::DriverInit))).ok()
    }
}

fn find(driver: Driver, file: Option<&LoadedFile>, wish: Wish<'_>) -> Result<(Device, record::Gpu), Failure> {
    let failed = |error: CudaError| error.at(Stage::DriverInit);
    driver.init().map_err(|error| match error {
        NotStarted::Driver(error) => failed(error),
        NotStarted::Ambiguous(error) => plain(error.to_string()),
    })?;
    let cuda = driver.cuda().map_err(failed)?;
    let device = driver.device(wish).map_err(|error| match error {
        NoDevice::Driver(error) => failed(error),
        NoDevice::Uuid { wish, visible } if visible.is_empty() => {
            plain(format!("no GPU is visible, so none is {wish}"))
        }
        NoDevice::Uuid { wish, visible } => plain(format!("no visible GPU is {wish}: there is {}", visible.join(", "))),
    })?;
    let facts = device.describe(driver.version(file), cuda).map_err(failed)?;
    Ok((device, facts))
}

fn plain(reason: String) -> Failure {
    Failure { stage: Stage::DriverInit, code: None, reason, detail: None }
}

/// What a launch reads and must write, made while the driver starts.
pub(super) struct HostData {
    launch: Launch,
    made: JoinHandle<(Vec<u8>, Vec<u8>, Reference)>,
}

impl HostData {
    /// Begins to make it.
    pub(super) fn begin(launch: Launch) -> Self {
        // The request was checked: n fits.
        let n = u32::try_from(launch.n).unwrap_or(u32::MAX);
        let made = move || (bytes_of(n, kernel::input_a), bytes_of(n, kernel::input_b), Reference::new(n));
        Self { launch, made: std::thread::spawn(made) }
    }
}

/// A stream, and buffers where the kernel has a manifest.
pub(super) struct Session<'c> {
    pub(super) context: &'c Context,
    pub(super) stream: Stream<'c>,
    /// What a launch needs.
    pub(super) bench: Option<Bench<'c>>,
}

/// Buffers, inputs already in them, and what must come out.
pub(super) struct Bench<'c> {
    pub(super) launch: Launch,
    a: Buffer<'c>,
    b: Buffer<'c>,
    out: Buffer<'c>,
    reference: Reference,
    output: Vec<u8>,
}

impl<'c> Session<'c> {
    fn new(context: &'c Context, data: Option<HostData>) -> Result<Self, CudaError> {
        let stream = context.stream()?;
        let bench = data.map(|data| Bench::new(context, &stream, data)).transpose()?;
        Ok(Self { context, stream, bench })
    }
}

impl<'c> Bench<'c> {
    fn new(context: &'c Context, stream: &Stream<'c>, HostData { launch, made }: HostData) -> Result<Self, CudaError> {
        let (host_a, host_b, reference) = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let bytes = host_a.len();
        let (a, b, out) = (context.buffer(bytes)?, context.buffer(bytes)?, context.buffer(bytes)?);
        a.write(&host_a, stream)?;
        b.write(&host_b, stream)?;
        Ok(Self { launch, a, b, out, reference, output: vec![0; bytes] })
    }

    /// Fills the output with what no launch can leave there.
    pub(super) fn poison(&self, stream: &Stream<'c>) -> Result<(), CudaError> {
        self.out.fill(POISON, stream)
    }

    /// The kernel's arguments: a, b, out.
    pub(super) fn arguments(&self) -> [&Buffer<'c>; 3] {
        [&self.a, &self.b, &self.out]
    }

    /// Reads the output back and compares it.
    pub(super) fn compare(&mut self, stream: &Stream<'c>) -> Result<record::Bits, CudaError> {
        self.output.fill(0);
        self.out.read(&mut self.output, stream)?;
        Ok(self.reference.compare(&self.output))
    }
}

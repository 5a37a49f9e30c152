//! What lives between calls, behind one lock.
//! The main type is [`State`]; [`lock`] gives it.
//!
//! Launches run inside `cuLaunchKernel`, but what they do wrong is kept as [`Pending`] and told where the real driver
//! tells it: at the next call that waits for the GPU, and then from every call that needs the context.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::code::{Code, Stop};
use crate::config::{Config, config};
use crate::fault::Origin;
use crate::gpu::Gpu;
use crate::image::{Entry, Module};
use crate::memory::Block;

/// What a launch left for the next synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// An error that then stays for good.
    Error(Code),
    /// The kernel never ends.
    Hang,
}

/// A function of a loaded module.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// The module's handle.
    pub(crate) module: usize,
    /// The entry, as the image has it.
    pub(crate) entry: Entry,
    /// What faults may be limited by.
    pub(crate) origin: Origin,
    /// How often it was launched.
    pub(crate) launches: u64,
}

/// A CUDA event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// Whether it was made to measure time.
    pub(crate) timed: bool,
    /// When it was recorded last.
    pub(crate) at: Option<Instant>,
}

/// Everything that lives between calls.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// `cuInit` has succeeded.
    pub(crate) initialized: bool,
    /// The error that every call now gives. One for all devices: a simplification, since no test has two at once.
    pub(crate) sticky: Option<Code>,
    /// What the next synchronisation will tell.
    pub(crate) pending: Option<Pending>,
    /// How often each device's primary context is retained.
    pub(crate) retained: BTreeMap<usize, u32>,
    /// Device memory by its first address.
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// Streams that were made.
    pub(crate) streams: BTreeSet<usize>,
    /// Events that were made.
    pub(crate) events: BTreeMap<usize, Event>,
    /// Modules that are loaded.
    pub(crate) modules: BTreeMap<usize, Module>,
    /// Functions that were asked for.
    pub(crate) functions: BTreeMap<usize, Function>,
    handles: usize,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    /// The device whose primary context is current on this thread.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The device whose context is current on this thread.
pub(crate) fn current() -> Option<usize> {
    CURRENT.get()
}

/// Makes this device's context current on this thread.
pub(crate) fn set_current(device: Option<usize>) {
    CURRENT.set(device);
}

/// What a call works with once its preconditions hold.
#[derive(Debug)]
pub(crate) struct Call {
    state: MutexGuard<'static, Option<State>>,
    /// The configuration.
    pub(crate) config: &'static Config,
    /// The device whose context is current.
    pub(crate) device: usize,
}

impl Call {
    /// A call that needs no context: any before `cuInit` is refused if `initialized` is asked for.
    pub(crate) fn outside(initialized: bool) -> Result<Self, Stop> {
        let config = config().map_err(|_| Code::UNKNOWN)?;
        let mut call = Self { state: STATE.lock().unwrap_or_else(PoisonError::into_inner), config, device: 0 };
        if initialized && !call.state().initialized {
            return Err(Code::NOT_INITIALIZED.into());
        }
        // A lost device is lost to all calls; an error in a context is not told by calls outside it.
        match call.state().sticky {
            Some(Code::UNKNOWN) => Err(Code::UNKNOWN.into()),
            _ => Ok(call),
        }
    }

    /// A call that needs a current context without a sticky error.
    pub(crate) fn inside() -> Result<Self, Stop> {
        let mut call = Self::outside(true)?;
        if let Some(code) = call.state().sticky {
            return Err(code.into());
        }
        call.device = current().ok_or(Code::INVALID_CONTEXT)?;
        let device = call.device;
        match call.state().retained.get(&device) {
            Some(1..) => Ok(call),
            _ => Err(Code::CONTEXT_IS_DESTROYED.into()),
        }
    }

    /// A call inside a context that waits for the GPU first: here a launch's error comes to light.
    pub(crate) fn synchronizing() -> Result<Self, Stop> {
        let mut call = Self::inside()?;
        match call.state().pending {
            None => Ok(call),
            Some(Pending::Hang) => Err(Stop::Hang),
            Some(Pending::Error(code)) => {
                call.state().sticky = Some(code);
                Err(code.into())
            }
        }
    }

    /// The state, locked.
    pub(crate) fn state(&mut self) -> &mut State {
        self.state.get_or_insert_default()
    }

    /// The GPU whose context is current.
    pub(crate) fn gpu(&self) -> Result<&'static Gpu, Stop> {
        self.config.gpus.get(self.device).ok_or_else(|| Code::INVALID_DEVICE.into())
    }
}

impl State {
    /// A handle that was not given out before, of any kind.
    pub(crate) fn handle(&mut self) -> usize {
        // Real handles are addresses; these only have to be unlike null and the two special streams (1 and 2).
        self.handles += 16;
        0xFA4E_0000 + self.handles
    }

    /// Whether this is a stream: one that was made, or one of the three that always are.
    pub(crate) fn is_stream(&self, handle: usize) -> bool {
        handle <= 2 || self.streams.contains(&handle)
    }

    /// A pointer to `length` bytes of device memory; nothing if they are not all in one live allocation.
    pub(crate) fn memory(&self, address: u64, length: usize) -> Option<*mut u8> {
        self.blocks.range(..=address).next_back()?.1.at(address, length)
    }

    /// The bytes that are allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.blocks.values().map(Block::length).sum()
    }

    /// Everything that lives in a context goes with it.
    pub(crate) fn destroy_context(&mut self) {
        self.blocks.clear();
        self.streams.clear();
        self.events.clear();
        self.modules.clear();
        self.functions.clear();
    }
}

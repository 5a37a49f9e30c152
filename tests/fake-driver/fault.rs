//! The faults that no image causes, by name, from `CTK_FAKE_FAULT`.
//! The main type is [`Fault`].
//!
//! The list is `NAME[:INDEX][@FILTER…]`, separated by commas. A filter is `ptx`, `cubin` or `fatbin`, the form of the
//! module that is loaded or launched, or `producer:12.6`, the toolkit that made it; several filters must all hold.

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The lowest bit of one output element is flipped on each launch.
    WrongBit,
    /// As [`Kind::WrongBit`], from a function's second launch on.
    WrongBitLate,
    /// As [`Kind::WrongBitLate`], on launches of more than 1024 threads alone.
    WrongBitLarge,
    /// The launch succeeds and writes nothing.
    NoWrite,
    /// The load never returns.
    HangLoad,
    /// The launch returns, and what waits for it never does.
    HangLaunch,
    /// SIGSEGV in the load.
    CrashLoad,
    /// SIGABRT in the launch.
    CrashLaunch,
    /// 700 at the next synchronisation, and from every later call.
    Sticky,
    /// 999 at the next synchronisation, and from every later call.
    Lost,
    /// `cuMemAlloc` gives 2.
    Oom,
    /// `cuInit` gives 100.
    NoDevice,
    /// `cuInit` gives 34.
    Stub,
    /// `cuInit` gives 803.
    Mismatch,
    /// `cuInit` never returns.
    InitHang,
    /// Every image is taken, and is the vector add.
    Blind,
    /// Text on stdout at `cuInit`, and at each load a piece without a line end.
    Noise,
}

const KINDS: [(&str, Kind); 17] = [
    ("wrong-bit", Kind::WrongBit),
    ("wrong-bit-late", Kind::WrongBitLate),
    ("wrong-bit-large", Kind::WrongBitLarge),
    ("no-write", Kind::NoWrite),
    ("hang-load", Kind::HangLoad),
    ("hang-launch", Kind::HangLaunch),
    ("crash-load", Kind::CrashLoad),
    ("crash-launch", Kind::CrashLaunch),
    ("sticky", Kind::Sticky),
    ("lost", Kind::Lost),
    ("oom", Kind::Oom),
    ("no-device", Kind::NoDevice),
    ("stub", Kind::Stub),
    ("mismatch", Kind::Mismatch),
    ("init-hang", Kind::InitHang),
    ("blind", Kind::Blind),
    ("noise", Kind::Noise),
];

/// The form of a module, as it was handed to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// PTX text.
    Ptx,
    /// An ELF file for one architecture.
    Cubin,
    /// A container of PTX and cubins.
    Fatbin,
}

/// What a fault may be limited by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The module's form.
    pub(crate) form: Form,
    /// The toolkit that made what is taken of it, where that can be read.
    pub(crate) producer: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Form(Form),
    Producer(u32, u32),
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What goes wrong.
    pub(crate) kind: Kind,
    /// The output element that is wrong.
    pub(crate) index: Option<u64>,
    filters: Vec<Filter>,
}

impl Fault {
    /// Whether this fault is of this kind and meets this module.
    pub(crate) fn meets(&self, kind: Kind, origin: &Origin) -> bool {
        self.kind == kind
            && self.filters.iter().all(|filter| match *filter {
                Filter::Form(form) => form == origin.form,
                Filter::Producer(major, minor) => origin.producer == Some((major, minor)),
            })
    }
}

/// Reads the list.
pub(crate) fn parse(list: &str) -> Result<Vec<Fault>, String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(one).collect()
}

fn one(item: &str) -> Result<Fault, String> {
    let mut parts = item.split('@');
    let head = parts.next().unwrap_or_default();
    let (name, index) = match head.split_once(':') {
        Some((name, index)) => (name, Some(index.parse().map_err(|_| format!("`{item}`: `{index}` is no index"))?)),
        None => (head, None),
    };
    let names = || KINDS.map(|(name, _)| name).join(" ");
    let known = KINDS.iter().find(|(known, _)| *known == name);
    let kind = known.ok_or_else(|| format!("no fault `{name}`; known: {}", names()))?.1;
    if index.is_some() && !matches!(kind, Kind::WrongBit | Kind::WrongBitLate | Kind::WrongBitLarge) {
        return Err(format!("`{item}`: only a wrong bit has an index"));
    }
    let filters = parts.map(|text| filter(text).ok_or_else(|| format!("`{item}`: no filter `{text}`")));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    let of_a_process =
        matches!(kind, Kind::Oom | Kind::NoDevice | Kind::Stub | Kind::Mismatch | Kind::InitHang | Kind::Noise);
    if of_a_process && !filters.is_empty() {
        return Err(format!("`{item}`: this fault meets the process, not a module"));
    }
    Ok(Fault { kind, index, filters })
}

fn filter(text: &str) -> Option<Filter> {
    match text {
        "ptx" => Some(Filter::Form(Form::Ptx)),
        "cubin" => Some(Filter::Form(Form::Cubin)),
        "fatbin" => Some(Filter::Form(Form::Fatbin)),
        other => {
            let (major, minor) = other.strip_prefix("producer:")?.split_once('.')?;
            Some(Filter::Producer(major.parse().ok()?, minor.parse().ok()?))
        }
    }
}

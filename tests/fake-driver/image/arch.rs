//! Architectures, and what code made for one runs on.
//! The main type is [`Arch`].

/// The suffix of an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// None: `sm_90`.
    Generic,
    /// Exactly this one: `sm_90a`.
    Exact,
    /// This family: `sm_100f`.
    Family,
}

/// An architecture: `sm_100a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arch {
    major: u32,
    minor: u32,
    mark: Mark,
}

impl Arch {
    /// From an SM number as files hold it: 90, 120.
    pub(super) fn new(sm: u32, mark: Mark) -> Self {
        Self { major: sm / 10, minor: sm % 10, mark }
    }

    /// Reads `sm_90a`.
    pub(super) fn parse(target: &str) -> Option<Self> {
        let rest = target.strip_prefix("sm_")?;
        let (digits, mark) = match rest.strip_suffix(['a', 'f']) {
            Some(digits) if rest.ends_with('a') => (digits, Mark::Exact),
            Some(digits) => (digits, Mark::Family),
            None => (rest, Mark::Generic),
        };
        let plain = digits.len() >= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok().map(|sm| Self::new(sm, mark)))?
    }

    /// The SM number: 90.
    pub(super) fn sm(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// Whether machine code for this architecture runs on a GPU: the same major version and no lower minor one; with
    /// the mark `a` only the very same. The mark `f` allows what no mark allows, and is not always written in the file.
    pub(super) fn machine_code_runs_on(self, gpu: (u32, u32)) -> bool {
        match self.mark {
            Mark::Exact => (self.major, self.minor) == gpu,
            Mark::Generic | Mark::Family => self.major == gpu.0 && self.minor <= gpu.1,
        }
    }

    /// Whether PTX for this target compiles for a GPU; if not, what the compiler says.
    pub(super) fn text_compiles_for(self, gpu: (u32, u32)) -> Result<(), String> {
        let here = (self.major, self.minor);
        if here > gpu {
            return Err("SM version specified by .target is higher than default SM version assumed".into());
        }
        match self.mark {
            Mark::Exact if here != gpu => {
                Err(format!("Program with .target 'sm_{}a' cannot be compiled to future architecture", self.sm()))
            }
            Mark::Family if self.major != gpu.0 => Err(format!(
                "Program with .target 'sm_{}f' cannot be compiled to different SM-family architecture",
                self.sm()
            )),
            _ => Ok(()),
        }
    }

    /// The first PTX ISA that has this target, as ptxas 12.9 and 13.5 have it. Nothing for a target that none has.
    pub(super) fn first_isa(self) -> Option<(u32, u32)> {
        let family = match (self.sm(), self.mark) {
            (100 | 101 | 103 | 120 | 121, Mark::Family) => return Some((8, 8)),
            (90, Mark::Exact) => return Some((8, 0)),
            (sm, mark) if mark != Mark::Generic && sm < 100 => return None,
            (sm, _) => sm,
        };
        Some(match family {
            20..70 => (2, 0),
            70 => (6, 0),
            72 => (6, 1),
            75 => (6, 3),
            80 => (7, 0),
            86 => (7, 1),
            87 => (7, 4),
            88 | 110 => (9, 0),
            89 | 90 => (7, 8),
            100 | 101 => (8, 6),
            103 | 121 => (8, 8),
            107 => (9, 4),
            120 => (8, 7),
            _ => return None,
        })
    }
}

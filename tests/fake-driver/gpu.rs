//! The GPUs that can be played: what the driver tells of each.
//! The main type is [`Gpu`].
//!
//! The H200's figures were read from a real one; the others are those of NVIDIA's data sheets, rounded.

/// A GPU model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    /// What `CTK_FAKE_GPU` calls it.
    pub(crate) short: &'static str,
    /// `cuDeviceGetName`.
    pub(crate) name: &'static str,
    /// Compute capability.
    pub(crate) cc: (u32, u32),
    /// The first CUDA version whose driver knows this compute capability.
    pub(crate) since: (u32, u32),
    /// Global memory, in bytes.
    pub(crate) memory: usize,
    /// L2 cache, in bytes.
    pub(crate) l2: i32,
    /// Memory clock, in kHz.
    pub(crate) memory_khz: i32,
    /// Memory bus width, in bits.
    pub(crate) bus_bits: i32,
    /// Core clock, in kHz.
    pub(crate) core_khz: i32,
    /// Number of multiprocessors.
    pub(crate) processors: i32,
}

const MIB: i32 = 1 << 20;
const GIB: usize = 1 << 30;

/// All models.
pub(crate) const MODELS: [Model; 7] = [
    Model {
        short: "T4",
        name: "Tesla T4",
        cc: (7, 5),
        since: (10, 0),
        memory: 15 * GIB,
        l2: 4 * MIB,
        memory_khz: 5_001_000,
        bus_bits: 256,
        core_khz: 1_590_000,
        processors: 40,
    },
    Model {
        short: "A100",
        name: "NVIDIA A100-SXM4-80GB",
        cc: (8, 0),
        since: (11, 0),
        memory: 80 * GIB,
        l2: 40 * MIB,
        memory_khz: 1_593_000,
        bus_bits: 5120,
        core_khz: 1_410_000,
        processors: 108,
    },
    Model {
        short: "L4",
        name: "NVIDIA L4",
        cc: (8, 9),
        since: (11, 8),
        memory: 22 * GIB,
        l2: 48 * MIB,
        memory_khz: 6_251_000,
        bus_bits: 192,
        core_khz: 2_040_000,
        processors: 58,
    },
    Model {
        short: "H200",
        name: "NVIDIA H200",
        cc: (9, 0),
        since: (11, 8),
        memory: 139 * GIB,
        l2: 60 * MIB,
        memory_khz: 3_201_000,
        bus_bits: 6016,
        core_khz: 1_980_000,
        processors: 132,
    },
    Model {
        short: "B200",
        name: "NVIDIA B200",
        cc: (10, 0),
        since: (12, 8),
        memory: 178 * GIB,
        l2: 126 * MIB,
        memory_khz: 3_996_000,
        bus_bits: 8192,
        core_khz: 1_965_000,
        processors: 148,
    },
    Model {
        short: "B300",
        name: "NVIDIA B300",
        cc: (10, 3),
        since: (12, 9),
        memory: 268 * GIB,
        l2: 126 * MIB,
        memory_khz: 3_996_000,
        bus_bits: 8192,
        core_khz: 1_965_000,
        processors: 148,
    },
    Model {
        short: "RTX5090",
        name: "NVIDIA GeForce RTX 5090",
        cc: (12, 0),
        since: (12, 8),
        memory: 32 * GIB,
        l2: 96 * MIB,
        memory_khz: 14_001_000,
        bus_bits: 512,
        core_khz: 2_407_000,
        processors: 170,
    },
];

/// One GPU of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gpu {
    /// Its model.
    pub(crate) model: &'static Model,
    /// Its UUID.
    pub(crate) uuid: [u8; 16],
}

impl Gpu {
    /// The GPU at this place in the list, with a UUID that no real one has: the text `fake-driver-gpu` and the place.
    pub(crate) fn new(model: &'static Model, place: u8) -> Self {
        let mut uuid = *b"fake-driver-gpu\0";
        uuid[15] = place;
        Self { model, uuid }
    }

    /// `GPU-` and the UUID's five groups, as nvidia-smi and `CUDA_VISIBLE_DEVICES` write it.
    pub(crate) fn uuid_text(&self) -> String {
        let hex = self.uuid.map(|byte| format!("{byte:02x}")).concat();
        let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        format!("GPU-{}", groups.join("-"))
    }

    /// What `cuDeviceGetAttribute` gives for this attribute; nothing where there is no such attribute.
    /// Attributes that nobody asked for are 0, which for most of them means "not supported".
    pub(crate) fn attribute(&self, attribute: u32) -> Option<i32> {
        let model = self.model;
        let of_cc = |part: u32| i32::try_from(part).unwrap_or(0);
        let threads = match model.cc {
            (7, 5) => 1024,
            (8, 9) | (12, _) => 1536,
            _ => 2048,
        };
        Some(match attribute {
            // Threads a block, and its sides.
            1..=3 => 1024,
            4 => 64,
            // The grid's sides.
            5 => i32::MAX,
            6 | 7 => 65_535,
            // Shared memory a block; constant memory in bytes, and registers a block.
            8 => 48 << 10,
            9 | 12 => 64 << 10,
            // The warp.
            10 => 32,
            13 => model.core_khz,
            // Copies overlap, host memory can be mapped, kernels run side by side, ECC, TCC, one address space.
            15 | 19 | 31 | 32 | 35 | 41 => 1,
            16 => model.processors,
            36 => model.memory_khz,
            37 => model.bus_bits,
            38 => model.l2,
            // Threads a multiprocessor.
            39 => threads,
            75 => of_cc(model.cc.0),
            76 => of_cc(model.cc.1),
            0 | 200.. => return None,
            _ => 0,
        })
    }
}

//! The readers against real artifacts, whose contents `cuobjdump` and `readelf` gave, and against damaged ones.
//! `tests/artifacts/README.md` says how each was made.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

macro_rules! artifact {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/artifacts/", $name)).as_slice()
    };
}

const PTX: &[u8] = artifact!("vector_add-12.4-compute_80.ptx");
const CUBINS: [&[u8]; 7] = [
    artifact!("vector_add-12.4-sm_90.cubin"),
    artifact!("vector_add-12.4-sm_90a.cubin"),
    artifact!("vector_add-12.9-sm_100a.cubin"),
    artifact!("vector_add-13.0-sm_90a.cubin"),
    artifact!("vector_add-13.0-sm_100f.cubin"),
    artifact!("shapes-12.4-sm_75.cubin"),
    artifact!("shapes-13.0-sm_90.cubin"),
];
const FATBINS: [&[u8]; 4] = [
    artifact!("vector_add-12.4-lz4.fatbin"),
    artifact!("vector_add-12.4-plain.fatbin"),
    artifact!("vector_add-13.0-zstd.fatbin"),
    artifact!("vector_add-13.0-many.fatbin"),
];

/// Everything that was read, one line for the whole and one for each part and kernel.
fn shown(bytes: &[u8]) -> String {
    let contents = read(bytes).unwrap();
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let mut text = format!(
        "{} isa {} [{}] by {} of {} compressed {}",
        contents.form,
        optional(contents.ptx_isa.map(|isa| isa.to_string())),
        contents.archs.join(" "),
        optional(contents.producer),
        optional(contents.toolkit.map(|toolkit| toolkit.to_string())),
        optional(contents.compressed.map(|compression| compression.to_string())),
    );
    for entry in &contents.entries {
        let _ = write!(
            text,
            "\n{:?} {} isa {} abi {} {} {}{}",
            entry.kind,
            entry.target(),
            optional(entry.ptx_isa.map(|isa| isa.to_string())),
            optional(entry.abi.map(|abi| abi.to_string())),
            optional(entry.compression.map(|compression| compression.to_string())),
            entry.bytes,
            entry.unpacked_bytes.map(|bytes| format!(" of {bytes}")).unwrap_or_default(),
        );
    }
    for kernel in &contents.kernels {
        let number = |value: Option<u32>| optional(value.map(|value| value.to_string()));
        let _ = write!(
            text,
            "\n{} registers {} stack {} shared {}",
            kernel.name,
            number(kernel.registers),
            number(kernel.stack_bytes),
            number(kernel.shared_bytes),
        );
    }
    text
}

#[test]
fn ptx_says_its_isa_its_target_its_maker_and_its_kernel() {
    let expected = "ptx isa 8.4 [compute_80] by CUDA 12.4.131 of 12.4 compressed -\n\
                    Ptx compute_80 isa 8.4 abi - - 1191\n\
                    vectorAdd registers - stack - shared -";
    assert_eq!(shown(PTX), expected);
}

#[test]
fn cubins_of_both_layouts_say_their_architecture_with_its_mark_and_their_toolkit() {
    let heads: Vec<_> =
        CUBINS.iter().map(|bytes| shown(bytes).lines().take(2).collect::<Vec<_>>().join(" | ")).collect();
    let expected = [
        "cubin isa - [sm_90] by CUDA 12.4 of 12.4 compressed - | Cubin sm_90 isa - abi 7 - 3152",
        "cubin isa - [sm_90a] by CUDA 12.4 of 12.4 compressed - | Cubin sm_90a isa - abi 7 - 3152",
        "cubin isa - [sm_100a] by CUDA 12.9.86 of 12.9 compressed - | Cubin sm_100a isa - abi 8 - 5648",
        "cubin isa - [sm_90a] by CUDA 13.0.88 of 13.0 compressed - | Cubin sm_90a isa - abi 8 - 3976",
        "cubin isa - [sm_100f] by CUDA 13.0.88 of 13.0 compressed - | Cubin sm_100f isa - abi 8 - 5824",
        "cubin isa - [sm_75] by CUDA 12.4 of 12.4 compressed - | Cubin sm_75 isa - abi 7 - 8224",
        "cubin isa - [sm_90] by CUDA 13.0.88 of 13.0 compressed - | Cubin sm_90 isa - abi 8 - 10344",
    ];
    assert_eq!(heads, expected);
}

#[test]
fn kernels_use_what_cuobjdump_says_they_use() {
    let kernels = |bytes| shown(bytes).lines().skip(2).collect::<Vec<_>>().join("\n");
    for bytes in &CUBINS[..5] {
        assert_eq!(kernels(bytes), "vectorAdd registers 12 stack 0 shared 0");
    }
    let old = "_Z4tmplIiEvPT_ registers 4 stack 0 shared 0\n\
               withStack registers 64 stack 80 shared 0\n\
               withShared registers 10 stack 0 shared 512";
    assert_eq!(kernels(CUBINS[5]), old);
    let new = "_Z4tmplIiEvPT_ registers 8 stack 0 shared 0\n\
               withStack registers 32 stack 80 shared 0\n\
               withShared registers 10 stack 0 shared 1536";
    assert_eq!(kernels(CUBINS[6]), new);
}

#[test]
fn the_mark_and_the_toolkit_are_found_without_the_note_that_names_them() {
    // The names of the notes are damaged, so that the other places have to do. 12.9 names no toolkit elsewhere, and
    // nothing else tells 100f from 100.
    let without = |bytes: &[u8]| {
        let at = bytes.windows(16).position(|window| window == b".note.nv.tkinfo\0").unwrap();
        let mut bytes = bytes.to_vec();
        bytes[at + 1] = b'x';
        shown(&bytes).lines().next().unwrap().to_string()
    };
    assert_eq!(without(CUBINS[2]), "cubin isa - [sm_100a] by - of - compressed -");
    assert_eq!(without(CUBINS[3]), "cubin isa - [sm_90a] by CUDA 13.0 of 13.0 compressed -");
    assert_eq!(without(CUBINS[4]), "cubin isa - [sm_100] by CUDA 13.0 of 13.0 compressed -");
    assert_eq!(without(CUBINS[6]), "cubin isa - [sm_90] by CUDA 13.0 of 13.0 compressed -");
}

#[test]
fn fatbins_list_every_part_with_its_compression() {
    let lz4 = "fatbin isa 8.4 [sm_80 compute_80] by CUDA 12.4 of 12.4 compressed LZ4\n\
               Cubin sm_80 isa - abi 7 - 2984\n\
               Ptx compute_80 isa 8.4 abi - LZ4 520 of 980\n\
               vectorAdd registers 12 stack 0 shared 0";
    assert_eq!(shown(FATBINS[0]), lz4);
    let plain = "fatbin isa 8.4 [sm_80 compute_80] by CUDA 12.4 of 12.4 compressed -\n\
                 Cubin sm_80 isa - abi 7 - 2984\n\
                 Ptx compute_80 isa 8.4 abi - - 984\n\
                 vectorAdd registers 12 stack 0 shared 0";
    assert_eq!(shown(FATBINS[1]), plain);
    let zstd = "fatbin isa 9.0 [sm_80 compute_80] by - of - compressed zstd\n\
                Cubin sm_80 isa - abi 8 zstd 936 of 3368\n\
                Ptx compute_80 isa 9.0 abi - zstd 392 of 966";
    assert_eq!(shown(FATBINS[2]), zstd);
    let many = "fatbin isa 9.0 [sm_90a compute_90a sm_100f compute_100f lto_90] \
                by CUDA 13.0.88 of 13.0 compressed zstd\n\
                Cubin sm_90a isa - abi 8 - 3976\n\
                Ptx compute_90a isa 9.0 abi - zstd 408 of 967\n\
                Cubin sm_100f isa - abi 8 - 5824\n\
                Ptx compute_100f isa 9.0 abi - zstd 416 of 1008\n\
                LtoIr lto_90 isa - abi - zstd 1896 of 2448\n\
                vectorAdd registers 12 stack 0 shared 0";
    assert_eq!(shown(FATBINS[3]), many);
}

#[test]
fn no_beginning_of_a_cubin_or_fatbin_passes_for_the_whole() {
    for bytes in CUBINS.iter().chain(&FATBINS) {
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
    }
    // The length of the case that a real driver hung on.
    let error = read(&CUBINS[0][..1000]).unwrap_err();
    let expected = ArtifactError::Truncated { what: "the section table".into(), needs: 2288, has: 1000 };
    assert_eq!(error, expected);
    let text =
        "the section table ends at byte 2288 and the artifact at byte 1000: it was cut short, make or copy it again";
    assert_eq!(error.to_string(), text);
}

/// A copy of `bytes` with the eight bytes at `at` replaced.
fn with_number(bytes: &[u8], at: usize, number: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn every_extent_that_a_cubin_names_has_to_lie_inside_it() {
    // Section 9, `.text.vectorAdd`, at 0x400; segment 2, which loads it: `readelf -hSl`.
    let (section, segment) = (2224 + 9 * 64, 2928 + 2 * 56);
    let truncated = |what: &str, needs| Err(ArtifactError::Truncated { what: what.into(), needs, has: 3152 });
    for (at, number, what, needs) in [
        (section + 32, 3152 - 0x400 + 1, "section `.text.vectorAdd`", 3153),
        (section + 32, u64::MAX, "section `.text.vectorAdd`", u64::MAX),
        (section + 24, u64::MAX - 1, "section `.text.vectorAdd`", u64::MAX),
        (segment + 32, 3152 - 0x400 + 1, "segment 2", 3153),
        (segment + 8, u64::MAX, "segment 2", u64::MAX),
        (40, 3152 - 63, "the section table", 3153),
        (32, 3152 - 55, "the program header table", 3153),
    ] {
        assert_eq!(read(&with_number(CUBINS[0], at, number)), truncated(what, needs), "{number} at {at}");
    }
    assert!(read(&with_number(CUBINS[0], section + 32, 3152 - 0x400)).is_ok());
    // The same holds of a cubin in a fatbin: the one in the plain fatbin starts behind both headers.
    let inner = 16 + 72;
    let error = read(&with_number(FATBINS[1], inner + 40, 1 << 40)).unwrap_err();
    assert_eq!(error, ArtifactError::Truncated { what: "the section table".into(), needs: (1 << 40) + 64, has: 2984 });
}

#[test]
fn what_is_no_artifact_is_named() {
    let why = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(why(b""), "the artifact is empty");
    assert_eq!(why(b"\0\0"), "the artifact is empty");
    let neither = "the artifact is neither PTX, nor a cubin, nor a fatbin: it begins with";
    assert_eq!(why(b"hello, driver"), format!("{neither} `hello, driver`"));
    assert_eq!(why(&[0xDE, 0xAD]), format!("{neither} de ad"));
    let changed = |at: usize, byte: u8| {
        let mut bytes = CUBINS[0].to_vec();
        bytes[at] = byte;
        why(&bytes)
    };
    let machine = "the artifact is an ELF file for machine 62, and machine code for NVIDIA GPUs is 190";
    assert_eq!(changed(18, 62), machine);
    assert_eq!(changed(7, 3), "the cubin has ELF OS/ABI 0x03, and this program knows 0x33 and 0x41");
    assert_eq!(changed(4, 1), "the cubin is malformed: it is not a little-endian 64-bit ELF file");
    assert_eq!(
        why(fatbin::MAGIC),
        "the fatbin's header ends at byte 16 and the artifact at byte 4: it was cut short, make or copy it again"
    );
    let nothing = [fatbin::MAGIC, &[1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(why(&nothing), "the fatbin is malformed: there is nothing in it");
}

/// What holds of everything that is read, however damaged: its size is bounded by the input's.
fn bounded(bytes: &[u8]) {
    let Ok(contents) = read(bytes) else { return };
    assert!(contents.entries.len() <= 1 + bytes.len() / 64);
    assert!(contents.archs.len() <= contents.entries.len());
    assert!(contents.entries.iter().all(|entry| entry.bytes <= bytes.len() as u64));
    let names: usize = contents.kernels.iter().map(|kernel| kernel.name.len()).sum();
    // Bytes that are not UTF-8 take three each in a name.
    assert!(names <= 3 * bytes.len());
}

fn any_artifact() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<Vec<u8>> = CUBINS.iter().chain(&FATBINS).chain([&PTX]).map(|bytes| bytes.to_vec()).collect();
    proptest::sample::select(all)
}

proptest! {
    #[test]
    fn random_bytes_are_refused_or_read_within_bounds(
        magic in prop::sample::select(vec![
            &b""[..], fatbin::MAGIC, b"\x7fELF\x02\x01\x01\x33\x07", b".version 8.4\n.target sm_",
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        bounded(&[magic, &bytes].concat());
    }

    #[test]
    fn damaged_artifacts_are_refused_or_read_within_bounds(
        mut bytes in any_artifact(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !keep {
            bytes.truncate(cut.index(bytes.len()));
        }
        bounded(&bytes);
    }

    #[test]
    fn damaged_headers_are_refused_or_read_within_bounds(
        mut bytes in any_artifact(),
        damage in prop::collection::vec((0_usize..160, prop::sample::select(vec![0_u8, 1, 0x7F, 0x80, 0xFF])), 1..12),
    ) {
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        bounded(&bytes);
    }
}

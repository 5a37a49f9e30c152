//! The survey against libraries that are put together here from real fatbins, and against damaged ones.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::survey::Survey;
use super::{ArtifactError, SurveyError};
use crate::compat::reach::reach;
use crate::compat::runs_on::gpus;

macro_rules! artifact {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/artifacts/", $name)).as_slice()
    };
}

const LZ4: &[u8] = artifact!("vector_add-12.4-lz4.fatbin");
const ZSTD: &[u8] = artifact!("vector_add-13.0-zstd.fatbin");
const MANY: &[u8] = artifact!("vector_add-13.0-many.fatbin");
const CUBIN: &[u8] = artifact!("shapes-12.4-sm_75.cubin");
const PTX: &[u8] = artifact!("vector_add-12.4-compute_80.ptx");

/// A 64-bit ELF file for x86-64 with these sections, each padded to eight bytes, and the names behind them.
fn host(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut rows = vec![[0_u8; 64]];
    let mut names = vec![0];
    let mut add = |bytes: &mut Vec<u8>, name: &str, data: &[u8]| {
        let mut row = [0; 64];
        row[..4].copy_from_slice(&u32::try_from(names.len()).unwrap().to_le_bytes());
        row[4] = 1;
        row[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        names.extend(name.bytes().chain([0]));
        let data = if name == ".shstrtab" { names.clone() } else { data.to_vec() };
        row[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        rows.push(row);
    };
    for (name, data) in sections {
        add(&mut bytes, name, data);
    }
    add(&mut bytes, ".shstrtab", &[]);
    let table = bytes.len() as u64;
    let count = u8::try_from(rows.len()).unwrap();
    bytes.extend(rows.concat());
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
    bytes[40..48].copy_from_slice(&table.to_le_bytes());
    bytes[58] = 64;
    bytes[60] = count;
    bytes[62] = count - 1;
    bytes
}

/// A library with three fatbins of two kinds, zeros between them, and one that is linked again.
fn library() -> Vec<u8> {
    let fatbins = [LZ4, &[0; 24], ZSTD, LZ4].concat();
    host(&[(".text", b"code"), (".nv_fatbin", &fatbins), ("__nv_relfatbin", MANY)])
}

fn survey(bytes: &[u8]) -> Result<Survey, SurveyError> {
    Survey::of(&bytes)
}

fn shown(bytes: &[u8]) -> String {
    let survey = survey(bytes).unwrap();
    let mut out = format!("{:?} {} fatbins", survey.form, survey.fatbins);
    for section in &survey.sections {
        let _ = write!(out, "\n{} {} bytes, {} fatbins", section.name, section.bytes, section.fatbins);
    }
    for group in &survey.groups {
        let isa = group.ptx_isa.map(|isa| format!(" isa {isa}")).unwrap_or_default();
        let abi = group.abi.map(|abi| format!(" abi {abi}")).unwrap_or_default();
        let how = group.compression.map(|how| format!(" {how}")).unwrap_or_default();
        let _ = write!(
            out,
            "\n{}x {}{isa}{abi}{how} {} of {} by {}",
            group.count,
            group.target(),
            group.bytes,
            group.unpacked_bytes,
            group.producer.as_deref().unwrap_or("-"),
        );
    }
    for shape in &survey.shapes {
        let _ = write!(out, "\n{}x {:?}", shape.count, shape.groups);
    }
    for kernel in &survey.kernels {
        let _ = write!(out, "\n{} {:?}", kernel.name, kernel.registers);
    }
    for damaged in &survey.damaged {
        let _ = write!(out, "\ndamaged {}.{}: {}", damaged.fatbin, damaged.part, damaged.error);
    }
    out
}

#[test]
fn a_library_s_fatbins_are_counted_by_kind_and_looked_into_through_their_compression() {
    // The sizes of the sections are those of the committed artifacts.
    let (fatbins, linked) = (2 * LZ4.len() + ZSTD.len() + 24, MANY.len());
    let expected = format!(
        "\
Host 4 fatbins
.nv_fatbin {fatbins} bytes, 3 fatbins
__nv_relfatbin {linked} bytes, 1 fatbins
2x sm_80 abi 7 5968 of 5968 by CUDA 12.4
1x sm_80 abi 8 zstd 936 of 3368 by CUDA 13.0.88
1x sm_90a abi 8 3976 of 3976 by CUDA 13.0.88
1x sm_100f abi 8 5824 of 5824 by CUDA 13.0.88
2x compute_80 isa 8.4 LZ4 1040 of 1960 by -
1x compute_80 isa 9.0 zstd 392 of 966 by -
1x compute_90a isa 9.0 zstd 408 of 967 by -
1x compute_100f isa 9.0 zstd 416 of 1008 by -
1x lto_90 zstd 1896 of 2448 by -
2x [0, 4]
1x [1, 5]
1x [2, 3, 6, 7, 8]"
    );
    assert_eq!(shown(&library()), expected);
}

#[test]
fn a_fatbin_alone_names_the_kernels_that_are_in_compressed_parts_too() {
    let expected = "\
Fatbin 1 fatbins
1x sm_80 abi 8 zstd 936 of 3368 by CUDA 13.0.88
1x compute_80 isa 9.0 zstd 392 of 966 by -
1x [0, 1]
vectorAdd Some(12)";
    assert_eq!(shown(ZSTD), expected);
}

#[test]
fn what_is_no_library_is_read_as_it_is_by_the_other_reader() {
    let ptx = "Ptx 0 fatbins\n1x compute_80 isa 8.4 1191 of 1191 by CUDA 12.4.131\n1x [0]\nvectorAdd None";
    assert_eq!(shown(PTX), ptx);
    assert!(shown(CUBIN).starts_with("Cubin 0 fatbins\n1x sm_75 abi 7 8224 of 8224 by CUDA 12.4\n1x [0]\n"));
}

#[test]
fn a_library_reaches_the_gpus_that_each_of_its_fatbins_reaches() {
    let reached = reach(&survey(&library()).unwrap());
    let shown: Vec<String> = reached
        .iter()
        .filter(|reach| reach.fatbins > 0)
        .map(|reach| format!("{} {} from {} by {}", reach.gpu, reach.fatbins, reach.from.unwrap(), reach.by.join(" ")))
        .collect();
    let expected = [
        "8.0 3 from 580 by sm_80",
        "8.6 3 from 580 by sm_80",
        "8.7 3 from 580 by compute_80",
        "8.8 3 from 580 by compute_80",
        "8.9 3 from 580 by sm_80",
        "9.0 4 from 580 by compute_80 sm_90a",
        "10.0 4 from 580 by compute_80 sm_100f",
        "10.3 4 from 580 by compute_80 sm_100f",
        "10.7 4 from 615 by compute_80 sm_100f",
        "11.0 3 from 580 by compute_80",
        "12.0 3 from 580 by compute_80",
        "12.1 3 from 580 by compute_80",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_part_that_does_not_decompress_is_named_and_the_rest_is_read() {
    let mut bytes = library();
    let at = bytes.windows(4).position(|window| window == [0x28, 0xB5, 0x2F, 0xFD]).unwrap();
    bytes[at + 8..at + 40].fill(0xFF);
    let found = shown(&bytes);
    let damaged: Vec<_> = found.lines().filter(|line| line.starts_with("damaged")).collect();
    assert_eq!(damaged.len(), 1, "{found}");
    assert!(damaged[0].starts_with("damaged 2.1: the compressed part is malformed: zstd: "), "{found}");
    assert!(found.contains("2x sm_80 abi 7"), "{found}");
}

#[test]
fn what_cannot_be_surveyed_is_a_typed_error() {
    let error = |bytes: &[u8]| survey(bytes).unwrap_err();
    assert_eq!(error(&host(&[(".text", b"code")])), SurveyError::NoFatbin { machine: 62 });
    assert_eq!(error(b"!<arch>\nx"), SurveyError::Archive);
    assert_eq!(error(b""), ArtifactError::Empty.into());
    let stray = error(&host(&[(".nv_fatbin", b"12345678")])).to_string();
    assert_eq!(stray, "the ELF file is malformed: at byte 64 in section `.nv_fatbin` there is no fatbin");
    let library = library();
    let mut stripped = library.clone();
    stripped[40..48].fill(0);
    let text = error(&stripped).to_string();
    assert!(text.ends_with("its section table was stripped, and without it fatbins are not found"), "{text}");
    // The section table is at the end, so that it is missing in every beginning of the file.
    for length in (0..library.len()).step_by(61).chain([library.len() - 1]) {
        assert!(survey(&library[..length]).is_err(), "{length} of {}", library.len());
    }
}

/// What holds of everything that is read, however damaged: its size is bounded by the input's.
fn bounded(bytes: &[u8]) {
    let Ok(survey) = survey(bytes) else { return };
    let parts: u64 = survey.groups.iter().map(|group| group.count).sum();
    assert!(parts <= 1 + bytes.len() as u64 / 64);
    assert!(survey.shapes.iter().map(|shape| shape.count).sum::<u64>() <= 1 + survey.fatbins);
    assert!(survey.shapes.iter().all(|shape| shape.groups.iter().all(|at| *at < survey.groups.len())));
    assert_eq!(reach(&survey).len(), gpus().len());
}

proptest! {
    // Each case decompresses; the debug build of the decoders is slow.
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(0x5EED), ..ProptestConfig::default() })]

    #[test]
    fn damaged_libraries_are_refused_or_surveyed_within_bounds(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut bytes = library();
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
    fn damaged_headers_of_files_sections_and_parts_are_refused_or_surveyed_within_bounds(
        fatbin in prop::sample::select(vec![LZ4, ZSTD, MANY]),
        wrapped in any::<bool>(),
        damage in prop::collection::vec((0_usize..240, prop::sample::select(vec![0_u8, 1, 0x7F, 0x80, 0xFF])), 1..8),
    ) {
        let mut bytes = if wrapped { host(&[(".nv_fatbin", fatbin)]) } else { fatbin.to_vec() };
        let table = bytes.len() - 64 * 3;
        for (at, byte) in damage {
            // Half of the damage to a library is done to its section table.
            let at = if wrapped && at % 2 == 0 { table + at % 192 } else { at };
            bytes[at] = byte;
        }
        bounded(&bytes);
    }
}

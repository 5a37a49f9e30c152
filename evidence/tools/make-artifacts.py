#!/usr/bin/env python3
"""Makes every kind of artifact that toolkits make of the shipped kernel, and a matrix that loads each of them.

    make-artifacts.py CTK_BENCH OUT VERSION=FOLDER…

The toolkit of a major version that has bin/fatbinary stands first, so that it can serve the others.

CTK_BENCH is the program `ctk-bench`; the folders are toolkits as `ctk-matrix toolkit fetch` puts them into its cache,
or as installers make them. A folder with bin/fatbinary makes the fatbins of its version. OUT gets artifacts/ and
matrix.yaml. On a machine with a GPU and without a network:

    ctk-matrix run --matrix OUT/matrix.yaml --out REPORT

Every artifact is a kernel of its own, loaded by the driver family in a container of its own; nothing is built, so the
one toolkit that the matrix names only has to be there. The report says of each cell what was predicted, what happened,
and whether the two agree.
"""

import pathlib
import subprocess
import sys
import tempfile

# Compute capabilities: what the toolkits that are compared build for, Turing to Blackwell.
TARGETS = ["7.5", "8.0", "8.9", "9.0", "9.0a", "10.0", "12.0"]
# The first toolkit that knows a target which not all of them know.
SINCE = {"10.0": (12, 8), "12.0": (12, 8)}
# The fatbins that are also made compressed.
PACKED = ["all", "sm_90", "compute_90"]


def main():
    bench, out, toolkits = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    root = pathlib.Path(__file__).resolve().parents[2]
    source = root / "kernels" / "vector_add.cu"
    artifacts = out / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    made = []
    tools = {}

    def keep(name, form, data):
        (artifacts / f"{name}.{form}").write_bytes(data)
        made.append((name, form))

    for toolkit in toolkits:
        version, folder = toolkit.split("=", 1)
        folder = pathlib.Path(folder)
        # 13.x wheels share one folder.
        folder = next(iter(sorted(folder.glob("nvidia/cu1[0-9]"))), folder)
        number = tuple(int(part) for part in version.split("."))
        fatbinary = folder / "bin" / "fatbinary"
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            parts = {}
            for target in TARGETS:
                if number < SINCE.get(target, (0, 0)):
                    continue
                digits = target.replace(".", "")
                for form, name in [("ptx", f"compute_{digits}"), ("cubin", f"sm_{digits}")]:
                    file = scratch / f"{name}.{form}"
                    subprocess.run(
                        [bench, "compile", "--roots", folder_of_nvrtc(folder), "--version", version, "--form", form,
                         "--arch", target, "--source", source, "-o", file],
                        check=True, stdout=subprocess.DEVNULL)
                    parts[name] = file
                    keep(f"{version}-{name}", form, file.read_bytes())
            # 12.x wheels have no fatbinary: one of the same major version puts their parts together.
            found = fatbinary if fatbinary.exists() else tools.get(number[0])
            if found is None:
                continue
            tools.setdefault(number[0], found)
            fatbins = {
                "all": [name for name in parts],
                "sm_90": ["sm_90"],
                "sm_90+compute_90": ["sm_90", "compute_90"],
                "sm_90a": ["sm_90a"],
                "sm_80": ["sm_80"],
                "sm_80+compute_80": ["sm_80", "compute_80"],
                "compute_75": ["compute_75"],
                "compute_90": ["compute_90"],
                "compute_90a": ["compute_90a"],
                "sm_100": ["sm_100"],
                "compute_100": ["compute_100"],
                "compute_75+compute_90": ["compute_75", "compute_90"],
            }
            for name, of in fatbins.items():
                if not all(part in parts for part in of):
                    continue
                for packing, options in packings(found, fatbinary.exists() and name in PACKED):
                    file = scratch / "made.fatbin"
                    images = []
                    for part in of:
                        kind = "ptx" if part.startswith("compute") else "elf"
                        images.append(f"--image3=kind={kind},sm={part.split('_')[1]},file={parts[part]}")
                    subprocess.run([found, "-64", *options, f"--create={file}", *images], check=True)
                    keep(f"{version}-{name}-{packing}", "fatbin", file.read_bytes())
    specials(artifacts, keep, made)
    write_matrix(out, made)
    print(f"{len(made)} artifacts, {sum(file.stat().st_size for file in artifacts.iterdir())} bytes")


def folder_of_nvrtc(folder):
    """12.x wheels have a folder for each package."""
    nvrtc = folder / "nvidia" / "cuda_nvrtc"
    return nvrtc if nvrtc.exists() else folder


def packings(fatbinary, all_of_them):
    """Not compressed; with LZ4, and with zstd where the tool knows it."""
    if not all_of_them:
        yield "plain", ["--compress=false"]
        return
    help_text = subprocess.run([fatbinary, "--help"], capture_output=True, text=True, check=False).stdout
    yield "plain", ["--compress=false"]
    if "compress-mode" in help_text:
        yield "lz4", ["--compress-all", "--compress-mode=speed"]
        yield "zstd", ["--compress-all", "--compress-mode=size"]
    else:
        yield "lz4", ["--compress-all"]


def specials(artifacts, keep, made):
    """What no compiler makes: versions that were never published, code that is cut short, no code at all."""
    newest = max((name for name, form in made if form == "ptx" and name.endswith("compute_90")),
                 key=lambda name: tuple(int(part) for part in name.split("-")[0].split(".")))
    ptx = (artifacts / f"{newest}.ptx").read_text()
    line = next(line for line in ptx.splitlines() if line.startswith(".version"))
    for version in ["8.0", "8.8", "8.9", "9.0", "9.1", "10.0", "99.0"]:
        keep(f"edited-{version}", "ptx", ptx.replace(line, f".version {version}").encode())
    cubin = next(name for name, form in made if form == "cubin" and name.endswith("sm_90"))
    keep("cut-short", "cubin", (artifacts / f"{cubin}.cubin").read_bytes()[:1000])
    keep("text", "ptx", b"this is no artifact\n")


def write_matrix(out, made):
    # The folder of the toolkit is not used by any cell: the driver family loads what was made beforehand.
    lines = [
        "# Made by evidence/tools/make-artifacts.py: every artifact is a kernel, loaded by the driver family.",
        "version: 1",
        'toolkits: [{name: host, version: "13.0", dir: /usr/local/cuda}]',
        "paths: [driver]",
        "limits: {timeout: 60s}",
        "kernels:",
    ]
    lines += [f'  - {{name: "{name}", file: "artifacts/{name}.{form}", entry: vectorAdd}}' for name, form in made]
    (out / "matrix.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

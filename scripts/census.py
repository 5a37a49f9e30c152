#!/usr/bin/env python3
"""Holds `ctk-matrix inspect` against NVIDIA's own tools, on everything that toolkits make for every architecture.

Run by hand, for it needs toolkits and takes minutes:

    scripts/census.py --ctk-matrix target/release/ctk-matrix --cuobjdump PATH... --nvrtc LIB... --nvcc PATH... [--ptxas PATH]

LIB is a `libnvrtc.so.N` with its builtins beside it, one for each toolkit. From each NVRTC: PTX and machine code for
every architecture that it names, generic and with the marks `a` and `f`. From each nvcc: one fatbin of all of its
architectures in each way of compression. `cuobjdump` (13.4 or later knows all layouts) and `nvdisasm` beside it say what
is in a cubin or fatbin; the PTX says it itself, and a `ptxas` (13.5 reads all) has to take it. Prints one line for each
difference and the counts; exits 1 if anything differs.
"""

import argparse
import collections
import ctypes
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = b"""
extern "C" __global__ void vectorAdd(const float* a, const float* b, float* out, unsigned long long n) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void withShared(float* o, int n) {
    __shared__ float t[128]; t[threadIdx.x] = o[threadIdx.x]; __syncthreads(); o[threadIdx.x] = t[n];
}
template<class T> __global__ void tmpl(T* o) { o[0] = 1; }
template __global__ void tmpl<int>(int*);
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


# In a process of its own for each library: two NVRTCs do not share one.
def nvrtc_child(library, out):
    library = pathlib.Path(library).resolve()
    for builtins in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    api = ctypes.CDLL(str(library))
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    api.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    api.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    api.nvrtcGetSupportedArchs(numbers)
    version = f"{major.value}.{minor.value}"
    made = []
    for number in numbers:
        for mark in ("", "a", "f"):
            for prefix, form in (("compute", "ptx"), ("sm", "cubin")):
                program = ctypes.c_void_p()
                assert api.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"k.cu", 0, None, None) == 0
                option = (ctypes.c_char_p * 1)(f"--gpu-architecture={prefix}_{number}{mark}".encode())
                if api.nvrtcCompileProgram(program, 1, option) == 0:
                    size = ctypes.c_size_t()
                    name = "PTX" if form == "ptx" else "CUBIN"
                    assert getattr(api, f"nvrtcGet{name}Size")(program, ctypes.byref(size)) == 0
                    data = ctypes.create_string_buffer(size.value)
                    assert getattr(api, f"nvrtcGet{name}")(program, data) == 0
                    path = pathlib.Path(out) / f"nvrtc-{version}-{number}{mark}.{form}"
                    # NVRTC ends PTX with a NUL, which ptxas does not read.
                    path.write_bytes(data.raw.rstrip(b"\0") if form == "ptx" else data.raw)
                    made.append({"path": str(path), "toolkit": version, "form": form, "asked": f"{number}{mark}"})
                elif mark == "":
                    raise SystemExit(f"NVRTC {version} does not compile for {number}")
                api.nvrtcDestroyProgram(ctypes.byref(program))
    print(json.dumps(made))


def nvcc_fatbins(nvcc, out):
    """One fatbin of every architecture that nvcc compiles for, in each way of compression."""
    code, said, _ = run(nvcc, "--version")
    version = re.search(r"release (\d+\.\d+)", said).group(1)
    _, listed, _ = run(nvcc, "--list-gpu-arch")
    archs = re.findall(r"compute_(\d+[af]?)", listed)
    # What is listed has no marks; the ones that this nvcc takes are found by trying.
    source = pathlib.Path(out) / "k.cu"
    source.write_bytes(SOURCE)
    taken = {"": [], "f": []}
    for number in archs:
        for mark in ("", "a", "f"):
            option = f"arch=compute_{number}{mark},code=[sm_{number}{mark},compute_{number}{mark}]"
            if run(nvcc, "-cubin", f"-arch=sm_{number}{mark}", source, "-o", pathlib.Path(out) / "try")[0] == 0:
                # nvcc 13.0 and 13.1 do not put `f` beside the others.
                taken["f" if mark == "f" else ""].append(option)
    modes = {"default": [], "plain": ["--no-compress"], "all": ["-Xfatbin", "-compress-all"]}
    if int(version.split(".")[0]) >= 13:
        modes["size"] = ["-Xfatbin", "-compress-mode=size"]
        modes["speed"] = ["-Xfatbin", "-compress-mode=speed"]
    made = []
    for (mode, options), (marks, archs) in itertools.product(modes.items(), taken.items()):
        if not archs:
            continue
        path = pathlib.Path(out) / f"nvcc-{version}-{mode}{marks}.fatbin"
        gencode = [part for option in archs for part in ("-gencode", option)]
        code, _, said = run(nvcc, "-fatbin", *gencode, *options, source, "-o", path)
        if code != 0:
            raise SystemExit(f"nvcc {version} does not make the fatbin `{mode}`: {said.strip()[:200]}")
        made.append({"path": str(path), "toolkit": version, "form": "fatbin", "asked": mode, "parts": 2 * len(archs)})
    return made


def inspect(arguments, path):
    code, said, error = run(arguments.ctk_matrix, "inspect", "--json", path)
    if code != 0:
        return None, f"inspect: {error.strip()} {said[:200]}"
    return json.loads(said), None


def cuobjdump(arguments, *rest):
    """What the first cuobjdump says that says anything. Each starts the nvdisasm beside it."""
    for tool in arguments.cuobjdump:
        folder = pathlib.Path(tool).parent
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run([tool, *rest], capture_output=True, text=True, env=environment)
        if done.returncode == 0 and done.stdout.strip():
            break
    return done.returncode, done.stdout, done.stderr


def check_ptx(arguments, artifact, found):
    text = pathlib.Path(artifact["path"]).read_bytes().rstrip(b"\0").decode()
    version = re.search(r"^\.version\s+(\S+)", text, re.M).group(1)
    target = re.search(r"^\.target\s+sm_([0-9]+[af]?)", text, re.M).group(1)
    maker = re.search(r"Cuda compilation tools, release \S+, V(\S+)", text).group(1)
    names = sorted(re.findall(r"\.entry\s+(\w+)", text))
    part = found["parts"][0]
    yield "target", f"compute_{target}", part["arch"]
    yield "target as asked", f"compute_{artifact['asked']}", part["arch"]
    yield "PTX ISA", version, part["ptx_isa"]
    yield "maker", f"CUDA {maker}", part["producer"]
    yield "kernels", names, sorted(kernel["name"] for kernel in found["kernels"])
    if arguments.ptxas:
        # ptxas 13 assembles old targets for what it knows.
        to = target if int(re.match(r"\d+", target).group()) >= 75 else "75"
        to = {"101": "110", "101a": None, "101f": None}.get(to, to)
        if to:
            code, _, said = run(arguments.ptxas, f"-arch=sm_{to}", artifact["path"], "-o", "/dev/null")
            yield f"ptxas for {to}", (0, ""), (code, "" if code == 0 else said[:120])


def check_cubin(arguments, artifact, found):
    part = found["parts"][0]
    yield "architecture as asked", f"sm_{artifact['asked']}", part["arch"]
    code, said, _ = cuobjdump(arguments, "-sass", artifact["path"])
    named = re.search(r"code for (sm_\w+)", said)
    # nvdisasm does not tell the mark `f`.
    yield "architecture", named.group(1) if named else said[:80], part["arch"].rstrip("f")
    maker = re.match(r"CUDA (\d+\.\d+)", part["producer"] or "")
    yield "toolkit", artifact["toolkit"], maker.group(1) if maker else None
    header = pathlib.Path(artifact["path"]).read_bytes()[:64]
    yield "ABI", header[8], part["abi"]
    _, said, _ = cuobjdump(arguments, "-res-usage", artifact["path"])
    usage = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", said)
    ours = [(k["name"], str(k["registers"]), str(k["stack_bytes"]), str(k["shared_bytes"])) for k in found["kernels"]]
    yield "kernels", sorted(usage), sorted(ours)


def check_fatbin(arguments, artifact, found):
    _, said, _ = cuobjdump(arguments, artifact["path"])
    theirs = collections.Counter()
    for kind, body in re.findall(r"Fatbin (\w+) code:\n=+\n(.*?)(?=\nFatbin |\Z)", said, re.S):
        arch = re.search(r"arch = sm_(\w+)", body).group(1)
        first, second = re.search(r"code version = \[(\d+),(\d+)\]", body).groups()
        prefix = {"elf": "sm", "ptx": "compute", "nvvm": "lto"}[kind]
        version = f"{first}.{second}" if kind == "ptx" else second
        theirs[(f"{prefix}_{arch}", version, "compressed" in body)] += 1
    ours = collections.Counter()
    for part in found["parts"]:
        version = part["ptx_isa"] if part["kind"] == "ptx" else str(part["abi"])
        ours[(part["arch"], version, part["compression"] is not None)] += part["count"]
    yield "parts", sorted(theirs.items()), sorted(ours.items())
    yield "number of parts", artifact["parts"], sum(ours.values())
    yield "kernels", ["_Z4tmplIiEvPT_", "vectorAdd", "withShared"], sorted(kernel["name"] for kernel in found["kernels"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctk-matrix", required=True)
    parser.add_argument("--cuobjdump", required=True, nargs="+", help="the newest first; an older one reads what it dropped")
    parser.add_argument("--ptxas")
    parser.add_argument("--nvrtc", nargs="*", default=[])
    parser.add_argument("--nvcc", nargs="*", default=[])
    arguments = parser.parse_args()
    checks = {"ptx": check_ptx, "cubin": check_cubin, "fatbin": check_fatbin}
    counts, differences = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as out:
        artifacts = []
        for library in arguments.nvrtc:
            code, said, error = run(sys.executable, __file__, "--child", library, out)
            if code != 0:
                raise SystemExit(f"{library}: {error}")
            artifacts += json.loads(said)
        for nvcc in arguments.nvcc:
            artifacts += nvcc_fatbins(nvcc, out)
        for artifact in artifacts:
            counts[(artifact["toolkit"], artifact["form"])] += 1
            found, error = inspect(arguments, artifact["path"])
            compared = [("inspect", None, error)] if error else checks[artifact["form"]](arguments, artifact, found)
            for what, theirs, ours in compared:
                counts["comparisons"] += 1
                if theirs != ours:
                    differences += 1
                    name = pathlib.Path(artifact["path"]).name
                    print(f"{name}: {what}: {theirs!r} by NVIDIA's tools, {ours!r} by inspect")
    toolkits = sorted({key[0] for key in counts if isinstance(key, tuple)}, key=lambda v: [int(p) for p in v.split(".")])
    for toolkit in toolkits:
        of = {form: counts[(toolkit, form)] for form in checks if counts[(toolkit, form)]}
        print(f"toolkit {toolkit}: " + ", ".join(f"{count} {form}" for form, count in of.items()))
    print(f"{len(artifacts)} artifacts, {counts['comparisons']} comparisons, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        nvrtc_child(*sys.argv[2:4])
    else:
        sys.exit(main())

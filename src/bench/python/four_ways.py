"""One vector add through four Python libraries, on one set of buffers: the Python half of ctk-bench's worker.

`ctk-bench` writes this file to the job's work folder and starts it with the stack's interpreter:

    python3 -I -u four_ways.py worker REQUEST FROM PARENT     carries out the Python tasks from index FROM on
    python3 -I -u four_ways.py inputs N                       prints the SHA-256 of a, b and out, for a test

It reads the same request, compiles the same snippet, speaks the same frames, poisons and checks as the Rust worker
does. A library that is not installed is a skip; one that fails is a failure at its stage, with the exception's type and
text. A death costs the path that is at work, and the supervisor starts this program again at the next one.

CuPy owns the buffers that all four use: cuda.core and PyCUDA take their addresses, Numba takes the array interface, and
nothing is copied. Where CuPy cannot be used, the buffers are the driver's own, so that it takes none of the others along.
"""

import base64
import ctypes
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import signal
import site
import statistics
import subprocess
import sys
import time
import traceback

# Isolated mode (-I) leaves the script's own folder out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ctk_caches import Caches  # noqa: E402
from ctk_device import Buffers, Driver, inputs  # noqa: E402
from ctk_libraries import LIBRARIES, NOT_TESTED, Failed, Skip  # noqa: E402

WIRE = 1
CONTEXT_LOST = 3


class Frames:
    """Frames to standard output, each whole. What the libraries print goes to standard error."""

    def __init__(self, nonce):
        self.nonce = nonce
        self.fd = os.dup(1)
        os.dup2(2, 1)

    def send(self, frame):
        payload = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
        digest = hashlib.sha256(payload).hexdigest()
        head = "\n\x1ectk-frame %d %s %d %s " % (WIRE, self.nonce, len(payload), digest)
        rest = memoryview(head.encode() + payload + b"\n")
        while rest:
            rest = rest[os.write(self.fd, rest) :]


def installed(top):
    try:
        return importlib.util.find_spec(top) is not None
    except ModuleNotFoundError:
        return False


class Worker:
    """Carries the tasks out, and keeps what they share: the driver, the buffers, each library once it was opened."""

    def __init__(self, request, own_buffers):
        self.request, self.frames = request, Frames(request["nonce"])
        self.own_buffers = own_buffers
        self.driver = self.buffers = None

    def stage(self, task, stage):
        self.at = stage
        self.frames.send({"kind": "stage", "cell": task["cell"], "stage": stage})

    def carry_out(self, task):
        result = {"cell": task["cell"], "outcome": "pass", "loaded": {}, "timings": {}}
        library = self.caches = None
        try:
            library = self.stages(task, result)
        except Skip as skip:
            result.update(outcome="skip", reason=str(skip))
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            lines = str(error).strip().splitlines() or [""]
            own = isinstance(error, Failed)
            reason = lines[0] if own else "%s: %s" % (type(error).__name__, lines[0])
            stage = deferred(error) if self.at == "first-launch" and self.deferring else self.at
            result.update(outcome="fail", stage=stage, reason=reason.rstrip(": "), detail=tail(error))
        result["loaded"].update(self.loaded(task["path"]))
        bits = result.get("bits")
        if bits and not bits["mismatches"]:
            # Equal bytes have an equal hash. It is taken once, and not while a result is waited for.
            bits["sha256"] = self.buffers.sha256()
        if "build_ms" in result["timings"]:
            result["caches"] = self.caches.seen()
        self.remark(result)
        result["kind"] = "path"
        self.frames.send(result)
        if result["outcome"] == "fail" and self.driver is not None:
            try:
                self.driver.call("cuCtxSynchronize")
            except RuntimeError:
                # Without freeing anything: the next path gets a process of its own.
                os._exit(CONTEXT_LOST)
        return library

    def stages(self, task, result):
        request, kernel, name = self.request, self.request["kernel"], task["path"]
        launch, self.deferring = kernel.get("launch"), False
        gpu = request["gpu"] != "none"
        library = LIBRARIES[name]()
        self.at = "import"
        if not installed(library.top):
            self.stage(task, "import")
            raise Skip("%s is not installed in this stack" % library.title)
        if gpu and name != "cupy":
            self.prepare(task, launch)
        self.stage(task, "import")
        if name == "pycuda" and not gpu:
            raise Skip(NOT_TESTED + "PyCUDA opens libcuda when it is imported, and there is no GPU")
        version = library.open()
        np = importlib.import_module("numpy")
        result["loaded"]["library"] = file_record(sys.modules[library.top].__file__, "%s" % version, request)
        if gpu and name == "cupy":
            self.prepare(task, launch)

        self.stage(task, "build")
        compiled_for = task["arch"]
        if gpu and hasattr(library, "deferred"):
            if self.driver.arch() != compiled_for:
                here = self.driver.arch()
                raise Skip(NOT_TESTED + "%s compiles for the GPU that it finds, %s" % (library.title, here))
        self.caches = Caches(library)
        started = time.perf_counter()
        if gpu or not hasattr(library, "deferred"):
            binary = library.build(kernel, compiled_for)
        else:
            binary = library.compile(kernel, compiled_for)
        result["timings"]["build_ms"] = 1e3 * (time.perf_counter() - started)
        library.binary = binary
        describe = "%s %s" % (library.title, version)
        if name == "numba":
            describe += ", a re-implementation in Python"
        if binary is not None:
            keep(result, binary, describe)
        if not gpu:
            result["outcome"] = "built"
            return library

        # cuda.core loads the module and looks the function up in one call, and so does PyCUDA's half of SourceModule.
        self.stage(task, "load")
        started = time.perf_counter()
        library.load(kernel, self.driver)
        if not hasattr(library, "deferred"):
            result["timings"]["load_ms"] = 1e3 * (time.perf_counter() - started)
        self.stage(task, "get-function")
        if launch is None:
            if hasattr(library, "compile_now"):
                self.at, self.deferring = "first-launch", True
                library.compile_now()
                keep(result, library.artifact(), describe)
            result["outcome"] = "loaded"
            return library
        self.launch(task, result, library, np, launch, describe)
        return library

    def prepare(self, task, launch):
        """The driver and the buffers, once. The supervisor knows by the stage whom a death here is to be charged to."""
        if self.driver is not None:
            return
        self.stage(task, "driver-init")
        np = importlib.import_module("numpy")
        cupy = None
        if installed("cupy") and not self.own_buffers:
            try:
                cupy = importlib.import_module("cupy")
            except Exception as error:
                sys.stderr.write("the buffers are the driver's own: CuPy gives %s: %s\n" % (type(error).__name__, error))
        driver = Driver()
        if launch is not None:
            try:
                self.buffers = Buffers(driver, np, launch["n"], cupy)
            except Exception as error:
                if cupy is None:
                    raise
                sys.stderr.write("the buffers are the driver's own: CuPy gives %s: %s\n" % (type(error).__name__, error))
                self.buffers = Buffers(driver, np, launch["n"], None)
        self.driver = driver

    def launch(self, task, result, library, np, launch, describe):
        driver, buffers, timings = self.driver, self.buffers, result["timings"]
        wish = self.request["gpu"]
        self.stage(task, "first-launch")
        self.deferring = hasattr(library, "deferred")
        buffers.poison()
        go = library.launcher(np, buffers, launch)
        started = time.perf_counter()
        with library.current():
            go()
        driver.synchronize(library.handle)
        timings["first_ms"] = 1e3 * (time.perf_counter() - started)
        self.deferring = False
        result["gpu"] = driver.uuid(wish["device"] if isinstance(wish, dict) else "")
        if library.binary is None:
            keep(result, library.artifact(), describe)

        self.stage(task, "verify")
        if not self.keep_bits(result, "verify"):
            return
        self.stage(task, "steady")
        buffers.poison()
        measure = self.request["measure"]
        start, end = driver.event(), driver.event()
        with library.current():
            for _ in range(measure["warmup"]):
                go()
            driver.record(start, library.handle)
            for _ in range(measure["timed"]):
                go()
            driver.record(end, library.handle)
        driver.synchronize(library.handle)
        mean_ms = driver.elapsed(start, end) / measure["timed"] if measure["timed"] else 0.0

        self.stage(task, "verify-after")
        if not self.keep_bits(result, "verify-after"):
            return
        # Only now: these launches write over what has just been compared.
        launch_ms = self.host_cost(library, np, launch)
        if mean_ms > 0:
            timings["mean_ms"] = mean_ms
            timings["gbps"] = 12 * launch["n"] / (mean_ms * 1e6)
        if launch_ms is not None:
            timings["launch_ms"] = launch_ms
        timings["warmup"], timings["timed"] = measure["warmup"], measure["timed"]

    def host_cost(self, library, np, launch):
        """What one launch costs the host, in milliseconds, as src/bench/measure.rs takes it; None without launches."""
        wanted, batches = self.request["launches"], []
        go = library.launcher(np, self.buffers, dict(launch, n=min(wanted["n"], launch["n"])))
        with library.current():
            for _ in range(wanted["batches"]):
                self.driver.synchronize(library.handle)
                started = time.perf_counter()
                for _ in range(wanted["batch"]):
                    go()
                batches.append(1e3 * (time.perf_counter() - started))
            self.driver.synchronize(library.handle)
        return statistics.median(batches) / wanted["batch"] if batches and wanted["batch"] else None

    def keep_bits(self, result, stage):
        bits = result["bits"] = self.buffers.compare()
        if bits["mismatches"]:
            reason = "%d of %d elements have the wrong bits" % (bits["mismatches"], bits["checked"])
            first = bits["first"]
            reason += ": at index %(index)d it is %(got)s, and one float32 addition gives %(want)s" % first
            result.update(outcome="wrong-result", stage=stage, reason=reason)
        return not bits["mismatches"]

    def remark(self, result):
        """A pass with another NVRTC than the cell's toolkit's is one, and says so."""
        used, wanted = result["loaded"].get("nvrtc"), self.request["toolkit"]["version"]
        if used and used["version"] != wanted and "reason" not in result:
            result["reason"] = "NVRTC %s was used, and not the toolkit's %s" % (used["version"], wanted)

    def loaded(self, name):
        """The driver and the compiler that were really used, and the interpreter."""
        found = {"python": file_record(os.path.realpath(sys.executable), sys.version.split()[0], self.request)}
        for path in mapped():
            base = os.path.basename(path)
            if base.startswith("libcuda.so"):
                found["driver"] = file_record(path, base[len("libcuda.so.") :], self.request)
            elif re.match(r"libnvrtc\.so", base) and name in ("cuda-core", "cupy"):
                major, minor = ctypes.c_int(), ctypes.c_int()
                ctypes.CDLL(path).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
                found["nvrtc"] = file_record(path, "%d.%d" % (major.value, minor.value), self.request)
        nvcc = shutil.which("nvcc") if name == "pycuda" else None
        if nvcc:
            said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
            version = re.search(r"release .*V([0-9.]+)", said)
            found["nvcc"] = file_record(nvcc, version.group(1) if version else "", self.request)
        return found


def deferred(error):
    """The stage of what went wrong in a first launch that also compiles and loads: a deferred compile counts as build."""
    text = "%s %s" % (type(error).__name__, error)
    if re.search(r"cuModuleLoad|cuLibraryLoad|cuLinkAdd|UNSUPPORTED_PTX|NO_BINARY_FOR_GPU|INVALID_IMAGE|INVALID_PTX", text):
        return "load"
    if re.search(r"GetFunction|CUDA_ERROR_NOT_FOUND", text):
        return "get-function"
    if re.search(r"Launch|Synchronize|LAUNCH|ILLEGAL_|MISALIGNED|OUT_OF_RESOURCES", text):
        return "first-launch"
    return "build"


def keep(result, binary, producer):
    if binary is None:
        return
    kind = "cubin" if binary[:4] == b"\x7fELF" else "ptx"
    digest = hashlib.sha256(binary).hexdigest()
    # What the artifact says of itself is read by the supervisor, which has the reader.
    result["artifact"] = {"kind": kind, "bytes": len(binary), "sha256": digest, "producer": producer, "archs": []}
    if len(binary) <= 12 << 20:
        result["artifact_base64"] = base64.b64encode(binary).decode()


def mapped():
    paths = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            at = line.find("/")
            path = line[at:].rstrip("\n") if at >= 0 else ""
            if path and path not in paths and ".so" in path:
                paths.append(path)
    return paths


HASHES = {}


def file_record(path, version, request):
    known = request["toolkit"].get("hashes", {}).get(path) or HASHES.get(path)
    if known is None:
        digest = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                for chunk in iter(lambda: file.read(1 << 20), b""):
                    digest.update(chunk)
            known = digest.hexdigest()
        except OSError:
            known = ""
        HASHES[path] = known
    return {"path": path, "version": version, "sha256": known}


def tail(error):
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(lines).strip()[-8000:]


def main(arguments):
    if arguments[0] == "inputs":
        for values in inputs(importlib.import_module("numpy"), int(arguments[1])):
            print(hashlib.sha256(values.astype("<f4").tobytes()).hexdigest())
        return
    request_file, first, parent, own_buffers = arguments[1], int(arguments[2]), int(arguments[3]), arguments[4]
    # A worker without its supervisor would go on for nobody.
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit("this program is started by `ctk-bench run`, and process %d is not the parent" % parent)
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    for folder in request["stack"].get("folders", []):
        site.addsitedir(folder)
    worker = Worker(request, own_buffers == "own")
    kept = []
    tasks = request["tasks"][first:]
    if request["measure"].get("process") == "each":
        del tasks[1:]
    for task in tasks:
        if task["path"] not in LIBRARIES:
            break
        # Libraries stay alive to the end: freeing one's context could take the others along.
        kept.append(worker.carry_out(task))
    sys.stderr.flush()
    # Without interpreter shutdown: the four tear the driver down in an order that nobody has tested.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

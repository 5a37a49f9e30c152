"""The four Python libraries: how each compiles, loads and launches the kernel. Part of four_ways.py.

A class has `open` (import; gives the version), `build` (gives the artifact, or None where the compile is deferred),
`load`, `launcher` (gives what launches once), and `current` (what to launch within). A class that is `deferred`
compiles in its first launch: it has `compile`, which builds for a named architecture without a GPU, and `artifact`, what
the first launch made. `cache` is the variable that names its cache folder, and one that is told not to use it has
`cache_off`.
"""

import contextlib
import importlib
import importlib.metadata
import os
import re

NOT_TESTED = "not tested here: "  # opens the reason of a skip that lies with this machine, not with the stack


class Skip(Exception):
    """The path cannot run here, and the reason why."""


class Failed(Exception):
    """A stage failed, by our own judgement."""


class CudaCore:
    """cuda.core: Program, an explicit compile to a cubin, name expressions, a launch that one configures."""

    top, title = "cuda.core", "cuda-core"
    current = staticmethod(contextlib.nullcontext)  # a launch names its stream

    def open(self):
        core = importlib.import_module(self.top)
        if not hasattr(core, "Program"):  # before 0.5 it was experimental
            core = importlib.import_module("cuda.core.experimental")
        self.core = core
        return version_of(("cuda-core",), core)

    def build(self, kernel, arch):
        if kernel["options"]:
            raise Skip(NOT_TESTED + "cuda.core takes no options as text, and this kernel has some")
        options = self.core.ProgramOptions(arch="sm_" + arch.replace(".", ""))
        program = self.core.Program(kernel["source"], "c++", options=options)
        self.module = program.compile("cubin", name_expressions=(kernel["entry"],))
        return bytes(self.module.code)

    def load(self, kernel, driver):
        device = self.core.Device(0)
        device.set_current()
        self.kernel = self.module.get_kernel(kernel["entry"])
        handle = driver.stream

        class Foreign:
            def __cuda_stream__(self):
                return (0, handle)

        self.stream, self.handle = device.create_stream(Foreign()), handle

    def launcher(self, np, buffers, launch):
        config = self.core.LaunchConfig(grid=blocks(launch), block=launch["block"])
        arguments = (*buffers.addresses, np.uint64(launch["n"]))
        return lambda: self.core.launch(self.stream, config, self.kernel, *arguments)


class Cupy:
    """CuPy: RawKernel. It compiles at the first launch, and keeps a cache on disk, which is a fresh folder here."""

    top, title, deferred, cache = "cupy", "CuPy", True, "CUPY_CACHE_DIR"

    def open(self):
        self.cupy = importlib.import_module(self.top)
        return version_of(("cupy",), self.cupy)

    def compile(self, kernel, arch):
        # RawKernel compiles for the device that it finds; its NVRTC binding compiles for a named one without any.
        nvrtc = importlib.import_module("cupy.cuda").nvrtc
        program = nvrtc.createProgram(kernel["source"], kernel["name"] + ".cu", (), ())
        try:
            nvrtc.compileProgram(program, ("-arch=sm_" + arch.replace(".", ""), *kernel["options"]))
        except Exception as error:
            raise Failed("%s: %s\n%s" % (type(error).__name__, error, nvrtc.getProgramLog(program))) from error
        return bytes(nvrtc.getCUBIN(program))

    def build(self, kernel, arch):
        self.kernel = self.cupy.RawKernel(kernel["source"], kernel["entry"], options=tuple(kernel["options"]))
        return None

    def load(self, kernel, driver):
        self.handle = driver.stream
        self.stream = self.cupy.cuda.ExternalStream(driver.stream)

    def compile_now(self):
        self.kernel.compile()

    def launcher(self, np, buffers, launch):
        grid, block = (blocks(launch),), (launch["block"],)
        arguments = (*buffers.arrays, np.uint64(launch["n"]))
        if buffers.owner != "CuPy":
            arguments = (*(np.uint64(address) for address in buffers.addresses), np.uint64(launch["n"]))

        return lambda: self.kernel(grid, block, arguments)

    def current(self):
        # CuPy launches into the stream that is current; for each launch anew, that would be a cost of ours.
        return self.stream

    def artifact(self):
        # The cache's files are a hash of the artifact in hexadecimal (SHA-1, 40 digits, in 13.6 and 14.2), then the
        # artifact: machine code, else PTX.
        folder = os.environ["CUPY_CACHE_DIR"]
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            # CuPy compiles kernels of its own too: ours is the one with our entry.
            if self.kernel.name.encode() not in data:
                continue
            at = data.find(b"\x7fELF")
            hashed = re.match(rb"[0-9a-f]{32,128}", data if at < 0 else data[:at])
            if hashed:
                return data[hashed.end() :]
        return None


class Numba:
    """Numba: the one that is a re-implementation in Python. Decorating compiles nothing; the first launch does."""

    top, title, deferred, cache = "numba.cuda", "numba-cuda", True, "NUMBA_CACHE_DIR"
    current = staticmethod(contextlib.nullcontext)  # a launch names its stream

    def open(self):
        self.cuda = importlib.import_module(self.top)
        return version_of(("numba-cuda", "numba"), self.cuda)

    def function(self):
        cuda = self.cuda

        def vectorAdd(a, b, out, n):
            i = cuda.grid(1)
            if i < n:
                out[i] = a[i] + b[i]

        return vectorAdd

    def compile(self, kernel, arch):
        types = importlib.import_module("numba").types
        array = types.float32[::1]
        signature = types.void(array, array, array, types.int64)
        major, minor = (int(part) for part in re.match(r"(\d+)\.(\d+)", arch).groups())
        options = {"cc": (major, minor), "device": False, "output": "ptx", "abi": "numba"}
        try:
            text, _ = self.cuda.compile(self.function(), signature, **options)
        except TypeError:  # before 0.57 there was only compile_ptx
            text, _ = self.cuda.compile_ptx(self.function(), signature, cc=(major, minor), device=False)
        return text if isinstance(text, bytes) else text.encode()

    def build(self, kernel, arch):
        self.kernel = self.cuda.jit(self.function())
        return None

    def load(self, kernel, driver):
        self.handle = driver.stream
        self.stream = self.cuda.external_stream(driver.stream)

    def launcher(self, np, buffers, launch):
        # Wrapped once: Numba would wrap at each launch, and wait for CuPy's stream each time.
        arrays = [self.cuda.as_cuda_array(array, sync=False) for array in buffers.arrays]
        # An int64, because Numba compares an int64 with a uint64 as float64.
        configured, n = self.kernel[blocks(launch), launch["block"], self.stream], np.int64(launch["n"])
        return lambda: configured(*arrays, n)

    def artifact(self):
        for compiled in self.kernel.overloads.values():
            library = getattr(compiled, "_codelibrary", None)
            if library is not None:
                cubin = library.get_cubin()
                return bytes(getattr(cubin, "code", cubin))
        texts = list(self.kernel.inspect_asm().values())
        return texts[0].encode() if texts else None


class Pycuda:
    """PyCUDA: SourceModule's two halves, timed apart: nvcc as a process, then the module. It opens libcuda on import."""

    top, title, cache, cache_off = "pycuda", "PyCUDA", "PYCUDA_CACHE_DIR", True
    current = staticmethod(contextlib.nullcontext)  # a launch names its stream

    def open(self):
        pycuda = importlib.import_module(self.top)
        self.drv = importlib.import_module("pycuda.driver")
        self.compiler = importlib.import_module("pycuda.compiler")
        self.drv.init()
        # Never pycuda.autoinit: it makes a second context, in which the pointers of the others are not valid.
        self.context = self.drv.Device(0).retain_primary_context()
        self.context.push()
        return version_of(("pycuda",), pycuda)

    def build(self, kernel, arch):
        options = ["--std=c++17", *kernel["options"]]
        arch = "sm_" + arch.replace(".", "")
        # The source has its own extern "C"; without a cache folder nvcc runs for certain.
        return bytes(
            self.compiler.compile(kernel["source"], options=options, arch=arch, no_extern_c=True, cache_dir=False)
        )

    def load(self, kernel, driver):
        self.module = self.drv.module_from_buffer(self.binary)
        self.kernel = self.module.get_function(kernel["entry"])
        # PyCUDA cannot take a stream of another library.
        self.stream = self.drv.Stream()
        self.handle = self.stream.handle

    def launcher(self, np, buffers, launch):
        arguments = (*(np.uintp(address) for address in buffers.addresses), np.uint64(launch["n"]))
        block, grid, stream = (launch["block"], 1, 1), (blocks(launch), 1), self.stream
        return lambda: self.kernel(*arguments, block=block, grid=grid, stream=stream)


def blocks(launch):
    return -(-launch["n"] // launch["block"])


def version_of(names, module):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    # CuPy's distributions carry the toolkit's major in their name.
    return str(getattr(module, "__version__", None) or getattr(module, "VERSION_TEXT", "unknown"))


LIBRARIES = {"cuda-core": CudaCore, "cupy": Cupy, "numba": Numba, "pycuda": Pycuda}

"""A stand-in for CuPy over the test suite's libcuda: what four_ways.py uses of it, and no more."""

import ctypes
import os

from stand_in import Function, call, fault, image

__version__ = "0.0-stand-in"
fault("cupy", "import")


class _Memory:
    def __init__(self, ptr):
        self.ptr = ptr


class ndarray:
    def __init__(self, n):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * n))
        self.data = _Memory(address.value)


def empty(n, dtype):
    fault("cupy", "buffers")
    return ndarray(n)


class _Stream:
    current = 0

    def __init__(self, ptr):
        self.ptr = ptr

    def __enter__(self):
        _Stream.current = self.ptr

    def __exit__(self, *_):
        _Stream.current = 0


class cuda:
    ExternalStream = _Stream


class RawKernel:
    """Compiles at its first launch, and keeps what it made in the cache folder, as CuPy does."""

    def __init__(self, source, entry, options=()):
        self.name, self.function = entry, None

    def __call__(self, grid, block, arguments):
        if self.function is None:
            fault("cupy", "launch")
            made = image()
            with open(os.path.join(os.environ["CUPY_CACHE_DIR"], "0.cubin"), "wb") as file:
                file.write(b"0" * 64 + made)
            self.function = Function(made, self.name)
        *arrays, n = arguments
        addresses = [array.data.ptr if isinstance(array, ndarray) else int(array) for array in arrays]
        self.function.launch(grid[0], block[0], _Stream.current, addresses, int(n))

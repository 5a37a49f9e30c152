"""What the stand-ins for CuPy and PyCUDA share: the test suite's libcuda, and faults that a test asks for by name.

`STAND_IN_FAULTS` holds them, separated by spaces: `cupy:crash@import`, `cupy:raise@launch`, `pycuda:hang@build`.
They exist so that the worker around the libraries is tested without a GPU; nothing of them is shipped.
"""

import ctypes
import os
import signal
import time

cu = ctypes.CDLL("libcuda.so.1")


def fault(library, where):
    for text in os.environ.get("STAND_IN_FAULTS", "").split():
        if text == "%s:crash@%s" % (library, where):
            os.kill(os.getpid(), signal.SIGSEGV)
        if text == "%s:raise@%s" % (library, where):
            raise AttributeError("module 'numpy' has no attribute 'row_stack'")
        if text == "%s:hang@%s" % (library, where):
            time.sleep(600)
        if text == "%s:warm@%s" % (library, where):
            with open(os.path.join(os.environ[library.upper() + "_CACHE_DIR"], "of-an-earlier-process"), "w") as file:
                file.write("x")
        if text == "%s:print@%s" % (library, where):
            print("\x1ectk-frame 1 0 0 0 {}")
            os.write(1, b"noise without a line end")


def call(name, *arguments):
    status = getattr(cu, name)(*arguments)
    if status:
        raise RuntimeError("%s gives %d" % (name, status))


class Function:
    """The kernel out of an artifact, launched on a stream."""

    def __init__(self, image, entry):
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), image + b"\0")
        call("cuModuleGetFunction", ctypes.byref(self.function), module, entry.encode())

    def launch(self, grid, block, stream, addresses, n):
        values = [ctypes.c_uint64(address) for address in addresses] + [ctypes.c_uint64(n)]
        pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
        numbers = [ctypes.c_uint(number) for number in (grid, 1, 1, block, 1, 1, 0)]
        call("cuLaunchKernel", self.function, *numbers, ctypes.c_void_p(stream), pointers, None)


def image():
    """What a compiler would give: the PTX that is shipped."""
    with open(os.environ["STAND_IN_PTX"], "rb") as file:
        return file.read()

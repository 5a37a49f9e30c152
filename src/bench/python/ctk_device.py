"""What the four libraries share on the device: the driver's own calls, and one set of buffers.

Part of four_ways.py. Inputs and reference follow the formula of src/model/kernel.rs, and a test compares the bytes.
"""

import ctypes
import hashlib

POISON = 0x7FC0DEAD  # as in verify.rs: a NaN with a payload of our own, which no sum of two inputs is


def inputs(np, n):
    """The inputs and the expected output: the formula of src/model/kernel.rs, in uint32."""
    index = np.arange(n, dtype=np.uint32)

    def value(k):
        h = k * np.uint32(2654435761)
        h ^= h >> np.uint32(15)
        return ((h & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32)

    a = value(index * np.uint32(2))
    b = value(index * np.uint32(2) + np.uint32(1))
    return a, b, a + b


class Driver:
    """The few driver calls that are the same for all four: context, stream, events, copies. No library does it for them."""

    def __init__(self):
        # With its symbols for all: a PyCUDA that was linked against a stub without symbols does not ask for libcuda itself.
        self.cu = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self.call("cuInit", ctypes.c_uint(0))
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), ctypes.c_int(0))
        # The primary context is the one that all four share.
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.context = context
        self.call("cuCtxSetCurrent", context)
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))  # non-blocking: not the default stream
        self.stream = stream.value

    def call(self, name, *arguments):
        status = getattr(self.cu, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cu.cuGetErrorName(ctypes.c_int(status), ctypes.byref(text))
            raise RuntimeError("%s gives %s" % (name, (text.value or b"CUDA_ERROR_UNKNOWN").decode()))

    def uuid(self, wish):
        raw = (ctypes.c_ubyte * 16)()
        name = "cuDeviceGetUuid_v2" if hasattr(self.cu, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        self.call(name, raw, self.device)
        digits = bytes(raw).hex()
        parts = [digits[start:end] for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
        return ("MIG-" if wish.startswith("MIG-") else "GPU-") + "-".join(parts)

    def arch(self):
        numbers = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            number = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(number), ctypes.c_int(attribute), self.device)
            numbers.append(number.value)
        return "%d.%d" % tuple(numbers)

    def write(self, address, host):
        data = host.ctypes.data_as(ctypes.c_void_p)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(host.nbytes))
        # The launch is on a stream that does not wait for the one that copied.
        self.call("cuCtxSynchronize")

    def read(self, host, address):
        data = host.ctypes.data_as(ctypes.c_void_p)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(host.nbytes))

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def event(self):
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def record(self, event, stream):
        self.call("cuEventRecord", event, ctypes.c_void_p(stream))

    def elapsed(self, start, end):
        time_ms = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(time_ms), start, end)
        return time_ms.value


class DriverArray:
    """Device memory without CuPy, with the interface by which Numba takes an array."""

    def __init__(self, driver, n):
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * n))
        self.address = address.value
        self.__cuda_array_interface__ = {
            "shape": (n,),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }


class Buffers:
    """a, b and out on the device, and what out must hold."""

    def __init__(self, driver, np, n, cupy):
        self.driver, self.np, self.n = driver, np, n
        self.owner = "CuPy" if cupy else "the driver"
        if cupy:
            self.arrays = [cupy.empty(n, dtype=np.float32) for _ in range(3)]
            self.addresses = [array.data.ptr for array in self.arrays]
        else:
            self.arrays = [DriverArray(driver, n) for _ in range(3)]
            self.addresses = [array.address for array in self.arrays]
        a, b, self.want = inputs(np, n)
        driver.write(self.addresses[0], a)
        driver.write(self.addresses[1], b)
        self.hash = None
        self.poisoned = np.full(n, POISON, dtype=np.uint32)

    def poison(self):
        self.driver.write(self.addresses[2], self.poisoned)

    def compare(self):
        got = self.np.zeros(self.n, dtype=self.np.float32)
        self.driver.read(got, self.addresses[2])
        # Bits, not values: a NaN equals nothing, and 0 equals -0.
        wrong = self.np.nonzero(got.view(self.np.uint32) != self.want.view(self.np.uint32))[0]
        bits = {"checked": self.n, "mismatches": int(len(wrong))}
        if len(wrong):
            bits["sha256"] = hashlib.sha256(got.tobytes()).hexdigest()
            first = int(wrong[0])
            bits["first"] = {"index": first, "got": digits(got[first]), "want": digits(self.want[first])}
        return bits

    def sha256(self):
        """The hash of an output without a mismatch: that of what it was compared with."""
        if self.hash is None:
            self.hash = hashlib.sha256(self.want.tobytes()).hexdigest()
        return self.hash


def digits(value):
    """Nine significant digits, which tell every float32 apart; a NaN by its bits."""
    return "NaN (0x%08x)" % int(value.view("<u4")) if value != value else "%.9g" % float(value)

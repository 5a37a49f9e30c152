"""The caches on disk in which compiled kernels are kept: CuPy's, Numba's, PyCUDA's, the driver's. Part of four_ways.py.

Each is a fresh folder of the job, or is switched off. That is not taken on trust: the folders are looked at before a
path's build and when the path is done, so that a cache which is not empty is said to be warm.
"""

import os


class Caches:
    """Looks into a library's cache and the driver's: when it is made, and once more in `seen`."""

    def __init__(self, library):
        self.watched = []
        variable = getattr(library, "cache", None)
        if variable:
            self.watch(library.title, os.environ[variable], getattr(library, "cache_off", False))
        home = os.path.join(os.path.expanduser("~"), ".nv", "ComputeCache")
        off = os.environ.get("CUDA_CACHE_DISABLE") == "1"
        # What the driver compiles of PTX, and since 12.9 what NVRTC compiles too.
        self.watch("the driver", os.environ.get("CUDA_CACHE_PATH", home), off)

    def watch(self, of, folder, off):
        self.watched.append((of, folder, off, files(folder)))

    def seen(self):
        return [entry(of, off, before, files(folder)) for of, folder, off, before in self.watched]


def entry(of, off, before, after):
    kept = len(after - before)
    # One that is written to is not off, whatever was said to it.
    state = "off" if off and not kept else "warm" if before else "cold"
    return {"of": of, "state": state, "found": len(before), "kept": kept}


def files(folder):
    return {os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}

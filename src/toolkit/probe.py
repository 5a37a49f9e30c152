"""Runs in a throw-away environment and says on its last line what became of an import or of a compile.

Arguments: `import MODULE`, or `numba MAJOR MINOR`. The last line is `CTK-PROBE ` and one JSON object.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import traceback

# What a library prints must not get between: the answer goes to the real stdout, everything else to stderr.
answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def numba(major, minor):
    from numba import cuda, types

    yield "build"

    def add(a, b, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = a[i] + b[i]

    row = types.float32[::1]
    ptx, _ = cuda.compile(add, types.void(row, row, row, types.uint64), cc=(major, minor))
    ptx = ptx.decode() if isinstance(ptx, bytes) else ptx
    head = [line for line in ptx.splitlines() if line.startswith((".version", ".target"))]
    yield f"{len(ptx)} bytes of PTX: {'; '.join(head)}"


def main():
    kind, *rest = sys.argv[1:]
    said = {"ok": False, "stage": "import"}
    try:
        if kind == "import":
            module = importlib.import_module(rest[0])
            version = getattr(module, "__version__", None)
            said["saw"] = f"{rest[0]} {version}" if version else rest[0]
        else:
            for step in numba(int(rest[0]), int(rest[1])):
                said["stage"] = "build" if step == "build" else said["stage"]
                said["saw"] = step
        said["ok"] = True
    except BaseException as error:
        said["saw"] = f"{type(error).__name__}: {error}"
        said["trace"] = traceback.format_exc()[-4000:]
    names = {(d.metadata["Name"] or "?", d.version) for d in importlib.metadata.distributions()}
    said["packages"] = sorted((f"{name} {version}" for name, version in names), key=str.lower)
    answer.write("\nCTK-PROBE " + json.dumps(said) + "\n")
    answer.flush()
    os._exit(0)


main()

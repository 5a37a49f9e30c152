"""Makes a small package index and serves it on 127.0.0.1, for the tests of claims and stacks. Prints the port.

`lib` lost its `row_stack` in 2.0; 2.1 is yanked, 2.2rc1 a pre-release, 3.0 needs a Python that is not out yet.
`pycuda` comes as source: the C of 9999.1 does not compile, and 9999.2 can be built.
"""

import hashlib
import http.server
import io
import os
import sys
import tarfile
import zipfile

root = sys.argv[1]
os.chdir(root)

GOOD = "__version__ = '{v}'\ndef row_stack(rows):\n    return rows\n"
GONE = "__version__ = '{v}'\n"
PACKAGES = [
    ("lib", "1.9", GOOD, [], {}),
    ("lib", "1.10", GOOD, [], {}),
    ("lib", "1.10.1", GOOD, [], {}),
    ("lib", "2.0", GONE, [], {}),
    ("lib", "2.0.1", GONE, [], {}),
    ("lib", "2.1", GONE, [], {"yanked": True}),
    ("lib", "2.2rc1", GONE, [], {}),
    ("lib", "3.0", GONE, [], {"python": ">=3.99"}),
    ("user", "1.0", "import lib\nlib.row_stack([1])\n", ["lib>=1.10"], {}),
    ("strict", "1.0", "", ["lib>=2.0"], {}),
    ("driver", "1.0", "raise ImportError('libcuda.so.1: cannot open shared object file')\n", [], {}),
    ("crash", "1.0", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", [], {}),
    ("loud", "1.0", "print('CTK-PROBE {}')\n__version__ = '1.0'\n", [], {}),
]

# A build backend that lies in the source package itself, so that a build needs nothing from an index.
BACKEND = """
import os, subprocess, zipfile

def info(folder):
    name = "pycuda-{v}.dist-info"
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: pycuda\\nVersion: {v}\\n")
    with open(os.path.join(folder, name, "WHEEL"), "w") as file:
        file.write("Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    return name

def prepare_metadata_for_build_wheel(folder, settings=None):
    return info(folder)

def build_wheel(folder, settings=None, metadata=None):
    include = os.path.join(os.environ["CUDA_ROOT"], "include")
    subprocess.run(["cc", "-I", include, "-c", "wrapper.c", "-o", "wrapper.o"], check=True)
    name = info(".")
    with zipfile.ZipFile(os.path.join(folder, "pycuda-{v}-py3-none-any.whl"), "w") as out:
        out.writestr("pycuda/__init__.py", "VERSION_TEXT = '{v}'\\n")
        for file in ("METADATA", "WHEEL"):
            out.write(os.path.join(name, file))
        out.writestr(name + "/RECORD", "")
    return "pycuda-{v}-py3-none-any.whl"
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
SOURCES = [
    ("pycuda", "9999.1", "#include <cudaProfiler.h>\nint answer(void) { return NO_SUCH_NAME; }\n"),
    ("pycuda", "9999.2", "#include <cudaProfiler.h>\nint answer(void) { return 42; }\n"),
]

pages = {}
for name, version, text, needs, facts in PACKAGES:
    file = f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    if "python" in facts:
        metadata += f"Requires-Python: {facts['python']}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    os.makedirs(f"simple/{name}", exist_ok=True)
    with zipfile.ZipFile(f"simple/{name}/{file}", "w") as out:
        for path, body in [
            (f"{name}.py", text.replace("{v}", version)),
            (f"{info}/METADATA", metadata),
            (f"{info}/WHEEL", wheel),
            (f"{info}/RECORD", ""),
        ]:
            out.writestr(path, body)
    digest = hashlib.sha256(open(f"simple/{name}/{file}", "rb").read()).hexdigest()
    marks = ' data-yanked="broken"' if facts.get("yanked") else ""
    if "python" in facts:
        marks += f' data-requires-python="{facts["python"].replace(">", "&gt;")}"'
    pages.setdefault(name, []).append(f'<a href="{file}#sha256={digest}"{marks}>{file}</a><br>')
for name, version, wrapper in SOURCES:
    file = f"{name}-{version}.tar.gz"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    os.makedirs(f"simple/{name}", exist_ok=True)
    with tarfile.open(f"simple/{name}/{file}", "w:gz") as out:
        for path, body in [
            ("PKG-INFO", metadata),
            ("pyproject.toml", PROJECT),
            ("backend.py", BACKEND.replace("{v}", version)),
            ("wrapper.c", wrapper),
        ]:
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(body)
            out.addfile(member, io.BytesIO(body.encode()))
    digest = hashlib.sha256(open(f"simple/{name}/{file}", "rb").read()).hexdigest()
    pages.setdefault(name, []).append(f'<a href="{file}#sha256={digest}">{file}</a><br>')
for name, links in pages.items():
    with open(f"simple/{name}/index.html", "w") as page:
        page.write("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
print(server.server_address[1], flush=True)
server.serve_forever()

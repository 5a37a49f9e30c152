"""Makes a small package index and serves it on 127.0.0.1, for the tests of claims, stacks and locks. Prints the port.

    python3 index.py FOLDER                            makes it and serves it
    python3 index.py FOLDER NAME VERSION [NEED...]     adds a package to one that is served

What was asked of it is in FOLDER/requests; a file FOLDER/password, `name:password`, closes it to all others, and a file
FOLDER/slow holds the seconds that the answer to a HEAD takes. `lib` lost its `row_stack` in 2.0; 2.1 is yanked, 2.2rc1 a
pre-release, 3.0 needs a Python that is not out yet. `pycuda` comes as source with a build of its own: 1.0 needs nothing but
Python, the C of 9999.1 does not compile, and 9999.2 can be built.
"""

import base64
import hashlib
import http.server
import io
import os
import sys
import tarfile
import time
import zipfile

root = sys.argv[1]
os.chdir(root)

GOOD = "__version__ = '{v}'\ndef row_stack(rows):\n    return rows\n"
WITHOUT_METADATA = ["strict"]
GONE = "__version__ = '{v}'\n"
# Stands in for CuPy where there is no GPU: it has the one function that is asked for then.
CUPY = """\
import sys, types
__version__ = '{v}'
PTX = b'.version 8.5\\n.target sm_75\\n.address_size 64\\n.visible .entry vectorAdd() { ret; }\\n'
cuda = types.ModuleType('cupy.cuda')
cuda.nvrtc = types.SimpleNamespace(createProgram=lambda *_: 1, compileProgram=lambda *_: None, getCUBIN=lambda _: PTX)
sys.modules['cupy.cuda'] = cuda
"""
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
    ("pytools", "1.0", "", [], {}),
    ("numpy", "0.0.1", GONE, [], {}),
    ("cupy-cuda12x", "0.0.1", CUPY, ["numpy"], {"module": "cupy"}),
]

# A build that needs nothing but Python: the wheel is the file beside it.
BACKEND = """import os, shutil
WHEEL = "pycuda-1.0-py3-none-any.whl"
def build_wheel(folder, config_settings=None, metadata_directory=None):
    shutil.copy(WHEEL, os.path.join(folder, WHEEL))
    return WHEEL
"""
# Another, which compiles a file of C first.
COMPILER = """
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
COMPILED = [
    ("9999.1", "#include <cudaProfiler.h>\nint answer(void) { return NO_SUCH_NAME; }\n"),
    ("9999.2", "#include <cudaProfiler.h>\nint answer(void) { return 42; }\n"),
]
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def wheel_of(folder, name, version, text, needs, facts):
    """Writes a wheel and its metadata, and says how the wheel is called."""
    distribution = f"{name.replace('-', '_')}-{version}"
    file = f"{distribution}-py3-none-any.whl"
    info = f"{distribution}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    if "python" in facts:
        metadata += f"Requires-Python: {facts['python']}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(f"{folder}/{file}", "w") as out:
        for path, body in [
            (f"{facts.get('module', name)}.py", text.replace("{v}", version)),
            (f"{info}/METADATA", metadata),
            (f"{info}/WHEEL", wheel),
            (f"{info}/RECORD", ""),
        ]:
            out.writestr(path, body)
    with open(f"{folder}/{file}.metadata", "w") as out:
        out.write(metadata)
    return file


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def link_to(name, version, text, needs, facts):
    """Adds a wheel, and gives its line on the page."""
    folder = f"simple/{name}"
    os.makedirs(folder, exist_ok=True)
    file = wheel_of(folder, name, version, text, needs, facts)
    digest = digest_of(f"{folder}/{file}")
    marks = ' data-yanked="broken"' if facts.get("yanked") else ""
    if "python" in facts:
        marks += f' data-requires-python="{facts["python"].replace(">", "&gt;")}"'
    if name not in WITHOUT_METADATA:
        marks += f' data-dist-info-metadata="sha256={digest_of(f"{folder}/{file}.metadata")}"'
    return f'<a href="{file}#sha256={digest}"{marks}>{file}</a><br>\n'


def source_link():
    """Adds `pycuda` as source, and gives its line."""
    os.makedirs("source/pycuda-1.0")
    os.makedirs("simple/pycuda")
    wheel_of("source/pycuda-1.0", "pycuda", "1.0", "", ["pytools"], {})
    for path, text in [("backend.py", BACKEND), ("pyproject.toml", PROJECT)]:
        with open(f"source/pycuda-1.0/{path}", "w") as out:
            out.write(text)
    file = "pycuda-1.0.tar.gz"
    with tarfile.open(f"simple/pycuda/{file}", "w:gz") as out:
        out.add("source/pycuda-1.0", "pycuda-1.0")
    return f'<a href="{file}#sha256={digest_of(f"simple/pycuda/{file}")}">{file}</a>\n'


def compiled_links():
    """Adds the versions of `pycuda` that are compiled, and gives their lines."""
    lines = ""
    for version, wrapper in COMPILED:
        file = f"pycuda-{version}.tar.gz"
        with tarfile.open(f"simple/pycuda/{file}", "w:gz") as out:
            for path, body in [
                ("PKG-INFO", f"Metadata-Version: 2.1\nName: pycuda\nVersion: {version}\n"),
                ("pyproject.toml", PROJECT),
                ("backend.py", COMPILER.replace("{v}", version)),
                ("wrapper.c", wrapper),
            ]:
                member = tarfile.TarInfo(f"pycuda-{version}/{path}")
                member.size = len(body)
                out.addfile(member, io.BytesIO(body.encode()))
        lines += f'<a href="{file}#sha256={digest_of(f"simple/pycuda/{file}")}">{file}</a>\n'
    return lines


def write(name, line):
    with open(f"simple/{name}/index.html", "a") as page:
        if page.tell() == 0:
            page.write("<!DOCTYPE html>\n")
        page.write(line)


if len(sys.argv) > 2:
    name, version, *needs = sys.argv[2:]
    write(name, link_to(name, version, "", needs, {}))
    sys.exit()
for package in PACKAGES:
    write(package[0], link_to(*package))
write("pycuda", source_link())
write("pycuda", compiled_links())


class Logged(http.server.SimpleHTTPRequestHandler):
    def do_HEAD(self):
        if os.path.exists("slow"):
            with open("slow") as file:
                time.sleep(float(file.read()))
        super().do_HEAD()

    def send_head(self):
        if os.path.exists("password"):
            with open("password", "rb") as file:
                expected = "Basic " + base64.b64encode(file.read()).decode()
            if self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
        return super().send_head()

    def log_message(self, *_):
        with open("requests", "a") as log:
            log.write(f"{self.command} {self.path}\n")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logged)
print(server.server_address[1], flush=True)
server.serve_forever()

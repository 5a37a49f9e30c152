"""Makes a small package index and serves it on 127.0.0.1, for the tests of claims and of stacks. Prints the port.

`lib` lost its `row_stack` in 2.0; 2.1 is yanked, 2.2rc1 a pre-release, 3.0 needs a Python that is not out yet.
"""

import hashlib
import http.server
import os
import sys
import zipfile

root = sys.argv[1]
os.chdir(root)

GOOD = "__version__ = '{v}'\ndef row_stack(rows):\n    return rows\n"
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
    ("numpy", "0.0.1", GONE, [], {}),
    ("cupy-cuda12x", "0.0.1", CUPY, ["numpy"], {"module": "cupy"}),
]

pages = {}
for name, version, text, needs, facts in PACKAGES:
    distribution = f"{name.replace('-', '_')}-{version}"
    file = f"{distribution}-py3-none-any.whl"
    info = f"{distribution}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    if "python" in facts:
        metadata += f"Requires-Python: {facts['python']}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    os.makedirs(f"simple/{name}", exist_ok=True)
    with zipfile.ZipFile(f"simple/{name}/{file}", "w") as out:
        for path, body in [
            (f"{facts.get('module', name)}.py", text.replace("{v}", version)),
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
for name, links in pages.items():
    with open(f"simple/{name}/index.html", "w") as page:
        page.write("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
print(server.server_address[1], flush=True)
server.serve_forever()

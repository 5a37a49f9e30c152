"""Lets pip choose packages without fetching what it chooses, and asks how large that is.

    python3 resolve.py TARGET ROOT SIZES SECONDS PIP-ARGUMENTS

pip's answer is in the report that its arguments name; sizes, by address, as far as they are told within SECONDS, in SIZES.
pip chooses for the interpreter TARGET, which need not have a pip of its own: with no ROOT, the interpreter that has one
starts this program again in TARGET, with the folder that its pip is in.

`pip install --dry-run` fetches every wheel that it has chosen by its metadata alone, before version 25.3. Where pip is made
otherwise than is known here, it does as it always does, and there are no sizes: they are for display.
"""

import importlib.machinery
import json
import os
import runpy
import sys
import threading

TIMEOUT = 10  # Seconds for the question after one size, which nothing depends on.


def start_in_target(target, arguments):
    """Goes on in TARGET, as `pip --python` does."""
    try:
        import pip
    except ImportError:
        sys.exit(f"{sys.executable}: No module named pip")
    root = os.path.dirname(os.path.dirname(os.path.abspath(pip.__file__)))
    os.execv(target, [target, sys.argv[0], target, root, *arguments])


class OnlyPip:
    """Finds pip in ROOT, and nothing else that lies beside it."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [self.root], target) if name == "pip" else None


def leave_wheels_where_they_are():
    """Makes pip content with a wheel's metadata. The answer is a list that will hold pip's session."""
    from pip._internal.operations.prepare import RequirementPreparer
    from pip._internal.req.req_install import InstallRequirement
    from pip._internal.utils.direct_url_helpers import direct_url_from_link

    fetch_metadata_only = RequirementPreparer._fetch_metadata_only
    prepare_more = RequirementPreparer.prepare_linked_requirements_more
    get_dist = InstallRequirement.get_dist
    sessions = []

    def remembering(self, req):
        sessions[:] = [self._session]
        req.ctk_matrix_dist = fetch_metadata_only(self, req)
        return req.ctk_matrix_dist

    def preparing(self, reqs, *rest, **named):
        whole = []
        for req in reqs:
            known = getattr(req, "ctk_matrix_dist", None) is not None and req.download_info is None
            # Where the index names no hash, only the file itself tells it.
            if known and req.link.hash_name == "sha256":
                req.download_info = direct_url_from_link(req.link, req.source_dir)
                req.needs_more_preparation = False
            else:
                whole.append(req)
        prepare_more(self, whole, *rest, **named)

    def telling(self):
        dist = getattr(self, "ctk_matrix_dist", None)
        return get_dist(self) if dist is None else dist

    RequirementPreparer._fetch_metadata_only = remembering
    RequirementPreparer.prepare_linked_requirements_more = preparing
    InstallRequirement.get_dist = telling
    return sessions


def ask_sizes(session, report, found):
    """Puts into `found` the size of each file that would be installed, as far as its server tells it."""
    with open(report, encoding="utf-8") as file:
        entries = json.load(file)["install"]
    for entry in entries:
        url = entry["download_info"]["url"]
        # Compressed on the way, it would have another length.
        answer = session.head(url, allow_redirects=True, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
        if answer.status_code == 200 and answer.headers.get("Content-Length", "").isdecimal():
            found[url] = int(answer.headers["Content-Length"])


def main():
    target, root, sizes_file, seconds, *arguments = sys.argv[1:]
    if not root:
        start_in_target(target or sys.executable, [sizes_file, seconds, *arguments])
    sys.meta_path.insert(0, OnlyPip(root))
    try:
        sessions = leave_wheels_where_they_are()
    except (ImportError, AttributeError):
        sessions = []
    sys.argv = ["pip", *arguments]
    code = 0
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    if code == 0 and sessions:
        found = {}

        def ask():
            try:
                ask_sizes(sessions[0], arguments[arguments.index("--report") + 1], found)
            except Exception:
                # A server that does not answer this question may well give the files; the others are not asked.
                pass

        # A limit for each read bounds neither a server that sends letter by letter nor a hundred slow answers, and
        # whoever waits for pip gives up when nothing is written for long.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(float(seconds))
        with open(sizes_file, "w", encoding="utf-8") as file:
            json.dump(dict(found), file)
        if asking.is_alive():
            # Its retries must not be waited for.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    sys.exit(code)


main()

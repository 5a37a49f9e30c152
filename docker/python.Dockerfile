# A Python with a stack's packages, baked into a toolkit image. `ctk-matrix run` builds it by itself for a stack on a
# toolkit that comes from an image. By hand, the context is a folder with the packages in it, one a line:
#   requirements.txt   packages that come as wheels; it may be empty
#   sources.txt        packages that are built from source against the image's own toolkit, such as pycuda; with hashes,
#                      they and all that comes along
#   pip.conf, ca.pem   how pip reaches its index and whom it trusts, if that needs saying (ca.pem is /ctk/ca.pem here)
# All but the first may be missing. For example:
#   mkdir context && echo cupy-cuda12x==14.2.0 > context/requirements.txt && echo pycuda==2026.1 > context/sources.txt
#   docker build -f docker/python.Dockerfile --network host --build-arg PYTHON=3.12 \
#     --build-arg BASE=nvidia/cuda:12.6.3-devel-ubuntu24.04 -t cuda-python context
# Then the matrix names it: toolkits: [{name: baked, version: "12.6", image: cuda-python}], stacks: [{name: baked,
# python: host}]. Compilers and pip's settings stay in the stage `build`, of which nothing but the packages is copied.
# Its layers stay with the engine: `docker image prune --filter label=ctk-matrix.stage` (or `docker builder prune`).
ARG BASE=nvidia/cuda:12.6.3-devel-ubuntu24.04

# The image with the Python: its own, else its distribution's. What an earlier build of this file left would be mixed with
# what is to come.
FROM ${BASE} AS python
ARG PYTHON=3.12
USER 0
RUN set -eu; \
    fail() { echo "ctk-error: $1" >&2; exit 1; }; \
    if [ -e /opt/ctk-matrix/python ]; then \
      echo "ctk: the image has a stack of packages already, which this one replaces"; \
      rm -rf /opt/ctk-matrix/python; \
    fi; \
    if ! command -v "python${PYTHON}" >/dev/null; then \
      has=$(for at in $(echo "$PATH" | tr : ' '); do ls "$at"; done 2>/dev/null | grep -x 'python3\.[0-9]*' | sort -u | tr '\n' ' '); \
      command -v apt-get >/dev/null || fail "the image has no python${PYTHON} (it has ${has:-no Python }) and no apt-get to install it with: put it into the image"; \
      echo "ctk: installing python${PYTHON} from the image's distribution"; \
      apt-get update -qq || fail "the image has no python${PYTHON}, and its distribution's packages cannot be fetched"; \
      if ! apt-cache show "python${PYTHON}" >/dev/null 2>&1; then \
        there=$(apt-cache search --names-only '^python3\.[0-9]+$' | cut -d' ' -f1 | sort -V | tr '\n' ' '); \
        fail "the image's distribution has no python${PYTHON}: it has ${there:-no Python }; name one of these, or another image"; \
      fi; \
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "python${PYTHON}" >/dev/null \
        || fail "python${PYTHON} cannot be installed from the image's distribution"; \
      rm -rf /var/lib/apt/lists/*; \
    fi

# Where the packages are made.
FROM python AS build
ARG PYTHON
ARG CUDA=/usr/local/cuda
# `yes` leaves packages out that cannot be built from source, and writes down why.
ARG KEEP_GOING=no
ARG CTK_STAGE=by-hand
ARG CTK_OWNER=unknown
LABEL ctk-matrix.stage=${CTK_STAGE} ctk-matrix.owner=${CTK_OWNER}
COPY requirements.txt sources.txt* pip.conf* ca.pem* /ctk/
ENV LANG=C.UTF-8 PIP_CONFIG_FILE=/ctk/pip.conf PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
    PIP_USE_PEP517=1 PIP_PROGRESS_BAR=off PIP_ROOT_USER_ACTION=ignore NO_COLOR=1 ENVIRONMENT=/opt/ctk-matrix/python
# An environment, and /ctk/pip, which installs into it: from without, so that nothing is in it but what was asked for and
# what that needs. The pip is that of another environment, which does not see its own packages while it works (`--python`
# would do the same, from pip 22.3 on). A Python that brings no pip into an environment (it has ensurepip's module and not
# its wheels, or neither) can lend its own; one without any gets what its distribution has.
RUN set -eu; \
    fail() { echo "ctk-error: $1" >&2; exit 1; }; \
    python=$(command -v "python${PYTHON}"); \
    brings() { "$python" -m venv --clear /ctk/brought >/dev/null 2>&1; }; \
    lends() { "$python" -m venv --without-pip /ctk/lent && "$python" -m pip --python /ctk/lent/bin/python3 --version >/dev/null 2>&1; }; \
    headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h; \
    packages=; \
    pip=own; \
    if ! brings; then if lends; then pip=lent; else packages="python${PYTHON}-venv"; fi; fi; \
    if [ -s /ctk/sources.txt ]; then \
      command -v c++ >/dev/null || packages="$packages g++"; \
      [ -e "$headers" ] || packages="$packages python${PYTHON}-dev"; \
    fi; \
    if [ -n "$packages" ]; then \
      command -v apt-get >/dev/null || fail "the image lacks what its Python packages need ($packages), and has no apt-get to install it with: put it into the image"; \
      echo "ctk: installing$(printf ' %s' $packages), for the build alone"; \
      apt-get update -qq || fail "the image lacks $packages, and its distribution's packages cannot be fetched"; \
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io $packages >/dev/null \
        || fail "the image lacks what its Python packages need ($packages), and its distribution does not give it"; \
    fi; \
    "$python" -m venv --without-pip "$ENVIRONMENT"; \
    if [ "$pip" = own ]; then \
      [ -d "/ctk/brought/lib/python${PYTHON}/site-packages/pip" ] || "$python" -m venv --clear /ctk/brought; \
      printf '%s\n' \
        'import runpy, sys' \
        'from importlib.machinery import PathFinder' \
        "site = ['/ctk/brought/lib/python${PYTHON}/site-packages']" \
        'class Pip:' \
        '    @staticmethod' \
        '    def find_spec(name, path=None, target=None):' \
        '        return PathFinder.find_spec(name, site, target) if name == "pip" else None' \
        'sys.meta_path.insert(0, Pip)' \
        'runpy.run_module("pip", run_name="__main__", alter_sys=True)' > /ctk/run-pip.py; \
      printf '#!/bin/sh\nexec %s /ctk/run-pip.py "$@"\n' "$ENVIRONMENT/bin/python3" > /ctk/pip; \
    else \
      printf '#!/bin/sh\nexec %s -m pip --python %s "$@"\n' "$python" "$ENVIRONMENT/bin/python3" > /ctk/pip; \
    fi; \
    chmod +x /ctk/pip
RUN set -eu; \
    report=; \
    if /ctk/pip install --help | grep -q -e --report; then report="--report /ctk/wheels.json"; fi; \
    if [ -s /ctk/requirements.txt ]; then \
      echo "ctk: installing packages for Python ${PYTHON}"; \
      /ctk/pip install --only-binary=:all: $report -r /ctk/requirements.txt; \
    fi
# PyCUDA wants the toolkit's profiler header and a libcuda to link with; cuRAND only where it is there.
RUN set -eu; \
    [ -s /ctk/sources.txt ] || exit 0; \
    fail() { echo "ctk-error: $1" >&2; [ "$KEEP_GOING" = yes ]; }; \
    if [ ! -e "$CUDA/include/cudaProfiler.h" ]; then lacks="include/cudaProfiler.h"; \
    elif ! ls "$CUDA"/lib*/libcuda.so "$CUDA"/lib*/stubs/libcuda.so 2>/dev/null | grep -q .; then lacks="link-time libcuda (lib64/stubs/libcuda.so)"; \
    else lacks=; fi; \
    if [ -n "$lacks" ]; then \
      echo "$lacks" > /ctk/lacks; fail "$(tr '\n' ' ' < /ctk/sources.txt)is built from source, and $CUDA has no $lacks"; exit $?; \
    fi; \
    echo "ctk: building $(tr '\n' ' ' < /ctk/sources.txt)against $CUDA"; \
    [ -e "$CUDA/include/curand.h" ] || echo 'CUDA_ENABLE_CURAND = False' > "$HOME/.aksetup-defaults.py"; \
    export CUDA_ROOT="$CUDA" PATH="$CUDA/bin:$PATH"; \
    report=; \
    if /ctk/pip install --help | grep -q -e --report; then report="--report /ctk/sources.json"; fi; \
    /ctk/pip freeze --exclude-editable > /ctk/constraints.txt; \
    if grep -q -e --hash= /ctk/sources.txt; then held=--no-deps; else held="-c /ctk/constraints.txt"; fi; \
    { /ctk/pip install $held $report -r /ctk/sources.txt 2>&1 || touch /ctk/failed; } | tee /ctk/sources.log; \
    if [ -e /ctk/failed ]; then fail "a package cannot be built from source"; fi
# What is in it, for the record.
RUN set -eu; \
    /ctk/pip check > /ctk/check 2>&1 || true; \
    printf '%s\n' \
      'import json, os, sys' \
      'from importlib import metadata' \
      'def text(path):' \
      '    return open(path).read().strip() if os.path.exists(path) else None' \
      'hashes = {}' \
      'for report in ("/ctk/wheels.json", "/ctk/sources.json"):' \
      '    for one in json.loads(text(report) or "{}").get("install", []):' \
      '        sums = one.get("download_info", {}).get("archive_info", {}).get("hashes", {})' \
      '        hashes[one["metadata"]["name"], one["metadata"]["version"]] = sums.get("sha256")' \
      'def package(found):' \
      '    name, version = found.metadata["Name"], found.version' \
      '    return {"name": name, "version": version, "sha256": hashes.get((name, version)),' \
      '            "requires": list(found.requires or [])}' \
      'packages = [package(found) for found in metadata.distributions(path=[sys.argv[1]])]' \
      'json.dump({' \
      '    "python": ".".join(map(str, sys.version_info[:3])), "program": os.path.realpath(sys.executable),' \
      '    "packages": sorted(packages, key=lambda package: package["name"].lower()), "check": text("/ctk/check"),' \
      '    "lacks": text("/ctk/lacks"),' \
      '    "failed": (text("/ctk/sources.log") or "")[-65536:] if os.path.exists("/ctk/failed") else None,' \
      '}, sys.stdout)' > /ctk/facts.py; \
    "$ENVIRONMENT/bin/python3" -I /ctk/facts.py "$ENVIRONMENT/lib/python${PYTHON}/site-packages" > /ctk/facts.json; \
    mv /ctk/facts.json "$ENVIRONMENT/ctk-stack.json"; \
    chmod -R a+rX "$ENVIRONMENT"

FROM python
COPY --from=build /opt/ctk-matrix/python /opt/ctk-matrix/python
ENV PATH=/opt/ctk-matrix/python/bin:${PATH}
USER 65534:65534

#!/usr/bin/env bash
# Runs the four Python libraries beside the Rust paths on a machine with a GPU, without a network.
#
#   four-ways.sh CTK_MATRIX OUT [TOOLKIT_DIR VERSION] [WHEELS PYTHON]
#
# CTK_MATRIX is the program, with ctk-bench beside it. TOOLKIT_DIR is a full toolkit (/usr/local/cuda, 13.0). First the
# machine's own Python with what it has; then, where WHEELS is a folder of wheels for PYTHON (3.12), pinned stacks from it:
#
#   pip download -d WHEELS --only-binary=:all: --python-version 3.12 --implementation cp \
#       --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 \
#       --platform manylinux2014_x86_64 \
#       cupy-cuda12x==13.6.0 cuda-core==1.1.1 numba-cuda==0.30.4 numpy==1.26.4 \
#       nvidia-cuda-nvcc-cu12==12.6.85 nvidia-cuda-runtime-cu12==12.6.77
#   pip wheel -w WHEELS --no-deps pycuda==2026.1      # with that Python and a toolkit; or carry the sdist and its build needs
set -euo pipefail
program=$(realpath "$1"); out=$2; dir=${3:-/usr/local/cuda}; version=${4:-13.0}; wheels=${5:-}; python=${6:-3.12}
mkdir -p "$out"; out=$(realpath "$out")
matrix=$out/matrix.yaml
cat >"$matrix" <<YAML
version: 1
toolkits: [{name: "$version-dir", version: "$version", dir: $dir}]
paths: [driver, nvrtc, nvcc-cubin, cuda-core, cupy, numba, pycuda]
stacks:
  - {name: host, python: host}
YAML
if [ -n "$wheels" ]; then
  PIP_FIND_LINKS=$(realpath "$wheels"); export PIP_FIND_LINKS PIP_NO_INDEX=1
  pycuda=; ls "$wheels" | grep -qi '^pycuda-' && pycuda=', "pycuda==2026.1"'
  cat >>"$matrix" <<YAML
  - name: cupy-13.6
    python: "$python"
    packages: ["cupy-cuda12x==13.6.0", "cuda-core==1.1.1", "numba-cuda==0.30.4", "numpy==1.26.4",
               "nvidia-cuda-nvcc-cu12==12.6.85", "nvidia-cuda-runtime-cu12==12.6.77"$pycuda]
YAML
fi
for engine in process docker; do
  rm -rf "$out/$engine"
  "$program" run --matrix "$matrix" --engine "$engine" --gpu required --out "$out/$engine" || echo "$engine: exit $?"
done

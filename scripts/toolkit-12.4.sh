#!/usr/bin/env bash
# Makes a CUDA 12.4 folder with a real nvcc, for the tests: NVIDIA's 12.x wheels carry none, and Debian's non-free
# packages have 12.4.131. Laid out as /usr/local/cuda is.
#
#   scripts/toolkit-12.4.sh DIR    some 60 MB to download, 230 MB on disk; a DIR that is complete is left as it is
#
# Needs a Debian with apt-get and its keyring, Python 3 with pip, and gcc 13 or older to compile with afterwards.
# Changes nothing on the machine: packages are unpacked, not installed.
set -euo pipefail

target=${1:?usage: toolkit-12.4.sh DIR}
if [ -e "$target/version.json" ]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=$work/made
mkdir -p "$work"/{lists/partial,cache/archives/partial,root,wheels} "$made"/{bin,include,lib64,nvvm/bin,nvvm/libdevice}

# The mirror that this machine uses, for a suite that it may not have.
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E 'debian/?$' | grep -v security | sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}')
[ -n "$mirror" ] || { echo "apt-get names no Debian mirror here" >&2; exit 1; }
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror trixie non-free" >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" download nvidia-cuda-toolkit/trixie)
dpkg-deb -x "$work"/nvidia-cuda-toolkit_*.deb "$work/root"

python3 -m pip install --quiet --no-deps --only-binary=:all: --no-compile --target "$work/wheels" \
  nvidia-cuda-nvrtc-cu12==12.4.127 nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-nvcc-cu12==12.4.131

usr=$work/root/usr
cp "$usr"/bin/{cudafe++,fatbinary,nvlink,ptxas,bin2c} "$usr/lib/nvidia-cuda-toolkit/bin/nvcc" "$made/bin/"
cp "$usr/lib/nvidia-cuda-toolkit/bin/cicc" "$made/nvvm/bin/"
for part in cuda_runtime cuda_nvcc cuda_nvrtc; do
  cp -r "$work/wheels/nvidia/$part/include/." "$made/include/"
done
cp "$work"/wheels/nvidia/cuda_nvcc/nvvm/libdevice/* "$made/nvvm/libdevice/"
cp "$work"/wheels/nvidia/cuda_nvrtc/lib/libnvrtc*.so* "$made/lib64/"
cat >"$made/bin/nvcc.profile" <<'PROFILE'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE
echo '{"cuda": {"name": "CUDA SDK", "version": "12.4.131"}}' >"$made/version.json"
chmod -R a+rX "$made"
"$made/bin/nvcc" --version >/dev/null
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv "$made" "$target"

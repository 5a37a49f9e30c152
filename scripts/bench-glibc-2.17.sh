#!/usr/bin/env bash
# Builds the ctk-bench that starts in every image: against glibc 2.17 (2012, CentOS 7), so that no image of nvidia/cuda
# is too old for it, and checks that it is so. Usage: scripts/bench-glibc-2.17.sh [FOLDER], by default target/bench.
# Needs Rust and Python 3 with pip; zig and cargo-zigbuild are taken from PATH, else installed below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

floor=2.17
most=2000000 # bytes: it is uploaded to remote engines for every job
target="$(uname -m)-unknown-linux-gnu"
out="${1:-target/bench}"

if ! command -v cargo-zigbuild >/dev/null || ! { command -v zig >/dev/null || python3 -m ziglang version >/dev/null 2>&1; }; then
  tools=target/zigbuild
  [ -x "$tools/bin/cargo-zigbuild" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check cargo-zigbuild==0.24.1 ziglang==0.17.1
  }
  export PATH="$PWD/$tools/bin:$PATH"
fi

cargo zigbuild --locked --release --no-default-features --features bench --bin ctk-bench --target "$target.$floor"

built="${CARGO_TARGET_DIR:-target}/$target/release/ctk-bench"
# Versions that it asks for are in its version needs; `sort -V` puts the newest last.
newest="$(readelf --version-info --wide "$built" | grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)"
size="$(stat -c %s "$built")"
fail() { echo "bench-glibc-2.17: $*" >&2; exit 1; }
[ -n "$newest" ] || fail "$built asks for no GLIBC version: it is not a dynamic glibc program"
[ "$(printf '%s\n' "$newest" "$floor" | sort -V | tail -n 1)" = "$floor" ] || fail "$built asks for glibc $newest, and $floor is the most"
[ "$size" -lt "$most" ] || fail "$built has $size bytes, and $most is the most"

mkdir -p "$out"
install -m 755 "$built" "$out/ctk-bench"
echo "$out/ctk-bench: glibc $newest, $size bytes"

#!/bin/sh
# Makes vector_add.ptx, vector_add.fatbin and PROVENANCE.json in this folder again, from ../vector_add.cu.
#
#   make.sh CTK_BENCH TOOLKIT_12.0 TOOLKIT_12.4 TOOLKIT_12.9
#
# CTK_BENCH is the program `ctk-bench`. The toolkits are folders as `ctk-matrix toolkit fetch` or an installer makes
# them; 12.4 must have bin/fatbinary, of the others only NVRTC is used.
#
# - The PTX comes from the oldest NVRTC (PTX ISA 8.0) for compute_52, so that every driver from 525 takes it.
# - The machine code for 7.5 to 9.0 comes from NVRTC 12.4; 10.0 and 12.0 are first known to 12.8, and come from 12.9.
# - fatbinary is 12.4's, and nothing is compressed: drivers before 550.54.14 refuse zstd.
set -eu

[ $# -eq 4 ] || { sed -n '4p' "$0" >&2; exit 2; }
bench=$1 old=$2 middle=$3 new=$4
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../vector_add.cu
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT

compile() { # toolkit version form arch output
    "$bench" compile --roots "$1" --version "$2" --form "$3" --arch "$4" --source "$source" -o "$5"
}

compile "$old" 12.0 ptx 5.2 "$parts/vector_add.ptx" >"$parts/steps"
images=""
for arch in 7.5 8.0 8.6 8.9 9.0; do
    compile "$middle" 12.4 cubin "$arch" "$parts/$arch.cubin" >>"$parts/steps"
    images="$images --image3=kind=elf,sm=$(echo "$arch" | tr -d .),file=$parts/$arch.cubin"
done
for arch in 10.0 12.0; do
    compile "$new" 12.9 cubin "$arch" "$parts/$arch.cubin" >>"$parts/steps"
    images="$images --image3=kind=elf,sm=$(echo "$arch" | tr -d .),file=$parts/$arch.cubin"
done
# shellcheck disable=SC2086 # one word an image
"$middle/bin/fatbinary" -64 --compress=false --create="$parts/vector_add.fatbin" $images \
    --image3=kind=ptx,sm=52,file="$parts/vector_add.ptx"

hash() { sha256sum "$1" | cut -d' ' -f1; }
{
    echo '{'
    echo "  \"source\": \"kernels/vector_add.cu, the snippet as every path wraps it\","
    echo "  \"source_sha256\": \"$(sed -n 's/.*"source_sha256":"\([0-9a-f]*\)".*/\1/p' "$parts/steps" | sort -u)\","
    echo "  \"files\": {"
    echo "    \"vector_add.fatbin\": \"$(hash "$parts/vector_add.fatbin")\","
    echo "    \"vector_add.ptx\": \"$(hash "$parts/vector_add.ptx")\""
    echo "  },"
    echo "  \"fatbinary\": \"$("$middle/bin/fatbinary" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')\","
    echo "  \"steps\": ["
    sed 's/^/    /; $!s/$/,/' "$parts/steps"
    echo "  ]"
    echo '}'
} >"$parts/PROVENANCE.json"
mv "$parts/vector_add.ptx" "$parts/vector_add.fatbin" "$parts/PROVENANCE.json" "$here/"

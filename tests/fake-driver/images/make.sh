#!/usr/bin/env bash
# Makes the images of this folder from the kernel of this repository: real PTX, cubins and fatbins of three toolkits.
#
#   make.sh CUDA-12.4 PTXAS-12.9 CUDA-13.0      two toolkit folders with nvcc, and a 12.9 ptxas
#
# README.md names each file. The 12.x folder needs a gcc that 12.4 takes (13 or older) on PATH.
set -euo pipefail
t124=$1 ptxas129=$2 t130=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
{ echo 'extern "C" {'; sed '1,/snippet: kernel/d;/end snippet/,$d' "$here/../../../kernels/vector_add.cu"; echo '}'; } >"$work/k.cu"
cd "$work"
# The compilers are called without paths, so that no folder of the machine ends up in an image.
n124() { env PATH="$t124/bin:$PATH" nvcc "$@" k.cu; }
n130() { env PATH="$t130/bin:$PATH" nvcc "$@" k.cu; }

n124 -ptx -arch=compute_52 -o ptx-8.4-sm_52.ptx
n124 -ptx -arch=compute_90 -o ptx-8.4-sm_90.ptx
n124 -ptx -arch=compute_90a -o ptx-8.4-sm_90a.ptx
n130 -ptx -arch=compute_75 -o ptx-9.0-sm_75.ptx
for a in 100 100a 100f 120f; do n130 -ptx -arch=compute_$a -o ptx-9.0-sm_$a.ptx; done

for a in 75 80 89 90 90a; do n124 -cubin -arch=sm_$a -o cubin-12.4-sm_$a.cubin; done
# ptxas 12.9 assembles the 12.4 PTX, whose ISA is raised to the first that knows sm_100.
for a in 100 100a 120; do
  sed "s/^.version 8.4/.version 8.7/; s/^.target sm_90/.target sm_$a/" ptx-8.4-sm_90.ptx >up.ptx
  "$ptxas129" -arch=sm_$a up.ptx -o cubin-12.9-sm_$a.cubin
done
for a in 75 90 90a 100 100a 100f; do n130 -cubin -arch=sm_$a -o cubin-13.0-sm_$a.cubin; done

g() { echo "-gencode arch=compute_$1,code=$2"; }
n124 -fatbin $(g 80 sm_80) $(g 90 sm_90) $(g 90 compute_90) -o fatbin-12.4-sm_80-sm_90-ptx_90.fatbin
n124 -fatbin $(g 52 compute_52) -no-compress -o fatbin-12.4-ptx_52-plain.fatbin
n124 -fatbin $(g 80 sm_80) -o fatbin-12.4-sm_80.fatbin
n130 -fatbin $(g 75 sm_75) $(g 90 sm_90) $(g 90 compute_90) -o fatbin-13.0-sm_75-sm_90-ptx_90.fatbin
n130 -fatbin $(g 75 compute_75) -o fatbin-13.0-ptx_75.fatbin
n130 -fatbin $(g 100f compute_100f) -o fatbin-13.0-ptx_100f.fatbin
n130 -fatbin $(g 90a sm_90a) $(g 100f sm_100f) -o fatbin-13.0-sm_90a-sm_100f.fatbin
rm -f up.ptx k.cu
cp ./*.ptx ./*.cubin ./*.fatbin "$here/"

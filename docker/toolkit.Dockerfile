# ctk-bench baked into a toolkit image, for clusters and CIs that start their containers themselves.
# The context is a folder that holds a ctk-bench for every image:
#   scripts/bench-glibc-2.17.sh target/bench
#   docker build -f docker/toolkit.Dockerfile --build-arg BASE=nvidia/cuda:12.6.3-devel-ubuntu22.04 -t cuda-bench target/bench
#   docker run --rm --gpus all cuda-bench probe --nonce 00
# ctk-matrix itself needs no such image: it binds its own ctk-bench, or uploads it to a remote engine.
ARG BASE=nvidia/cuda:12.6.3-devel-ubuntu22.04
FROM ${BASE}
COPY ctk-bench /opt/ctk-matrix/bin/ctk-bench
# The base's own entrypoint prints a banner on stdout, which is where ctk-bench writes its frames.
ENTRYPOINT ["/opt/ctk-matrix/bin/ctk-bench"]
CMD ["--help"]
USER 65534:65534

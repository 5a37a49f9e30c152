# ctk-bench alone, to be taken into images of one's own with
#   COPY --from=ctk-bench /ctk-bench /usr/local/bin/ctk-bench
# Built as docker/toolkit.Dockerfile is: docker build -f docker/bench.Dockerfile -t ctk-bench target/bench
# It does not run by itself: it is a dynamic program, because a static one cannot open libcuda.
FROM scratch
COPY ctk-bench /ctk-bench

//! What container engines and NVIDIA's container tools say when a container does not start. They are told apart by
//! text alone: engines answer 400 and 500 for the same thing.

use super::rule::Rule;
use crate::model::outcome::Stage;

const MOBY: &str = "moby source";
const TOOLKIT: &str = "nvidia-container-toolkit source";
const REPORTS: &str = "public issue reports";

/// Texts, the special before the general.
pub(super) const RULES: &[Rule] = &[
    Rule::text(
        &["could not select device driver \"cdi\""],
        [
            "the engine's support for CDI is off",
            "Docker before 28.2 has it off by default, and it can be switched off",
            "set features.cdi in the daemon's configuration and restart it, or use another --gpu mode",
            MOBY,
        ],
    ),
    Rule::text(
        &["no cdi device driver registered"],
        [
            "the engine found NVIDIA's CDI hook and has CDI switched off",
            "Docker from 29.2 on tries CDI first",
            "switch CDI on in the daemon's configuration, or install the legacy hook",
            MOBY,
        ],
    ),
    Rule::text(
        &["could not select device driver"],
        [
            "the engine knows no way to give a GPU to a container",
            "the NVIDIA Container Toolkit is not installed, or the daemon was not restarted since",
            "install it and restart the daemon, or use --gpu devices",
            MOBY,
        ],
    ),
    Rule::text(
        &["unresolvable cdi devices runtime.nvidia.com/gpu"],
        [
            "the NVIDIA runtime could not describe the GPU",
            "the driver is not usable on the host, or a GPU was asked for in two ways at once",
            "check nvidia-smi on the host; use one --gpu mode",
            "nvidia-container-toolkit#1537",
        ],
    ),
    Rule::text(
        &["no cdi specification directories specified"],
        [
            "the engine looks nowhere for CDI specifications",
            "the daemon's cdi-spec-dirs is empty, which also switches CDI off",
            "take cdi-spec-dirs out of the daemon's configuration and restart it",
            MOBY,
        ],
    ),
    Rule::text(
        &["unresolvable cdi devices"],
        [
            "the engine knows no such CDI device",
            "there is no specification in /etc/cdi or /var/run/cdi, or it names other devices",
            "generate one: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "moby source; measured with Docker 28.5",
        ],
    ),
    Rule::text(
        &["cdi registry initialization failure", "cdi device injection failed"],
        [
            "the engine cannot read its CDI specifications",
            "a folder or a file of them is not valid",
            "check the daemon's cdi-spec-dirs and the files in it",
            MOBY,
        ],
    ),
    Rule::text(
        &["unknown or invalid runtime name", "unknown runtime specified"],
        [
            "the engine has no such runtime",
            "the runtime is not in the daemon's configuration",
            "nvidia-ctk runtime configure --runtime=docker, then restart the daemon; or use another --gpu mode",
            MOBY,
        ],
    ),
    Rule::text(
        &["unsatisfied condition: cuda"],
        [
            "the image asks for a newer driver",
            "the driver is older than the image's NVIDIA_REQUIRE_CUDA; from 12.5 on images make no exception \
             for GeForce",
            "use a newer driver or an older image",
            "libnvidia-container source; dashdot#1226",
        ],
    ),
    Rule::text(
        &["libnvidia-ml.so.1: cannot open shared object file"],
        [
            "the NVIDIA container tools find no driver on the host",
            "the host has none, or the daemon does not see it (WSL, rootless, another machine)",
            "install the driver on the machine that the daemon runs on; check nvidia-smi there",
            "libnvidia-container#231",
        ],
    ),
    Rule::text(
        &["nvml error: driver not loaded"],
        [
            "the host's kernel module is not loaded",
            "the driver is installed and not running",
            "modprobe nvidia, or reboot the host",
            "well known, not looked up",
        ],
    ),
    Rule::text(
        &["driver/library version mismatch"],
        [
            "the driver's library and its kernel module differ",
            "the host's driver was updated and the old module is still loaded",
            "reboot the host or reload the module, and start the container anew",
            "nvidia-container-toolkit#394",
        ],
    ),
    Rule::text(
        &["failed to initialize nvml: unknown error"],
        [
            "the container has lost its access to the GPU",
            "a reload of systemd took the device rules away",
            "start the container anew; CDI is not affected",
            "nvidia-docker#1671",
        ],
    ),
    Rule::text(
        &["device error: 1: unknown device", "unknown device: unknown"],
        ["there is no such GPU", "the index or UUID is wrong", "nvidia-smi -L lists them", REPORTS],
    ),
    Rule::text(
        &["ldcache error"],
        [
            "the library cache of the image could not be made",
            "the image has no usable ldconfig, or seccomp refuses it",
            "use an image with ldconfig, or --gpu devices",
            "nvidia-docker#914",
        ],
    ),
    Rule::text(
        &[
            "cannot set both count and deviceids",
            "unexpected count in cdi device request",
            "unexpected options in cdi device request",
        ],
        [
            "the request for the GPU contradicts itself",
            "a number of GPUs and their names, or options that CDI does not have, were asked for at once",
            "ask for GPUs by number or by name, not by both",
            MOBY,
        ],
    ),
    Rule::text(
        &["nvidia driver was not detected"],
        [
            "the image's entrypoint found no driver",
            "libcuda.so.1 or /dev/nvidiactl is not in the container: no GPU was attached",
            "attach a GPU (--gpus all, --runtime=nvidia, or CDI); ctk-matrix doctor says which way works here",
            "container-images repository",
        ],
    ),
    Rule::text(
        &["couldn't communicate with the nvidia driver"],
        [
            "nvidia-smi reaches no driver",
            "the kernel module is not loaded, or was not built for the running kernel",
            "modprobe nvidia and read dmesg; reinstall the driver after a kernel update",
            REPORTS,
        ],
    ),
    Rule::text(
        &["couldn't find binary nvidia-container-cli"],
        [
            "the NVIDIA container tools are only half installed",
            "the hook is there and nvidia-container-cli is not",
            "install the whole NVIDIA Container Toolkit, or use --gpu cdi or devices",
            "measured with Docker 28.5",
        ],
    ),
    Rule::text(
        &["error running createcontainer hook", "failed to create link"],
        [
            "a hook of the GPU's description could not write",
            "the hooks write under /usr, which is read-only in a container made of the host's user space",
            "use --gpu devices there, or an image",
            "measured with Docker 28.5 and nvidia-ctk 2026-08",
        ],
    ),
    Rule::text(
        &["invoking the nvidia container runtime hook directly"],
        [
            "the GPU was asked for in a way that this mode does not support",
            "the NVIDIA runtime is in CDI mode, and --gpus uses its hook",
            "use --gpu runtime or cdi",
            TOOLKIT,
        ],
    ),
    Rule::text(
        &["unsupported capabilities found in"],
        [
            "NVIDIA_DRIVER_CAPABILITIES has an unknown word",
            "a misspelling in the image or the environment",
            "use compute,utility",
            TOOLKIT,
        ],
    ),
    Rule::text(
        &["permission denied while trying to connect to the docker daemon", "docker.sock: connect: permission denied"],
        [
            "the engine may not be used by this user",
            "its socket belongs to another group",
            "add the user to the group docker, or use --engine process",
            MOBY,
        ],
    ),
    Rule::text(
        &["cannot connect to the docker daemon", "docker.sock: connect: no such file"],
        [
            "no engine answers",
            "the daemon is not running, or DOCKER_HOST points elsewhere",
            "start it, or use --engine process",
            MOBY,
        ],
    ),
    Rule::text(
        &["connection refused"],
        [
            "no engine answers",
            "the daemon is not running, or DOCKER_HOST points elsewhere",
            "start it, or use --engine process",
            MOBY,
        ],
    )
    .at(&[Stage::Start]),
    Rule::text(
        &["no such image"],
        ["the image is not on this machine", "it was removed, or never pulled", "pull it with --source image", MOBY],
    ),
    Rule::text(
        &["manifest unknown"],
        [
            "there is no image with this tag",
            "it was never published or was removed: of each version only the newest patch level is kept, and base \
             systems come and go",
            "choose a tag that exists, or use wheels",
            "container-images repository, support policy",
        ],
    ),
    Rule::text(
        &["pull access denied"],
        [
            "the registry does not give out this image",
            "its name is misspelt, or it is private and nobody is logged in",
            "check the name; docker login",
            MOBY,
        ],
    ),
    Rule::text(
        &["exec format error"],
        [
            "the program is for another processor",
            "the image or ctk-bench is not for this machine's architecture",
            "use an image of this architecture",
            "execve(2)",
        ],
    ),
    Rule::text(
        &["no space left on device"],
        [
            "the engine's disk is full",
            "layers and containers fill its data folder",
            "free space: docker system df shows what takes it",
            "errno(3)",
        ],
    )
    .at(&[Stage::Start]),
];

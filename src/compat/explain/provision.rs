//! What pip says when a toolkit or a package cannot be put on the machine.

use super::rule::Rule;
use crate::model::outcome::Stage;

const PIP: &str = "pip source";

/// Texts, the special before the general: pip without a network ends with "no matching distribution" too.
pub(super) const RULES: &[Rule] = &[
    Rule::text(
        &["no space left on device", "errno 28"],
        [
            "the disk is full",
            "wheels and what is unpacked of them go into the cache folder",
            "free space, or set CTK_MATRIX_CACHE to a folder with more",
            "errno(3)",
        ],
    ),
    Rule::text(
        &["no module named pip", "no module named 'pip'"],
        [
            "this Python has no pip",
            "distributions ship it in a package of its own",
            "install it (python3-pip, or python3 -m ensurepip), or name a toolkit by `dir:` or `image:`",
            PIP,
        ],
    ),
    Rule::text(
        &["python3: command not found", "python3: not found", "no such file or directory: 'python3'"],
        [
            "there is no Python on this machine",
            "toolkits from wheels are fetched by python3 -m pip",
            "install python3 with pip, or name a toolkit by `dir:` or `image:`",
            PIP,
        ],
    ),
    Rule::text(
        &["certificate_verify_failed"],
        [
            "pip does not trust the package index",
            "a proxy with a certificate of its own is in between, or the clock is wrong",
            "give pip the certificate (PIP_CERT, or `cert` in its configuration)",
            PIP,
        ],
    ),
    Rule::text(
        &[
            "newconnectionerror",
            "max retries exceeded",
            "temporary failure in name resolution",
            "name or service not known",
            "network is unreachable",
            "failed to establish a new connection",
            "read timed out",
            "connecttimeouterror",
            "proxyerror",
        ],
        [
            "pip has no way to the package index",
            "there is no network, or pip's index or proxy is not set",
            "check `python3 -m pip config list`, or name a toolkit by `dir:` or `image:`",
            PIP,
        ],
    ),
    Rule::text(
        &["connection refused", "connection reset by peer"],
        [
            "pip has no way to the package index",
            "there is no network, or pip's index or proxy is not set",
            "check `python3 -m pip config list`, or name a toolkit by `dir:` or `image:`",
            PIP,
        ],
    )
    .at(&[Stage::Provision]),
    Rule::text(
        &["do not match the hashes"],
        [
            "a wheel is not the one that is pinned",
            "the download was damaged, or the index serves another file under the same version",
            "try again without pip's cache; if it stays so, do not use that index",
            PIP,
        ],
    ),
    Rule::text(
        &["requires a different python", "require a different python version", "requires-python"],
        [
            "the package is not for this Python",
            "every release names the Python versions that it works with, and pip passes over the others",
            "use another Python, or pin a release that still takes this one",
            PIP,
        ],
    ),
    Rule::text(
        &["no matching distribution found", "could not find a version that satisfies"],
        [
            "the package index has no such wheel for this machine",
            "the index is a mirror without NVIDIA's packages, the machine is not x86-64, or pip is too old \
             for the wheel's tag",
            "check pip's index and `python3 -m pip --version`, or name a toolkit by `dir:` or `image:`",
            PIP,
        ],
    ),
    Rule::text(
        &["externally-managed-environment"],
        [
            "this Python refuses packages from pip",
            "the distribution manages it",
            "use a virtual environment's python3, or name a toolkit by `dir:` or `image:`",
            "PEP 668",
        ],
    ),
    Rule::text(
        &["resolutionimpossible", "conflicting dependencies"],
        [
            "the pins contradict one another",
            "two packages ask for versions of a third that exclude each other",
            "loosen one of the pins that pip names",
            PIP,
        ],
    ),
    Rule::text(
        &["is not a supported wheel on this platform"],
        [
            "the wheel is for another platform",
            "its tag names another processor, system, C library or Python",
            "take the wheel for this machine, or update pip if it is too old for the tag",
            PIP,
        ],
    ),
    Rule::text(
        &["failed building wheel", "failed to build installable wheels", "metadata-generation-failed"],
        [
            "a package could not be built from its source",
            "there is no wheel for this Python and platform, and the build needs a compiler or headers that are not \
             there",
            "read the lines before it; use a Python that has a wheel, or install what the build asks for",
            PIP,
        ],
    ),
    Rule::text(
        &["429 too many requests", "toomanyrequests"],
        [
            "the server refuses more downloads for now",
            "its limit for this address or account is used up",
            "wait, log in, or use a mirror or a proxy with a cache",
            "HTTP 429",
        ],
    ),
];

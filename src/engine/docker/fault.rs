//! Why an image could not be pulled, and whether another try may help. Its main types are [`PullError`] and [`Kind`].
//!
//! Engines answer most faults of a registry with one status (500) and a text, or with a text in mid-stream: the kind is
//! read off the text ([`kind`]).

use std::time::Duration;

use bollard::errors::Error;

use super::api::failure;
use super::credentials;
use crate::model::units;

/// Why an image could not be pulled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The registry has no such image.
    #[error(
        "image {reference} does not exist in its registry ({text}): correct its name and tag; NVIDIA removes old patch versions"
    )]
    NotFound {
        /// The image.
        reference: String,
        /// The engine's own text.
        text: String,
    },
    /// The registry does not let this user.
    #[error("image {reference} may not be pulled ({text}): `docker login {registry}`, or correct its name")]
    Denied {
        /// The image.
        reference: String,
        /// Its registry.
        registry: String,
        /// The engine's own text.
        text: String,
    },
    /// There is none for this processor.
    #[error("image {reference} is not made for this machine's processor ({text}): name another image")]
    Platform {
        /// The image.
        reference: String,
        /// The engine's own text.
        text: String,
    },
    /// The registry was asked too often.
    #[error(
        "the registry of image {reference} was asked too often, {tries} times in vain ({text}): log in with `docker login`, wait, or name a mirror with --image-repository"
    )]
    RateLimited {
        /// The image.
        reference: String,
        /// How often it was tried.
        tries: u32,
        /// The engine's own text.
        text: String,
    },
    /// The registry could not be reached, or broke off.
    #[error(
        "the registry of image {reference} could not be reached, {tries} times in vain ({text}): check the engine's network and proxy"
    )]
    Network {
        /// The image.
        reference: String,
        /// How often it was tried.
        tries: u32,
        /// The engine's own text.
        text: String,
    },
    /// What came is not what the registry's manifest promises.
    #[error(
        "image {reference} came with other bytes than its digest, {tries} times ({text}): a proxy or the registry is broken"
    )]
    Corrupt {
        /// The image.
        reference: String,
        /// How often it was tried.
        tries: u32,
        /// The engine's own text.
        text: String,
    },
    /// Nothing came for too long.
    #[error(
        "nothing of image {reference} came for {seconds} s, {tries} times: check the engine's network and proxy, and run it again"
    )]
    Idle {
        /// The image.
        reference: String,
        /// The deadline.
        seconds: u64,
        /// How often it was tried.
        tries: u32,
    },
    /// The engine's disk is full.
    #[error("the engine's disk is full ({text}): free some with `docker system prune`, or move the engine's data root")]
    DiskFull {
        /// The engine's own text.
        text: String,
    },
    /// It is larger than the user allowed.
    #[error("image {reference} is larger than --max-download allows: its layers so far are {}", units::bytes(*seen))]
    TooLarge {
        /// The image.
        reference: String,
        /// The sizes of the layers that were announced.
        seen: u64,
    },
    /// Anything else that the engine says.
    #[error("image {reference} could not be pulled: {text}")]
    Other {
        /// The image.
        reference: String,
        /// The engine's own text.
        text: String,
    },
}

/// What kind of fault a text tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NotFound,
    Denied,
    Platform,
    RateLimited,
    Network,
    Corrupt,
    Idle,
    DiskFull,
    Other,
}

impl Kind {
    /// How often it is worth trying.
    pub(super) const fn tries(self) -> u32 {
        match self {
            Self::RateLimited | Self::Network => 5,
            // A broken proxy serves the same bytes again; a stalled connection is often cured by a new one.
            Self::Corrupt | Self::Idle => 2,
            Self::NotFound | Self::Denied | Self::Platform | Self::DiskFull | Self::Other => 1,
        }
    }
}

/// Texts by kind, in lower case, the more telling first: a rate limit comes as `denied: … toomanyrequests` too.
const TEXTS: [(Kind, &[&str]); 7] = [
    (Kind::DiskFull, &["no space left on device", "disk quota exceeded"]),
    (Kind::RateLimited, &["toomanyrequests", "too many requests", "rate limit"]),
    (Kind::Platform, &["no matching manifest for", "no match for platform"]),
    (
        Kind::Denied,
        &["unauthorized", "denied", "authentication required", "no basic auth credentials", "403 forbidden"],
    ),
    (Kind::NotFound, &["manifest unknown", "name unknown", "not found", "no such manifest", "does not exist"]),
    (
        Kind::Corrupt,
        &[
            "verification failed for digest",
            "unexpected commit digest",
            "failed size validation",
            "invalid checksum",
            "digest mismatch",
        ],
    ),
    (
        Kind::Network,
        &[
            "unexpected http status: 5",
            "500 internal server error",
            "502 bad gateway",
            "503 service unavailable",
            "504 gateway",
            "dial tcp",
            "connection refused",
            "connection reset",
            "no such host",
            "i/o timeout",
            "tls handshake",
            "eof",
            "client.timeout exceeded",
            "context deadline exceeded",
            "server misbehaving",
            "network is unreachable",
            "proxyconnect",
            "broken pipe",
            "bytes remaining on stream",
        ],
    ),
];

pub(super) fn kind(text: &str) -> Kind {
    let text = text.to_lowercase();
    let told = TEXTS.iter().find(|(_, parts)| parts.iter().any(|part| text.contains(part)));
    told.map_or(Kind::Other, |(kind, _)| *kind)
}

pub(super) fn error(reference: &str, kind: Kind, text: String, tries: u32, idle: Duration) -> PullError {
    let reference = reference.to_owned();
    match kind {
        Kind::NotFound => PullError::NotFound { reference, text },
        Kind::Denied => {
            let registry = match credentials::registry(&reference) {
                host if host.starts_with("https://index.docker.io") => String::new(),
                host => host.to_owned(),
            };
            PullError::Denied { reference, registry, text }
        }
        Kind::Platform => PullError::Platform { reference, text },
        Kind::RateLimited => PullError::RateLimited { reference, tries, text },
        Kind::Network => PullError::Network { reference, tries, text },
        Kind::Corrupt => PullError::Corrupt { reference, tries, text },
        Kind::Idle => PullError::Idle { reference, seconds: idle.as_secs(), tries },
        Kind::DiskFull => PullError::DiskFull { text },
        Kind::Other => PullError::Other { reference, text },
    }
}

/// What an engine's refusal to ask a registry means.
pub(super) fn refusal(reference: &str, refused: &Error) -> PullError {
    let text = failure(refused).to_string();
    error(reference, kind(&text), text, 1, Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of Docker 20.10 (measured) and of later ones (public reports).
    #[test]
    fn a_fault_is_told_by_its_text() {
        let told = [
            ("manifest unknown", Kind::NotFound),
            ("manifest for a:1 not found: manifest unknown: manifest unknown", Kind::NotFound),
            ("failed to resolve reference \"a:1\": a:1: not found", Kind::NotFound),
            ("unauthorized", Kind::Denied),
            (
                "pull access denied for a, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
                Kind::Denied,
            ),
            ("toomanyrequests: You have reached your pull rate limit.", Kind::RateLimited),
            ("received unexpected HTTP status: 500 Internal Server Error", Kind::Network),
            ("Get \"https://r/v2/\": dial tcp 192.0.2.1:443: i/o timeout", Kind::Network),
            ("filesystem layer verification failed for digest sha256:22a3", Kind::Corrupt),
            ("no matching manifest for linux/arm64/v8 in the manifest list entries", Kind::Platform),
            ("write /var/lib/docker/tmp/x: no space left on device", Kind::DiskFull),
            ("invalid reference format", Kind::Other),
        ];
        for (text, expected) in told {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}

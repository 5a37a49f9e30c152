//! How this machine's pip reaches its index, as files and arguments for a pip that runs elsewhere: in the build of an
//! image. The main type is [`PipConfig`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::error::ProvisionError;
use super::pip::Pip;

/// Where the build has the certificates, as `docker/python.Dockerfile` says.
const CERTIFICATES: &str = "/ctk/ca.pem";

/// What says where packages come from and how. Other settings are about this machine: its cache, its folders.
const CARRIED: [&str; 9] = [
    "index-url",
    "extra-index-url",
    "trusted-host",
    "no-index",
    "find-links",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
];

/// Variables by which OpenSSL and pip's own HTTP library are told whom to trust, where pip's settings do not.
const TRUST: [&str; 3] = ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"];

/// Build arguments that an engine hands on without keeping them in the image's history.
const PROXIES: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];

/// How a pip elsewhere reaches the index of this machine's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PipConfig {
    /// `pip.conf`, and the certificates.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// The proxies, as build arguments.
    pub(crate) proxies: BTreeMap<String, String>,
    /// What holds here and cannot be carried, each with the reason.
    pub(crate) left_out: Vec<String>,
}

impl PipConfig {
    /// What holds for this machine's pip: its files and its environment, as it says itself.
    pub(crate) async fn of(pip: &Pip) -> Result<Self, ProvisionError> {
        let said = pip.settings().await?;
        let variable = |name: &str| {
            let own = pip.env.iter().find(|(own, _)| own.to_str() == Some(name)).map(|(_, value)| value.clone());
            own.or_else(|| std::env::var_os(name))?.into_string().ok().filter(|value| !value.is_empty())
        };
        Ok(Self::read(&said, &variable))
    }

    fn read(said: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut settings = effective(said);
        let trust = settings.remove("cert").or_else(|| TRUST.iter().find_map(|name| variable(name)));
        let mut conf = "[global]\n".to_owned();
        let mut left_out = Vec::new();
        for (name, value) in settings.iter().filter(|(name, _)| CARRIED.contains(&name.as_str())) {
            // A folder of this machine is none of the image's.
            let here = |one: &str| name == "find-links" && (!one.contains("://") || one.starts_with("file:"));
            let (local, values): (Vec<&str>, Vec<&str>) = value.split_whitespace().partition(|one| here(one));
            left_out.extend(local.iter().map(|folder| format!("find-links {folder} (it is on this machine)")));
            if !values.is_empty() {
                let _ = writeln!(conf, "{name} = {}", values.join("\n    "));
            }
        }
        let certificates = trust.and_then(|path| {
            let read = std::fs::read(Path::new(&path));
            read.map_err(|error| left_out.push(format!("the certificates in {path} ({error})"))).ok()
        });
        if certificates.is_some() {
            let _ = writeln!(conf, "cert = {CERTIFICATES}");
        }
        let mut files = vec![("pip.conf".to_owned(), conf.into_bytes())];
        files.extend(certificates.map(|bytes| ("ca.pem".to_owned(), bytes)));
        if let Some(certificate) = settings.get("client-cert") {
            left_out.push(format!("client-cert {certificate} (its key is this machine's)"));
        }
        let netrc = variable("NETRC").or_else(|| Some(format!("{}/.netrc", variable("HOME")?)));
        if let Some(netrc) = netrc.filter(|path| Path::new(path).is_file()) {
            left_out.push(format!("passwords in {netrc} (`pip config set global.index-url` takes one in the address)"));
        }
        let proxies = PROXIES.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?))).collect();
        Self { files, proxies, left_out }
    }
}

/// What `pip config list` says, each setting with the value that holds for `pip install`.
fn effective(said: &str) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    // In the order in which they overrule each other.
    for section in ["global", "install", ":env:"] {
        for line in said.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let Some(name) = key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) else { continue };
            settings.insert(name.replace('_', "-"), literal(value.trim()));
        }
    }
    settings
}

/// The text of a Python literal.
fn literal(text: &str) -> String {
    let inner = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let mut out = String::new();
    let mut letters = inner.unwrap_or(text).chars();
    while let Some(letter) = letters.next() {
        match (letter, inner) {
            ('\\', Some(_)) => match letters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            (letter, _) => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_where_packages_come_from_is_carried_and_the_rest_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let certificates = scratch.path().join("ca.crt");
        std::fs::write(&certificates, "trusted").unwrap();
        let said = format!(
            "global.index-url='https://me:pass%20word@index.example/simple'\n\
             global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'\n\
             global.cache-dir='/home/me/cache'\ninstall.retries='7'\n:env:.index-url='http://127.0.0.1:8080/simple'\n\
             :env:.find-links='/opt/wheels https://wheels.example/list file:///opt/more'\n:env:.cert='{}'\n\
             :env:.user='1'\n",
            certificates.display()
        );
        let variable = |name: &str| (name == "https_proxy").then(|| "http://proxy.example:3128".to_owned());
        let config = PipConfig::read(&said, &variable);
        let text = |at: usize| String::from_utf8(config.files[at].1.clone()).unwrap();
        assert_eq!(
            text(0),
            "[global]\nextra-index-url = https://a.example/simple\n    https://b.example/simple\n\
             find-links = https://wheels.example/list\nindex-url = http://127.0.0.1:8080/simple\nretries = 7\n\
             cert = /ctk/ca.pem\n"
        );
        assert_eq!((config.files[1].0.as_str(), text(1).as_str()), ("ca.pem", "trusted"));
        assert_eq!(config.proxies, BTreeMap::from([("https_proxy".into(), "http://proxy.example:3128".into())]));
        assert_eq!(
            config.left_out,
            ["find-links /opt/wheels (it is on this machine)", "find-links file:///opt/more (it is on this machine)"]
        );
    }

    #[test]
    fn what_cannot_be_carried_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join(".netrc"), "machine index.example login me password canary").unwrap();
        let home = scratch.path().display().to_string();
        let said = "global.client-cert='/home/me/client.pem'\nglobal.cert='/not/here.pem'\n";
        let config = PipConfig::read(said, &|name| (name == "HOME").then(|| home.clone()));
        let text = config.left_out.join("; ");
        for part in
            ["the certificates in /not/here.pem (", "client-cert /home/me/client.pem", &format!("{home}/.netrc")]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("canary") && config.left_out.len() == 3, "{text}");
        assert_eq!(config.files, [("pip.conf".to_owned(), b"[global]\n".to_vec())]);
    }

    #[test]
    fn without_settings_the_environment_says_whom_to_trust() {
        let scratch = tempfile::tempdir().unwrap();
        let certificates = scratch.path().join("ca.crt");
        std::fs::write(&certificates, "trusted").unwrap();
        let variable = |name: &str| (name == "SSL_CERT_FILE").then(|| certificates.display().to_string());
        let config = PipConfig::read("", &variable);
        assert_eq!(config.files[0].1, b"[global]\ncert = /ctk/ca.pem\n");
        assert_eq!(PipConfig::read("", &|_| None).files, [("pip.conf".to_owned(), b"[global]\n".to_vec())]);
    }
}

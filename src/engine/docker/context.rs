//! Docker contexts: the name that is chosen, and the address that it leads to. The main functions are [`chosen`] and
//! [`endpoint`].

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::super::job::EngineError;
use crate::model::wire::hex;

/// The context that the docker command would use: `DOCKER_CONTEXT`, else what its configuration says. None for the
/// default one. `folder` is `~/.docker`.
pub(super) fn chosen(variable: Option<String>, folder: &Path) -> Option<String> {
    variable.or_else(|| current(&folder.join("config.json"))).filter(|name| name != "default")
}

fn current(file: &Path) -> Option<String> {
    let config: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(config.get("currentContext")?.as_str().filter(|name| !name.is_empty())?.to_owned())
}

/// Where a context leads: `unix:///run/user/1000/docker.sock`.
pub(super) fn endpoint(name: &str, folder: &Path) -> Result<String, EngineError> {
    const CURE: &str = "`docker context use default`, or set DOCKER_HOST to an engine's unix:// socket";
    let refuses = |why: &str| EngineError::Refuses(format!("docker context `{name}` {why}: {CURE}"));
    // The docker command names a context's folder by a hash of its name.
    let hash = hex(&Sha256::digest(name.as_bytes()));
    let file = folder.join("contexts/meta").join(&hash).join("meta.json");
    let bytes = fs::read(&file).map_err(|error| refuses(&format!("cannot be read ({}: {error})", file.display())))?;
    let meta: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| refuses(&format!("cannot be read ({error})")))?;
    let host = meta.pointer("/Endpoints/docker/Host").and_then(serde_json::Value::as_str);
    let host = host.filter(|host| !host.is_empty()).ok_or_else(|| refuses("names no Docker engine"))?;
    if !host.starts_with("unix://") && folder.join("contexts/tls").join(&hash).exists() {
        return Err(refuses(&format!("leads to {host} over TLS, which ctk-matrix does not speak")));
    }
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context as `docker context create NAME --docker host=HOST` writes it.
    fn context(folder: &Path, name: &str, host: &str) {
        let meta = folder.join("contexts/meta").join(hex(&Sha256::digest(name.as_bytes())));
        fs::create_dir_all(&meta).unwrap();
        let text = format!(r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}"}}}}}}"#);
        fs::write(meta.join("meta.json"), text).unwrap();
    }

    #[test]
    fn the_variable_goes_before_the_configuration_and_the_default_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(chosen(None, dir.path()), None);
        fs::write(dir.path().join("config.json"), r#"{"auths":{},"currentContext":"far"}"#).unwrap();
        assert_eq!(chosen(None, dir.path()).as_deref(), Some("far"));
        assert_eq!(chosen(Some("near".into()), dir.path()).as_deref(), Some("near"));
        assert_eq!(chosen(Some("default".into()), dir.path()), None);
        fs::write(dir.path().join("config.json"), "{").unwrap();
        assert_eq!(chosen(None, dir.path()), None);
    }

    #[test]
    fn a_context_leads_to_its_address_and_one_that_does_not_is_one_line_with_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        context(dir.path(), "rootless", "unix:///run/user/1000/docker.sock");
        assert_eq!(endpoint("rootless", dir.path()).unwrap(), "unix:///run/user/1000/docker.sock");
        context(dir.path(), "far", "tcp://192.0.2.1:2376");
        let tls = dir.path().join("contexts/tls").join(hex(&Sha256::digest(b"far"))).join("docker");
        fs::create_dir_all(tls).unwrap();
        context(dir.path(), "empty", "");
        for (name, part) in [("far", "over TLS"), ("empty", "names no Docker engine"), ("gone", "cannot be read")] {
            let EngineError::Refuses(text) = endpoint(name, dir.path()).unwrap_err() else { panic!("not refused") };
            assert!(text.contains(part) && text.ends_with("unix:// socket") && !text.contains('\n'), "{text}");
        }
    }
}

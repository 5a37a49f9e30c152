//! CDI device names: those that the host's specification files define, and the one to ask for.
//! The main function is [`choose`].

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The kind under which NVIDIA's container toolkit lists GPUs.
const KIND: &str = "nvidia.com/gpu";
/// Where engines look unless told otherwise.
const DEFAULT_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
/// A generated specification has some 10 KB; more than this is not one.
const MAX_SPEC: u64 = 1 << 20;

#[derive(Deserialize)]
struct Spec {
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    // Hand-written files have bare numbers here.
    name: serde_yaml::Value,
}

/// The devices that the specification files in `dirs` define, as `kind=name`; the default folders if `dirs` is empty.
/// Files that cannot be read are passed over: the engine would refuse them too, and says why at the start.
pub(crate) fn listed(dirs: &[PathBuf]) -> Vec<String> {
    let defaults: Vec<PathBuf> = DEFAULT_DIRS.map(PathBuf::from).into();
    let dirs = if dirs.is_empty() { &defaults } else { dirs };
    let mut files: Vec<PathBuf> = dirs
        .iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .collect();
    files.sort();
    files.iter().filter_map(|file| read(file)).flatten().collect()
}

fn read(file: &Path) -> Option<Vec<String>> {
    let extension = file.extension()?.to_str()?;
    if !["json", "yaml", "yml"].contains(&extension) || fs::metadata(file).ok()?.len() > MAX_SPEC {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    // JSON is YAML, but a file that says it is JSON has to be.
    let spec: Spec =
        if extension == "json" { serde_json::from_str(&text).ok()? } else { serde_yaml::from_str(&text).ok()? };
    let name = |device: &Device| match &device.name {
        serde_yaml::Value::String(name) => Some(name.clone()),
        serde_yaml::Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    Some(spec.devices.iter().filter_map(name).map(|name| format!("{}={name}", spec.kind)).collect())
}

/// The device to ask for: the wanted index or UUID if it is listed, else `all`, else the first; none if no GPU is listed.
pub(crate) fn choose(listed: &[String], wanted: Option<&str>) -> Option<String> {
    let gpus: Vec<&String> =
        listed.iter().filter(|device| device.split_once('=').is_some_and(|(kind, _)| kind == KIND)).collect();
    let named = |name: &str| gpus.iter().find(|device| device.split_once('=').is_some_and(|(_, found)| found == name));
    wanted.and_then(named).or_else(|| named("all")).or_else(|| gpus.first()).map(|device| (*device).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_specifications_are_read_and_others_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("a.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: 0\n- name: \"all\"\n");
        write("b.json", r#"{"cdiVersion":"0.5.0","kind":"example.com/net","devices":[{"name":"eth"}]}"#);
        write("c.json", "kind: nvidia.com/gpu");
        write("d.txt", "kind: nvidia.com/gpu\ndevices: [{name: x}]");
        let found = listed(&[dir.path().into(), dir.path().join("absent")]);
        assert_eq!(found, ["nvidia.com/gpu=0", "nvidia.com/gpu=all", "example.com/net=eth"]);
    }

    #[test]
    fn the_wanted_device_comes_before_all_and_all_before_the_first() {
        let listed: Vec<String> =
            ["example.com/net=all", "nvidia.com/gpu=GPU-1", "nvidia.com/gpu=0", "nvidia.com/gpu=all"]
                .map(String::from)
                .into();
        assert_eq!(choose(&listed, Some("GPU-1")).as_deref(), Some("nvidia.com/gpu=GPU-1"));
        assert_eq!(choose(&listed, Some("7")).as_deref(), Some("nvidia.com/gpu=all"));
        assert_eq!(choose(&listed, None).as_deref(), Some("nvidia.com/gpu=all"));
        assert_eq!(choose(&listed[..2], None).as_deref(), Some("nvidia.com/gpu=GPU-1"));
        assert_eq!(choose(&listed[..1], None), None);
    }
}

//! Programs in the place of `ctk-bench`, written as shell scripts, which speak the same frames and do what the real one
//! never would. The main function is [`stand_in`].

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::Scene;

/// What a script begins with: `$nonce`, `$cells` (one id a line), `frame JSON`, `result CELL OUTCOME`, `final COUNT`,
/// and `all`, which says of every cell that it was built, and ends.
const PRELUDE: &str = r#"#!/bin/sh
request=$(cat "$3")
nonce=$(printf %s "$request" | sed 's/.*"nonce":"\([0-9a-f]*\)".*/\1/')
cells=$(printf %s "$request" | grep -o '"cell":"[^"]*"' | cut -d'"' -f4)
frame() {
    sha=$(printf %s "$1" | sha256sum | cut -d' ' -f1)
    printf '\n\036ctk-frame 1 %s %s %s %s\n' "$nonce" "${#1}" "$sha" "$1"
}
artifact='"artifact":{"kind":"ptx","bytes":3,"producer":"stand-in","archs":["compute_75"],"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},"artifact_base64":"YWJj"'
result() { frame '{"kind":"path","cell":"'"$1"'","outcome":"'"$2"'",'"$artifact"',"loaded":{},"timings":{}}'; }
final() { frame '{"kind":"final","count":'"$1"'}'; }
all() {
    count=0
    for cell in $cells; do result "$cell" built; count=$((count + 1)); done
    final $count
}
"#;

/// Writes a script into the scene and gives its path, for `--bench`.
pub(crate) fn stand_in(scene: &Scene, script: &str) -> PathBuf {
    let path = scene.path().join("stand-in");
    std::fs::write(&path, format!("{PRELUDE}{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

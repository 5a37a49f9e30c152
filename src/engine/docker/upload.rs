//! Hands a job its files through the engine, where binds do not reach: as a tar stream into a volume of the container,
//! before it starts. Its main type is [`Upload`].
//!
//! An engine takes no files for a container whose root is read-only, but for a volume in it. The volume belongs to the
//! container, is removed with it, and its files are root's: the job, which is nobody, cannot write to it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::{Mount, MountType, MountVolumeOptions};
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::stream;
use tar::{Builder, Header, HeaderMode};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::handover::Handover;
use super::api::{Api, Failure, failure};

/// Where the volume is: everything that a job is handed lies below it.
const VOLUME: &str = "/ctk";

/// A toolkit's wheels are up to half a gigabyte, and the way to another machine may be a slow one.
const UPLOAD: Duration = Duration::from_mins(10);

/// The size of a piece, and the number of pieces on the way: 1 MiB in all.
const PIECE: usize = 64 << 10;
const PIECES: usize = 16;

/// The volume, made with the container. What an image has at this place does not get into it.
pub(super) fn volume() -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        target: Some(VOLUME.into()),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// What is to be uploaded.
#[derive(Debug)]
pub(super) struct Upload {
    bench: PathBuf,
    request: Option<PathBuf>,
    toolkit: Option<PathBuf>,
    /// Further folders, and their places in the volume: a stack's packages.
    folders: Vec<(PathBuf, PathBuf)>,
}

impl Upload {
    pub(super) fn new(bench: &Path, handover: &Handover) -> Self {
        Self {
            bench: bench.into(),
            request: handover.request.clone(),
            toolkit: handover.toolkit.clone(),
            folders: places(&handover.folders),
        }
    }

    /// Uploads it. The archive is made as it is sent.
    pub(super) async fn send(self, api: &Api, container: &str) -> Result<(), Failure> {
        let (send, receive) = mpsc::channel(PIECES);
        let made = tokio::task::spawn_blocking(move || self.write(Pieces { send, piece: Vec::with_capacity(PIECE) }));
        let pieces = stream::unfold(receive, |mut receive| async move {
            let piece: Vec<u8> = receive.recv().await?;
            Some((Ok::<_, io::Error>(piece.into()), receive))
        });
        let options = UploadToContainerOptionsBuilder::new().path(VOLUME).build();
        let call = api.client().upload_to_container(container, Some(options), bollard::body_try_stream(pieces));
        let answer = timeout(UPLOAD, call).await;
        let broken = |error: io::Error| Failure::Broken(format!("a file to upload cannot be read: {error}"));
        match answer {
            // The reader goes away first when the engine refuses; then its own words are the better ones.
            Ok(Err(error)) => Err(failure(&error)),
            Ok(Ok(())) => made.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(broken),
            Err(_) => {
                let minutes = UPLOAD.as_secs() / 60;
                Err(Failure::Broken(format!("the engine did not take ctk-bench and its files within {minutes} min")))
            }
        }
    }

    fn write(&self, out: impl Write) -> io::Result<()> {
        let mut tar = Builder::new(out);
        // The same bytes for the same files, and root's.
        tar.mode(HeaderMode::Deterministic);
        tar.follow_symlinks(false);
        add(&mut tar, "bin/ctk-bench", &self.bench, 0o755)?;
        if let Some(request) = &self.request {
            add(&mut tar, "in/request.json", request, 0o644)?;
        }
        if let Some(toolkit) = &self.toolkit {
            tar.append_dir_all("toolkit", toolkit)?;
        }
        for (folder, place) in &self.folders {
            tar.append_dir_all(place, folder)?;
        }
        tar.into_inner()?.flush()
    }
}

/// Those of the folders that lie in the volume, and where. What does not is in the image: the engine has none of this
/// machine's.
fn places(folders: &[(PathBuf, PathBuf)]) -> Vec<(PathBuf, PathBuf)> {
    let place =
        |(folder, inside): &(PathBuf, PathBuf)| Some((folder.clone(), inside.strip_prefix(VOLUME).ok()?.to_owned()));
    folders.iter().filter_map(place).collect()
}

fn add(tar: &mut Builder<impl Write>, name: &str, file: &Path, mode: u32) -> io::Result<()> {
    let content = std::fs::File::open(file)?;
    let mut header = Header::new_gnu();
    header.set_size(content.metadata()?.len());
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, name, content)
}

/// Turns what is written into pieces for the stream.
struct Pieces {
    send: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        if piece.is_empty() {
            return Ok(());
        }
        self.send.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_the_program_the_request_and_the_toolkit_with_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("tk/lib")).unwrap();
        std::fs::write(path("tk/lib/libnvrtc.so.12.6.85"), vec![7; 200_000]).unwrap();
        std::os::unix::fs::symlink("libnvrtc.so.12.6.85", path("tk/lib/libnvrtc.so.12")).unwrap();
        std::fs::write(path("bench"), "b").unwrap();
        std::fs::write(path("request"), "{}").unwrap();
        std::fs::create_dir_all(path("env/bin")).unwrap();
        // The interpreter is in the image.
        std::os::unix::fs::symlink("/nowhere/python3.13", path("env/bin/python3")).unwrap();
        let folders = places(&[(path("env"), "/ctk/stack".into()), (path("tk"), "/opt/python".into())]);
        let (request, toolkit) = (Some(path("request")), Some(path("tk")));
        let upload = Upload { bench: path("bench"), request, toolkit, folders };
        let mut bytes = Vec::new();
        upload.write(&mut bytes).unwrap();
        let mut found = Vec::new();
        for entry in tar::Archive::new(&*bytes).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let link = entry.link_name().unwrap().map(|link| link.display().to_string());
            let path = entry.path().unwrap().display().to_string();
            found.push((path, header.size().unwrap(), header.mode().unwrap() & 0o555, link));
            assert_eq!(header.uid().unwrap(), 0);
        }
        found.sort();
        let line = |path: &str, size, mode, link: Option<&str>| (path.to_owned(), size, mode, link.map(Into::into));
        assert_eq!(
            found,
            [
                line("bin/ctk-bench", 1, 0o555, None),
                line("in/request.json", 2, 0o444, None),
                line("stack/", 0, 0o555, None),
                line("stack/bin", 0, 0o555, None),
                line("stack/bin/python3", 0, 0o555, Some("/nowhere/python3.13")),
                line("toolkit/", 0, 0o555, None),
                line("toolkit/lib", 0, 0o555, None),
                line("toolkit/lib/libnvrtc.so.12", 0, 0o555, Some("libnvrtc.so.12.6.85")),
                line("toolkit/lib/libnvrtc.so.12.6.85", 200_000, 0o444, None),
            ]
        );
    }
}

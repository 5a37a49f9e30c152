//! Builds an image through the engine: its log as it comes, an idle deadline, and nothing left of the stages that are
//! not part of it. The main function is [`build`], its main types are [`BuildAsk`] and [`BuildError`].
//!
//! Only the engine's classic builder is asked for, which every engine from API 1.41 on has. It keeps the layers of every
//! stage as images without a name; those that carry [`LABEL_STAGE`] hold a package index's settings, and are removed, or
//! the asker is told that they stay.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::super::output::Tail;
use super::super::owner::{Life, Owner};
use super::api::{Api, Failure, ListedImage, failure};
use super::gc::{Fate, GcImage};
use super::{LABEL_BUILDER, LABEL_OWNER, LABEL_PYTHON, LABEL_STAGE};

/// The most of a build's log that is kept: what decides stands at its end.
const KEPT: usize = 128 << 10;
/// How long after a build that was given up the engine may still leave something of it; an interruption has six seconds.
const LATE: Duration = Duration::from_millis(2500);

/// What is to be built.
pub struct BuildAsk<'a> {
    /// The tag of the image.
    pub tag: &'a str,
    /// What the image was made from, as one hash: an image with this tag and another hash is not it.
    pub key: &'a str,
    /// The files of the context. One of them is `Dockerfile`.
    pub files: &'a [(String, Vec<u8>)],
    /// `--build-arg`.
    pub arguments: &'a BTreeMap<String, String>,
    /// Without a line for so long, the build is ended.
    pub silence: Duration,
    /// Told each line of the log.
    pub line: &'a (dyn Fn(&str) + Send + Sync),
    /// Told what the build leaves behind that it should not.
    pub note: &'a (dyn Fn(String) + Send + Sync),
}

/// Why an image was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// One of its steps failed, or the engine gave up.
    #[error("{text}")]
    Failed {
        /// The engine's own text.
        text: String,
        /// The end of the log.
        log: String,
    },
    /// Nothing came for too long.
    #[error("the build said nothing for {seconds} s")]
    Idle {
        /// The deadline.
        seconds: u64,
        /// The end of the log.
        log: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Cancelled,
}

/// An image of this tag that was made from this; none where there is none.
pub(super) async fn existing(api: &Api, tag: &str, key: &str) -> Result<Option<String>, Failure> {
    let Some(image) = api.image(tag).await? else { return Ok(None) };
    let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
    Ok(image.id.filter(|_| labels.get(LABEL_PYTHON).is_some_and(|found| found == key)))
}

/// Builds an image and gives its id.
pub(super) async fn build(
    api: &Api,
    ask: &BuildAsk<'_>,
    mut cancel: watch::Receiver<bool>,
) -> Result<String, BuildError> {
    let mut log = Tail::default();
    let fail = |text: String, log: &Tail| BuildError::Failed { text, log: log.text(KEPT) };
    let before = existing(api, ask.tag, ask.key).await.ok().flatten();
    let mark = mark().map_err(|error| fail(format!("the system gives no random numbers: {error}"), &log))?;
    let context = context(ask.files).map_err(|error| fail(format!("its context cannot be made: {error}"), &log))?;
    let mut arguments: HashMap<&str, &str> = ask.arguments.iter().map(|(name, value)| (&**name, &**value)).collect();
    let owner = Owner::this_process().map_or_else(|| "unknown".into(), |owner| owner.to_string());
    arguments.extend([("CTK_STAGE", mark.as_str()), ("CTK_OWNER", owner.as_str())]);
    let options = BuildImageOptionsBuilder::new()
        .dockerfile("Dockerfile")
        .t(ask.tag)
        .rm(true)
        .forcerm(true)
        // The machine's own way to its package index, and to a proxy that listens on it alone.
        .networkmode("host")
        .buildargs(&arguments)
        .labels(&HashMap::from([(LABEL_PYTHON, ask.key), (LABEL_BUILDER, owner.as_str())]))
        .build();
    let mut answers = Box::pin(api.client().build_image(options, None, Some(bollard::body_full(context.into()))));
    let mut lines = Lines::default();
    let built = loop {
        let answer = tokio::select! {
            biased;
            Ok(_) = cancel.wait_for(|cancelled| *cancelled) => break Err(BuildError::Cancelled),
            answer = timeout(ask.silence, answers.next()) => answer,
        };
        let Ok(answer) = answer else {
            break Err(BuildError::Idle { seconds: ask.silence.as_secs(), log: log.text(KEPT) });
        };
        match answer {
            None => break Ok(()),
            Some(Ok(info)) => {
                let text = plain(&info.stream.or(info.status).unwrap_or_default());
                log.push(text.as_bytes(), KEPT);
                lines.push(&text, ask.line);
            }
            Some(Err(Error::DockerStreamError { error })) => break Err(fail(error, &log)),
            Some(Err(error)) => break Err(fail(failure(&error).to_string(), &log)),
        }
    };
    // An engine ends a build whose asker is gone.
    drop(answers);
    let late = match built {
        Ok(()) | Err(BuildError::Failed { .. }) => Duration::ZERO,
        Err(BuildError::Idle { .. } | BuildError::Cancelled) => LATE,
    };
    if let Some(left) = sweep(api, &mark, late).await {
        (ask.note)(left);
    }
    built?;
    let id = existing(api, ask.tag, ask.key).await.map_err(|failure| fail(failure.to_string(), &log))?;
    let id = id.ok_or_else(|| fail("the engine built it, and does not have it".into(), &log))?;
    if let Some(before) = before.filter(|before| *before != id) {
        drop_replaced(api, &before).await;
    }
    Ok(id)
}

/// Removes the image that had the tag before, where nobody wants it any more. If a container still uses it, it stays.
async fn drop_replaced(api: &Api, id: &str) {
    let Ok(Some(image)) = api.image(id).await else { return };
    let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
    if image.repo_tags.unwrap_or_default().is_empty() && is_orphan(&labels, LABEL_BUILDER) {
        // Else `gc` finds it by its label.
        let _ = api.remove_image(id).await;
    }
}

/// Whether the program that a label names is no more. While it lives, one of its jobs may be about to use the image.
fn is_orphan(labels: &HashMap<String, String>, label: &str) -> bool {
    let owner = labels.get(label).and_then(|owner| owner.parse::<Owner>().ok());
    matches!(owner.map(|owner| owner.life()), Some(Life::Gone))
}

/// A name for this build's own layers, which nobody else's have.
fn mark() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    }))
}

/// The context as a tar, the same bytes for the same files.
fn context(files: &[(String, Vec<u8>)]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &**content)?;
    }
    tar.into_inner()
}

/// A text without the colour that the engine gives to what a step wrote to its standard error.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut out, part| {
        let code = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        out.push_str(code.filter(|at| part[*at..].starts_with('m')).map_or(part, |at| &part[at + 1..]));
        out
    })
}

/// Cuts pieces of text into lines.
#[derive(Default)]
struct Lines {
    open: String,
}

impl Lines {
    fn push(&mut self, text: &str, tell: &(dyn Fn(&str) + Send + Sync)) {
        self.open.push_str(text);
        while let Some((line, rest)) = self.open.split_once('\n') {
            tell(line.trim_end());
            self.open = rest.to_owned();
        }
    }
}

/// Removes what a build has left beside its image, and for some time what it still may leave. Says what stays.
async fn sweep(api: &Api, mark: &str, late: Duration) -> Option<String> {
    let label = format!("{LABEL_STAGE}={mark}");
    let until = Instant::now() + late;
    loop {
        let removed = remove(api, &label, false, |_| true).await;
        if Instant::now() >= until {
            return left(&removed);
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// What of a build's layers stays, in one line.
fn left(removed: &Result<Vec<GcImage>, Failure>) -> Option<String> {
    let cure = "`ctk-matrix gc` removes them once this run is over";
    match removed {
        Err(failure) => Some(format!(
            "the layers of an image build cannot be looked for, and pip's settings may be in them ({failure}): {cure}"
        )),
        Ok(images) => {
            let failed = images.iter().filter_map(|image| match &image.fate {
                Fate::Failed(why) => Some(why.as_str()),
                Fate::Removed | Fate::WouldRemove | Fate::Kept(_) => None,
            });
            let reasons: Vec<&str> = failed.collect();
            let why = reasons.first()?;
            let count = reasons.len();
            Some(format!("layers of an image build stay, with pip's settings in them ({count}; {why}): {cure}"))
        }
    }
}

/// Removes the nameless images with a label that are to go, or names them, and says what became of each.
async fn remove(
    api: &Api,
    label: &str,
    dry_run: bool,
    goes: impl Fn(&ListedImage) -> bool,
) -> Result<Vec<GcImage>, Failure> {
    let mut images = Vec::new();
    for image in api.images(label, true).await?.into_iter().filter(goes) {
        let removed = if dry_run { None } else { Some(api.remove_image(&image.id).await) };
        images.push(GcImage { id: image.id, fate: fate(removed) });
    }
    Ok(images)
}

/// What became of an image, from the engine's answer if it was asked to remove it.
fn fate(removed: Option<Result<(), Failure>>) -> Fate {
    match removed {
        None => Fate::WouldRemove,
        Some(Ok(())) => Fate::Removed,
        // One below another went with it.
        Some(Err(failure)) if failure.is_not_found() => Fate::Removed,
        Some(Err(failure)) => Fate::Failed(failure.to_string()),
    }
}

/// Removes, or names, what builds have left whose program is no more: their layers, and images whose tag another has now.
pub(super) async fn collect(api: &Api, dry_run: bool) -> Result<Vec<GcImage>, Failure> {
    let mut images = remove(api, LABEL_STAGE, dry_run, |image| is_orphan(&image.labels, LABEL_OWNER)).await?;
    images.extend(remove(api, LABEL_BUILDER, dry_run, |image| is_orphan(&image.labels, LABEL_BUILDER)).await?);
    Ok(images)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn pieces_become_lines_wherever_they_were_cut() {
        let seen = Mutex::new(Vec::new());
        let tell = |line: &str| seen.lock().unwrap().push(line.to_owned());
        let mut lines = Lines::default();
        for piece in ["Step 1/2 : FR", "OM a\n ---> b\r\nctk", ": installing\n", "open"] {
            lines.push(piece, &tell);
        }
        assert_eq!(*seen.lock().unwrap(), ["Step 1/2 : FROM a", " ---> b", "ctk: installing"]);
    }

    #[test]
    fn what_a_step_wrote_to_its_standard_error_comes_without_colour() {
        assert_eq!(plain("\u{1b}[91mctk-error: no\n\u{1b}[0mRemoving\u{1b}[1;31m"), "ctk-error: no\nRemoving");
        assert_eq!(plain("a [0m b"), "a [0m b");
    }

    #[test]
    fn the_context_is_the_same_for_the_same_files() {
        let files = [("Dockerfile".to_owned(), b"FROM a".to_vec()), ("requirements.txt".to_owned(), b"b".to_vec())];
        let bytes = context(&files).unwrap();
        assert_eq!(bytes, context(&files).unwrap());
        let mut archive = tar::Archive::new(&*bytes);
        let names: Vec<_> =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["Dockerfile", "requirements.txt"]);
    }

    #[test]
    fn what_cannot_be_removed_is_said_with_its_cure_and_stops_nothing_else() {
        let refused = || Failure::Broken("the image is in use".into());
        let image = |fate| GcImage { id: "sha256:1".into(), fate };
        assert_eq!(left(&Ok(vec![image(fate(Some(Ok(()))))])), None);
        assert_eq!(
            left(&Ok(vec![image(fate(Some(Err(refused())))), image(fate(Some(Ok(()))))])).unwrap(),
            format!(
                "layers of an image build stay, with pip's settings in them (1; {}): `ctk-matrix gc` removes them once \
                 this run is over",
                refused()
            )
        );
        assert!(left(&Err(refused())).unwrap().contains("`ctk-matrix gc`"));
        assert_eq!(fate(None), Fate::WouldRemove);
    }

    #[test]
    fn an_image_is_an_orphan_once_its_program_is_gone_and_not_where_nobody_is_named() {
        let of = |owner: String| is_orphan(&HashMap::from([(LABEL_BUILDER.to_owned(), owner)]), LABEL_BUILDER);
        let living = Owner::this_process().unwrap();
        assert!(!of(living.to_string()));
        // Another process with its number began at another time.
        let fields: Vec<_> = living.to_string().split(' ').map(ToOwned::to_owned).collect();
        assert!(of(format!("{} 1 {} {}", fields[0], fields[2], fields[3])));
        assert!(!of("unknown".into()) && !is_orphan(&HashMap::new(), LABEL_BUILDER));
    }
}

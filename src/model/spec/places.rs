//! The first pass over a matrix file: text in, a [`Node`] tree with places out. Its main function is [`tree`].
//!
//! It reads events of a maintained parser one at a time and stops at the limits, so that `serde_yaml`, which expands
//! aliases (1.9 GB for a document of 160 KB) and recurses, sees only what passed here.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::error::{Complaint, Findings, quoted};
use super::node::{Kind, Node, Pair};

/// The largest file, in bytes: ten times a matrix of a hundred toolkits.
pub const MAX_BYTES: usize = 64 * 1024;
/// The deepest nesting. A matrix needs four levels.
const MAX_DEPTH: usize = 16;

/// The file's text, if it is not too large and is UTF-8. A byte order mark is dropped.
pub(super) fn text<'a>(bytes: &'a [u8], findings: &mut Findings) -> Option<&'a str> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is larger than {} KiB", MAX_BYTES / 1024);
        findings.add(0..0, Complaint::new(message).help("a matrix names toolkits by ranges, such as `12.x`"));
        return None;
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            findings.add(0..0, Complaint::new(format!("the file is not UTF-8 text: see line {line}")));
            None
        }
    }
}

/// The tree of the text. `None` if there is no telling what it says; then `findings` says why.
pub(super) fn tree(text: &str, findings: &mut Findings) -> Option<Node> {
    let places = Places::new(text);
    let mut builder = Builder { findings, open: Vec::new(), root: None, documents: 0, line: 0 };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        match next {
            Ok((event, span)) => {
                builder.line = span.start.line();
                builder.take(event, places.range(span))?;
            }
            Err(error) => {
                builder.syntax(&error, &places);
                return None;
            }
        }
    }
    let root = builder.root;
    if root.is_none() {
        findings.add(0..0, Complaint::new("the file is empty").help("write `version: 1` and `toolkits: [\"12.6\"]`"));
    }
    root
}

/// Turns the parser's places, which are counted in characters, into byte ranges.
struct Places<'a> {
    text: &'a str,
    /// The byte offset of each character, and of the end; none where characters are bytes.
    offsets: Option<Vec<usize>>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        let offsets =
            (!text.is_ascii()).then(|| text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect());
        Self { text, offsets }
    }

    fn offset(&self, character: usize) -> usize {
        match &self.offsets {
            Some(offsets) => offsets.get(character).copied().unwrap_or(self.text.len()),
            None => character.min(self.text.len()),
        }
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.offset(span.start.index());
        let end = self.offset(span.end.index()).max(start);
        // A scalar without quotes reaches up to the next token; the blanks before that are not part of it.
        start..start + self.text[start..end].trim_end().len()
    }
}

/// A list or map that is being filled.
struct Open {
    span: Range<usize>,
    node: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        pairs: Vec<Pair>,
        /// The key whose value is to come. `None` inside: a key that is no word, or one written before.
        key: Option<(Option<String>, Range<usize>)>,
        /// The keys so far, and their lines.
        seen: HashMap<String, usize>,
    },
}

struct Builder<'f> {
    findings: &'f mut Findings,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    /// The line of the event at hand.
    line: usize,
}

impl Builder<'_> {
    /// Takes one event. `None` means that there is no point in reading on.
    fn take(&mut self, event: Event<'_>, span: Range<usize>) -> Option<()> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let complaint = Complaint::new("a second document begins here: a matrix file holds one");
                    self.findings.add(span, complaint);
                    return None;
                }
            }
            Event::Alias(_) => {
                self.findings.add(span.clone(), Complaint::new("aliases are not allowed: write the value out"));
                self.add(Node { span, kind: Kind::Refused });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.vet(anchor, tag.as_deref(), &span);
                let plain = style == ScalarStyle::Plain;
                self.add(Node { span, kind: Kind::Scalar { text: text.into_owned(), plain } });
            }
            Event::SequenceStart(anchor, tag) => {
                self.vet(anchor, tag.as_deref(), &span);
                self.enter(Open { span, node: OpenKind::List(Vec::new()) })?;
            }
            Event::MappingStart(anchor, tag) => {
                self.vet(anchor, tag.as_deref(), &span);
                self.enter(Open { span, node: OpenKind::Map { pairs: Vec::new(), key: None, seen: HashMap::new() } })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let kind = match open.node {
                        OpenKind::List(items) => Kind::List(items),
                        OpenKind::Map { pairs, .. } => Kind::Map(pairs),
                    };
                    self.add(Node { span: open.span, kind });
                }
            }
        }
        Some(())
    }

    fn vet(&mut self, anchor: usize, tag: Option<&saphyr_parser::Tag>, span: &Range<usize>) {
        if anchor != 0 {
            self.findings.add(span.clone(), Complaint::new("anchors are not allowed: write the value out each time"));
        }
        if let Some(tag) = tag {
            let message = format!("the tag {} is not allowed", quoted(&tag.to_string()));
            self.findings.add(span.clone(), Complaint::new(message).help("for text, put the value in quotes"));
        }
    }

    fn enter(&mut self, open: Open) -> Option<()> {
        if self.open.len() == MAX_DEPTH {
            self.findings.add(open.span, too_deep());
            return None;
        }
        self.open.push(open);
        Some(())
    }

    fn add(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut open.node {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { pairs, key, seen } => match key.take() {
                Some((Some(key), span)) => pairs.push(Pair { key, span, value: node }),
                Some((None, _)) => {}
                None => {
                    let Node { span, kind } = node;
                    let name = match kind {
                        Kind::Scalar { text, .. } => {
                            let first = seen.get(&text).copied();
                            if let Some(first) = first {
                                let twice =
                                    format!("the key {} is written twice, first on line {first}", quoted(&text));
                                self.findings.add(span.clone(), Complaint::new(twice).help("join the two into one"));
                            } else {
                                seen.insert(text.clone(), self.line);
                            }
                            first.is_none().then_some(text)
                        }
                        Kind::Refused => None,
                        Kind::List(_) | Kind::Map(_) => {
                            self.findings.add(span.clone(), Complaint::new("a key must be a word"));
                            None
                        }
                    };
                    *key = Some((name, span));
                }
            },
        }
    }

    fn syntax(&mut self, error: &ScanError, places: &Places<'_>) {
        let at = places.offset(error.marker().index());
        // The scanner, which reads ahead, has a limit of its own for brackets.
        if error.info() == "recursion limit exceeded" {
            self.findings.add(at..at, too_deep());
            return;
        }
        let complaint = Complaint::new(format!("this is not YAML: {}", error.info()));
        // The parser notices late: what it says is often about the line after the mistake.
        let cure = "look here and above for a bracket or quote that is not closed, a tab, or a wrong indentation";
        self.findings.add(at..at, complaint.help(cure));
    }
}

fn too_deep() -> Complaint {
    Complaint::new(format!("nested more than {MAX_DEPTH} levels deep"))
}

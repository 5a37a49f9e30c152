//! The driver's PTX compiler, as far as it says yes or no: version, target, syntax, and the entries' names.
//! The main type is [`Ptx`]. What it says is worded as ptxas words it.
//!
//! Operands and types are not checked: text with a known instruction and wrong operands is taken here and would be
//! refused by a real driver.

use super::Refusal;
use super::arch::Arch;
use super::instruction;
use super::lexer::{Token, tokens};
use crate::code::Code;

/// What PTX says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ptx {
    /// The SM number of its target.
    pub(super) target: u32,
    /// The toolkit in its comment, `release 12.6`.
    pub(super) producer: Option<(u32, u32)>,
    /// Its kernels.
    pub(super) entries: Vec<String>,
}

/// The highest minor version of each major PTX ISA that was published, from 1 on; 9 is still growing.
const LAST_MINOR: [u32; 8] = [5, 3, 2, 3, 0, 5, 8, 8];

/// Whether text is PTX at all: after its comments comes `.version`.
pub(super) fn is_ptx(text: &str) -> bool {
    tokens(text).first().is_some_and(|token| token.text == ".version")
}

/// Compiles text for a GPU, up to a highest PTX ISA.
pub(super) fn compile(text: &str, highest: (u32, u32), gpu: (u32, u32)) -> Result<Ptx, Refusal> {
    let tokens = tokens(text);
    let at = |index: usize| tokens.get(index).copied();
    let line = |index: usize| at(index).or(tokens.last().copied()).map_or(1, |token| token.line);

    let version = at(1)
        .and_then(|token| number(token.text))
        .ok_or_else(|| fatal(line(1), "Missing .version directive at start of file 'ptx input'"))?;
    check_version(version, highest, line(0))?;

    let (Some(".target"), Some(target)) = (at(2).map(|token| token.text), at(3)) else {
        return Err(fatal(line(2), "Missing .target directive at start of file 'ptx input'"));
    };
    // Behind the architecture there may be options: `.target sm_90, debug`.
    let mut rest = 4;
    while at(rest).is_some_and(|token| token.text == ",") {
        rest += 2;
    }
    let arch = Arch::parse(target.text).filter(|arch| arch.first_isa().is_some());
    let arch = arch.ok_or_else(|| fatal(target.line, &format!("Unsupported .target '{}'", target.text)))?;
    arch.text_compiles_for(gpu).map_err(|why| Refusal::new(Code::INVALID_PTX, format!("ptxas fatal   : {why}\n")))?;
    if arch.first_isa().is_some_and(|first| version < first) {
        let (major, minor) = version;
        let why = format!("PTX .version {major}.{minor} does not support .target {}", target.text);
        return Err(at_line(Code::INVALID_PTX, target.line, "error  ", &why));
    }

    let entries = Parser { tokens: tokens.get(rest..).unwrap_or_default(), entries: Vec::new() }.run()?;
    Ok(Ptx { target: arch.sm(), producer: producer(text), entries })
}

/// Refuses a PTX ISA above the highest, and one that never was.
pub(super) fn check_version(version: (u32, u32), highest: (u32, u32), line: usize) -> Result<(), Refusal> {
    let (major, minor) = version;
    let last = usize::try_from(major).ok().and_then(|major| LAST_MINOR.get(major.checked_sub(1)?));
    if major > 0 && version <= highest && last.is_none_or(|last| minor <= *last) {
        return Ok(());
    }
    let why = format!("Unsupported .version {major}.{minor}; current version is '{}.{}'", highest.0, highest.1);
    Err(at_line(Code::UNSUPPORTED_PTX_VERSION, line, "fatal  ", &why))
}

/// A fatal error in the text.
fn fatal(line: usize, why: &str) -> Refusal {
    at_line(Code::INVALID_PTX, line, "fatal  ", why)
}

fn at_line(code: Code, line: usize, weight: &str, why: &str) -> Refusal {
    let log = format!(
        "ptxas application ptx input, line {line}; {weight} : {why}\n\
         ptxas fatal   : Ptx assembly aborted due to errors\n"
    );
    Refusal::new(code, log)
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn producer(text: &str) -> Option<(u32, u32)> {
    let after = text.split_once("Cuda compilation tools, release ")?.1;
    number(after.split(',').next()?)
}

/// Goes over the module's statements.
struct Parser<'a> {
    tokens: &'a [Token<'a>],
    entries: Vec<String>,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Vec<String>, Refusal> {
        let mut statement: Vec<Token<'a>> = Vec::new();
        while let Some((&token, rest)) = self.tokens.split_first() {
            self.tokens = rest;
            match token.text {
                ";" => statement.clear(),
                "{" if statement.iter().any(|token| matches!(token.text, ".entry" | ".func")) => {
                    check_brackets(&statement, token)?;
                    self.body(token)?;
                    self.entry(&statement);
                    statement.clear();
                }
                // The debugger's sections hold data, not instructions.
                "{" if statement.first().is_some_and(|token| token.text == ".section") => {
                    self.skip_braces(token)?;
                    statement.clear();
                }
                // An initial value: `.global .b8 x[2] = {1, 2};`
                "{" if statement.iter().any(|token| token.text == "=") => self.skip_braces(token)?,
                "{" | "}" => return Err(syntax(token)),
                ".address_size" if statement.is_empty() => {
                    let size = self.tokens.split_first().filter(|(size, _)| matches!(size.text, "32" | "64"));
                    self.tokens = size.ok_or_else(|| self.end_of_text(token))?.1;
                }
                text if statement.is_empty() && !text.starts_with('.') => return Err(syntax(token)),
                _ => statement.push(token),
            }
        }
        match statement.last() {
            Some(last) => Err(end(last.line)),
            None => Ok(self.entries),
        }
    }

    /// Notes the name in `.visible .entry NAME (…)`.
    fn entry(&mut self, statement: &[Token<'a>]) {
        let place = statement.iter().position(|token| token.text == ".entry");
        if let Some(name) = place.and_then(|place| statement.get(place + 1)) {
            self.entries.push(name.text.into());
        }
    }

    /// Goes over a function's body, up to the brace that closes it.
    fn body(&mut self, open: Token<'a>) -> Result<(), Refusal> {
        let mut depth = 1_usize;
        let mut statement: Vec<Token<'a>> = Vec::new();
        let mut last = open;
        while let Some((&token, rest)) = self.tokens.split_first() {
            self.tokens = rest;
            last = token;
            match token.text {
                ";" => {
                    check_statement(&statement, token)?;
                    statement.clear();
                }
                ":" if statement.len() == 1 => statement.clear(),
                "{" if statement.is_empty() => depth += 1,
                "}" if statement.is_empty() => depth -= 1,
                // A vector operand: `ld.v2.f32 {%f1, %f2}, [%rd1];`
                "{" => {
                    statement.push(token);
                    self.operand_braces(&mut statement, token)?;
                }
                "}" => return Err(syntax(token)),
                _ => statement.push(token),
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.end_of_text(last))
    }

    fn operand_braces(&mut self, statement: &mut Vec<Token<'a>>, open: Token<'a>) -> Result<(), Refusal> {
        while let Some((&token, rest)) = self.tokens.split_first() {
            self.tokens = rest;
            statement.push(token);
            match token.text {
                "}" => return Ok(()),
                ";" | "{" => return Err(syntax(token)),
                _ => {}
            }
        }
        Err(self.end_of_text(open))
    }

    fn skip_braces(&mut self, open: Token<'a>) -> Result<(), Refusal> {
        let mut depth = 1_usize;
        while let Some((token, rest)) = self.tokens.split_first() {
            self.tokens = rest;
            match token.text {
                "{" => depth += 1,
                "}" if depth == 1 => return Ok(()),
                "}" => depth -= 1,
                _ => {}
            }
        }
        Err(self.end_of_text(open))
    }

    fn end_of_text(&self, last: Token<'a>) -> Refusal {
        end(self.tokens.last().unwrap_or(&last).line)
    }
}

/// Checks one statement of a body, without its semicolon.
fn check_statement(statement: &[Token<'_>], semicolon: Token<'_>) -> Result<(), Refusal> {
    check_brackets(statement, semicolon)?;
    // A guard: `@%p1 bra …` or `@!%p1 …`.
    let unguarded = match statement {
        [at, not, _, rest @ ..] if at.text == "@" && not.text == "!" => rest,
        [at, _, rest @ ..] if at.text == "@" => rest,
        whole => whole,
    };
    match unguarded.first() {
        None if statement.is_empty() => Ok(()),
        None => Err(syntax(semicolon)),
        Some(directive) if directive.text.starts_with('.') => Ok(()),
        Some(token) => {
            let name = token.text.split('.').next().unwrap_or_default();
            if instruction::is_known(name) {
                return Ok(());
            }
            let why = format!("Not a name of any known instruction: '{name}'");
            Err(at_line(Code::INVALID_PTX, token.line, "error  ", &why))
        }
    }
}

/// Checks that round and square brackets close in the order in which they open.
fn check_brackets(statement: &[Token<'_>], after: Token<'_>) -> Result<(), Refusal> {
    let mut open = Vec::new();
    for token in statement {
        match token.text {
            "(" => open.push(")"),
            "[" => open.push("]"),
            ")" | "]" if open.pop() != Some(token.text) => return Err(syntax(*token)),
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(syntax(after)) }
}

fn syntax(token: Token<'_>) -> Refusal {
    fatal(token.line, &format!("Parsing error near '{}': syntax error", token.text))
}

fn end(line: usize) -> Refusal {
    fatal(line, "Parsing error near '': syntax error")
}

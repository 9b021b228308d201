//! Output for people and programs: tables that fit the terminal, JSON that does not depend on it.

pub(crate) mod confirm;
pub(crate) mod events;
pub(crate) mod json;
pub(crate) mod label;
pub(crate) mod paint;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod times;

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde_json::Value;

use paint::Paint;
use table::Table;

/// The width of what is not a terminal: wide enough that nothing is cut short by accident.
const WIDTH_WITHOUT_TERMINAL: usize = 200;
/// Narrower than this, tables are cut rather than squeezed further.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One JSON document per line.
    Jsonl,
}

/// Where and how a subcommand prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    pub(crate) paint: Paint,
    pub(crate) width: usize,
    is_terminal: bool,
    /// When the program started: ages are relative to this.
    pub(crate) now: u64,
}

impl Screen {
    pub(crate) fn new(format: Format, no_color: bool) -> Screen {
        let is_terminal = io::stdout().is_terminal();
        let wants_color =
            is_terminal && !no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let width =
            terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).filter(|_| is_terminal);
        Screen {
            format,
            paint: Paint::new(wants_color),
            width: width.unwrap_or(WIDTH_WITHOUT_TERMINAL).max(WIDTH_MIN),
            is_terminal,
            now: times::now(),
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// The same for lines that begin this far to the right.
    pub(crate) fn indented(&self, by: usize) -> Screen {
        Screen { width: self.width.saturating_sub(by), ..*self }
    }

    /// How long a line may be. What is not a terminal takes any.
    pub(crate) fn line_width(&self) -> usize {
        if self.is_terminal { self.width } else { usize::MAX }
    }

    /// Sentences for people, with lines that are no longer than the terminal is wide.
    pub(crate) fn wrapped(&self, text: &str) -> String {
        text::wrap(text, self.line_width())
    }

    /// A list: a table for people, a JSON list, or a line for each entry.
    pub(crate) fn list(
        &self,
        table: impl FnOnce() -> Table,
        entries: impl FnOnce() -> Vec<Value>,
    ) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.format {
            Format::Table => out.write_all(table().render(self.width, self.paint).as_bytes())?,
            Format::Json => writeln!(out, "{}", self.document(&Value::Array(entries())))?,
            Format::Jsonl => {
                for entry in entries() {
                    writeln!(out, "{}", self.line(&entry))?;
                }
            }
        }
        out.flush()
    }

    /// One thing: lines for people, or a JSON document.
    pub(crate) fn one(&self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.format {
            Format::Table => writeln!(out, "{}", text().trim_end())?,
            Format::Json => writeln!(out, "{}", self.document(&value()))?,
            Format::Jsonl => writeln!(out, "{}", self.line(&value()))?,
        }
        out.flush()
    }

    /// Bytes as they are (escape_line on a terminal), and the end of a line.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        text::write(&mut out, bytes)?;
        if !bytes.ends_with(b"\n") {
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// One of a stream of things: a line each, in whatever format.
    pub(crate) fn next(
        &self,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.format {
            Format::Table => writeln!(out, "{}", text())?,
            Format::Json | Format::Jsonl => writeln!(out, "{}", self.line(&value()))?,
        }
        out.flush()
    }

    fn document(&self, value: &Value) -> String {
        self.json(format!("{value:#}"))
    }

    fn line(&self, value: &Value) -> String {
        self.json(value.to_string())
    }

    fn json(&self, text: String) -> String {
        if self.is_terminal { text::escape_json(&text).into_owned() } else { text }
    }
}

/// Several things that come one after another: a line each, or all of them in one document where that is wanted.
#[derive(Debug)]
pub(crate) struct ItemList<'a> {
    screen: &'a Screen,
    gathered: Vec<Value>,
}

impl<'a> ItemList<'a> {
    pub(crate) fn new(screen: &'a Screen) -> ItemList<'a> {
        ItemList { screen, gathered: Vec::new() }
    }

    pub(crate) fn next(
        &mut self,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> io::Result<()> {
        if self.screen.format != Format::Json {
            return self.screen.next(text, value);
        }
        self.gathered.push(value());
        Ok(())
    }

    /// There is no more.
    pub(crate) fn end(self) -> io::Result<()> {
        if self.screen.format != Format::Json {
            return Ok(());
        }
        self.screen.one(String::new, || Value::Array(self.gathered))
    }
}

/// A remark for people, apart from what programs read. On a terminal, its lines are no longer than the terminal is wide.
pub(crate) fn remark(text: impl AsRef<str>) {
    let text = text.as_ref();
    let text = match terminal_size::terminal_size_of(io::stderr()) {
        Some((width, _)) => text::wrap(text, usize::from(width.0).max(WIDTH_MIN)),
        None => text.to_owned(),
    };
    // A remark that cannot be written is not an error.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The last words of a program that failed. On a terminal, with short ids.
pub(crate) fn last_words(text: &str) {
    let text = text::escape_lines(text);
    if io::stderr().is_terminal() { remark(label::with_short_ids(&text)) } else { remark(text) }
}

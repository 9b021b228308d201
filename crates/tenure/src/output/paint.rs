//! Colours, if the user's terminal and settings allow them.

use std::borrow::Cow;

pub(crate) use super::text::escape_line;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Color {
    #[default]
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
}

impl Paint {
    pub(crate) fn new(on: bool) -> Paint {
        Paint { on }
    }

    pub(crate) fn apply<'a>(self, color: Color, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text = text.into();
        let code = match color {
            Color::Plain => return text,
            Color::Bold => "1",
            Color::Dim => "2",
            Color::Red => "31",
            Color::Green => "32",
            Color::Yellow => "33",
            Color::Blue => "34",
            Color::Cyan => "36",
        };
        if !self.on || text.is_empty() {
            return text;
        }
        Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
    }
}

/// The colour of a task's state.
pub(crate) fn of_state(state: &str) -> Color {
    match state {
        "running" => Color::Green,
        "assigned" => Color::Cyan,
        "ready" => Color::Blue,
        "created" | "waiting" | "delayed" | "suspended" => Color::Dim,
        "paused" => Color::Yellow,
        "failed" => Color::Red,
        "cancelled" => Color::Yellow,
        _ => Color::Plain,
    }
}

/// The colour of a worker's presence.
pub(crate) fn of_presence(presence: &str) -> Color {
    match presence {
        "live" => Color::Green,
        "lost" => Color::Red,
        _ => Color::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_is_not_painted() {
        assert_eq!(Paint::new(true).apply(Color::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Paint::new(false).apply(Color::Red, "no"), "no");
        assert_eq!(Paint::new(true).apply(Color::Plain, "yes"), "yes");
    }
}

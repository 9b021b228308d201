//! The picture below the lines: the broker, its workers and what they run, redrawn as things happen.
//!
//! Only on a terminal; elsewhere there are only the lines.

use std::io::{IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

use super::story::{Part, Story, TaskPhase};
use crate::output::paint::{Color, Paint};

const BAR: usize = 30;

#[derive(Debug)]
pub(crate) struct Picture {
    paint: Paint,
    /// Of the terminal, if there is one.
    width: Option<usize>,
    /// How many lines the last drawing has.
    lines: usize,
}

/// The picture at one moment.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) story: &'a Story,
    /// The name of each worker, and whether its process is there.
    pub(crate) workers: Vec<(&'a str, bool)>,
    pub(crate) broker_is_up: bool,
}

impl Picture {
    pub(crate) fn new(paint: Paint) -> Picture {
        let is_terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        Picture { paint, width: is_terminal.then_some(width), lines: 0 }
    }

    /// Prints a line above the picture.
    pub(crate) fn line(&mut self, text: &str) {
        let text = self.width.map_or_else(|| text.to_owned(), |width| wrapped(text, width));
        let mut out = std::io::stdout().lock();
        // The demo continues even if its output is closed.
        let _ = writeln!(out, "{}{text}", self.erase());
        let _ = out.flush();
        self.lines = 0;
    }

    /// A heading: what is done now, and what to look for.
    pub(crate) fn act(&mut self, title: &str, text: &str) {
        let title = self.paint.apply(Color::Bold, format!("\n── {title} ")).into_owned();
        self.line(&format!("{title}\n   {}", self.paint.apply(Color::Dim, text)));
    }

    pub(crate) fn draw(&mut self, scene: &Scene<'_>) {
        if self.width.is_none() {
            return;
        }
        let text = render(scene, self.paint);
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "{}{text}", self.erase());
        let _ = out.flush();
        self.lines = text.lines().count();
    }

    /// Moves up over the last drawing and clears it.
    fn erase(&self) -> String {
        if self.lines == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.lines) }
    }
}

fn render(scene: &Scene<'_>, paint: Paint) -> String {
    let story = scene.story;
    let total = story.parts().count();
    let done = story.count(TaskPhase::Completed);
    let filled = BAR * done / total.max(1);
    // As wide in one case as in the other, so that the bar stays where it is.
    let broker = if scene.broker_is_up {
        paint.apply(Color::Green, "● broker       ")
    } else {
        paint.apply(Color::Red, "✗ broker killed")
    };
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let waiting = story.count(TaskPhase::Waiting);
    let mut text = format!("\n   {broker}   {bar}  {done} of {total} done, {waiting} waiting\n");
    for (name, is_up) in &scene.workers {
        let runs: Vec<String> = story.run_by(name).into_iter().map(|part| shown(part, paint)).collect();
        let sign = if *is_up { paint.apply(Color::Green, "●") } else { paint.apply(Color::Red, "✗") };
        text += &format!("     {sign} {name:<8} {}\n", runs.join(" "));
    }
    text
}

/// Breaks lines that are too long between words, and sets what is left below the text.
fn wrapped(text: &str, width: usize) -> String {
    let broken: Vec<String> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    broken.join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    const INDENT: usize = 6;
    let mut text = String::new();
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let wide = seen_width(word.trim_end());
        if column + wide > width && column > INDENT {
            text.truncate(text.trim_end().len());
            text += &format!("\n{:INDENT$}", "");
            column = INDENT;
        }
        text += word;
        column += seen_width(word);
    }
    text
}

/// How many columns a text takes: colours take none.
fn seen_width(text: &str) -> usize {
    let mut rest = text;
    let mut width = 0;
    while let Some((before, after)) = rest.split_once('\x1b') {
        width += before.width();
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    width + rest.width()
}

fn shown(part: &Part, paint: Paint) -> String {
    let again = if part.attempt > 1 { format!("·{}", part.attempt) } else { String::new() };
    let color = if part.stand == TaskPhase::Unseen { Color::Yellow } else { Color::Cyan };
    paint.apply(color, format!("[{}{again}]", part.label)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_client::{Event, EventKind, TaskId, Timestamp};

    #[test]
    fn long_lines_break_between_words_and_colours_take_no_room() {
        assert_eq!(wrapped("   short\n   enough", 12), "   short\n   enough");
        assert_eq!(wrapped("   a line that is too long", 16), "   a line that\n      is too\n      long");
        let painted = "   \x1b[1mbold\x1b[0m words of 1";
        assert_eq!(wrapped(painted, 19), painted);
        assert_eq!(wrapped("   averyveryverylongword", 10), "   averyveryverylongword");
    }

    #[test]
    fn the_picture_shows_who_runs_what() {
        let mut story = Story::default();
        for number in 1..=2 {
            story.add(TaskId([number; 16]), number.to_string());
        }
        story.handle_event(&Event {
            seq: 1,
            at: Timestamp(0),
            kind: EventKind::Started,
            task: Some(TaskId([1; 16])),
            attempt: 2,
            queue: None,
            submitter: None,
            worker: Some("ada".into()),
            more: None,
        });
        let scene = Scene { story: &story, workers: vec![("ada", true), ("ben", false)], broker_is_up: true };
        let text = render(&scene, Paint::new(false));
        assert!(text.contains("● ada      [1·2]\n"), "{text}");
        assert!(text.contains("✗ ben      \n"), "{text}");
        assert!(text.contains("0 of 2 done, 1 waiting"), "{text}");
    }
}

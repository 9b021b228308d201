//! The elements that the pictures consist of, in colours for light and dark pages.

use std::fmt::Write as _;

/// The picture's own background makes it readable on any page; a dark page gets the dark one.
const STYLE: &str = "\
    .card{fill:#fff;stroke:#d0d7de}.box{fill:#f3f6fa;stroke:#57606a}.name{font:600 14px monospace;fill:#0b3d66}\
    .text,.title{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}\
    .line{stroke:#57606a;fill:none}.life{stroke:#afb8c1;stroke-dasharray:4 4}.head{fill:#57606a}\
    .note{fill:#fff4d6;stroke:#bf8700}.label{paint-order:stroke;stroke:#fff;stroke-width:4px}\
    @media (prefers-color-scheme:dark){.card{fill:#161b22;stroke:#30363d}.box{fill:#21262d;stroke:#8b949e}\
    .name{fill:#79c0ff}.text,.title{fill:#e6edf3}.line{stroke:#8b949e}.life{stroke:#484f58}\
    .head{fill:#8b949e}.note{fill:#3a2d05;stroke:#d29922}.label{stroke:#161b22}}";

pub(super) struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Svg {
        let mut svg = Svg { width, height, title: escaped(title), body: String::new() };
        svg.rect("card", (0.5, 0.5), (width - 1.0, height - 1.0));
        svg.text("title", (20.0, 30.0), "start", title);
        svg
    }

    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.add(&format!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="6"/>"#
        ));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(text);
        self.add(&format!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.add(&format!(r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#));
    }

    /// A straight line along one axis, with a head at its end.
    pub(super) fn arrow(&mut self, from: (f64, f64), to: (f64, f64)) {
        const LENGTH: f64 = 8.0;
        const HALF: f64 = 4.0;
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let base = (to.0 - ux * LENGTH, to.1 - uy * LENGTH);
        self.line("line", from, base);
        let [left, right] = [-HALF, HALF].map(|side| (base.0 - uy * side, base.1 + ux * side));
        self.add(&format!(
            r#"<path class="head" d="M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z"/>"#,
            to.0, to.1, left.0, left.1, right.0, right.1
        ));
    }

    pub(super) fn finish(self) -> String {
        let Svg { width, height, title, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a text takes everything");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Breaks a text into lines of at most this many characters, between words.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 4), ["incomprehensible"]);
    }

    #[test]
    fn what_is_written_is_not_markup() {
        let mut svg = Svg::new(10.0, 10.0, "a < b & c");
        svg.text("text", (1.0, 2.0), "start", "<b>");
        let svg = svg.finish();
        assert!(svg.contains("<title>a &lt; b &amp; c</title>") && svg.contains("&lt;b&gt;</text>"), "{svg}");
    }
}

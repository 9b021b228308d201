//! The part of Markdown that the rules need: the links of a page and the anchors of its headings.

/// A link as it is written, with its line counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Links written as `[text](target)` and as `[name]: target`, outside of code.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        if let Some(target) = definition(&prose) {
            found.push(Link { line, target });
            continue;
        }
        for (at, _) in prose.match_indices("](") {
            let target = destination(&prose[at + 2..]);
            found.push(Link { line, target });
        }
    }
    found
}

/// The anchors of all headings, as the common renderers make them, and those set by hand with an `id`.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in headings_and_ids(text) {
        let mut anchor = line.clone();
        let mut copy = 0;
        while found.contains(&anchor) {
            copy += 1;
            anchor = format!("{line}-{copy}");
        }
        found.push(anchor);
    }
    found
}

fn headings_and_ids(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in outside_fences(text) {
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if (1..=6).contains(&depth) && title.starts_with(' ') {
            found.push((number, slug(title.trim().trim_end_matches('#').trim_end())));
        }
        for attribute in ["id=\"", "name=\""] {
            for (at, _) in line.match_indices(attribute) {
                let id = &line[at + attribute.len()..];
                found.push((number, id[..id.find('"').unwrap_or(id.len())].to_owned()));
            }
        }
    }
    found
}

/// Small letters; spaces become hyphens; everything but letters, digits, hyphens and underscores goes.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in without_targets(title).chars() {
        match c {
            ' ' => slug.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => slug.extend(c.to_lowercase()),
            _ => {}
        }
    }
    slug
}

/// `[text](target)` is `text`.
fn without_targets(title: &str) -> String {
    let mut rest = title;
    let mut out = String::new();
    while let Some(at) = rest.find("](") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        rest = after.find(')').map_or("", |end| &after[end + 1..]);
    }
    out + rest
}

/// Lines outside of fenced code, with `inline code` blanked out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    outside_fences(text).map(|(number, line)| (number, without_code(line)))
}

fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        match fence {
            Some(mark) => {
                if start.starts_with(mark) && start.trim_end().chars().all(|c| mark.starts_with(c)) {
                    fence = None;
                }
                None
            }
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
                fence.is_none().then_some((index + 1, line))
            }
        }
    })
}

/// Blanks what stands between two runs of equally many backticks.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|&c| c == '`').count();
        let mark = &rest[start..start + ticks];
        out.push_str(&rest[..start]);
        let code = &rest[start + ticks..];
        match code.find(mark) {
            Some(end) => rest = &code[end + ticks..],
            None => {
                rest = code;
            }
        }
        out.push(' ');
    }
    out + rest
}

/// `[name]: target "title"`, but not the footnote `[^1]: words`.
fn definition(line: &str) -> Option<String> {
    let inner = line.trim_start().strip_prefix('[')?;
    let (name, target) = inner.split_once("]:")?;
    (!name.starts_with('^') && !name.contains(']')).then(|| destination(target.trim_start()))
}

/// What stands before the title or the closing bracket: `a.md "Title")` is `a.md`.
fn destination(text: &str) -> String {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split('>').next().unwrap_or(quoted).to_owned();
    }
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text[..at].to_owned(),
            ')' => depth -= 1,
            c if c.is_whitespace() => return text[..at].to_owned(),
            _ => {}
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_are_found_in_all_their_spellings() {
        assert_eq!(targets("[a](b.md) and ![c](d.png \"Title\")"), ["b.md", "d.png"]);
        assert_eq!(targets("[`code`](e.md) [f](<g h.md>)"), ["e.md", "g h.md"]);
        assert_eq!(targets("[x]: y.md\n[^1]: a footnote"), ["y.md"]);
        assert_eq!(targets("[![badge](a.svg)](b.md)"), ["a.svg", "b.md"]);
        assert_eq!(targets("[wiki](https://x.org/a_(b))"), ["https://x.org/a_(b)"]);
    }

    #[test]
    fn what_stands_in_code_is_no_link() {
        assert_eq!(targets("```\n[a](b.md)\n```\n[c](d.md)"), ["d.md"]);
        assert_eq!(targets("`[a](b.md)` and ``x ` [c](d.md)`` and [e](f.md)"), ["f.md"]);
        assert_eq!(targets("~~~text\n```\n[a](b.md)\n~~~\n[c](d.md)"), ["d.md"]);
    }

    #[test]
    fn a_link_knows_its_line() {
        assert_eq!(links("one\n\n[a](b.md)"), [Link { line: 3, target: "b.md".to_owned() }]);
    }

    #[test]
    fn headings_become_anchors_as_renderers_make_them() {
        let page = "# The Shape\n## `serve`: why, and how?\n## Again\n## Again\n```\n# not one\n```\n### [Link](x.md) here\n";
        assert_eq!(anchors(page), ["the-shape", "serve-why-and-how", "again", "again-1", "link-here"]);
        assert_eq!(anchors("<a id=\"by-hand\"></a>"), ["by-hand"]);
    }
}

//! Lines with holes: `<name>` is any text, the same wherever the name appears again; `…` is text not shown.

use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Bindings(HashMap<String, String>);

impl Bindings {
    /// Whether the text fits the pattern. If it does, what it says about new names is remembered.
    pub(crate) fn fits(&mut self, pattern: &str, text: &str) -> bool {
        let mut found = Vec::new();
        let fits = self.rest_fits(pattern, text, &mut found);
        if fits {
            self.0.extend(found);
        }
        fits
    }

    /// The pattern with every known name filled in.
    pub(crate) fn fill(&self, pattern: &str) -> String {
        let mut filled = pattern.to_owned();
        for (name, value) in &self.0 {
            filled = filled.replace(&format!("<{name}>"), value);
        }
        filled
    }

    fn rest_fits(&self, pattern: &str, text: &str, found: &mut Vec<(String, String)>) -> bool {
        let Some(next) = pattern.chars().next() else { return text.is_empty() };
        if let Some(after) = pattern.strip_prefix('…') {
            return ends(text).any(|end| {
                let before = found.len();
                self.rest_fits(after, &text[end..], found) || forget(found, before)
            });
        }
        if let Some((name, after)) = hole(pattern) {
            let known = found.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
            if let Some(value) = known.or_else(|| self.0.get(name).cloned()) {
                return text.strip_prefix(&*value).is_some_and(|rest| self.rest_fits(after, rest, found));
            }
            return ends(text).skip(1).any(|end| {
                let before = found.len();
                found.push((name.to_owned(), text[..end].to_owned()));
                self.rest_fits(after, &text[end..], found) || forget(found, before)
            });
        }
        text.strip_prefix(next).is_some_and(|rest| self.rest_fits(&pattern[next.len_utf8()..], rest, found))
    }
}

/// Where a hole may end: before every character and at the end, the shortest first.
fn ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.char_indices().map(|(at, _)| at).chain([text.len()])
}

fn forget(found: &mut Vec<(String, String)>, before: usize) -> bool {
    found.truncate(before);
    false
}

fn hole(pattern: &str) -> Option<(&str, &str)> {
    let (name, after) = pattern.strip_prefix('<')?.split_once('>')?;
    let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
    good.then_some((name, after))
}

#[test]
fn a_name_is_the_same_wherever_it_appears() {
    let mut bindings = Bindings::default();
    assert!(bindings.fits("$ {…\"job_id\":\"<id>\"…}", "$ {\"a\":1,\"job_id\":\"7-8\",\"b\":2}"));
    assert_eq!(bindings.fill("GET job:<id>:status <other>"), "GET job:7-8:status <other>");
    assert!(bindings.fits(":<id>", ":7-8"));
    assert!(!bindings.fits(":<id>", ":7-9"));
    assert!(!bindings.fits("+OK", "+OK more"));
}

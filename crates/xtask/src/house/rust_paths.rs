//! Finds the paths in Rust code, such as `std::time::Instant`, also inside a grouped `use`.
//!
//! Comments and literals are skipped: a comment may name what the code avoids.

/// A path with every prefix of it: `a::b` is found as `a` and as `a::b`. Lines count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) line: usize,
    pub(super) path: String,
}

pub(super) fn mentions(code: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    // What stands before each open brace: `std::time` in `use std::time::{…}`, nothing before a block.
    let mut groups: Vec<String> = Vec::new();
    let mut path = String::new();
    let mut after_colons = false;
    for (line, token) in tokens(code) {
        match token {
            Token::Word(word) => {
                if !after_colons {
                    path = groups.last().cloned().unwrap_or_default();
                }
                if !path.is_empty() {
                    path.push_str("::");
                }
                path.push_str(word);
                found.push(Mention { line, path: path.clone() });
            }
            Token::Open => groups.push(if after_colons { path.clone() } else { String::new() }),
            Token::Close => {
                groups.pop();
            }
            Token::Colons | Token::Other => {}
        }
        after_colons = token == Token::Colons;
        if token == Token::Other || token == Token::Close {
            path.clear();
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// An identifier, or the `*` of a glob.
    Word(&'a str),
    Colons,
    Open,
    Close,
    Other,
}

fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let mut found: Vec<(usize, Token<'_>)> = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (length, token) = if let Some(length) = skipped(rest, first) {
            (length, None)
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (length, Some(Token::Word(&rest[..length])))
        } else if rest.starts_with("::") {
            (2, Some(Token::Colons))
        } else {
            let glob = first == '*' && found.last().is_some_and(|(_, last)| *last == Token::Colons);
            let token = match first {
                '{' => Token::Open,
                '}' => Token::Close,
                '*' if glob => Token::Word("*"),
                _ => Token::Other,
            };
            (first.len_utf8(), Some(token))
        };
        if let Some(token) = token {
            found.push((line, token));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// How long the space, comment or literal is that begins here; `None` if none does.
fn skipped(rest: &str, first: char) -> Option<usize> {
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if let Some(hashes) = raw_string(rest) {
        let end = format!("\"{}", "#".repeat(hashes));
        let start = hashes + 2;
        return Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    match first {
        '"' => Some(string(rest)),
        '\'' => Some(char_or_lifetime(rest)),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// How many `#` a raw string that begins here has.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.chars().take_while(|&c| c == '#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` as a whole; of the lifetime `'a` only the mark, its name is a harmless word.
fn char_or_lifetime(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |at| 3 + at + 1),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        mentions(code).into_iter().map(|mention| mention.path).collect()
    }

    #[test]
    fn a_path_is_found_with_its_prefixes() {
        assert_eq!(
            paths("std::time::Instant::now()"),
            ["std", "std::time", "std::time::Instant", "std::time::Instant::now"]
        );
    }

    #[test]
    fn a_grouped_use_is_spread_out() {
        let found = paths("use std::{fs, time::{Duration, Instant}, io::*};\nfn a() { b::c }");
        for path in ["std::fs", "std::time::Duration", "std::time::Instant", "std::io::*", "b::c"] {
            assert!(found.iter().any(|found| found == path), "{path} in {found:?}");
        }
        assert!(!found.iter().any(|found| found == "std::b"));
    }

    #[test]
    fn comments_and_literals_mention_nothing() {
        assert_eq!(
            paths(
                "// rand\n/* rand /* rand */ rand */ \"rand \\\" rand\" r#\"rand \" rand\"# 'r' '\\'' '\"'"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_lifetime_does_not_swallow_the_code_after_it() {
        assert!(paths("fn a<'a>(b: &'a tokio::Rt) -> &'static str").contains(&"tokio::Rt".to_owned()));
    }

    #[test]
    fn a_mention_knows_its_line() {
        let found = mentions("//! x\n\"\n\"\nuse rand;");
        let rand = found.iter().find(|mention| mention.path == "rand");
        assert_eq!(rand.map(|mention| mention.line), Some(4));
    }
}

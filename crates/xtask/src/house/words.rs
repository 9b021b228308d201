//! Rule: the tree names the actor. Words that hide who acts, or that a reader with another first language stumbles
//! over, stand nowhere.
//!
//! The words are split here, because this file must keep the rule as well.

use super::Breach;
use super::tree::Tree;

/// Each word, and what to write instead.
const WORDS: [(&str, &str); 16] = [
    (concat!("who", "ever"), "name the client, worker or user"),
    (concat!("no", "body"), "write `no client`, `no worker`, `no peer`"),
    (concat!("some", "body"), "name the client, worker or user"),
    (concat!("every", "body"), "write `every client`, `all peers`"),
    (concat!("a", "new"), "write `again`"),
    (concat!("for ", "ever"), "write `without end`"),
    (concat!("so ", "much"), "write `this much`"),
    (concat!("so ", "many"), "write `this many`"),
    (concat!("is ", "told"), "say who tells: `the broker tells the client`"),
    (concat!("are ", "told"), "say who tells: `the broker tells the clients`"),
    (concat!("was ", "told"), "say who told: `the broker told the client`"),
    (concat!("were ", "told"), "say who told: `the broker told the clients`"),
    (concat!("be ", "told"), "say who tells: `the broker can tell the client`"),
    (concat!("been ", "told"), "say who told: `the broker has told the client`"),
    (concat!("put ", "by"), "write `saved` or `set aside`"),
    (concat!("of an attempt ", "that"), "write `whose attempt is over`, or turn the sentence round"),
];

/// Codes of the protocols, which stay as they are.
const CODES: [&str; 2] = [concat!("no", "body-there"), concat!("no", "body-asks")];

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            for (word, instead) in WORDS.iter().filter(|(word, _)| contains(line, word)) {
                let what = format!("`{word}`: {instead}");
                found.push(Breach { path: path.to_owned(), line: index + 1, what });
            }
        }
    }
    found
}

/// Whether the line has this word, in small letters or with a capital, and not as part of a code or of another word.
/// `_` divides the words of a name.
fn contains(line: &str, word: &str) -> bool {
    let (first, rest) = word.split_at(1);
    [word.to_owned(), word.replace(' ', "_"), first.to_uppercase() + rest].iter().any(|spelling| {
        line.match_indices(spelling.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + spelling.len()..].chars().next();
            let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            let is_code = CODES.iter().any(|code| line[at..].starts_with(code));
            !is_part(before) && !is_part(after) && !is_code
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        breaches(&Tree::of(&[("a.md", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_word_that_hides_the_actor_is_a_breach_with_its_line() {
        let text = format!("one\n{} does not read\n", concat!("Who", "ever"));
        assert_eq!(found(&text), [format!("a.md:2: `{}`: name the client, worker or user", WORDS[0].0)]);
        for (word, _) in WORDS {
            assert_eq!(found(&format!("It waits, {word}.")).len(), 1, "{word}");
            let name = format!("fn a_{}_b() {{", word.replace(' ', "_"));
            assert_eq!(found(&name).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_code_or_a_longer_word_is_fine() {
        let text = format!("`{}` and `{}`, Some{}y, {}er", CODES[0], CODES[1], "bodil", concat!("a", "new"));
        assert_eq!(found(&text), Vec::<String>::new());
    }
}

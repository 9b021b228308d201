//! Every `tenure` command on the pages is one that the command line accepts.

use std::path::{Path, PathBuf};

use clap::Parser as _;

use crate::args::Cli;

/// A command on a page.
#[derive(Debug, PartialEq, Eq)]
struct PageCommand {
    line: usize,
    words: Vec<String>,
}

/// The commands in the shell blocks of a page that start this program.
fn commands(page: &str) -> Vec<PageCommand> {
    let mut found = Vec::new();
    let mut in_block = false;
    let mut text = String::new();
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            in_block = ["```sh", "```console"].contains(&line);
            continue;
        }
        if !in_block {
            continue;
        }
        text += line.strip_prefix("$ ").unwrap_or(line);
        if text.ends_with('\\') {
            text.pop();
            continue;
        }
        for words in simple_commands(&text) {
            // Variables may stand before the program.
            let program = words.iter().position(|word| word == "tenure");
            let Some(program) = program.filter(|at| words[..*at].iter().all(|word| word.contains('=')))
            else {
                continue;
            };
            found.push(PageCommand { line: index + 1, words: words[program..].to_vec() });
        }
        text.clear();
    }
    found
}

/// The commands of one line of a shell, each as its words: enough of the syntax for the pages.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut is_target = false;
    for c in line.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None => match c {
                '\'' | '"' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                '#' if word.is_none() => break,
                ' ' | '|' | '&' | ';' | '>' | '<' => {
                    if let Some(word) = word.take()
                        && !std::mem::take(&mut is_target)
                    {
                        commands.last_mut().expect("there is one").push(word);
                    }
                    match c {
                        '|' | '&' | ';' => commands.push(Vec::new()),
                        '>' | '<' => is_target = true,
                        _ => {}
                    }
                }
                other => word.get_or_insert_default().push(other),
            },
        }
    }
    if let Some(word) = word.filter(|_| !is_target) {
        commands.last_mut().expect("there is one").push(word);
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// The README, and the pages below `docs` and `spec`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs/guide", "docs/decisions", "spec"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            pages.push(entry.unwrap().path());
        }
    }
    pages
}

#[test]
fn every_command_of_the_pages_is_accepted() {
    let mut count = 0;
    for page in pages() {
        for PageCommand { line, words } in commands(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{}:{line}: {words:?}\n{error}", page.display());
            }
        }
    }
    assert!(count > 80, "only {count} commands were found");
}

#[test]
fn a_line_of_a_shell_is_split_into_commands() {
    let words =
        |line: &str| -> Vec<String> { simple_commands(line).iter().map(|words| words.join("/")).collect() };
    assert_eq!(words("A=b tenure submit -- sh -c 'a | b' # why"), ["A=b/tenure/submit/--/sh/-c/a | b"]);
    assert_eq!(
        words("tenure list -o jsonl | jq -r .id > out; date &"),
        ["tenure/list/-o/jsonl", "jq/-r/.id", "date"]
    );
}

//! The guide's pages say what the program does: every setting with its default, every verb, every exit code.

use std::path::Path;

use crate::support::{program, run};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_configuration_page_lists_every_setting_with_its_default() {
    let page = page("configuration.md");
    let shown = run(program(&["config", "show", "-o", "json"])).json();
    let settings = shown["settings"].as_array().unwrap();
    for setting in settings {
        let (key, default) = (setting["key"].as_str().unwrap(), setting["default"].as_str().unwrap());
        let default = if default.is_empty() { "none".to_owned() } else { format!("`{default}`") };
        assert!(
            page.contains(&format!("| `{key}` | {default} |")),
            "{key} with {default} is not on the page"
        );
    }
    // Some tables tell in a column more what a setting is called elsewhere.
    let is_row = |line: &&str| line.starts_with("| `") && matches!(line.matches(" | ").count(), 2 | 3);
    let listed = page.lines().filter(is_row);
    let listed: Vec<&str> =
        listed.filter_map(|line| line.split('`').nth(1)).filter(|key| !key.contains(' ')).collect();
    for key in &listed {
        assert!(
            settings.iter().any(|setting| setting["key"] == *key),
            "{key} is on the page and not in the program"
        );
    }
    assert_eq!(listed.len(), settings.len());
}

#[test]
fn the_command_line_page_lists_every_verb_and_exit_code() {
    let page = page("cli.md");
    let help = run(program(&["--help"])).ok();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let verbs: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        assert!(
            page.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{verb}`"))),
            "{verb} is not on the page"
        );
    }
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    for line in codes.lines() {
        let code = line.split_whitespace().next().unwrap().replace('-', "–");
        assert!(page.contains(&format!("| {code} | ")), "exit code {code} is not on the page");
    }
}

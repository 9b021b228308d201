//! `tenure man`: writes the manual pages, made from the same definitions as the help.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::args::{Cli, VERSION};
use crate::exit::{Failure, OK, Outcome};

/// Write the manual pages of all commands
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure man /usr/local/share/man/man1
  tenure man . && man ./tenure-submit.1")]
pub(crate) struct Man {
    /// Directory to write to; it must exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(&self) -> Outcome {
        write_all(&self.directory, Cli::command_with_short_help())?;
        Ok(OK)
    }
}

/// One page for the command and one for each of its subcommands.
fn write_all(directory: &Path, command: Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let path = directory.join(format!("{name}.1"));
    let subcommands: Vec<Command> =
        command.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect();
    std::fs::write(&path, render(command)?)
        .map_err(|error| Failure::system(format!("cannot write {}: {error}", path.display())))?;
    subcommands.into_iter().try_for_each(|command| write_all(directory, command))
}

fn render(command: Command) -> std::io::Result<Vec<u8>> {
    let has_subcommands = command.has_subcommands();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let page = Page::new(command).manual("Tenure").source(format!("tenure {VERSION}"));
    let mut out = Vec::new();
    page.render_title(&mut out)?;
    page.render_name_section(&mut out)?;
    page.render_synopsis_section(&mut out)?;
    page.render_description_section(&mut out)?;
    page.render_options_section(&mut out)?;
    if has_subcommands {
        page.render_subcommands_section(&mut out)?;
    }
    if !notes.is_empty() {
        // Prose is filled. The library would fill examples too, and they would run into each other.
        out.write_all(b".SH NOTES\n")?;
        let mut is_filled = true;
        for line in notes.lines() {
            let fill = !line.starts_with(' ');
            if fill != is_filled && !line.is_empty() {
                out.write_all(if fill { b".fi\n" } else { b".nf\n" })?;
                is_filled = fill;
            }
            writeln!(out, "{}", escaped(line))?;
        }
        out.write_all(b".fi\n")?;
    }
    Ok(out)
}

/// The line as roff takes it: no escape sequences, no request at its beginning, hyphens that can be copied.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path(), Cli::command_with_short_help()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("tenure.1").contains("tenure\\-submit(1)"));
        let submit = read("tenure-submit.1");
        assert!(submit.contains(".SH NOTES\nArguments after"), "{submit}");
        assert!(submit.contains("\nExamples:\n.nf\n  tenure submit \\-\\-wait"), "{submit}");
        assert!(submit.ends_with(".fi\nOptions for every command (\\-\\-broker, \\-\\-key\\-file, \\-\\-namespace, \\-o json ...): `tenure \\-\\-help`\n.fi\n"), "{submit}");
        assert!(!submit.contains("SUBCOMMANDS"), "{submit}");
        assert!(read("tenure-limits-set.1").contains("limits"));
        assert!(!directory.path().join("tenure-help.1").exists());
    }

    #[test]
    fn text_does_not_become_a_request() {
        assert_eq!(escaped(".SH \\ --x"), "\\&.SH \\e \\-\\-x");
    }
}

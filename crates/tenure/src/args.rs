//! The command line: the subcommands, and the options that all of them share. Each subcommand's own options are in its
//! file.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Args, Command, CommandFactory as _, FromArgMatches as _, Parser};

use crate::config::settings::find;
use crate::exit::{self, Failure};
use crate::key::Secret;
use crate::output::Format;
use crate::verbs::Verb;
use crate::verbs::submit::job::{self, Job};

/// The version with the commit and its date, from build.rs. What peers exchange is the number alone.
pub(crate) const VERSION: &str = env!("TENURE_VERSION");

#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version = VERSION,
    about = "A task broker for work that takes minutes to days",
    long_about = "A task broker for work that takes minutes to days.\n\n\
        Start a broker, start a worker, give it work, each in a terminal of its own:\n\n  \
        tenure serve                           the broker, on this machine only\n  \
        tenure work                            a worker that runs commands\n  \
        tenure submit --wait -- echo hello     prints what happens, then hello",
    after_help = exit::HELP,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    propagate_version = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Where the help of a verb sends those who look for the options that all verbs share.
const SHARED_OPTIONS: &str = "\
Options for every command (--broker, --key-file, --namespace, -o json ...): `tenure --help`";

const SUBMIT: &str = "submit";

/// Settings that subcommands other than `serve` use. They accept the others too, so that one set of options works for
/// all.
const OFFLINE_SETTINGS: [&str; 2] = ["config", "data_dir"];
/// The same for the verb that reads the address of the HTTP door.
const OPEN_SETTINGS: [&str; 3] = ["config", "data_dir", "http"];
/// The same for the verbs of a group.
const CLUSTER_SETTINGS: [&str; 5] = ["config", "data_dir", "journal", "journal_password_file", "group"];

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        Cli::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Cli::command_with_short_help().try_get_matches().err().unwrap_or(error)
            }
            _ => error,
        })
    }

    /// The same with the flags of a job file, if one is submitted. They stand before those of the command line, which
    /// therefore win.
    pub(crate) fn with_job(self) -> Result<Cli, ReadError> {
        let Verb::Submit(submit) = &self.verb else { return Ok(self) };
        let Some(name) = submit.maybe_job() else { return Ok(self) };
        let Some(job) = job::read(name, submit_flags)? else { return Ok(self) };
        let command =
            Cli::command_with_short_help().mut_subcommand(SUBMIT, |submit| submit.args_override_self(true));
        let given: Vec<OsString> = std::env::args_os().collect();
        let words = with_flags_of(&job, name, &given);
        Ok(Cli::from_arg_matches(&command.try_get_matches_from(words)?)?)
    }

    /// The command line with a help for each verb that shows what the verb itself needs. Building it takes a while, so
    /// only a request for help or manual pages does.
    pub(crate) fn command_with_short_help() -> Command {
        let mut command = Cli::command();
        // Gives every verb its copy of the shared options.
        command.build();
        command.mut_subcommands(|verb| shorten_help(verb, &OFFLINE_SETTINGS))
    }
}

/// Why a command line cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Usage(clap::Error),
    Job(Failure),
}

impl From<clap::Error> for ReadError {
    fn from(error: clap::Error) -> ReadError {
        ReadError::Usage(error)
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> ReadError {
        ReadError::Job(failure)
    }
}

/// The words of the flags of `submit`, and whether each takes a value.
fn submit_flags() -> Vec<(String, bool)> {
    let command = Cli::command();
    let flags = command.find_subcommand(SUBMIT).into_iter().flat_map(Command::get_arguments);
    flags.filter_map(|flag| Some((flag.get_long()?.to_owned(), flag.get_action().takes_values()))).collect()
}

/// Puts the flags of a job behind `submit`, and its command in the place of its name.
fn with_flags_of(job: &Job, name: &str, given: &[OsString]) -> Vec<OsString> {
    let own = |texts: &[String]| texts.iter().map(OsString::from).collect::<Vec<_>>();
    let verb = given.iter().position(|word| word == SUBMIT).map_or(given.len(), |at| at + 1);
    let (before, after) = given.split_at(verb);
    let end = after.iter().position(|word| word == "--").unwrap_or(after.len());
    let (mut flags, arguments) = (after[..end].to_vec(), after.get(end + 1..).unwrap_or_default());
    if let Some(at) = flags.iter().position(|word| word == name) {
        flags.remove(at);
    }
    let mut words = before.to_vec();
    words.extend(own(&job.flags));
    words.extend(flags);
    words.push("--".into());
    words.extend(own(&job.command));
    words.extend_from_slice(arguments);
    words
}

/// Hides what the verb does not need. `told` are the settings that the verb above it shows.
fn shorten_help(verb: Command, told: &'static [&'static str]) -> Command {
    let told: &[&str] = match verb.get_name() {
        // `move` is the verb below `journal`; the other one has no settings.
        "cluster" | "move" => &CLUSTER_SETTINGS,
        "open" => &OPEN_SETTINGS,
        _ => told,
    };
    // Only `serve` needs every setting.
    let hides_settings =
        verb.get_name() != "serve" && verb.get_arguments().any(|arg| arg.get_id() == "config");
    let footer =
        verb.get_after_help().map(|text| format!("{}\n\n", flowing(&text.to_string()))).unwrap_or_default();
    let is_shown = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let is_shared = arg.is_global_set() || id == "version";
        let is_needless = hides_settings && find(id).is_some() && !told.contains(&id);
        !is_shared && !is_needless
    };
    verb.mut_args(|arg| if is_shown(&arg) { arg } else { arg.hide(true) })
        .mut_subcommands(|verb| shorten_help(verb, told))
        .after_help(footer + SHARED_OPTIONS)
}

/// Joins the lines of each paragraph, so that help fills the width of the terminal, whatever that is. Indented lines
/// are examples and stay as they are.
fn flowing(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut continues = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if continues && is_prose { ' ' } else { '\n' });
        }
        out.push_str(line);
        continues = is_prose;
    }
    out
}

/// Options of every verb that talks to a broker.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Address of the broker: HOST:PORT, tls://HOST:PORT or unix:PATH
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "TENURE_BROKER",
        default_value = "127.0.0.1:7171",
        help_heading = "Reaching a broker"
    )]
    pub(crate) broker: String,
    /// Read the key from the first line of a file; - reads stdin [env: TENURE_KEY holds the key,
    /// TENURE_KEY_FILE names a file]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Reaching a broker")]
    pub(crate) key_file: Option<std::path::PathBuf>,
    /// Ask for the key at the terminal
    #[arg(
        long = "key",
        global = true,
        value_name = "ask",
        conflicts_with = "key_file",
        help_heading = "Reaching a broker"
    )]
    pub(crate) key_given: Option<String>,
    /// The key, wherever it was found.
    #[arg(skip)]
    pub(crate) key: Option<Secret>,
    /// Namespace to use
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TENURE_NAMESPACE",
        help_heading = "Reaching a broker"
    )]
    pub(crate) namespace: Option<String>,
    /// How long to try to connect to the broker
    #[arg(long, global = true, alias = "patience", value_name = "DURATION", default_value = "5s", value_parser = crate::units::parse_duration, help_heading = "Reaching a broker")]
    pub(crate) connect_timeout: std::time::Duration,
    /// Output format
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) output: Format,
    /// Disable colours (also: NO_COLOR)
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_color: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_job_stand_before_those_of_the_command_line() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let job = Job { flags: texts(&["--name=a"]), command: texts(&["sh", "/j.sh"]) };
        let given = ["tenure", "--broker", "b", "submit", "-w", "j.sh", "--name", "c", "--", "x"];
        let words = with_flags_of(&job, "j.sh", &given.map(OsString::from));
        let expected =
            ["tenure", "--broker", "b", "submit", "--name=a", "-w", "--name", "c", "--", "sh", "/j.sh", "x"];
        assert_eq!(words, expected.map(OsString::from));
    }

    fn all_verbs(command: &Command) -> Vec<&Command> {
        command.get_subcommands().flat_map(|verb| [vec![verb], all_verbs(verb)].concat()).collect()
    }

    #[test]
    fn every_argument_is_described_and_remarks_on_examples_fit_a_terminal() {
        const WIDTH: usize = 80;
        let mut wide = Vec::new();
        let command = Cli::command_with_short_help();
        for verb in all_verbs(&command).into_iter().filter(|verb| verb.get_name() != "help") {
            for argument in verb.get_arguments() {
                let is_described = argument.get_help().is_some_and(|help| !help.to_string().is_empty());
                assert!(is_described, "{} {}", verb.get_name(), argument.get_id());
            }
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            // A remark that is wrapped looks like another command.
            let has_remark = |line: &&str| line.trim_start().contains("   ");
            let remarks = help.lines().filter(has_remark);
            wide.extend(remarks.filter(|line| line.chars().count() > WIDTH).map(str::to_owned));
        }
        assert_eq!(wide, Vec::<String>::new());
    }

    #[test]
    fn help_shows_the_settings_that_its_examples_need() {
        let mut command = Cli::command_with_short_help();
        let mut help = |path: &[&str]| {
            let verb = path.iter().fold(&mut command, |verb, name| verb.find_subcommand_mut(name).unwrap());
            verb.render_long_help().to_string()
        };
        for flag in ["--journal ", "--group ", "--journal-password-file ", "--to "] {
            assert!(help(&["journal", "move"]).contains(flag), "{flag}");
        }
        assert!(help(&["open"]).contains("--http "));
        assert!(!help(&["journal", "verify"]).contains("--group "));
    }

    #[test]
    fn help_fills_the_terminal_and_leaves_examples_alone() {
        let text = "One sentence that\ngoes on.\n\nExamples:\n  tenure list\n  tenure top\nSee also:\nmore";
        let expected = "One sentence that goes on.\n\nExamples:\n  tenure list\n  tenure top\nSee also: more";
        assert_eq!(flowing(text), expected);
        // A paragraph that was broken by hand would be broken again where the terminal ends.
        let command = Cli::command_with_short_help();
        for verb in command.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = help.lines().collect();
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let broken = lines.windows(2).find(|pair| is_prose(pair[0]) && is_prose(pair[1]));
            assert_eq!(broken, None, "{}", verb.get_name());
        }
    }
}

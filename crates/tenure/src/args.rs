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
        command.mut_subcommands(shorten_help)
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

fn shorten_help(verb: Command) -> Command {
    // Only `serve` needs every setting.
    let hides_settings =
        verb.get_name() != "serve" && verb.get_arguments().any(|arg| arg.get_id() == "config");
    let footer = verb.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let is_told = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let is_shared = arg.is_global_set() || id == "version";
        let is_needless = hides_settings && find(id).is_some() && !OFFLINE_SETTINGS.contains(&id);
        !is_shared && !is_needless
    };
    verb.mut_args(|arg| if is_told(&arg) { arg } else { arg.hide(true) })
        .mut_subcommands(shorten_help)
        .after_help(footer + SHARED_OPTIONS)
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
}

//! The command line: the subcommands, and the options that all of them share. Each subcommand's own options are in its
//! file.

use clap::{Arg, Args, Command, CommandFactory as _, FromArgMatches as _, Parser};

use crate::config::settings::find;
use crate::exit;
use crate::key::Secret;
use crate::output::Format;
use crate::verbs::Verb;

#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version,
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

/// Settings that subcommands other than `serve` use. They accept the others too, so that one set of options works for
/// all.
const OFFLINE_SETTINGS: [&str; 2] = ["config", "data_dir"];

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let matches = Cli::tidy_command().try_get_matches()?;
        Cli::from_arg_matches(&matches)
    }

    /// The command line with a help for each verb that shows what the verb itself needs.
    pub(crate) fn tidy_command() -> Command {
        let mut command = Cli::command();
        // Gives every verb its copy of the shared options.
        command.build();
        command.mut_subcommands(tidy)
    }
}

fn tidy(verb: Command) -> Command {
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
        .mut_subcommands(tidy)
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

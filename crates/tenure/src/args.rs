//! What can be typed: the verbs, and the options that all of them share. Each verb's own options stand in its file.

use clap::{Args, Parser};

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

/// Options of every verb that talks to a broker.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Where the broker is: HOST:PORT, or unix:PATH
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "TENURE_BROKER",
        default_value = "127.0.0.1:7171",
        help_heading = "Reaching a broker"
    )]
    pub(crate) broker: String,
    /// Read the key to show the broker from a file's first line; - is stdin [env: TENURE_KEY holds the key itself,
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
    /// The namespace to work in
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TENURE_NAMESPACE",
        help_heading = "Reaching a broker"
    )]
    pub(crate) namespace: Option<String>,
    /// How long to try to reach the broker
    #[arg(long, global = true, value_name = "SPAN", default_value = "5s", value_parser = crate::units::parse_span, help_heading = "Reaching a broker")]
    pub(crate) patience: std::time::Duration,
    /// How to answer
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
    /// No colours, even on a terminal (also: NO_COLOR)
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_color: bool,
}

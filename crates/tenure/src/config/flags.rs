//! The command-line flags, one for each setting, generated from the table of settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::absent::{absent, default_text};
use super::settings::SETTINGS;

/// The settings on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) given: BTreeMap<&'static str, String>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Configuration file [env: TENURE_CONFIG] [default: tenure.toml in the data directory, if it exists]");
        let mut command = command.arg(config);
        for setting in SETTINGS {
            let default = Some(default_text(setting)).filter(|text| !text.is_empty()).unwrap_or("none");
            let help = format!("{} [default: {default}]", setting.about);
            let flag = Arg::new(setting.key)
                .long(setting.flag())
                .aliases(setting.former_flag())
                .value_name(setting.kind.placeholder())
                .action(ArgAction::Set)
                .help(help)
                .hide(absent(setting.key).is_some())
                .help_heading(setting.group);
            command = command.arg(flag);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one::<PathBuf>("config").cloned();
        for setting in SETTINGS {
            if let Some(text) = matches.get_one::<String>(setting.key) {
                self.given.insert(setting.key, text.clone());
            }
        }
        Ok(())
    }
}

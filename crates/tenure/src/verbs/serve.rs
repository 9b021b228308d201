//! `tenure serve`: its options. `serve/` contains the rest.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::flags::Flags;

/// Run a broker
#[derive(Args, Debug)]
#[command(after_help = "\
Every setting is a flag, an environment variable (--ended-kept is TENURE_ENDED_KEPT) and a key of the file
(ended_kept). Flags win over the environment, and that over the file. `tenure config show` tells what holds and why.

Signals: SIGTERM or SIGINT drain (doors close, what is decided is written, a last snapshot is taken); a second one, at
least a second later, stops at once, and loses nothing that was acknowledged. SIGHUP reads the configuration again.

Examples:
  tenure serve   on loopback, in ./tenure-data
  tenure serve --data-dir /var/lib/tenure
  tenure serve --native 0.0.0.0:7171 --config /etc/tenure/tenure.toml   has keys
  tenure serve --resp off --mdp off --pingpong off   only some doors
  tenure serve --native 127.0.0.1:0 --print-addresses json   any free port
  tenure serve --journal postgres://tenure@db1,db2/tenure --group g1 --name b1")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// With --journal: make the database schema and the group if they are missing
    #[arg(long)]
    pub(crate) create: bool,
    /// Print the listening addresses as one line of JSON on stdout
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) print_addresses: Option<AddressFormat>,
    /// Write that line to a file when all doors are open
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddressFormat {
    Json,
}

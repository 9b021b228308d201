//! Logs go to stderr as fixed sentences with fields, and never contain bodies, results or keys.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::exit::Failure;

/// Changes what is logged while the broker runs.
pub(crate) type Filter = reload::Handle<Targets, Registry>;

pub(crate) fn start(filter: &str) -> Result<Filter, Failure> {
    let (filter, handle) = reload::Layer::new(parse(filter));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let wants_color = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(wants_color);
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.map_err(|error| Failure::internal(format!("cannot start logging: {error}")))?;
    Ok(handle)
}

/// The filter of a setting that was checked when it was loaded.
pub(crate) fn parse(filter: &str) -> Targets {
    filter.parse().unwrap_or_default()
}

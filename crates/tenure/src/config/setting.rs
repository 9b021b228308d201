//! The definition of a setting: its name, its type, and its spelling in the file, the environment and on the command
//! line.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) group: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
    /// Whether SIGHUP can change it; everything else needs a restart.
    pub(crate) reloads: bool,
    /// The key it had before: the file, the environment and the command line still take it.
    pub(crate) former: Option<&'static str>,
}

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `HOST:PORT`, port 0 for any, or `off`.
    Address,
    /// Two addresses with a comma between them, or `off`.
    TwoAddresses,
    /// A path, or nothing.
    Path,
    /// A filter for the log.
    Log,
    /// `always`, `os`, or a span.
    Sync,
    Duration,
    /// A span, or `off`.
    DurationOrOff,
    Size,
    Count,
    /// A count, or `off`.
    CountOrOff,
    /// `on` or `off`.
    Switch,
    /// A name.
    Name,
    /// `empty` or `command`.
    NoticeSlot,
    /// `acts` or `all`.
    AuditLevel,
    /// A span, or a bare number of milliseconds.
    Millis,
    /// The same, or `off` or 0 for none.
    MillisOrOff,
    /// `drop-oldest`, `drop-newest` or `block`.
    Policy,
    /// Names and patterns of topics with commas between them, or nothing.
    Topics,
    /// Topics or patterns, each with a time to live, with commas between them, or nothing.
    TopicTtls,
    /// Names with commas between them, or nothing.
    Names,
    /// A whole number, also below zero.
    Priority,
    /// `pause`, `requeue` or `fail`.
    OnLost,
    /// The URL of a replicated journal, or nothing.
    Journal,
    /// A name, or nothing.
    NameOrNone,
    /// A host without a port, or nothing.
    Host,
    /// A span from 1s to 60s.
    Lease,
    /// `forward` or `closed`.
    StandbyDoors,
}

impl Kind {
    /// How the value is called in help texts.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Kind::Address => "ADDRESS",
            Kind::TwoAddresses => "CLIENTS,WORKERS",
            Kind::Path => "PATH",
            Kind::Log => "LEVEL",
            Kind::Sync => "always|DURATION|os",
            Kind::Duration | Kind::DurationOrOff => "DURATION",
            Kind::Size => "SIZE",
            Kind::Count | Kind::CountOrOff => "COUNT",
            Kind::Switch => "on|off",
            Kind::Name => "NAME",
            Kind::NoticeSlot => "empty|command",
            Kind::AuditLevel => "acts|all",
            Kind::Millis | Kind::MillisOrOff => "MILLISECONDS|DURATION",
            Kind::Policy => "drop-oldest|drop-newest|block",
            Kind::Topics => "TOPICS",
            Kind::TopicTtls => "TOPICS=DURATION",
            Kind::Names => "NAMES",
            Kind::Priority => "PRIORITY",
            Kind::OnLost => "pause|requeue|fail",
            Kind::Journal => "URL",
            Kind::NameOrNone => "NAME",
            Kind::Host => "HOST",
            Kind::Lease => "DURATION",
            Kind::StandbyDoors => "forward|closed",
        }
    }
}

impl Setting {
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    pub(crate) fn variable(&self) -> String {
        variable(self.key)
    }

    pub(crate) fn former_flag(&self) -> Option<String> {
        self.former.map(|key| key.replace('_', "-"))
    }

    pub(crate) fn former_variable(&self) -> Option<String> {
        self.former.map(variable)
    }
}

fn variable(key: &str) -> String {
    format!("TENURE_{}", key.to_ascii_uppercase())
}

/// The same setting, which had another key before.
pub(super) const fn renamed(former: &'static str, setting: Setting) -> Setting {
    Setting { former: Some(former), ..setting }
}

pub(super) const fn setting(
    group: &'static str,
    key: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { key, group, kind, default, about, reloads: false, former: None }
}

pub(super) const fn reloading(
    group: &'static str,
    key: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { key, group, kind, default, about, reloads: true, former: None }
}

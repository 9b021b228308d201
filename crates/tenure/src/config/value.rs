//! Parses the text of a setting by its type, and reports what is wrong.

use std::time::Duration;

use tenure_hub::AuditLevel;
use tenure_hub::topics::{EVENT_PREFIXES, Policy, TopicFilter};
use tenure_hub::words::OnLost;
use tenure_journal_postgres::{JournalAddress, JournalAddressError};
use tenure_store::Sync;

use super::settings::Kind;
use crate::units::{parse_duration, parse_size};

/// The largest count a setting may have: more does not fit into memory anyway.
const COUNT_MAX: u64 = 1 << 40;

/// Whether the text is possible for the kind.
pub(crate) fn check(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Address => address(text).map(drop),
        Kind::TwoAddresses => two_addresses(text).map(drop),
        Kind::Path => Ok(()),
        Kind::Log => log(text),
        Kind::Sync => sync(text).map(drop),
        Kind::Duration => span(text).map(drop),
        Kind::DurationOrOff => duration_or_off(text).map(drop),
        Kind::Size => size(text).map(drop),
        Kind::Count => count(text).map(drop),
        Kind::CountOrOff => count_or_off(text).map(drop),
        Kind::Switch => switch(text).map(drop),
        Kind::Name => name(text).map(drop),
        Kind::NoticeSlot => notice_slot(text).map(drop),
        Kind::AuditLevel => audit_level(text).map(drop),
        Kind::Millis => millis(text).map(drop),
        Kind::MillisOrOff => millis_or_off(text).map(drop),
        Kind::Policy => policy(text).map(drop),
        Kind::Topics => topics(text).map(drop),
        Kind::TopicTtls => topic_ttls(text).map(drop),
        Kind::Names => names(text).map(drop),
        Kind::Priority => priority(text).map(drop),
        Kind::OnLost => on_lost(text).map(drop),
        Kind::Journal => journal(text).map(drop),
        Kind::NameOrNone => name_or_none(text).map(drop),
        Kind::Host => host(text).map(drop),
        Kind::Lease => lease(text).map(drop),
        Kind::StandbyDoors => standby_doors(text).map(drop),
    }
}

/// `None` is `off`.
pub(crate) fn address(text: &str) -> Result<Option<String>, String> {
    if text == "off" {
        return Ok(None);
    }
    let wrong =
        || format!("`{text}` is not an address: write HOST:PORT, a port of 0 for any free one, or off");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().map_err(|_| wrong())?;
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok(Some(text.to_owned()))
}

pub(crate) fn two_addresses(text: &str) -> Result<Option<(String, String)>, String> {
    if text == "off" {
        return Ok(None);
    }
    let wrong = || {
        format!("`{text}` are not two addresses: write HOST:PORT,HOST:PORT (clients, then workers), or off")
    };
    let (clients, workers) = text.split_once(',').ok_or_else(wrong)?;
    match (address(clients.trim())?, address(workers.trim())?) {
        (Some(clients), Some(workers)) => Ok(Some((clients, workers))),
        _ => Err(wrong()),
    }
}

pub(crate) fn path(text: &str) -> Option<std::path::PathBuf> {
    if text.is_empty() { None } else { Some(text.into()) }
}

fn log(text: &str) -> Result<(), String> {
    let parsed = text.parse::<tracing_subscriber::filter::Targets>();
    parsed.map(drop).map_err(|_| {
        format!("`{text}` is not a log filter: write error, warn, info, debug or trace, or such as info,tenure_hub=debug")
    })
}

pub(crate) fn sync(text: &str) -> Result<Sync, String> {
    match text {
        "always" => Ok(Sync::Always),
        "os" => Ok(Sync::Os),
        _ => match parse_duration(text) {
            Ok(span) if span >= Duration::from_millis(1) && span <= Duration::from_secs(60) => {
                Ok(Sync::Interval(span))
            }
            _ => {
                Err(format!("`{text}` is not a way to sync: write always, os, or a duration from 1ms to 60s"))
            }
        },
    }
}

pub(crate) fn span(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err(format!("`{text}` must be longer than 0")),
        span => Ok(span),
    }
}

pub(crate) fn duration_or_off(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" { Ok(None) } else { span(text).map(Some) }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    const SIZE_MIN: u64 = 64 << 10;
    match parse_size(text)? {
        bytes if bytes < SIZE_MIN => Err(format!("`{text}` is too small: at least 64KB")),
        bytes => Ok(bytes),
    }
}

pub(crate) fn count(text: &str) -> Result<u64, String> {
    match text.replace('_', "").parse::<u64>() {
        Ok(0) => Err("0 is too few: at least 1".to_owned()),
        Ok(count) if count <= COUNT_MAX => Ok(count),
        Ok(_) => Err(format!("`{text}` is too many: at most {COUNT_MAX}")),
        Err(_) => Err(format!("`{text}` is not a count: write a whole number")),
    }
}

pub(crate) fn count_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" { Ok(None) } else { count(text).map(Some) }
}

pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

pub(crate) fn name(text: &str) -> Result<&str, String> {
    const NAME_BYTES_MAX: usize = 255;
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(format!("`{text}` is not a name: write 1 to {NAME_BYTES_MAX} bytes of printable text"));
    }
    Ok(text)
}

pub(crate) fn names(text: &str) -> Result<Vec<&str>, String> {
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(name).collect()
}

pub(crate) fn priority(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a priority: write a whole number such as 0, 10 or -5"))
}

pub(crate) fn on_lost(text: &str) -> Result<OnLost, String> {
    let unknown = || format!("`{text}` is not a policy for lost workers: write pause, requeue or fail");
    OnLost::parse(text).ok_or_else(unknown)
}

/// `None` is the local disk.
pub(crate) fn journal(text: &str) -> Result<Option<JournalAddress>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: JournalAddressError| error.to_string())
}

pub(crate) fn name_or_none(text: &str) -> Result<Option<&str>, String> {
    if text.is_empty() { Ok(None) } else { name(text).map(Some) }
}

/// The port is that of each door.
pub(crate) fn host(text: &str) -> Result<Option<&str>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    if is_address || is_name {
        return Ok(Some(text));
    }
    Err(format!("`{text}` is not a host: write a name or an address without a port"))
}

pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        span if (Duration::from_secs(1)..=Duration::from_secs(60)).contains(&span) => Ok(span),
        _ => Err(format!("`{text}` is not from 1s to 60s")),
    }
}

/// Whether they forward.
pub(crate) fn standby_doors(text: &str) -> Result<bool, String> {
    match text {
        "forward" => Ok(true),
        "closed" => Ok(false),
        other => Err(format!("`{other}` is neither forward nor closed")),
    }
}

/// The level of the audit log.
pub(crate) fn audit_level(text: &str) -> Result<AuditLevel, String> {
    match text {
        "acts" => Ok(AuditLevel::Acts),
        "all" => Ok(AuditLevel::All),
        other => Err(format!("`{other}` is neither acts nor all")),
    }
}

/// Whether a notice carries its command byte there.
pub(crate) fn notice_slot(text: &str) -> Result<bool, String> {
    match text {
        "empty" => Ok(false),
        "command" => Ok(true),
        _ => Err(format!("`{text}` is neither empty nor command")),
    }
}

pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("0 must be longer than 0".to_owned()),
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) => span(text),
    }
}

pub(crate) fn millis_or_off(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" || text == "0" { Ok(None) } else { millis(text).map(Some) }
}

pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    Policy::parse(text)
        .ok_or_else(|| format!("`{text}` is not a policy: write drop-oldest, drop-newest or block"))
}

/// `sensor.>=60s,news.*=5m`. The name may contain the sign itself.
pub(crate) fn topic_ttls(text: &str) -> Result<Vec<(TopicFilter, Duration)>, String> {
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let parsed = texts.map(|text| {
        let (topic, ttl) = text
            .rsplit_once('=')
            .ok_or_else(|| format!("`{text}` is not a topic with its time to live: write TOPIC=DURATION"))?;
        let filter = TopicFilter::parse(topic.trim())
            .map_err(|refusal| format!("`{topic}` is not a topic or pattern: {refusal}"))?;
        match millis(ttl.trim())? {
            Duration::ZERO => Err(format!("`{text}` would drop every message: write a longer time")),
            ttl => Ok((filter, ttl)),
        }
    });
    parsed.collect()
}

pub(crate) fn topics(text: &str) -> Result<Vec<TopicFilter>, String> {
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let parsed = texts.map(|text| {
        if EVENT_PREFIXES.iter().any(|prefix| text.split('.').next() == Some(prefix)) {
            return Err(format!(
                "`{text}` is about what happens in the broker, which is on disk anyway: leave it out"
            ));
        }
        TopicFilter::parse(text).map_err(|refusal| format!("`{text}` is not a topic or pattern: {refusal}"))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::SETTINGS;

    #[test]
    fn every_default_is_possible() {
        for setting in SETTINGS {
            assert_eq!(check(setting.kind, setting.default), Ok(()), "{}", setting.key);
        }
    }

    #[test]
    fn impossible_values_are_refused_with_what_would_do() {
        for (kind, text, hint) in [
            (Kind::Address, "7171", "HOST:PORT"),
            (Kind::Address, "localhost:99999", "HOST:PORT"),
            (Kind::Address, ":7171", "HOST:PORT"),
            (Kind::TwoAddresses, "127.0.0.1:1", "clients, then workers"),
            (Kind::TwoAddresses, "127.0.0.1:1,off", "clients, then workers"),
            (Kind::Sync, "sometimes", "always, os"),
            (Kind::Sync, "0s", "from 1ms"),
            (Kind::Duration, "0s", "longer"),
            (Kind::Duration, "7", "30s"),
            (Kind::Size, "1KB", "at least 64KB"),
            (Kind::Count, "0", "at least 1"),
            (Kind::Count, "-3", "whole number"),
            (Kind::Count, "99999999999999", "at most"),
            (Kind::Log, "tenure=loud", "info"),
            (Kind::Switch, "yes", "neither `on` nor `off`"),
            (Kind::Name, "", "1 to 255 bytes"),
            (Kind::NoticeSlot, "full", "neither empty nor command"),
            (Kind::Names, "a,\u{7}", "1 to 255 bytes"),
            (Kind::Priority, "high", "whole number"),
            (Kind::OnLost, "ignore", "pause, requeue or fail"),
            (Kind::AuditLevel, "some", "neither acts nor all"),
            (Kind::Journal, "mysql://a@b/c", "postgres://"),
            (Kind::Host, "b1.example:7171", "without a port"),
            (Kind::Lease, "100ms", "from 1s to 60s"),
            (Kind::StandbyDoors, "open", "neither forward nor closed"),
        ] {
            let error = check(kind, text).expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert_eq!(sync("50ms"), Ok(Sync::Interval(Duration::from_millis(50))));
        assert_eq!(address("[::1]:0"), Ok(Some("[::1]:0".to_owned())));
        assert_eq!(count("1_000_000"), Ok(1_000_000));
    }
}

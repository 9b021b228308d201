//! Maps Redis channels and patterns to topics of the broker.

use bytes::Bytes;
use tenure_hub::topics::{TopicFilter, TopicRefusal};

use crate::glob::literal_prefix;

/// Channels with this prefix report on jobs; only the broker publishes there.
pub(crate) const OWN: &str = "job:";

/// Something a connection listens to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelListener {
    Channel(Bytes),
    Pattern(Bytes),
}

/// A topic operation for the server.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum ChannelAct {
    Begin { listener: ChannelListener, filter: BroadFilter },
    End(ChannelListener),
    Publish { token: u64, channel: String, message: Bytes },
}

/// A topic filter that matches everything a listener wants, and possibly more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadFilter {
    pub filter: TopicFilter,
    /// The filter matches nothing else.
    pub is_exact: bool,
}

/// The topic of a channel. Not every channel name can be a topic.
pub(crate) fn channel_filter(channel: &[u8]) -> Result<BroadFilter, String> {
    let name = std::str::from_utf8(channel).map_err(|_| "it is not UTF-8".to_owned())?;
    let filter = TopicFilter::parse(name).map_err(|refusal: TopicRefusal| refusal.to_string())?;
    if filter.is_wild() {
        return Err("it has a wildcard in its name".to_owned());
    }
    Ok(BroadFilter { filter, is_exact: true })
}

/// Redis patterns have no levels, so the filter covers all topics below the levels that the pattern spells out.
pub(crate) fn pattern_filter(pattern: &[u8]) -> BroadFilter {
    let prefix = literal_prefix(pattern);
    if prefix.len() == pattern.len()
        && let Ok(exact) = channel_filter(pattern)
    {
        return exact;
    }
    let levels = std::str::from_utf8(prefix).ok().and_then(|prefix| Some(prefix.rsplit_once('.')?.0));
    let below = levels.and_then(|levels| TopicFilter::parse(&format!("{levels}.>")).ok());
    let ends_there = &pattern[prefix.len()..] == b"*" && (prefix.is_empty() || prefix.ends_with(b"."));
    match below {
        Some(filter) => BroadFilter { filter, is_exact: ends_there },
        None => {
            let filter = TopicFilter::parse(">").expect("the filter for everything");
            BroadFilter { filter, is_exact: ends_there && prefix.is_empty() }
        }
    }
}

/// Whether a pattern may match the channel of a job.
pub(crate) fn may_be_own(pattern: &[u8]) -> bool {
    let prefix = literal_prefix(pattern);
    prefix.starts_with(OWN.as_bytes()) || OWN.as_bytes().starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_looked_for_below_the_levels_it_spells_out() {
        for (pattern, filter, is_exact) in [
            ("*", ">", true),
            ("news.*", "news.>", true),
            ("news.sport.*", "news.sport.>", true),
            ("news.s*", "news.>", false),
            ("n*", ">", false),
            ("n?ws", ">", false),
            ("news", "news", true),
            ("a..b*", ">", false),
            (".*", ">", false),
            ("[a]*", ">", false),
        ] {
            let wide = pattern_filter(pattern.as_bytes());
            assert_eq!((wide.filter.as_str(), wide.is_exact), (filter, is_exact), "{pattern}");
        }
    }

    #[test]
    fn a_channel_that_cannot_be_a_topic_is_refused_with_the_reason() {
        assert!(channel_filter(b"news.sport").is_ok());
        assert!(channel_filter(b"socket.io#/#").is_ok());
        for bad in [&b""[..], b"a..b", b"\xff", b"a.*", b"a*", &[b'x'; 1000]] {
            assert!(channel_filter(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn job_channels_are_the_brokers_own() {
        assert!(may_be_own(b"*") && may_be_own(b"job:*") && may_be_own(b"j*") && may_be_own(b"job:1?"));
        assert!(!may_be_own(b"news.*") && !may_be_own(b"jobs*"));
    }
}

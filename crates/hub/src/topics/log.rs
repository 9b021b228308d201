//! Log lines about subscriptions: fixed sentences with the fields that every client library logs. Messages
//! are at DEBUG, subscriptions at INFO, losses at WARN. Never a payload.

use tenure_topics::{Delivery, DeliveryKind, Resume, Resumed, SubscriptionId, TopicFilter};

use super::subscription::Ended;

pub(super) fn subscribed(namespace: &str, id: &SubscriptionId, client: &str, filters: &[TopicFilter]) {
    tracing::info!(namespace, subscription_id = %id, client_id = client, topics = %Names(filters), "subscribed");
}

pub(super) fn resumed(namespace: &str, resume: &Resume, resumed: &Resumed) {
    let last = resume.last_seen_single.or_else(|| resume.last_seen.iter().map(|(_, last)| *last).max());
    let last_sequence_number = last.map(|last| last.0);
    let topics = Names(&resumed.filters);
    if resumed.has_losses() {
        tracing::warn!(
            namespace,
            subscription_id = %resume.id,
            %topics,
            last_sequence_number,
            gap = resumed.lost,
            more_may_be_lost = resumed.is_unsure,
            broker_restarted = resumed.restarted,
            "subscription resumed, messages were lost"
        );
    } else {
        tracing::info!(
            namespace,
            subscription_id = %resume.id,
            %topics,
            last_sequence_number,
            missed = resumed.missed,
            took_over = resumed.took_over,
            "subscription resumed"
        );
    }
}

pub(super) fn ended(namespace: &str, id: &SubscriptionId, why: Ended) {
    tracing::info!(namespace, subscription_id = %id, why = why.as_str(), "stream ended");
}

pub(super) fn sent(namespace: &str, id: &SubscriptionId, deliveries: &[Delivery]) {
    for delivery in deliveries {
        match delivery {
            Delivery::Message { kind, message } => tracing::debug!(
                namespace,
                subscription_id = %id,
                topic = &*message.topic,
                last_sequence_number = message.sequence.0,
                replay = *kind == DeliveryKind::Replay,
                "message sent"
            ),
            Delivery::Gap(gap) => tracing::warn!(
                namespace,
                subscription_id = %id,
                topic = &*gap.topic,
                first_missed = gap.first_missed.0,
                gap = gap.last_missed.0 + 1 - gap.first_missed.0,
                reason = gap.reason.as_str(),
                "messages lost"
            ),
            Delivery::Warning(warning) => tracing::warn!(
                namespace,
                subscription_id = %id,
                dropped = warning.dropped,
                expired = warning.expired,
                depth = warning.depth,
                limit = warning.limit,
                "slow subscriber"
            ),
            Delivery::ReplayComplete(complete) => tracing::debug!(
                namespace,
                subscription_id = %id,
                topic = &*complete.topic,
                replayed = complete.replayed,
                last_sequence_number = complete.latest.0,
                "replay complete"
            ),
        }
    }
}

/// How many names a line lists.
const NAMES_MAX: usize = 8;

struct Names<'a>(&'a [TopicFilter]);

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, filter) in self.0.iter().take(NAMES_MAX).enumerate() {
            let separator = if number == 0 { "" } else { " " };
            write!(f, "{separator}{}", filter.as_str())?;
        }
        let more = self.0.len().saturating_sub(NAMES_MAX);
        if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_first_few_names() {
        let filters: Vec<TopicFilter> =
            (0..10).map(|number| TopicFilter::parse(&format!("t{number}")).unwrap()).collect();
        assert_eq!(Names(&filters[..2]).to_string(), "t0 t1");
        assert_eq!(Names(&filters).to_string(), "t0 t1 t2 t3 t4 t5 t6 t7 and 2 more");
    }
}

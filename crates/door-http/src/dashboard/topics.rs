//! `/topics`: topics with their rates, and subscriptions with what they wait for and what was dropped.

use maud::{Markup, html};
use tenure_hub::TopicAct;
use tenure_hub::topics::{SubscriptionInfo, TopicFilter, TopicInfo, TopicPage};

use super::format::{count, escaped};
use super::frame::{self, Section};
use crate::call::HttpCall;
use crate::reply::HttpResult;

const PAGE: usize = 100;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&["next", "from"])?;
    let peer = call.peer()?;
    peer.may(TopicAct::List)?;
    let hub_topics = call.door.hub.topics();
    let (topics_from, subscriptions_from) =
        (call.query.number("next")?.unwrap_or(0), call.query.number("from")?.unwrap_or(0));
    let topics = hub_topics.topics(&peer.namespace, topics_from, PAGE, None);
    let subscriptions = hub_topics.subscriptions(&peer.namespace, subscriptions_from, PAGE);
    let stats = hub_topics.stats_of(&peer.namespace);
    let dropped = &stats.dropped;
    let dropped = dropped.oldest + dropped.newest + dropped.ttl + dropped.disconnect;
    let cell = |name: &str, value: u64, key: &str| {
        html! { div.figure { dt { (name) } dd { (count(value)) small data-rate=(key) data-value=(value) { "" } } } }
    };
    let content = html! {
        div.head { h1 { "Topics" } }
        section #figures.figures data-live="always" aria-label="Figures" {
            dl {
                (cell("Topics", stats.topics as u64, ""))
                (cell("Subscriptions", stats.subscriptions as u64, ""))
                (cell("Published", stats.published, "published"))
                (cell("Delivered", stats.delivered, "delivered"))
                (cell("Dropped", dropped, "dropped"))
                (cell("Kept messages", stats.kept_messages as u64, ""))
            }
        }
        section #topics.card data-live="always" aria-labelledby="topics-title" {
            h2 #topics-title { "Topics" }
            (topic_table(&topics))
        }
        section #subscriptions.card data-live="always" aria-labelledby="subscriptions-title" {
            h2 #subscriptions-title { "Subscriptions" }
            (subscription_table(&subscriptions))
        }
    };
    frame::page(&call, Section::Topics, "Topics", &content)
}

fn topic_table(page: &TopicPage<TopicInfo>) -> Markup {
    html! {
        @if page.items.is_empty() {
            p.empty { "No topic yet. Publish a message: " code { "tenure pub news 'hello'" } }
        } @else {
            div.scroll {
                table {
                    caption.sr { "Topics" }
                    thead { tr {
                        th scope="col" { "Topic" } th.n scope="col" { "Messages" } th.n scope="col" { "Rate" }
                        th.n scope="col" { "Subscribers" } th.n scope="col" { "Kept" } th scope="col" { "Retained" }
                    } }
                    tbody { @for topic in &page.items {
                        tr {
                            th scope="row" { (topic.name) }
                            td.n { (count(topic.sequence.0)) }
                            td.n data-rate={ "topic " (topic.name) } data-value=(topic.sequence.0) {}
                            td.n { (count(topic.subscribers as u64)) }
                            td.n { (count(topic.kept as u64)) }
                            td { @if topic.retained { "yes" } }
                        }
                    } }
                }
            }
            (more("next", page.next))
        }
    }
}

fn subscription_table(page: &TopicPage<SubscriptionInfo>) -> Markup {
    html! {
        @if page.items.is_empty() { p.empty { "No subscriptions." } }
        @else {
            div.scroll {
                table {
                    caption.sr { "Subscriptions" }
                    thead { tr {
                        th scope="col" { "Client" } th scope="col" { "Topics" } th scope="col" { "Group" }
                        th scope="col" { "Waiting" } th.n scope="col" { "Delivered" } th.n scope="col" { "Rate" }
                        th.n scope="col" { "Dropped" } th scope="col" { "If it is slow" }
                    } }
                    tbody { @for one in &page.items { (subscription(one)) } }
                }
            }
            (more("from", page.next))
        }
    }
}

fn subscription(one: &SubscriptionInfo) -> Markup {
    let stats = &one.stats;
    let dropped = &stats.dropped;
    let all = dropped.oldest + dropped.newest + dropped.ttl + dropped.disconnect;
    let topics: Vec<&str> = one.filters.iter().map(TopicFilter::as_str).collect();
    html! {
        tr {
            th scope="row" { (one.client) @if one.paused_until.is_some() { " " span.chip { "paused" } } }
            td.note { (topics.join(", ")) }
            td { (one.group.as_deref().unwrap_or_default()) }
            td.nowrap {
                meter min="0" max=(stats.limit.max(1)) value=(stats.depth) aria-label="Waiting messages" {}
                " " (stats.depth) " of " (stats.limit)
            }
            td.n { (count(stats.delivered)) }
            td.n data-rate={ "subscription " (one.id.as_str()) } data-value=(stats.delivered) {}
            td.n title={ "oldest " (dropped.oldest) ", newest " (dropped.newest) ", too old " (dropped.ttl) ", disconnected " (dropped.disconnect) } {
                @if all > 0 { span.chip.bad { (count(all)) } } @else { "0" }
            }
            td { (one.policy.as_str()) }
        }
    }
}

fn more(parameter: &str, next: Option<usize>) -> Markup {
    html! {
        @if let Some(next) = next {
            nav.pages aria-label="Pages" { a.button href={ "/topics?" (parameter) "=" (escaped(&next.to_string())) } { "Next page" } }
        }
    }
}

//! The group of a broker that leads one: why it leads, how fast its journal is, how far the other members are.

use maud::{Markup, html};
use tenure_hub::{LeaderStatus, Stats};

use super::format::{bytes, counted, span};

/// Nothing for a broker without a group.
pub(super) fn card(stats: &Stats) -> Markup {
    html! {
        @if let Some(leader) = &stats.leader {
            section #group.figures data-live aria-label="Group" { (figures(leader, stats)) }
        }
    }
}

fn figures(leader: &LeaderStatus, stats: &Stats) -> Markup {
    let cell = |name: &str, value: Markup, note: &str| {
        html! { div.figure { dt { (name) } dd { (value) @if !note.is_empty() { small { (note) } } } } }
    };
    let millis = |span: std::time::Duration| format!("{:.1} ms", span.as_secs_f64() * 1000.0);
    let journal = if stats.journal_away {
        "does not answer".to_owned()
    } else if stats.refilled_bytes_total > 0 {
        format!("{} put back", bytes(stats.refilled_bytes_total))
    } else {
        format!("p99 {}", millis(leader.append_p99))
    };
    html! {
        dl {
            (cell("Group", html! { (leader.group) }, &format!("epoch {}", leader.epoch)))
            (cell("Leader", html! { (leader.name) },
                &format!("for {}: {}", span(leader.led_for), leader.led_why)))
            (cell("Append", html! { (millis(leader.append_p50)) }, &journal))
            (cell("Standbys", html! { (counted(leader.standbys.len() as u64, "standby", "standbys")) },
                if leader.standbys.is_empty() { "no other member" } else { "" }))
            @for standby in &leader.standbys {
                (cell(&standby.name, html! { (bytes(standby.lag_bytes)) }, "behind"))
            }
        }
    }
}

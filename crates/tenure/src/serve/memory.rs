//! Limits the memory that peers can make the broker hold, if the system limits its address space.

use rustix::process::{Resource, getrlimit};

use crate::config::Config;

/// Each of the two budgets gets at most the address space divided by this: the rest is for tasks, topics, stacks and
/// the program itself.
const SHARE: u64 = 8;

/// Lowers the budgets for buffers and for what peers leave unread to what fits under `ulimit -v`, and says so.
pub(crate) fn fit(config: &mut Config) {
    let Some(address_space) = getrlimit(Resource::As).current else { return };
    let share = share_of(address_space);
    if config.buffer_bytes_max > share || config.unread.total > share {
        tracing::info!(
            address_space,
            budget = share,
            "the address space is limited: buffers_size and unread_bytes_total_max are lowered"
        );
    }
    config.buffer_bytes_max = config.buffer_bytes_max.min(share);
    config.unread.total = config.unread.total.min(share);
    config.unread.session = config.unread.session.min(share / 2);
}

fn share_of(address_space: u64) -> usize {
    usize::try_from(address_space / SHARE).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_budget_gets_an_eighth() {
        assert_eq!(share_of(1 << 30), 128 << 20);
        assert_eq!(share_of(0), 0);
    }
}

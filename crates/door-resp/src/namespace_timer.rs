//! Decides when a namespace is due for cleanup, for all connections together. Time is an argument.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tenure_hub::words::{Name, Timestamp};

/// Minimum interval between cleanups of one namespace.
const EVERY: Duration = Duration::from_secs(60);

/// When each namespace was last cleaned up. The keys in the configuration bound their number.
#[derive(Debug, Default)]
pub struct NamespaceTimer {
    tidied: Mutex<HashMap<Name, Timestamp>>,
}

impl NamespaceTimer {
    /// Whether a cleanup is due. A caller that gets `true` must do it.
    pub fn is_due(&self, now: Timestamp, namespace: &Name) -> bool {
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tidied.get(namespace).is_none_or(|last| *last + EVERY <= now);
        if due {
            tidied.insert(namespace.clone(), now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_tidied_once_a_minute() {
        let (namespace_timer, now) = (NamespaceTimer::default(), Timestamp(1_000_000));
        assert!(namespace_timer.is_due(now, &"a".into()));
        assert!(!namespace_timer.is_due(now + EVERY / 2, &"a".into()));
        assert!(namespace_timer.is_due(now + EVERY / 2, &"b".into()));
        assert!(namespace_timer.is_due(now + EVERY, &"a".into()));
    }
}

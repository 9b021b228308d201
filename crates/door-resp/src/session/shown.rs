//! What is under way in a conversation, for logs and failed tests: by its kind, since closures cannot be shown.

use super::{Expect, Slot};

impl std::fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Ready(_) => "Ready",
            Self::Written(_) => "Written",
            Self::Header { .. } => "Header",
            Self::Open => "Open",
            Self::Last { .. } => "Last",
        })
    }
}

impl std::fmt::Debug for Expect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Last { .. } => "Last",
            Self::Step { .. } => "Step",
            Self::Read { .. } => "Read",
            Self::Call { .. } => "Call",
            Self::Submitted => "Submitted",
            Self::Counted => "Counted",
            Self::Watch => "Watch",
            Self::Published { .. } => "Published",
            Self::Channel(_) => "Channel",
            Self::Nothing => "Nothing",
        })
    }
}

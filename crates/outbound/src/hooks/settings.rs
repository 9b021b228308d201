//! The configuration of a hook.

use std::fmt;
use std::time::Duration;

use tenure_hub::words::Name;
use tenure_hub::{HookAbout, HookKind};
use zeroize::Zeroizing;

use crate::roots::TrustedRoots;
use crate::target::HttpTarget;

/// One hook.
#[derive(Clone, Debug)]
pub struct HookSettings {
    /// The name of the hook, in logs, metrics and `tenure hooks`.
    pub name: Name,
    /// The namespace whose events it delivers.
    pub namespace: Name,
    /// Empty: all kinds.
    pub events: Vec<Name>,
    /// Empty: all queues.
    pub queues: Vec<Name>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often an event is tried before it is given up.
    pub attempts: u32,
    /// The wait after the first failed attempt. It doubles with each, up to `backoff_max`.
    pub backoff_first: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
    /// How many events are on their way at once. With 1 they arrive in order.
    pub concurrency: usize,
    /// Where the events go.
    pub target: HookTarget,
}

/// Where a hook delivers its events.
#[derive(Clone, Debug)]
pub enum HookTarget {
    /// Posts each event to an address.
    Webhook(WebhookSettings),
    /// Starts a program for each event.
    Command(CommandSettings),
}

/// The target of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// The address to post to.
    pub target: HttpTarget,
    /// The secret that signs each request.
    pub secret: Option<HookSecret>,
    /// For `https`.
    pub roots: Option<TrustedRoots>,
}

/// The target of a command hook.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret(Zeroizing<String>);

impl HookSecret {
    /// A secret with this text.
    pub fn new(text: Zeroizing<String>) -> HookSecret {
        HookSecret(text)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret")
    }
}

impl HookSettings {
    /// Whether it signs what it sends.
    pub fn has_secret(&self) -> bool {
        matches!(&self.target, HookTarget::Webhook(webhook) if webhook.secret.is_some())
    }

    /// What may be shown.
    pub fn about(&self) -> HookAbout {
        let (kind, target) = match &self.target {
            HookTarget::Webhook(webhook) => (HookKind::Webhook, webhook.target.without_secrets()),
            HookTarget::Command(command) => {
                (HookKind::Command, command.command.first().cloned().unwrap_or_default())
            }
        };
        HookAbout {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            kind,
            target: target.into(),
            events: self.events.clone(),
            queues: self.queues.clone(),
        }
    }
}

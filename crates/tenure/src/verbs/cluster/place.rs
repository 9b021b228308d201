//! `tenure cluster place`: gives a namespace to a group. It leads the group that has the namespace and the group that gets
//! it, so that no broker can change anything of the namespace meanwhile, and brings over what the first one has of it.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use tenure_hub::words::{Name, check_name};
use tenure_hub::{LogContents, wall_clock};
use tenure_journal_postgres::{ClusterPlacement, DEFAULT_ROW, GroupEntry, PostgresJournal};

use super::led_group::{GroupCopy, LedGroup, failed};
use crate::config::cluster::ClusterSettings;
use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome, TRY_LATER};
use crate::output::Screen;
use crate::serve::cluster::start;
use crate::units::counted;
use crate::verbs::config::read;

#[derive(Args, Debug)]
pub(super) struct Place {
    /// Name of the namespace; * for all that are not placed
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// Name of the group that serves it from now on
    #[arg(value_name = "GROUP")]
    to: String,
    #[command(flatten)]
    flags: Flags,
}

/// How often the default group is set again while leaders change.
const TRIES: usize = 5;

impl Place {
    pub(super) fn run(&self, screen: &Screen) -> Outcome {
        let config = Config::build(&read(&self.flags)?, random_seed());
        let Some(cluster) = config.cluster.clone() else {
            return Err(Failure::usage("no journal is named: pass --journal postgres://USER@HOST/DATABASE"));
        };
        if self.namespace != DEFAULT_ROW {
            check_name("namespace", &self.namespace)
                .map_err(|no| Failure::usage(format!("{no}: {:?}", self.namespace)))?;
        }
        let journal = start::open_as_tool(&cluster)?;
        let groups = start::retry_as_tool(|| journal.groups())?;
        if !groups.iter().any(|group| group.name == self.to) {
            let known: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            return Err(Failure::input(format!(
                "there is no group {0} (there are: {1}): make it with `tenure cluster init --group {0}`",
                self.to,
                known.join(", ")
            )));
        }
        let placer = Placer { config: &config, cluster: &cluster, journal: &journal };
        let placement = match start::retry_as_tool(|| journal.placement())? {
            Some(placement) => placement,
            None if groups.len() == 1 => return self.say_there(screen, &self.to),
            None => {
                let is_default = self.namespace == DEFAULT_ROW;
                placer.choose_default(if is_default { &self.to } else { &groups[0].name }, &groups)?
            }
        };
        if self.namespace == DEFAULT_ROW {
            let default = &placement.default_group;
            if *default == self.to {
                return self.say_there(screen, default);
            }
            return Err(Failure::input(format!(
                "the group {default} serves all namespaces that are not placed, and that cannot be changed: place the \
                 namespaces one by one"
            )));
        }
        let from = placement.group_of(&self.namespace).to_owned();
        if from == self.to {
            start::retry_as_tool(|| journal.cancel_move(&self.namespace))?;
            return self.say_there(screen, &from);
        }
        let moved = placer.place(&self.namespace.as_str().into(), &from, &self.to)?;
        let Moved { tasks, logs: LogContents { topics, subscriptions, messages, keys } } = moved;
        let text = || {
            let (namespace, to) = (&self.namespace, &self.to);
            format!("the group {to} serves the namespace {namespace} now; moved from {from}: {moved}")
        };
        let value = || {
            json!({
                "namespace": self.namespace, "from": from, "group": self.to, "tasks": tasks, "topics": topics,
                "subscriptions": subscriptions, "messages": messages, "keys": keys, "changed": true,
            })
        };
        screen.one(text, value)?;
        Ok(OK)
    }

    fn say_there(&self, screen: &Screen, group: &str) -> Outcome {
        let text = || match self.namespace.as_str() {
            DEFAULT_ROW => format!("the group {group} serves all namespaces that are not placed"),
            namespace => {
                format!("the group {group} serves the namespace {namespace} already; nothing was changed")
            }
        };
        let value = || json!({ "namespace": self.namespace, "group": group, "changed": false });
        screen.one(text, value)?;
        Ok(OK)
    }
}

/// What has moved with a namespace.
#[derive(Clone, Copy)]
struct Moved {
    tasks: u64,
    logs: LogContents,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LogContents { topics, subscriptions, messages, keys } = self.logs;
        f.write_str(&counted(self.tasks, "task", "tasks"))?;
        let others = [
            counted(topics, "topic", "topics"),
            counted(subscriptions, "subscription", "subscriptions"),
            counted(messages, "durable message", "durable messages"),
            counted(keys, "stored key", "stored keys"),
        ];
        for (number, text) in [topics, subscriptions, messages, keys].into_iter().zip(others) {
            if number > 0 {
                write!(f, ", {text}")?;
            }
        }
        Ok(())
    }
}

struct Placer<'a> {
    config: &'a Config,
    cluster: &'a ClusterSettings,
    journal: &'a PostgresJournal,
}

impl Placer<'_> {
    /// Before the first placement each group serves every namespace. From then on one group serves those that are not
    /// placed, so the others must have none.
    fn choose_default(&self, default: &str, groups: &[GroupEntry]) -> Result<ClusterPlacement, Failure> {
        let mut led = Vec::new();
        for group in groups.iter().filter(|group| group.name != default && group.epoch > 0) {
            let group = self.copy(&group.name)?.lead()?;
            let namespaces = group.namespaces();
            led.push(group);
            if !namespaces.as_ref().is_ok_and(BTreeSet::is_empty) {
                let group = led.last().map_or("", |group| &group.name).to_owned();
                led.into_iter().try_for_each(LedGroup::end)?;
                let namespaces: Vec<Name> = namespaces?.into_iter().collect();
                return Err(Failure::input(format!(
                    "the group {group} has tasks, settings, topics or keys of its own in {}, which would belong to {default}: \
                     make it the group of what is not placed with `tenure cluster place '*' {group}`, or use a new group",
                    namespaces.join(", ")
                )));
            }
        }
        let mut is_set = false;
        for _ in 0..TRIES {
            // The leader of the default group may change: it serves the same before and after.
            let seen = start::retry_as_tool(|| self.journal.groups())?.into_iter().map(|group| {
                let of_led = led.iter().find(|led| led.name == group.name).map(LedGroup::entry);
                let of_list = groups.iter().find(|known| known.name == group.name && group.name != default);
                of_led.or_else(|| of_list.cloned()).unwrap_or(group)
            });
            let seen: Vec<GroupEntry> = seen.collect();
            is_set =
                self.journal.set_default_group(default, &seen).map_err(|error| start::explain(&error))?;
            if is_set {
                break;
            }
        }
        led.into_iter().try_for_each(LedGroup::end)?;
        match start::retry_as_tool(|| self.journal.placement())? {
            Some(placement) if is_set || placement.default_group == default => Ok(placement),
            _ => Err(Failure::new(TRY_LATER, "another member has begun to lead meanwhile: try again")),
        }
    }

    /// Returns what has moved.
    fn place(&self, namespace: &Name, from: &str, to: &str) -> Result<Moved, Failure> {
        // From now on a leader of the other group drops what it finds of the namespace, until the row says otherwise.
        start::retry_as_tool(|| self.journal.begin_move(namespace, from))?;
        // Copied first, so that the groups wait for this program only briefly.
        let (old, new) = (self.copy(from)?, self.copy(to)?);
        let mut old = match old.lead() {
            Ok(old) => old,
            Err(failure) => {
                new.leave();
                return Err(failure);
            }
        };
        let mut new = match new.lead() {
            Ok(new) => new,
            Err(failure) => {
                old.end()?;
                return Err(failure);
            }
        };
        let moved = self.move_between(namespace, &mut old, &mut new);
        // The leaders that follow decide by the row, whatever has become of this.
        let ended = old.end().and(new.end());
        let moved = moved?;
        ended?;
        Ok(moved)
    }

    fn move_between(
        &self,
        namespace: &Name,
        old: &mut LedGroup,
        new: &mut LedGroup,
    ) -> Result<Moved, Failure> {
        let logs = old.logs.contents_of(namespace).map_err(|error| failed(&old.name, &error))?;
        let moved = Moved { tasks: old.idle.contents_of(namespace).tasks, logs };
        let first_event = new
            .idle
            .add_namespace(&mut old.idle, namespace, wall_clock())
            .map_err(|error| failed(&new.name, &error))?;
        let (old_idle, new_idle) = (&mut old.idle, &mut new.idle);
        new.logs
            .add_namespace(&old.logs, namespace, first_event, &mut || {
                old_idle.renew()?;
                new_idle.renew()
            })
            .map_err(|error| failed(&new.name, &error))?;
        let led = [old.entry(), new.entry()];
        let is_done = self
            .journal
            .finish_move(namespace, (&old.name, &new.name), first_event, &led)
            .map_err(|error| start::explain(&error))?;
        if !is_done {
            return Err(Failure::new(
                TRY_LATER,
                format!(
                    "another member has begun to lead meanwhile; the namespace {namespace} is where it was: try again"
                ),
            ));
        }
        old.idle.drop_namespace(namespace).map_err(|error| failed(&old.name, &error))?;
        let (old_idle, new_idle) = (&mut old.idle, &mut new.idle);
        old.logs
            .drop_namespace(namespace, &mut || {
                old_idle.renew()?;
                new_idle.renew()
            })
            .map_err(|error| failed(&old.name, &error))?;
        Ok(moved)
    }

    fn copy(&self, group: &str) -> Result<GroupCopy, Failure> {
        GroupCopy::join(self.config, self.cluster, group)
    }
}

//! Values of every type under random crashes: one client changes strings, lists, hashes, sets, sorted sets, streams
//! and times to live, in transactions. After each restart the keys must be as they were after one of its
//! transactions: at least the last acknowledged one, at most the last one sent.
//!
//! The right keys are those of a key space in memory that runs the same transactions at the same times. The tests of
//! that crate compare it with a model of its own; here it shows what the log and the restart add.

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::keyspace::{
    AddCondition, Command, ExpireCondition, HashCommand, KeyCommand, KeyTime, KeyspaceAnswer, KeyspaceCall,
    ListCommand, ListEnd, NewId, RangeBy, Reply, SetCommand, SetCondition, SetExpiry, SortedCommand,
    StreamCommand, StreamId, StringCommand, Trim,
};
use tenure_hub::words::Timestamp;
use tenure_keyspace::{Keyspace, Settings, Transaction};
use tenure_store::MemoryDisk;

use super::{Broker, NOW};
use crate::plan::Mutation;
use crate::random::Random;

const STEPS: usize = 150;
const KEYS: u64 = 8;

/// A transaction and when it ran.
type Sent = (Timestamp, Vec<Command>);

/// Simulates one world, and returns the broken promises.
pub(super) fn live(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x0076_616c);
    let mut broker = Broker::start(MemoryDisk::new(), mutation).expect("an empty disk opens");
    let mut client = broker.client();
    let mut now = NOW;
    let mut sent: Vec<Sent> = Vec::new();
    let mut acknowledged = 0;
    for _ in 0..STEPS {
        now = Timestamp(now.millis() + random.between(0, 60));
        let commands: Vec<Command> = (0..random.between(1, 4)).map(|_| command(&mut random)).collect();
        sent.push((now, commands.clone()));
        client.run(now, [(sent.len() as u64, KeyspaceCall::Transaction(commands))]);
        if random.percent(4) {
            broker.disk.fail_power_after(broker.disk.changes() + random.between(0, 4));
        }
        let has_crashed =
            random.percent(40) && broker.saver.round(&broker.keyspaces, Duration::ZERO).is_err();
        for (token, answer) in client.take_answered() {
            match answer {
                KeyspaceAnswer::Transaction(Some(_)) => acknowledged = acknowledged.max(token as usize),
                other => return vec![format!("a transaction without WATCH is answered with {other:?}")],
            }
        }
        if has_crashed || random.percent(3) {
            let disk = broker.disk.crash(random.between(0, 1 << 20));
            drop((client, broker));
            broker = match Broker::start(disk, mutation) {
                Ok(broker) => broker,
                Err(error) => return vec![format!("the key space does not come back: {error}")],
            };
            client = broker.client();
            client.run(now, [(0, KeyspaceCall::Transaction(questions()))]);
            let found = match client.take_answered().pop() {
                Some((_, KeyspaceAnswer::Transaction(Some(replies)))) => ordered(replies),
                other => panic!("{other:?}"),
            };
            match transactions_that_give(&found, now, &sent, acknowledged) {
                // The later ones are gone, and were not acknowledged.
                Some(survived) => sent.truncate(survived),
                None => {
                    let tried = sent.len();
                    return vec![format!(
                        "the keys are not as after any of the transactions {acknowledged} to {tried}: {found:?}"
                    )];
                }
            }
            acknowledged = sent.len();
        }
    }
    Vec::new()
}

/// How many of the transactions give these keys.
fn transactions_that_give(
    found: &[Reply],
    now: Timestamp,
    sent: &[Sent],
    acknowledged: usize,
) -> Option<usize> {
    let mut right = Keyspace::new(Settings::default());
    for done in 0..=sent.len() {
        if done > 0 {
            let (at, commands) = &sent[done - 1];
            right.run_all(commands, &[], KeyTime(at.millis()));
        }
        if done >= acknowledged {
            let Transaction::CommandOutcome { replies, .. } =
                right.run_all(&questions(), &[], KeyTime(now.millis()))
            else {
                unreachable!("no key is watched")
            };
            if ordered(replies) == found {
                return Some(done);
            }
        }
    }
    None
}

/// All about all keys. A question about another type is refused, in the same words.
fn questions() -> Vec<Command> {
    let questions = |key: Bytes| {
        let all = RangeBy::Index { start: 0, stop: -1 };
        [
            Command::String(StringCommand::Get { key: key.clone() }),
            Command::List(ListCommand::Range { key: key.clone(), start: 0, stop: -1 }),
            Command::Hash(HashCommand::GetAll { key: key.clone() }),
            Command::Set(SetCommand::Members { key: key.clone() }),
            Command::Sorted(SortedCommand::Range {
                key: key.clone(),
                by: all,
                reverse: false,
                with_scores: true,
            }),
            Command::Stream(StreamCommand::Range {
                key: key.clone(),
                from: StreamId(0, 0),
                to: StreamId::LAST,
                count: usize::MAX,
                reverse: false,
            }),
            Command::Key(KeyCommand::TimeToLive { key, millis_per_unit: 1 }),
        ]
    };
    (0..KEYS).flat_map(|number| questions(named(number))).collect()
}

/// The fields of a hash and the members of a set have no order.
fn ordered(mut replies: Vec<Reply>) -> Vec<Reply> {
    for reply in &mut replies {
        match reply {
            Reply::Map(fields) => fields.sort(),
            Reply::Set(members) => members.sort(),
            _ => {}
        }
    }
    replies
}

fn named(number: u64) -> Bytes {
    Bytes::from(format!("v{number}"))
}

/// Any change. Most keys keep their type, so that values grow and are changed in part.
fn command(random: &mut Random) -> Command {
    let kind = random.between(0, 6);
    let key = named(if random.percent(85) { kind } else { random.between(0, KEYS) });
    let value = Bytes::from(random.between(0, 12).to_string());
    let end = *random.pick(&[ListEnd::Left, ListEnd::Right]);
    if random.percent(20) {
        return Command::Key(key_command(random, key));
    }
    let removes = random.percent(30);
    match kind {
        0 if removes => Command::String(StringCommand::Increment { key, by: 3 }),
        0 => {
            let expiry = match random.between(0, 3) {
                0 => SetExpiry::Keep,
                1 => SetExpiry::After(random.between(1, 900) as i64),
                _ => SetExpiry::None,
            };
            let condition = SetCondition::Always;
            Command::String(StringCommand::Set { key, value, condition, expiry, get: false })
        }
        1 if removes => Command::List(ListCommand::Pop { key, end }),
        1 => Command::List(ListCommand::Push { key, end, elements: vec![value] }),
        2 if removes => Command::Hash(HashCommand::Delete { key, fields: vec![value] }),
        2 => Command::Hash(HashCommand::Increment { key, field: value, by: random.between(1, 9) as i64 }),
        3 if removes => Command::Set(SetCommand::Remove { key, members: vec![value] }),
        3 => Command::Set(SetCommand::Add { key, members: vec![value] }),
        4 if removes => Command::Sorted(SortedCommand::Remove { key, members: vec![value] }),
        4 => Command::Sorted(SortedCommand::Increment {
            key,
            by: random.between(1, 9) as f64,
            member: value,
            condition: AddCondition::default(),
        }),
        _ if removes => Command::Stream(StreamCommand::Trim { key, trim: Trim::MaxLength(2) }),
        _ => Command::Stream(StreamCommand::Add {
            key,
            id: NewId::Fresh,
            fields: vec![(Bytes::from_static(b"field"), value)],
            trim: None,
            only_existing: false,
        }),
    }
}

fn key_command(random: &mut Random, key: Bytes) -> KeyCommand {
    match random.between(0, 6) {
        0 => KeyCommand::Delete { keys: vec![key] },
        1 => KeyCommand::Persist { key },
        2 => KeyCommand::Rename { from: key, to: named(random.between(0, KEYS)) },
        _ => KeyCommand::ExpireAfter {
            key,
            millis: random.between(1, 900) as i64,
            condition: ExpireCondition::Always,
            command: "pexpire",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_times_to_live_survive_and_a_disk_that_does_not_sync_is_caught() {
        for seed in 0..80 {
            assert_eq!(live(seed, Mutation::None), [""; 0], "seed {seed}");
        }
        for mutation in [Mutation::ForgetSync, Mutation::ForgetKeySync] {
            assert!((0..40).any(|seed| !live(seed, mutation).is_empty()), "{mutation:?}");
        }
    }
}

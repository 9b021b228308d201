//! The key space in a simulated world: clients set, push and pop, connections break, the power fails at any write, and
//! the log is rewritten meanwhile. Acknowledged changes must survive, and no transaction may be torn.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::keyspace::{
    Blocking, Command, KeySaver, KeyspaceAnswer, KeyspaceCall, KeyspaceClient, KeyspaceSettings, Keyspaces,
    ListCommand, ListEnd, Reply, SetCondition, SetExpiry, StringCommand,
};
use tenure_hub::words::{Settings, Timestamp};
use tenure_store::{MemoryDisk, Opened, Reader, Store, StoreError, StoreSettings};

use crate::plan::Mutation;
use crate::random::Random;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const STEPS: u64 = 250;
const CLIENTS: usize = 3;
const PAIRS: u64 = 3;

/// The promises about keys.
#[derive(Debug, Default)]
struct Promises {
    /// The last number of each pair that was acknowledged, and the last that was tried.
    acknowledged: BTreeMap<u64, u64>,
    tried: BTreeMap<u64, u64>,
    /// Elements whose push was acknowledged, and those whose pop was.
    pushed: BTreeSet<u64>,
    popped: BTreeSet<u64>,
    broken: Vec<String>,
}

/// The purpose of a reply.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Pair { pair: u64, number: u64 },
    Push { number: u64 },
    Pop,
}

struct Broker {
    disk: MemoryDisk,
    keyspaces: Keyspaces,
    saver: KeySaver,
    _reader: Reader,
}

impl Broker {
    fn start(disk: MemoryDisk, mutation: Mutation) -> Result<Broker, StoreError> {
        disk.ignore_sync(mutation == Mutation::ForgetSync);
        if mutation == Mutation::ForgetKeySync {
            disk.ignore_sync_of("keys");
        }
        let store = StoreSettings { segment_bytes: 8 << 10, spare_segments: 0, ..StoreSettings::default() };
        let Opened { store, .. } = Store::open(Arc::new(disk.clone()), store, Settings::default(), NOW)?;
        let reader = store.split().reader;
        // Small, so that the log is rewritten several times in a short simulation.
        let settings = KeyspaceSettings { log_bytes: 500, sweep_bytes: 64, ..KeyspaceSettings::default() };
        let (keyspaces, saver) = Keyspaces::open(&reader, settings)?;
        Ok(Broker { disk, keyspaces, saver, _reader: reader })
    }

    fn client(&self) -> KeyspaceClient {
        self.keyspaces.connect(&"default".into()).expect("there is room")
    }
}

/// Simulates two worlds of keys, and returns the broken promises.
pub(crate) fn live(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut broken = push_and_pop(seed, mutation);
    broken.extend(values::live(seed, mutation));
    broken
}

/// Several clients set pairs of keys, push, and wait for elements.
fn push_and_pop(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x006b_6579);
    let mut promises = Promises::default();
    let mut broker = Broker::start(MemoryDisk::new(), mutation).expect("an empty disk opens");
    let mut clients: Vec<(KeyspaceClient, BTreeMap<u64, Asked>)> =
        (0..CLIENTS).map(|_| (broker.client(), BTreeMap::new())).collect();
    // Pops of broken connections: their elements go back with the next write.
    let mut going_back = 0;
    for step in 1..=STEPS {
        let at = random.between(0, CLIENTS as u64) as usize;
        match random.between(0, 100) {
            0..55 => {
                let (client, asked) = &mut clients[at];
                let (question, call) = ask(&mut random, step, &mut promises);
                asked.insert(step, question);
                client.run(NOW, [(step, call)]);
            }
            55..60 => {
                // A connection breaks; its waits end, and elements popped without a delivered reply go back.
                let (gone, asked) = std::mem::replace(&mut clients[at], (broker.client(), BTreeMap::new()));
                drop(gone);
                going_back += pops(&asked);
            }
            60..63 => broker.disk.fail_power_after(broker.disk.changes() + random.between(0, 4)),
            _ => {}
        }
        let has_crashed = random.percent(40)
            && match broker.saver.round(&broker.keyspaces, Duration::ZERO) {
                Ok(_) => {
                    going_back = 0;
                    false
                }
                Err(_) => true,
            };
        if has_crashed || random.percent(2) {
            let in_flight = clients.iter().map(|(_, asked)| pops(asked)).sum::<usize>() + going_back;
            going_back = 0;
            let disk = broker.disk.crash(random.between(0, 1 << 20));
            drop((clients, broker));
            broker = match Broker::start(disk, mutation) {
                Ok(broker) => broker,
                Err(error) => {
                    promises.broken.push(format!("the key space does not come back: {error}"));
                    return promises.broken;
                }
            };
            promises.inspect(&mut broker, in_flight);
            clients = (0..CLIENTS).map(|_| (broker.client(), BTreeMap::new())).collect();
        }
        for (client, asked) in &mut clients {
            for (token, answer) in client.take_answered() {
                if let Some(question) = asked.remove(&token) {
                    promises.handle_answer(question, &answer);
                }
            }
        }
    }
    promises.broken
}

fn pops(asked: &BTreeMap<u64, Asked>) -> usize {
    asked.values().filter(|asked| matches!(asked, Asked::Pop)).count()
}

fn ask(random: &mut Random, number: u64, promises: &mut Promises) -> (Asked, KeyspaceCall) {
    match random.between(0, 3) {
        0 => {
            let pair = random.between(0, PAIRS);
            promises.tried.insert(pair, number);
            let both = [b'a', b'b'].map(|side| set(&[side, b'0' + pair as u8], number));
            (Asked::Pair { pair, number }, KeyspaceCall::Transaction(both.to_vec()))
        }
        1 => {
            let elements = vec![Bytes::from(number.to_string())];
            let push = ListCommand::Push { key: Bytes::from_static(b"q"), end: ListEnd::Left, elements };
            (Asked::Push { number }, KeyspaceCall::Run(Command::List(push)))
        }
        _ => {
            let pop = Blocking::Pop { keys: vec![Bytes::from_static(b"q")], end: ListEnd::Right };
            (Asked::Pop, KeyspaceCall::Wait(pop))
        }
    }
}

fn set(key: &[u8], number: u64) -> Command {
    Command::String(StringCommand::Set {
        key: Bytes::copy_from_slice(key),
        value: Bytes::from(number.to_string()),
        condition: SetCondition::Always,
        expiry: SetExpiry::None,
        get: false,
    })
}

impl Promises {
    fn handle_answer(&mut self, question: Asked, answer: &KeyspaceAnswer) {
        match (question, answer) {
            (Asked::Pair { pair, number }, KeyspaceAnswer::Transaction(Some(_))) => {
                let known = self.acknowledged.entry(pair).or_default();
                *known = (*known).max(number);
            }
            (Asked::Push { number }, KeyspaceAnswer::Reply(Reply::Integer(_))) => {
                self.pushed.insert(number);
            }
            (Asked::Pop, KeyspaceAnswer::Reply(Reply::Array(parts))) => {
                let Some(number) = parts.last().and_then(number) else { return };
                if !self.popped.insert(number) {
                    self.broken.push(format!("element {number} was popped twice"));
                }
            }
            (Asked::Pair { .. } | Asked::Push { .. } | Asked::Pop, _) => {}
        }
    }

    /// Checks after a restart. A pop whose reply was not delivered may have removed an element.
    fn inspect(&mut self, broker: &mut Broker, pops_in_flight: usize) {
        let mut client = broker.client();
        let mut run = |command: Command| {
            client.run(NOW, [(0, KeyspaceCall::Run(command))]);
            match client.take_answered().pop() {
                Some((_, KeyspaceAnswer::Reply(reply))) => reply,
                other => panic!("{other:?}"),
            }
        };
        for pair in 0..PAIRS {
            let [a, b] = [b'a', b'b'].map(|side| {
                let key = Bytes::copy_from_slice(&[side, b'0' + pair as u8]);
                number(&run(Command::String(StringCommand::Get { key }))).unwrap_or_default()
            });
            let least = self.acknowledged.get(&pair).copied().unwrap_or_default();
            let most = self.tried.get(&pair).copied().unwrap_or_default();
            if a != b {
                self.broken.push(format!("a transaction is torn: {a} and {b}"));
            }
            if !(least..=most).contains(&a) {
                self.broken.push(format!("pair {pair} is {a}, and {least} was acknowledged"));
            }
        }
        let all = ListCommand::Range { key: Bytes::from_static(b"q"), start: 0, stop: -1 };
        let Reply::Array(found) = run(Command::List(all)) else { return };
        let found: BTreeSet<u64> = found.iter().filter_map(number).collect();
        let missing: Vec<u64> = self
            .pushed
            .iter()
            .filter(|one| !found.contains(one) && !self.popped.contains(one))
            .copied()
            .collect();
        if missing.len() > pops_in_flight {
            self.broken
                .push(format!("{missing:?} were acknowledged and are gone, {pops_in_flight} pops were open"));
        }
        if let Some(back) = self.popped.iter().find(|one| found.contains(one)) {
            self.broken.push(format!("element {back} was popped and is back"));
        }
        // What an undelivered pop removed is gone for good.
        self.pushed.retain(|one| !missing.contains(one));
    }
}

fn number(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_about_keys_are_kept_and_a_disk_that_does_not_sync_is_caught() {
        for seed in 0..150 {
            assert_eq!(push_and_pop(seed, Mutation::None), [""; 0], "seed {seed}");
        }
        for mutation in [Mutation::ForgetSync, Mutation::ForgetKeySync] {
            assert!((0..50).any(|seed| !push_and_pop(seed, mutation).is_empty()), "{mutation:?}");
        }
    }
}

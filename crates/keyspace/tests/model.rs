//! Against a model that is too simple to be wrong: vectors and maps, no effects, no accounts.

mod common;

use std::collections::BTreeMap;

use bytes::Bytes;
use common::{end, key, text};
use proptest::prelude::*;
use tenure_keyspace::{
    Command, ExpireCondition, HashCommand, KeyCommand, Keyspace, KeyspaceRefusal, ListCommand, ListEnd,
    Reply, SetCommand, SetCondition, SetExpiry, Settings, SortedCommand, StringCommand, Timestamp,
};

#[derive(Clone, Debug)]
enum Asked {
    Set(Bytes, Bytes, Option<i64>),
    Get(Bytes),
    Add(Bytes, i64),
    Push(Bytes, ListEnd, Vec<Bytes>),
    Pop(Bytes, ListEnd),
    Range(Bytes, i64, i64),
    Remove(Bytes, Bytes),
    HashSet(Bytes, Bytes, Bytes),
    HashGet(Bytes, Bytes),
    HashDelete(Bytes, Bytes),
    SetAdd(Bytes, Bytes),
    SetRemove(Bytes, Bytes),
    SetCount(Bytes),
    Delete(Bytes),
    Expire(Bytes, i64),
    TimeToLive(Bytes),
    Sleep(u64),
    Score(Bytes, i32, Bytes),
    Rank(Bytes, Bytes),
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        (key(), text(), proptest::option::of(1..2000i64))
            .prop_map(|(key, value, ttl)| Asked::Set(key, value, ttl)),
        key().prop_map(Asked::Get),
        (key(), -5..5i64).prop_map(|(key, by)| Asked::Add(key, by)),
        (key(), end(), proptest::collection::vec(text(), 1..3))
            .prop_map(|(key, end, of)| Asked::Push(key, end, of)),
        (key(), end()).prop_map(|(key, end)| Asked::Pop(key, end)),
        (key(), -3..3i64, -3..3i64).prop_map(|(key, start, stop)| Asked::Range(key, start, stop)),
        (key(), text()).prop_map(|(key, element)| Asked::Remove(key, element)),
        (key(), text(), text()).prop_map(|(key, field, value)| Asked::HashSet(key, field, value)),
        (key(), text()).prop_map(|(key, field)| Asked::HashGet(key, field)),
        (key(), text()).prop_map(|(key, field)| Asked::HashDelete(key, field)),
        (key(), text()).prop_map(|(key, member)| Asked::SetAdd(key, member)),
        (key(), text()).prop_map(|(key, member)| Asked::SetRemove(key, member)),
        key().prop_map(Asked::SetCount),
        key().prop_map(Asked::Delete),
        (key(), -5..2000i64).prop_map(|(key, millis)| Asked::Expire(key, millis)),
        key().prop_map(Asked::TimeToLive),
        (1..900u64).prop_map(Asked::Sleep),
        (key(), -4..4i32, text()).prop_map(|(key, score, member)| Asked::Score(key, score, member)),
        (key(), text()).prop_map(|(key, member)| Asked::Rank(key, member)),
    ]
}

#[derive(Clone, Debug)]
enum Held {
    String(Bytes),
    List(Vec<Bytes>),
    Hash(Vec<(Bytes, Bytes)>),
    Set(Vec<Bytes>),
    Sorted(Vec<(i32, Bytes)>),
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<Bytes, (Held, Option<u64>)>,
    now: u64,
}

const WRONG: Reply = Reply::Refused(KeyspaceRefusal::WrongType);

impl Model {
    fn tidy(&mut self) {
        let now = self.now;
        self.keys.retain(|_, (held, until)| {
            let is_empty = match held {
                Held::String(_) => false,
                Held::List(list) => list.is_empty(),
                Held::Hash(hash) => hash.is_empty(),
                Held::Set(set) => set.is_empty(),
                Held::Sorted(sorted) => sorted.is_empty(),
            };
            !is_empty && until.is_none_or(|until| until > now)
        });
    }

    fn ask(&mut self, asked: &Asked) -> Option<Reply> {
        self.tidy();
        let reply = self.answer(asked);
        self.tidy();
        reply
    }

    fn answer(&mut self, asked: &Asked) -> Option<Reply> {
        let now = self.now;
        Some(match asked {
            Asked::Sleep(millis) => {
                self.now += millis;
                return None;
            }
            Asked::Set(key, value, ttl) => {
                let until = ttl.map(|ttl| now + ttl as u64);
                self.keys.insert(key.clone(), (Held::String(value.clone()), until));
                Reply::Ok
            }
            Asked::Get(key) => match self.keys.get(key) {
                None => Reply::Null,
                Some((Held::String(value), _)) => Reply::Bulk(value.clone()),
                Some(_) => WRONG,
            },
            Asked::Add(key, by) => match self.keys.get_mut(key) {
                None => {
                    self.keys.insert(key.clone(), (Held::String(by.to_string().into()), None));
                    Reply::Integer(*by)
                }
                Some((Held::String(value), _)) => {
                    let number = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
                    match number.and_then(|text| text.parse::<i64>().ok()) {
                        None => Reply::Refused(KeyspaceRefusal::NotAnInteger),
                        Some(number) => {
                            *value = (number + by).to_string().into();
                            Reply::Integer(number + by)
                        }
                    }
                }
                Some(_) => WRONG,
            },
            Asked::Push(key, end, elements) => {
                let held = self.keys.entry(key.clone()).or_insert((Held::List(Vec::new()), None));
                let Held::List(list) = &mut held.0 else { return Some(WRONG) };
                for element in elements {
                    let at = if *end == ListEnd::Left { 0 } else { list.len() };
                    list.insert(at, element.clone());
                }
                Reply::Integer(list.len() as i64)
            }
            Asked::Pop(key, end) => match self.keys.get_mut(key) {
                None => Reply::Null,
                Some((Held::List(list), _)) => {
                    Reply::Bulk(if *end == ListEnd::Left { list.remove(0) } else { list.pop().expect("one") })
                }
                Some(_) => WRONG,
            },
            Asked::Range(key, start, stop) => match self.keys.get(key) {
                None => Reply::Array(Vec::new()),
                Some((Held::List(list), _)) => {
                    let place = |index: i64| if index < 0 { index + list.len() as i64 } else { index };
                    let wanted = |index: i64| place(*start) <= index && index <= place(*stop);
                    let found = list.iter().enumerate().filter(|(index, _)| wanted(*index as i64));
                    Reply::Array(found.map(|(_, element)| Reply::Bulk(element.clone())).collect())
                }
                Some(_) => WRONG,
            },
            Asked::Remove(key, element) => match self.keys.get_mut(key) {
                None => Reply::Integer(0),
                Some((Held::List(list), _)) => {
                    let before = list.len();
                    list.retain(|found| found != element);
                    Reply::Integer((before - list.len()) as i64)
                }
                Some(_) => WRONG,
            },
            Asked::HashSet(key, field, value) => {
                let held = self.keys.entry(key.clone()).or_insert((Held::Hash(Vec::new()), None));
                let Held::Hash(hash) = &mut held.0 else { return Some(WRONG) };
                let before = hash.len();
                hash.retain(|(known, _)| known != field);
                let is_new = hash.len() == before;
                hash.push((field.clone(), value.clone()));
                Reply::Integer(i64::from(is_new))
            }
            Asked::HashGet(key, field) => match self.keys.get(key) {
                None => Reply::Null,
                Some((Held::Hash(hash), _)) => hash
                    .iter()
                    .find(|(known, _)| known == field)
                    .map_or(Reply::Null, |(_, value)| Reply::Bulk(value.clone())),
                Some(_) => WRONG,
            },
            Asked::HashDelete(key, field) => match self.keys.get_mut(key) {
                None => Reply::Integer(0),
                Some((Held::Hash(hash), _)) => {
                    let before = hash.len();
                    hash.retain(|(known, _)| known != field);
                    Reply::Integer((before - hash.len()) as i64)
                }
                Some(_) => WRONG,
            },
            Asked::SetAdd(key, member) => {
                let held = self.keys.entry(key.clone()).or_insert((Held::Set(Vec::new()), None));
                let Held::Set(set) = &mut held.0 else { return Some(WRONG) };
                let is_new = !set.contains(member);
                if is_new {
                    set.push(member.clone());
                }
                Reply::Integer(i64::from(is_new))
            }
            Asked::SetRemove(key, member) => match self.keys.get_mut(key) {
                None => Reply::Integer(0),
                Some((Held::Set(set), _)) => {
                    let before = set.len();
                    set.retain(|known| known != member);
                    Reply::Integer((before - set.len()) as i64)
                }
                Some(_) => WRONG,
            },
            Asked::SetCount(key) => match self.keys.get(key) {
                None => Reply::Integer(0),
                Some((Held::Set(set), _)) => Reply::Integer(set.len() as i64),
                Some(_) => WRONG,
            },
            Asked::Delete(key) => Reply::Integer(i64::from(self.keys.remove(key).is_some())),
            Asked::Expire(key, millis) => match self.keys.get_mut(key) {
                None => Reply::Integer(0),
                Some((_, until)) => {
                    *until = Some(now.saturating_add_signed(*millis));
                    Reply::Integer(1)
                }
            },
            Asked::TimeToLive(key) => Reply::Integer(match self.keys.get(key) {
                None => -2,
                Some((_, None)) => -1,
                Some((_, Some(until))) => (until - now) as i64,
            }),
            Asked::Score(key, score, member) => {
                let held = self.keys.entry(key.clone()).or_insert((Held::Sorted(Vec::new()), None));
                let Held::Sorted(sorted) = &mut held.0 else { return Some(WRONG) };
                let before = sorted.len();
                sorted.retain(|(_, known)| known != member);
                let is_new = sorted.len() == before;
                sorted.push((*score, member.clone()));
                sorted.sort();
                Reply::Integer(i64::from(is_new))
            }
            Asked::Rank(key, member) => match self.keys.get(key) {
                None => Reply::Null,
                Some((Held::Sorted(sorted), _)) => sorted
                    .iter()
                    .position(|(_, known)| known == member)
                    .map_or(Reply::Null, |place| Reply::Integer(place as i64)),
                Some(_) => WRONG,
            },
        })
    }
}

fn command(asked: &Asked) -> Option<Command> {
    Some(match asked.clone() {
        Asked::Sleep(_) => return None,
        Asked::Set(key, value, ttl) => Command::String(StringCommand::Set {
            key,
            value,
            condition: SetCondition::Always,
            expiry: ttl.map_or(SetExpiry::None, SetExpiry::After),
            get: false,
        }),
        Asked::Get(key) => Command::String(StringCommand::Get { key }),
        Asked::Add(key, by) => Command::String(StringCommand::Increment { key, by }),
        Asked::Push(key, end, elements) => Command::List(ListCommand::Push { key, end, elements }),
        Asked::Pop(key, end) => Command::List(ListCommand::Pop { key, end }),
        Asked::Range(key, start, stop) => Command::List(ListCommand::Range { key, start, stop }),
        Asked::Remove(key, element) => Command::List(ListCommand::Remove { key, count: 0, element }),
        Asked::HashSet(key, field, value) => {
            Command::Hash(HashCommand::Set { key, fields: vec![(field, value)] })
        }
        Asked::HashGet(key, field) => Command::Hash(HashCommand::Get { key, field }),
        Asked::HashDelete(key, field) => Command::Hash(HashCommand::Delete { key, fields: vec![field] }),
        Asked::SetAdd(key, member) => Command::Set(SetCommand::Add { key, members: vec![member] }),
        Asked::SetRemove(key, member) => Command::Set(SetCommand::Remove { key, members: vec![member] }),
        Asked::SetCount(key) => Command::Set(SetCommand::Count { key }),
        Asked::Delete(key) => Command::Key(KeyCommand::Delete { keys: vec![key] }),
        Asked::Expire(key, millis) => Command::Key(KeyCommand::ExpireAfter {
            key,
            millis,
            condition: ExpireCondition::Always,
            command: "pexpire",
        }),
        Asked::TimeToLive(key) => Command::Key(KeyCommand::TimeToLive { key, millis_per_unit: 1 }),
        Asked::Score(key, score, member) => Command::Sorted(SortedCommand::Add {
            key,
            members: vec![(f64::from(score), member)],
            condition: tenure_keyspace::AddCondition::default(),
            count_changed: false,
        }),
        Asked::Rank(key, member) => Command::Sorted(SortedCommand::Rank { key, member, reverse: false }),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    #[test]
    fn every_answer_is_the_models(story in proptest::collection::vec(asked(), 1..120)) {
        let mut model = Model { now: 1_700_000_000_000, ..Model::default() };
        let mut space = Keyspace::new(Settings::default());
        for asked in &story {
            let wanted = model.ask(asked);
            let given = command(asked).map(|command| space.run(&command, Timestamp(model.now)).reply);
            prop_assert_eq!(given, wanted, "{:?}", asked);
        }
    }
}

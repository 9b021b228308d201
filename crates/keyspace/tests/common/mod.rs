//! Random commands over a few keys, so that they meet.
#![allow(dead_code, reason = "each test uses some of it")]

use bytes::Bytes;
use proptest::prelude::*;
use tenure_keyspace::{
    AddCondition, Blocking, Combine, Command, ExpireCondition, HashCommand, KeyCommand, ListCommand, ListEnd,
    NewId, RangeBy, Script, ScriptCall, SetCommand, SetCondition, SetExpiry, SortedCommand, StreamCommand,
    StreamId, StringCommand, Trim,
};

pub(crate) fn key() -> impl Strategy<Value = Bytes> {
    (0..6u8).prop_map(|number| Bytes::from(vec![b'k', b'0' + number]))
}

pub(crate) fn text() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        (0..5u8).prop_map(|number| Bytes::from(vec![b'a' + number])),
        (0..30i64).prop_map(|number| Bytes::from(number.to_string())),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from),
    ]
}

pub(crate) fn end() -> impl Strategy<Value = ListEnd> {
    prop_oneof![Just(ListEnd::Left), Just(ListEnd::Right)]
}

fn texts() -> impl Strategy<Value = Vec<Bytes>> {
    proptest::collection::vec(text(), 1..4)
}

fn pairs() -> impl Strategy<Value = Vec<(Bytes, Bytes)>> {
    proptest::collection::vec((text(), text()), 1..4)
}

fn string() -> impl Strategy<Value = StringCommand> {
    let expiry = prop_oneof![
        3 => Just(SetExpiry::None),
        1 => Just(SetExpiry::Keep),
        2 => (1..3000i64).prop_map(SetExpiry::After),
    ];
    let condition =
        prop_oneof![Just(SetCondition::Always), Just(SetCondition::IfMissing), Just(SetCondition::IfThere)];
    prop_oneof![
        key().prop_map(|key| StringCommand::Get { key }),
        (key(), text(), condition, expiry, any::<bool>()).prop_map(|(key, value, condition, expiry, get)| {
            StringCommand::Set { key, value, condition, expiry, get }
        }),
        (key(), text()).prop_map(|(key, bytes)| StringCommand::Append { key, bytes }),
        (key(), -5..5i64).prop_map(|(key, by)| StringCommand::Increment { key, by }),
        key().prop_map(|key| StringCommand::GetDelete { key }),
        proptest::collection::vec((key(), text()), 1..4).prop_map(|pairs| StringCommand::SetMany { pairs }),
    ]
}

pub(crate) fn list() -> impl Strategy<Value = ListCommand> {
    prop_oneof![
        (key(), end(), texts()).prop_map(|(key, end, elements)| ListCommand::Push { key, end, elements }),
        (key(), end()).prop_map(|(key, end)| ListCommand::Pop { key, end }),
        (key(), end(), 0..4usize).prop_map(|(key, end, count)| ListCommand::PopMany { key, end, count }),
        key().prop_map(|key| ListCommand::Length { key }),
        (key(), -4..4i64, -4..4i64).prop_map(|(key, start, stop)| ListCommand::Range { key, start, stop }),
        (key(), -2..3i64, text()).prop_map(|(key, count, element)| ListCommand::Remove {
            key,
            count,
            element
        }),
        (key(), -4..4i64, -4..4i64).prop_map(|(key, start, stop)| ListCommand::Trim { key, start, stop }),
        (key(), -4..4i64, text()).prop_map(|(key, index, element)| ListCommand::Set { key, index, element }),
        (key(), key(), end(), end()).prop_map(|(from, to, from_end, to_end)| ListCommand::Move {
            from,
            to,
            from_end,
            to_end
        }),
    ]
}

fn hash() -> impl Strategy<Value = HashCommand> {
    prop_oneof![
        (key(), pairs()).prop_map(|(key, fields)| HashCommand::Set { key, fields }),
        (key(), texts()).prop_map(|(key, fields)| HashCommand::Delete { key, fields }),
        (key(), text(), -9..9i64).prop_map(|(key, field, by)| HashCommand::Increment { key, field, by }),
        key().prop_map(|key| HashCommand::GetAll { key }),
    ]
}

fn set() -> impl Strategy<Value = SetCommand> {
    prop_oneof![
        (key(), texts()).prop_map(|(key, members)| SetCommand::Add { key, members }),
        (key(), texts()).prop_map(|(key, members)| SetCommand::Remove { key, members }),
        key().prop_map(|key| SetCommand::Pop { key }),
        (key(), key(), text()).prop_map(|(from, to, member)| SetCommand::Move { from, to, member }),
        (key(), proptest::collection::vec(key(), 1..3)).prop_map(|(to, keys)| SetCommand::CombineInto {
            to,
            how: Combine::Union,
            keys
        }),
    ]
}

fn sorted() -> impl Strategy<Value = SortedCommand> {
    let scored = || proptest::collection::vec(((-9..9i32).prop_map(f64::from), text()), 1..4);
    prop_oneof![
        (key(), scored()).prop_map(|(key, members)| SortedCommand::Add {
            key,
            members,
            condition: AddCondition::default(),
            count_changed: false,
        }),
        (key(), text()).prop_map(|(key, member)| SortedCommand::Increment {
            key,
            by: 1.5,
            member,
            condition: AddCondition::default(),
        }),
        (key(), texts()).prop_map(|(key, members)| SortedCommand::Remove { key, members }),
        (key(), end(), 0..3usize).prop_map(|(key, end, count)| SortedCommand::Pop { key, end, count }),
        (key(), -3..3i64, -3..3i64).prop_map(|(key, start, stop)| SortedCommand::RemoveRange {
            key,
            by: RangeBy::Index { start, stop }
        }),
    ]
}

fn stream() -> impl Strategy<Value = StreamCommand> {
    prop_oneof![
        (key(), pairs(), proptest::option::of((0..4usize).prop_map(Trim::MaxLength))).prop_map(
            |(key, fields, trim)| StreamCommand::Add {
                key,
                id: NewId::Fresh,
                fields,
                trim,
                only_existing: false
            }
        ),
        key().prop_map(|key| StreamCommand::Range {
            key,
            from: StreamId(0, 0),
            to: StreamId::LAST,
            count: 9,
            reverse: true
        }),
        (key(), 0..3usize)
            .prop_map(|(key, length)| StreamCommand::Trim { key, trim: Trim::MaxLength(length) }),
    ]
}

fn keys() -> impl Strategy<Value = KeyCommand> {
    prop_oneof![
        proptest::collection::vec(key(), 1..3).prop_map(|keys| KeyCommand::Delete { keys }),
        (key(), -10..3000i64).prop_map(|(key, millis)| KeyCommand::ExpireAfter {
            key,
            millis,
            condition: ExpireCondition::Always,
            command: "pexpire",
        }),
        key().prop_map(|key| KeyCommand::Persist { key }),
        (key(), key()).prop_map(|(from, to)| KeyCommand::Rename { from, to }),
        key().prop_map(|key| KeyCommand::TimeToLive { key, millis_per_unit: 1 }),
    ]
}

pub(crate) fn blocking() -> impl Strategy<Value = Blocking> {
    prop_oneof![
        (proptest::collection::vec(key(), 1..3), end()).prop_map(|(keys, end)| Blocking::Pop { keys, end }),
        (key(), key(), end(), end()).prop_map(|(from, to, from_end, to_end)| Blocking::Move {
            from,
            to,
            from_end,
            to_end
        }),
    ]
}

fn script() -> impl Strategy<Value = ScriptCall> {
    (key(), text()).prop_map(|(key, token)| ScriptCall {
        script: Script::SetOrRenew,
        keys: vec![key],
        arguments: vec![token, Bytes::from_static(b"2")],
    })
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => string().prop_map(Command::String),
        4 => list().prop_map(Command::List),
        2 => hash().prop_map(Command::Hash),
        2 => set().prop_map(Command::Set),
        2 => sorted().prop_map(Command::Sorted),
        2 => stream().prop_map(Command::Stream),
        2 => keys().prop_map(Command::Key),
        1 => blocking().prop_map(Command::Blocking),
        1 => script().prop_map(Command::Script),
    ]
}

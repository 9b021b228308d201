//! Pages: everything that is there all the while comes, whatever else comes and goes between two pages.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_keyspace::{
    AddCondition, Command, HashCommand, KeyCommand, Keyspace, KeyspaceRefusal, ListCommand, ListEnd, Page,
    Reply, SetCommand, Settings, SortedCommand, Timestamp, Transaction,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Hash,
    Set,
    Sorted,
}

impl Kind {
    fn add(self, name: &str) -> Command {
        let (key, name) = (key(), Bytes::from(name.to_owned()));
        match self {
            Kind::Hash => Command::Hash(HashCommand::Set { key, fields: vec![(name, Bytes::from("1"))] }),
            Kind::Set => Command::Set(SetCommand::Add { key, members: vec![name] }),
            Kind::Sorted => Command::Sorted(SortedCommand::Add {
                key,
                members: vec![(1.0, name)],
                condition: AddCondition::default(),
                count_changed: false,
            }),
        }
    }

    fn remove(self, name: &str) -> Command {
        let (key, names) = (key(), vec![Bytes::from(name.to_owned())]);
        match self {
            Kind::Hash => Command::Hash(HashCommand::Delete { key, fields: names }),
            Kind::Set => Command::Set(SetCommand::Remove { key, members: names }),
            Kind::Sorted => Command::Sorted(SortedCommand::Remove { key, members: names }),
        }
    }

    fn scan(self, page: Page) -> Command {
        let key = key();
        match self {
            Kind::Hash => Command::Hash(HashCommand::Scan { key, page }),
            Kind::Set => Command::Set(SetCommand::Scan { key, page }),
            Kind::Sorted => Command::Sorted(SortedCommand::Scan { key, page }),
        }
    }

    /// A page has names alone, or each with what belongs to it.
    fn step(self) -> usize {
        match self {
            Kind::Hash | Kind::Sorted => 2,
            Kind::Set => 1,
        }
    }
}

fn key() -> Bytes {
    Bytes::from_static(b"k")
}

/// The cursor of the next page, and the names on this one.
fn page(space: &mut Keyspace, kind: Kind, page: Page) -> (u64, Vec<String>) {
    let Reply::Array(parts) = space.run(&kind.scan(page), NOW).reply else { panic!("a page is an array") };
    let [Reply::Bulk(cursor), Reply::Array(items)] = parts.as_slice() else { panic!("{parts:?}") };
    let names = items.iter().step_by(kind.step()).map(|name| match name {
        Reply::Bulk(name) => String::from_utf8(name.to_vec()).expect("text"),
        other => panic!("{other:?}"),
    });
    (std::str::from_utf8(cursor).expect("text").parse().expect("a number"), names.collect())
}

#[test]
fn a_scan_has_pages_and_misses_nothing_that_stays() {
    for kind in [Kind::Hash, Kind::Set, Kind::Sorted] {
        let mut space = Keyspace::new(Settings::default());
        let staying: BTreeSet<String> = (0..500).map(|number| format!("stays-{number}")).collect();
        staying.iter().for_each(|name| drop(space.run(&kind.add(name), NOW)));
        let (mut found, mut cursor, mut pages) = (BTreeSet::new(), 0, 0);
        loop {
            let (next, names) = page(&mut space, kind, Page { cursor, pattern: None, count: 10 });
            assert!(names.len() <= 12, "{kind:?}: {} in a page of 10", names.len());
            found.extend(names);
            pages += 1;
            if next == 0 {
                break;
            }
            cursor = next;
            space.run(&kind.add(&format!("comes-{pages}")), NOW);
            space.run(&kind.remove(&format!("comes-{}", pages / 2)), NOW);
        }
        assert!(found.is_superset(&staying), "{kind:?}");
        assert!(pages >= 45, "{kind:?}: {pages} pages");
    }
}

#[test]
fn a_page_has_what_the_pattern_matches() {
    for kind in [Kind::Hash, Kind::Set, Kind::Sorted] {
        let mut space = Keyspace::new(Settings::default());
        ["one", "two", "three"].iter().for_each(|name| drop(space.run(&kind.add(name), NOW)));
        let pattern = Some(Bytes::from_static(b"t*"));
        let (next, mut names) = page(&mut space, kind, Page { cursor: 0, pattern, count: 10 });
        names.sort();
        assert_eq!((next, names), (0, vec!["three".to_owned(), "two".to_owned()]), "{kind:?}");
    }
}

#[test]
fn a_hash_that_is_made_for_some_time_ends_and_keeps_a_time_that_was_set() {
    let mut space = Keyspace::new(Settings::default());
    let set = |field: &str| Command::HashFor {
        command: HashCommand::Set { key: key(), fields: vec![(Bytes::from(field.to_owned()), Bytes::new())] },
        millis: 5000,
    };
    let left = Command::Key(KeyCommand::TimeToLive { key: key(), millis_per_unit: 1 });
    space.run(&set("a"), NOW);
    assert_eq!(space.run(&left, NOW).reply, Reply::Integer(5000));
    let later = Timestamp(NOW.0 + 1000);
    space.run(&set("b"), later);
    assert_eq!(space.run(&left, later).reply, Reply::Integer(4000), "from the first field on");
    space.run(&Command::Key(KeyCommand::Persist { key: key() }), later);
    space.run(&set("c"), later);
    assert_eq!(space.run(&left, later).reply, Reply::Integer(-1), "as the client said");
}

#[test]
fn the_replies_of_a_transaction_together_have_the_limit_of_one_reply() {
    let mut space = Keyspace::new(Settings::default());
    let key = Bytes::from_static(b"k");
    let elements = vec![Bytes::from(vec![b'x'; 8 << 20]); 3];
    let push = Command::List(ListCommand::Push { key: key.clone(), end: ListEnd::Left, elements });
    space.run(&push, Timestamp(1));
    let range = Command::List(ListCommand::Range { key: key.clone(), start: 0, stop: -1 });
    let pop = Command::List(ListCommand::Pop { key, end: ListEnd::Left });
    let commands = [range.clone(), range.clone(), range, pop];
    let Transaction::CommandOutcome { replies, .. } = space.run_all(&commands, &[], Timestamp(1)) else {
        panic!("nothing is watched")
    };
    assert!(matches!(&replies[..2], [Reply::Array(one), Reply::Array(two)] if one.len() + two.len() == 6));
    assert_eq!(replies[2], Reply::Refused(KeyspaceRefusal::ReplyTooLong));
    assert!(matches!(&replies[3], Reply::Bulk(element) if element.len() == 8 << 20), "what is taken is sent");
}

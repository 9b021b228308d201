//! What the log says of peers that speak another protocol.

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use support::majordomo::{frames, heard};
use support::world::World;
use tenure_door_zmq::Settings;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The fields of a line; its sentence is the field `message`, its level `level`.
type Line = BTreeMap<String, String>;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure_door_zmq")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::from([("level".to_owned(), event.metadata().level().to_string())]);
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn an_unknown_header_is_logged_once_per_peer_and_a_body_never() {
    let lines = Lines::default();
    let _logging = tracing::subscriber::set_default(lines.clone());
    let mut world = World::new(Settings::default());
    for peer in ["old", "odd", "good"] {
        world.majordomo(peer);
    }
    for _ in 0..3 {
        world.says("old", frames(&["", "MDPC09", "echo", "secret"]));
        world.says("odd", frames(&["secret", "secret"]));
        world.says("good", frames(&["", "MDPC01", "mmi.service", "echo"]));
    }
    let found = lines.0.lock().unwrap().clone();
    let line = |peer: &str, frames: &str, first_bytes: &str, header: Option<&str>| {
        let mut line = Line::from(
            [
                ("level", "WARN"),
                ("message", "messages without a Majordomo header are dropped"),
                ("peer", peer),
                ("frames", frames),
                ("first_bytes", first_bytes),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        line.extend(header.map(|header| ("header".to_owned(), format!("{header:?}"))));
        line
    };
    assert_eq!(found, [line("old", "4", "0", Some("MDPC09")), line("odd", "2", "6", None)]);
    assert_eq!(heard(&mut world, "good").len(), 3);

    world.closes("old");
    world.majordomo("old");
    world.says("old", frames(&["", "MDPC09", "echo", "secret"]));
    assert_eq!(lines.0.lock().unwrap().len(), 3, "a new connection is a new peer");
}

//! What the log says of subscriptions, resumes, drops and gaps: fixed sentences with fields, and never a payload.

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use support::{id, publish, start, take};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{Recovery, Resume, Sequence, ShardSettings, Subscribe, TopicFilter, TopicSettings};
use tenure_hub::words::Name;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The fields of a line; its sentence is the field `message`, its level `level`.
type Line = BTreeMap<String, String>;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure_hub::topics")
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

impl Lines {
    /// The first line with this sentence, and nothing else may be in it.
    fn check(&self, sentence: &str, fields: &[(&str, &str)]) {
        let lines = self.0.lock().unwrap().clone();
        let found = lines.iter().find(|line| line["message"] == sentence);
        let found = found.unwrap_or_else(|| panic!("no line says {sentence:?}: {lines:#?}"));
        let mut wanted: Line =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        wanted.insert("message".to_owned(), sentence.to_owned());
        wanted.insert("namespace".to_owned(), "default".to_owned());
        wanted.insert("subscription_id".to_owned(), "reader".to_owned());
        assert_eq!(*found, wanted);
    }
}

#[tokio::test]
async fn subscriptions_resumes_drops_and_gaps_are_logged_with_their_fields() {
    let lines = Lines::default();
    let _logging = tracing::subscriber::set_default(lines.clone());
    let topics = ShardSettings { ring_messages: 2, ..ShardSettings::default() };
    let hub = start(&MemoryDisk::new(), TopicSettings { topics, ..TopicSettings::default() });
    let topics = hub.handle().topics();
    let namespace = Name::from("default");
    let filters = ["a", "b.*"].map(|text| TopicFilter::parse(text).unwrap()).to_vec();
    let subscribe = Subscribe {
        client: "laptop".into(),
        queue_limit: Some(1),
        ..Subscribe::new(id("reader"), filters.clone())
    };
    let (mut reader, _) = topics.subscribe(&namespace, subscribe).unwrap();
    lines.check("subscribed", &[("level", "INFO"), ("client_id", "laptop"), ("topics", "a b.*")]);

    for _ in 0..3 {
        publish(topics, "a", "secret").await.unwrap();
    }
    take(&mut reader).await;
    let full = [("topic", "a"), ("first_missed", "1"), ("gap", "2"), ("reason", "queue-full")];
    lines.check("messages lost", &[&[("level", "WARN")][..], &full].concat());
    let warned = [("dropped", "2"), ("expired", "0"), ("depth", "1"), ("limit", "1")];
    lines.check("slow subscriber", &[&[("level", "WARN")][..], &warned].concat());
    let sent = [("level", "DEBUG"), ("topic", "a"), ("last_sequence_number", "3"), ("replay", "false")];
    lines.check("message sent", &sent);

    drop(reader);
    lines.check("stream ended", &[("level", "INFO"), ("why", "paused")]);
    for _ in 0..4 {
        publish(topics, "a", "secret").await.unwrap();
    }
    lines.0.lock().unwrap().clear();
    let mut resume = Resume::new(id("reader"), Recovery::Replay);
    resume.last_seen = vec![("a".into(), Sequence(3))];
    let (mut reader, _) = topics.resume(&namespace, &resume).unwrap();
    let losses = [("gap", "2"), ("more_may_be_lost", "false"), ("broker_restarted", "false")];
    let back = [("level", "WARN"), ("topics", "a b.*"), ("last_sequence_number", "3")];
    lines.check("subscription resumed, messages were lost", &[&back[..], &losses].concat());
    take(&mut reader).await;
    let gone = [("topic", "a"), ("first_missed", "4"), ("gap", "2"), ("reason", "not-kept")];
    lines.check("messages lost", &[&[("level", "WARN")][..], &gone].concat());
    let over = [("topic", "a"), ("replayed", "2"), ("last_sequence_number", "7")];
    lines.check("replay complete", &[&[("level", "DEBUG")][..], &over].concat());

    resume.last_seen = vec![("a".into(), Sequence(7))];
    let _reader = topics.resume(&namespace, &resume).unwrap();
    let none = [("missed", "0"), ("took_over", "true"), ("last_sequence_number", "7")];
    let back = [("level", "INFO"), ("topics", "a b.*")];
    lines.check("subscription resumed", &[&back[..], &none].concat());
    let everything = format!("{:?}", lines.0.lock().unwrap());
    assert!(!everything.contains("secret"), "{everything}");
}

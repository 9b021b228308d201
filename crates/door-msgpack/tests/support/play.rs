//! Conversations with pure sessions, line by line in the notation of the page.

use tenure_door_msgpack::session::Session;
use tenure_wire::notation::{Bindings, Pattern};
use tenure_wire::value::Value;

use super::pure::PureStage;
use super::{Stage as _, WaitFor};

/// The stage, what names stand for, and what is kept back.
pub(crate) struct Play(pub(crate) PureStage<Session>, Bindings, Vec<u8>);

impl Play {
    pub(crate) fn new() -> Play {
        Play(PureStage::new(Session::new), Bindings::new(), Vec::new())
    }

    pub(crate) fn say(&mut self, peer: &str, text: &str) {
        self.send(text);
        self.flush(peer);
    }

    /// Keeps a frame back, to be said together with others.
    pub(crate) fn send(&mut self, text: &str) {
        let value = Pattern::parse(text).unwrap().build(&self.1).unwrap();
        let mut body = bytes::BytesMut::new();
        value.write(&mut body);
        self.2.extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.2.extend_from_slice(&body);
    }

    pub(crate) fn flush(&mut self, peer: &str) {
        let frames = std::mem::take(&mut self.2);
        self.0.say(peer, &frames);
    }

    /// Everything it has received meanwhile.
    pub(crate) fn skip(&mut self, peer: &str) {
        self.0.hear(peer, WaitFor::Short);
    }

    /// Hears exactly these frames, in this order.
    pub(crate) fn hear(&mut self, peer: &str, expected: &[&str]) {
        let heard = self.0.hear(peer, WaitFor::Short).frames;
        let text: Vec<String> = heard.iter().map(Value::to_string).collect();
        assert_eq!(heard.len(), expected.len(), "{text:#?}");
        for (frame, pattern) in heard.iter().zip(expected) {
            let pattern = Pattern::parse(pattern).unwrap();
            if let Err(problem) = pattern.match_and_bind(frame, &mut self.1) {
                panic!("{problem}\n{text:#?}");
            }
        }
    }

    pub(crate) fn hello(&mut self, peer: &str, fields: &str) {
        self.say(peer, &format!(r#"[1, "hello", {{"version": 1, {fields}}}]"#));
    }

    pub(crate) fn greet(&mut self, peer: &str) {
        self.hello(peer, &format!(r#""identity": "{peer}""#));
        self.hear(peer, &[r#"[1, "welcome", {…}]"#]);
    }

    pub(crate) fn is_closed(&mut self, peer: &str) -> bool {
        self.0.hear(peer, WaitFor::Short).closed
    }
}

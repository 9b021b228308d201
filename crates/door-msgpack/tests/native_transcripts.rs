//! The conversations of the native protocol's page, held with the pure session and over a socket.

mod support;

use support::over_socket::SocketStage;
use support::play_all;
use support::pure::PureStage;
use tenure_door_msgpack::session::Session;
use tenure_door_msgpack::{Settings, serve};
use tenure_transcripts::{Transcript, read_page};

fn transcripts() -> Vec<Transcript> {
    let transcripts = read_page(include_str!("../../../spec/native.md")).unwrap();
    assert!(transcripts.len() >= 15, "{}", transcripts.len());
    transcripts
}

#[test]
fn the_page_is_true_of_the_pure_session() {
    play_all(&transcripts(), || PureStage::new(Session::new));
}

#[test]
fn the_page_is_true_over_a_socket() {
    play_all(&transcripts(), || SocketStage::new(|listener, hub| serve(listener, hub, Settings::default())));
}

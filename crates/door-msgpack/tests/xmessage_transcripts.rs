//! The conversations of the older dialect's page, held with the pure session and over a socket.

mod support;

use support::over_socket::SocketStage;
use support::play_all;
use support::pure::PureStage;
use tenure_door_msgpack::Settings;
use tenure_door_msgpack::xmessage::{serve, session::Session};
use tenure_transcripts::{Transcript, read_page};

fn transcripts() -> Vec<Transcript> {
    let transcripts = read_page(include_str!("../../../spec/xmessage.md")).unwrap();
    assert!(transcripts.len() >= 5, "{}", transcripts.len());
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

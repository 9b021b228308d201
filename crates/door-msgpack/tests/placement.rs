//! A peer whose namespace belongs to another group is refused with the addresses of that group, in both dialects.

mod support;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use bytes::BytesMut;
use support::over_socket::SocketStage;
use support::peer::Peer;
use tenure_door_msgpack::xmessage::codec::{XMessage, encode};
use tenure_door_msgpack::{Settings, serve, xmessage};
use tenure_hub::store::MemoryDisk;
use tenure_hub::{MemberDoors, Placement};
use tenure_wire::hello::Hello;
use tenure_wire::{Code, Reply, Request, VERSION};

fn elsewhere() -> Placement {
    let doors = |name: &str| -> MemberDoors {
        [("native", 7171), ("xmessage", 7172)]
            .map(|(door, port)| (door.to_owned(), format!("{name}:{port}").into()))
            .into()
    };
    Placement {
        group: "g2".into(),
        default_group: "g1".into(),
        members: HashMap::from([("g1".into(), vec![doors("b2"), doors("b1")])]),
        ..Placement::default()
    }
}

#[test]
fn a_hello_is_refused_with_the_group_and_its_addresses() {
    let stage = SocketStage::on(Arc::new(MemoryDisk::new()), |listener, hub| {
        hub.set_placement(Some(elsewhere()));
        serve(listener, hub, Settings::default())
    });
    let mut peer = Peer::client(&stage);
    let Reply::Refused(refusal) =
        peer.ask(1, &Request::Hello(Box::new(Hello { version: VERSION, ..Hello::default() })))
    else {
        panic!("it is let in")
    };
    assert_eq!((&refusal.code, refusal.name.as_deref()), (&Code::Elsewhere, Some("g1")));
    assert_eq!(refusal.addresses, ["b2:7171".into(), "b1:7171".into()]);
    assert!(peer.hear_out().is_empty(), "the connection ends");
}

#[test]
fn a_handshake_of_the_older_dialect_is_refused_with_the_addresses() {
    let stage = SocketStage::on(Arc::new(MemoryDisk::new()), |listener, hub| {
        hub.set_placement(Some(elsewhere()));
        xmessage::serve(listener, hub, Settings::default())
    });
    let mut peer = stage.connect();
    let mut frame = BytesMut::new();
    encode(&mut frame, &XMessage::HandShake("worker".into()));
    peer.write_all(&frame).unwrap();
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).unwrap();
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("elsewhere") && heard.contains("connect to b2:7172 or b1:7172"), "{heard}");
}

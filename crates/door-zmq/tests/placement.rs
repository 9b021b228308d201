//! A peer whose namespace belongs to another group is closed and counted, at both doors.

mod support;

use support::broker::Broker;
use support::wire::{TIMEOUT, Wire};
use support::{command, greeting, metadata};
use tenure_hub::Placement;

#[test]
fn a_peer_of_a_namespace_of_another_group_is_closed_and_counted() {
    let broker = Broker::start();
    let elsewhere = Placement { group: "g2".into(), default_group: "g1".into(), ..Placement::default() };
    broker.hub().set_placement(Some(elsewhere.clone()));
    for door in [broker.mdp, broker.clients, broker.workers] {
        let mut peer = Wire::silent(door);
        peer.raw(&greeting(3, 1, "NULL"));
        peer.raw(&command("READY", &metadata("DEALER", b"")));
        assert!(peer.is_closed(TIMEOUT));
    }
    assert!(broker.counts("elsewhere"));
    broker.hub().set_placement(Some(Placement { group: "g1".into(), ..elsewhere }));
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    broker.until_workers(1);
}

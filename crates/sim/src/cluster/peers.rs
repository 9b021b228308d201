//! Clients, workers and an observer in a world with three brokers.

use tenure_hub::words::{Name, Query, Refusal};
use tenure_hub::{Ask, Delivery, HubRefusal, Request};

use super::events::ClusterEvent;
use super::links::{ClusterLink, ClusterPeer};
use super::world::ClusterWorld;

/// The observer's replies come with this token.
const OBSERVED: u64 = 1;

impl ClusterWorld {
    pub(super) fn connect(&mut self, peer: usize) {
        if self.links.iter().any(|link| link.peer == Some(peer) && link.peer_side) {
            return;
        }
        let leading: Vec<usize> = (0..self.members.len())
            .filter(|member| {
                self.members[*member].leads().is_some() && self.members[*member].stopped_since.is_none()
            })
            .collect();
        if leading.is_empty() {
            return self.soon(1_000, ClusterEvent::PeerConnects { peer });
        }
        let member = *self.random.pick(&leading);
        let (identity, asks) = match &mut self.peers[peer] {
            ClusterPeer::Client(client) => (client.name.clone(), client.connected()),
            ClusterPeer::Worker(worker) => (worker.name.clone(), worker.connected()),
        };
        let Some(link) = self.link(Some(peer), member, &identity) else { return };
        self.send(link, asks);
        self.soon(500, ClusterEvent::PeerActs { peer });
    }

    pub(super) fn link(&mut self, peer: Option<usize>, member: usize, identity: &Name) -> Option<usize> {
        let (now, life) = (self.now, self.members[member].life);
        let (session, mailbox) = self.members[member].leader()?.open(identity);
        self.links.push(ClusterLink {
            peer,
            member,
            life,
            session,
            mailbox,
            broker_side: true,
            peer_side: true,
            last_to_broker: now,
            last_to_peer: now,
            asked: Vec::new(),
        });
        Some(self.links.len() - 1)
    }

    pub(super) fn act(&mut self, peer: usize) {
        let found = self.links.iter().rposition(|link| link.peer == Some(peer) && link.peer_side);
        let Some(link) = found else { return };
        let storm = !self.calm;
        if storm && self.random.percent(self.plan.cut_percent) {
            return self.cut(link);
        }
        if let ClusterPeer::Worker(worker) = &mut self.peers[peer]
            && storm
            && self.random.percent(self.plan.worker_dies_percent)
        {
            self.promises.begun.disturb(&worker.name);
            worker.dies(&mut self.random);
            return self.cut(link);
        }
        let (asks, next) = match &mut self.peers[peer] {
            ClusterPeer::Client(client) => {
                (client.act(self.now, &mut self.random, self.calm, &mut self.promises), 400)
            }
            ClusterPeer::Worker(worker) => (
                worker.act(self.now, &mut self.random, &mut self.promises),
                if self.calm { 300 } else { 1_200 },
            ),
        };
        self.send(link, asks);
        self.soon(next, ClusterEvent::PeerActs { peer });
    }

    pub(super) fn receive(&mut self, link: usize, delivery: Delivery) {
        let Some(peer) = self.links[link].peer else { return self.observed(link, &delivery) };
        let asks = match &mut self.peers[peer] {
            ClusterPeer::Client(client) => {
                client.receive(delivery, &mut self.promises);
                Vec::new()
            }
            ClusterPeer::Worker(worker) => {
                worker.receive(self.now, delivery, &mut self.random, &mut self.promises)
            }
        };
        if !self.links[link].broker_side {
            self.disturb(link);
        }
        self.send(link, asks);
    }

    pub(super) fn peer_notices_cut(&mut self, link: usize) {
        self.disturb(link);
        if !std::mem::take(&mut self.links[link].peer_side) {
            return;
        }
        let Some(peer) = self.links[link].peer else { return };
        if let ClusterPeer::Worker(worker) = &mut self.peers[peer] {
            worker.disconnected();
        }
        self.soon(500, ClusterEvent::BrokerNoticesCut { link });
        self.soon(2_000, ClusterEvent::PeerConnects { peer });
    }

    pub(super) fn cut(&mut self, link: usize) {
        self.soon(3_000, ClusterEvent::BrokerNoticesCut { link });
        self.soon(3_000, ClusterEvent::PeerNoticesCut { link });
    }

    pub(super) fn disturb(&mut self, link: usize) {
        if let Some(peer) = self.links[link].peer
            && let ClusterPeer::Worker(worker) = &self.peers[peer]
        {
            self.promises.begun.disturb(&worker.name);
        }
    }

    /// Asks every broker that leads, or believes so, for a task that was acknowledged before.
    pub(super) fn observer_asks(&mut self) {
        self.soon(400, ClusterEvent::ObserverAsks);
        for member in 0..self.members.len() {
            let Some(task) = self.promises.some_acknowledged(&mut self.random) else { return };
            if self.members[member].leads().is_none() {
                continue;
            }
            let life = self.members[member].life;
            let is_open =
                |link: &ClusterLink| link.peer.is_none() && (link.member, link.life) == (member, life);
            let open = self.links.iter().position(is_open);
            let Some(link) = open.or_else(|| self.link(None, member, &"observer".into())) else { continue };
            self.links[link].asked.push(task);
            let request = Request::Query(Query::Explain { task });
            self.send(link, vec![Ask { token: OBSERVED, request }]);
        }
    }

    /// A broker that has been deposed does not know what the new leader has acknowledged, and must not answer.
    fn observed(&mut self, link: usize, delivery: &Delivery) {
        let Delivery::Reply { reply, .. } = delivery else { return };
        self.outcome.answers += 1;
        let task = self.links[link].asked.remove(0);
        let name = self.members[self.links[link].member].name().to_owned();
        let is_unknown = matches!(reply, Err(HubRefusal::Engine(Refusal::UnknownTask { .. })));
        self.promises.check(!is_unknown, || {
            format!("{name} was asked for {task}, which was acknowledged before, and does not know it")
        });
    }
}

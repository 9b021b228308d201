//! The world: an agenda of events for three brokers, their journal, clients and workers. The earliest event
//! always comes next, so a seed always gives the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_hub::words::{Command, Query, Refusal, Timestamp};
use tenure_hub::{Ask, Delivery, Request};
use tenure_store::{JournalFaults, MemoryDisk, MemoryJournal, StoreError};

use super::events::ClusterEvent;
use super::leader::Wrote;
use super::links::{ClusterLink, ClusterPeer};
use super::plan::ClusterPlan;
use super::seat::{Role, Round, Seat};
use super::ClusterOutcome;
use crate::client::{Client, TAGS};
use crate::promises::PromiseChecker;
use crate::random::Random;
use crate::worker::Worker;

const SEATS: u64 = 3;
/// Maximum duration of the calm phase in which everything must end.
const CALM_MILLIS: u64 = 600_000;
/// How long a leader may be stopped: longer than its lease.
const STOPPED_MILLIS: u64 = 9_000;
const AWAY_MILLIS: u64 = 6_000;
/// The observer's replies come with this token.
const OBSERVED: u64 = 1;

#[derive(Debug)]
struct ClusterWorld {
    plan: ClusterPlan,
    random: Random,
    now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), ClusterEvent>,
    entries: u64,
    journal: MemoryJournal,
    seats: Vec<Seat>,
    /// What waits for each stopped process, in the order in which it came.
    waiting: Vec<Vec<ClusterEvent>>,
    peers: Vec<ClusterPeer>,
    links: Vec<ClusterLink>,
    promises: PromiseChecker,
    /// The journal has lost what was acknowledged, and the leader must restore it up to here.
    owed: Option<u64>,
    calm: bool,
    outcome: ClusterOutcome,
}

pub(super) fn live(plan: ClusterPlan) -> ClusterOutcome {
    let mut world = ClusterWorld::new(plan);
    world.run();
    ClusterOutcome {
        broken: world.promises.broken().to_vec(),
        tasks: world.promises.tasks(),
        happenings: world.entries,
        ..world.outcome
    }
}

impl ClusterWorld {
    fn new(plan: ClusterPlan) -> ClusterWorld {
        let mut random = Random::new(plan.seed);
        let journal = MemoryJournal::new(plan.seed);
        journal.mistake(plan.mutation);
        journal.set_faults(plan.faults);
        let clients = (0..plan.clients).map(|number| ClusterPeer::Client(Client::new(number)));
        let mut peers: Vec<ClusterPeer> = clients.collect();
        for number in 0..plan.workers {
            let slots = random.between(1, 4);
            peers.push(ClusterPeer::Worker(Worker::new(number, slots, &mut random)));
        }
        let mut world = ClusterWorld {
            random,
            now: Timestamp(1_700_000_000_000),
            agenda: BTreeMap::new(),
            entries: 0,
            journal,
            seats: (1..=SEATS).map(Seat::new).collect(),
            waiting: (0..SEATS).map(|_| Vec::new()).collect(),
            peers,
            links: Vec::new(),
            promises: PromiseChecker::default(),
            owed: None,
            calm: false,
            outcome: ClusterOutcome::default(),
            plan,
        };
        for seat in 0..world.seats.len() {
            world.soon(300, ClusterEvent::BrokerStarts { seat, after_power_failure: false });
        }
        for peer in 0..world.peers.len() {
            world.soon(1_000, ClusterEvent::PeerConnects { peer });
        }
        world.soon(1_000, ClusterEvent::ObserverAsks);
        world.soon(1_000, ClusterEvent::Inspection);
        world
    }

    fn run(&mut self) {
        let storm_until = self.now + Duration::from_millis(self.plan.storm_millis);
        let end = storm_until + Duration::from_millis(CALM_MILLIS);
        while let Some(((at, _), event)) = self.agenda.pop_first() {
            self.now = at;
            self.journal.set_now(at);
            if !self.calm && at >= storm_until {
                self.start_calm_phase();
            }
            self.happen(event);
            if !self.promises.broken().is_empty() || (self.calm && self.is_over()) {
                return;
            }
            if at > end {
                let leading = self.seats.iter().find_map(Seat::leads);
                let unfinished = leading.map(|leader| self.promises.unfinished(leader.core()));
                self.promises
                    .check(false, || format!("after ten calm minutes these have not ended: {unfinished:?}"));
                return;
            }
        }
    }

    /// Starts the calm phase: no more faults, and every worker can run every task.
    fn start_calm_phase(&mut self) {
        self.calm = true;
        self.journal.set_faults(JournalFaults::default());
        for peer in &mut self.peers {
            if let ClusterPeer::Worker(worker) = peer {
                worker.becomes_able();
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].peer_side {
                self.cut(link);
            }
        }
    }

    /// All tasks have ended, as the broker sees it that the journal names as the leader.
    fn is_over(&self) -> bool {
        let leader = self.legitimate().and_then(|seat| self.seats[seat].leads());
        leader.is_some_and(|leader| self.promises.all_ended(leader.core()))
    }

    fn legitimate(&self) -> Option<usize> {
        let (name, instance) = self.journal.holder()?;
        let is_holder = |seat: &Seat| seat.name() == name && seat.instance == instance;
        let found = self.seats.iter().position(is_holder)?;
        let seat = &self.seats[found];
        (seat.stopped_since.is_none() && seat.leads().is_some()).then_some(found)
    }

    fn happen(&mut self, event: ClusterEvent) {
        if self.plan.trace {
            println!("{} {event:?}", self.now);
        }
        if let Some((seat, life)) = event.seat() {
            if self.seats[seat].life != life {
                return;
            }
            if self.seats[seat].stopped_since.is_some() {
                return self.waiting[seat].push(event);
            }
        }
        if let Some(link) = event.broker_side() {
            let ClusterLink { seat, life, .. } = self.links[link];
            if self.seats[seat].stopped_since.is_some() && self.seats[seat].life == life {
                return self.waiting[seat].push(event);
            }
        }
        match event {
            ClusterEvent::PeerConnects { peer } => self.connect(peer),
            ClusterEvent::PeerActs { peer } => self.act(peer),
            ClusterEvent::AtBroker { link, asks } => {
                let (session, now) = (self.links[link].session, self.now);
                self.on_link(link, |leader| leader.take(now, session, asks));
            }
            ClusterEvent::AtPeer { link, delivery } => {
                if self.links[link].peer_side {
                    self.receive(link, delivery);
                }
            }
            ClusterEvent::BrokerNoticesCut { link } => {
                self.disturb(link);
                let (session, now) = (self.links[link].session, self.now);
                self.on_link(link, |leader| leader.close(now, session));
                self.links[link].broker_side = false;
            }
            ClusterEvent::PeerNoticesCut { link } => self.peer_notices_cut(link),
            ClusterEvent::BrokerWakes { seat, .. } => {
                let now = self.now;
                self.on_leader(seat, |leader| leader.turn(now));
            }
            ClusterEvent::WriterWorks { seat, life } => self.writer_works(seat, life),
            ClusterEvent::MaintenanceWorks { seat, life } => {
                self.maintenance_works(seat, life);
            }
            ClusterEvent::StandbyPolls { seat, life } => self.standby_polls(seat, life),
            ClusterEvent::BrokerStarts { seat, after_power_failure } => {
                self.start_broker(seat, after_power_failure);
            }
            ClusterEvent::BrokerGoesOn { seat, life } => self.broker_goes_on(seat, life),
            ClusterEvent::ObserverAsks => self.observer_asks(),
            ClusterEvent::Inspection => {
                if let Some(leader) = self.legitimate().and_then(|seat| self.seats[seat].leads()) {
                    self.promises.inspect(leader.core());
                }
                self.soon(1_000, ClusterEvent::Inspection);
            }
        }
    }

    // The brokers.

    fn start_broker(&mut self, seat: usize, after_power_failure: bool) {
        let disk = &self.seats[seat].disk;
        let is_replaced = !self.calm && self.owed.is_none() && self.random.percent(10);
        let disk = match (is_replaced, after_power_failure) {
            (true, _) => MemoryDisk::new(),
            (false, true) => disk.crash(self.random.next()),
            (false, false) => disk.reopen(),
        };
        self.seats[seat].disk = disk;
        let instance = self.random.next();
        let started = self.seats[seat].start(&self.journal, instance, self.plan.mutation);
        self.promises.check(started.is_ok(), || format!("a broker does not start: {started:?}"));
        self.poll_soon(seat);
    }

    fn poll_soon(&mut self, seat: usize) {
        let life = self.seats[seat].life;
        self.soon(250, ClusterEvent::StandbyPolls { seat, life });
    }

    fn standby_polls(&mut self, seat: usize, life: u64) {
        let storm = !self.calm && self.owed.is_none();
        if storm && self.random.percent(self.plan.standby_dies_percent) {
            let power_failure = self.random.percent(50);
            return self.broker_dies(seat, power_failure);
        }
        if storm && self.random.percent(self.plan.power_fails_percent) {
            self.seats[seat].disk.fail_power_after(self.random.between(0, 6));
        }
        match self.seats[seat].round(self.now, self.plan.mutation) {
            Round::Follows | Round::TriesAgain => self.soon(250, ClusterEvent::StandbyPolls { seat, life }),
            Round::Leads => self.takes_over(seat),
            Round::Failed(StoreError::Io { .. } | StoreError::Sync { .. }) => self.broker_dies(seat, true),
            Round::Failed(error) => {
                let name = self.seats[seat].name().to_owned();
                self.promises.check(false, || format!("{name} cannot stand by or take over: {error}"));
            }
        }
    }

    fn takes_over(&mut self, seat: usize) {
        self.outcome.takeovers += 1;
        self.owed = None;
        self.restore_faults();
        self.promises.begun.disturb_all();
        // The other brokers forward to the new leader, so connections through them end.
        for link in 0..self.links.len() {
            if self.links[link].peer_side {
                self.soon(3_000, ClusterEvent::PeerNoticesCut { link });
            }
        }
        let life = self.seats[seat].life;
        if let Some(leader) = self.seats[seat].leads() {
            self.promises.inspect(leader.core());
        }
        self.soon(50, ClusterEvent::WriterWorks { seat, life });
        self.set_limits(seat);
    }

    fn set_limits(&mut self, seat: usize) {
        let asks = TAGS.map(|tag| Ask {
            token: 0,
            request: Request::Command(Command::SetLimit { tag: tag.into(), limit: Some(2) }),
        });
        let now = self.now;
        self.on_leader(seat, |leader| {
            let (session, _) = leader.open(&"operator".into());
            leader.take(now, session, asks.into());
        });
    }

    fn writer_works(&mut self, seat: usize, life: u64) {
        if self.storm_strikes(seat) {
            return;
        }
        let now = self.now;
        let is_cut_off = self.cuts_off(3);
        let Some(leader) = self.seats[seat].leader() else { return };
        let wrote = leader.write(now);
        if is_cut_off && self.random.percent(50) {
            return self.broker_dies(seat, false);
        }
        let Some(leader) = self.seats[seat].leader() else { return };
        let (is_writing, refilled) = (leader.is_writing(), leader.refilled_bytes());
        self.outcome.refilled_bytes = self.outcome.refilled_bytes.max(refilled);
        if self.owed.is_some_and(|end| self.journal.end() >= end) {
            self.owed = None;
            self.restore_faults();
        }
        match wrote {
            Wrote::Fine => {
                self.carry();
                self.wake(seat);
                self.soon(30, ClusterEvent::MaintenanceWorks { seat, life });
                self.soon(if is_writing { 15 } else { 150 }, ClusterEvent::WriterWorks { seat, life });
            }
            Wrote::Away => self.soon(100, ClusterEvent::WriterWorks { seat, life }),
            Wrote::Deposed => self.deposed(seat),
            Wrote::Failed(StoreError::Io { .. } | StoreError::Sync { .. }) => self.broker_dies(seat, true),
            Wrote::Failed(error) => {
                let name = self.seats[seat].name().to_owned();
                self.promises.check(false, || format!("{name} cannot write: {error}"));
            }
        }
    }

    /// The journal may go away in the middle of the next few calls.
    fn cuts_off(&mut self, calls: u64) -> bool {
        let storm = !self.calm && self.owed.is_none();
        if !storm || !self.random.percent(self.plan.journal_away_percent) {
            return false;
        }
        let (calls, away) = (self.random.between(0, calls), self.random.between(100, AWAY_MILLIS));
        self.journal.go_away_after(calls, self.now + Duration::from_millis(away));
        true
    }

    fn maintenance_works(&mut self, seat: usize, life: u64) {
        let strikes = self.cuts_off(8);
        let has_worked = self.seats[seat].leader().is_some_and(super::leader::Leader::keep);
        if strikes && self.random.percent(50) {
            return self.broker_dies(seat, false);
        }
        if has_worked {
            self.soon(20, ClusterEvent::MaintenanceWorks { seat, life });
        }
    }

    /// Returns whether the leader's process does not go on. What the journal has lost, only the leader can
    /// restore: until then nothing else breaks.
    fn storm_strikes(&mut self, seat: usize) -> bool {
        if self.calm || self.owed.is_some() {
            return false;
        }
        let plan = self.plan.clone();
        if self.random.percent(plan.journal_away_percent) {
            let away = self.random.between(100, AWAY_MILLIS);
            self.journal.go_away_until(self.now + Duration::from_millis(away));
        }
        // A failover is worst while the primary is ahead of its standbys.
        let is_worst = plan.fail_over_percent > 0 && self.journal.is_ahead() && self.random.percent(30);
        if is_worst || self.random.percent(plan.fail_over_percent) {
            self.journal.fail_over();
            // The leader may die with the primary.
            if self.random.percent(40) {
                self.broker_dies(seat, false);
                return true;
            }
        }
        let has_time =
            self.journal.lease_left() > Duration::from_millis(1_500) && !self.journal.is_away();
        if self.random.percent(plan.lagging_fail_over_percent)
            && has_time
            && self.legitimate() == Some(seat)
        {
            self.lagging_fail_over();
            return false;
        }
        if self.random.percent(plan.power_fails_percent) {
            self.seats[seat].disk.fail_power_after(self.random.between(0, 4));
        }
        if self.random.percent(plan.leader_dies_percent) {
            let power_failure = self.random.percent(30);
            self.broker_dies(seat, power_failure);
            return true;
        }
        if self.random.percent(plan.leader_stops_percent) {
            self.promises.begun.disturb_all();
            let life = self.seats[seat].life;
            self.seats[seat].stopped_since = Some(self.now);
            self.soon(STOPPED_MILLIS, ClusterEvent::BrokerGoesOn { seat, life });
            return true;
        }
        false
    }

    fn lagging_fail_over(&mut self) {
        self.journal.fail_over();
        let acknowledged = self.journal.end();
        self.journal.fail_over_losing(self.random.between(1, 4) as usize);
        if self.journal.end() == acknowledged {
            return;
        }
        self.owed = Some(acknowledged);
        self.journal.set_faults(JournalFaults::default());
        for seat in &self.seats {
            seat.disk.fail_power_after(u64::MAX);
        }
    }

    fn restore_faults(&mut self) {
        if !self.calm {
            self.journal.set_faults(self.plan.faults);
        }
    }

    fn broker_goes_on(&mut self, seat: usize, life: u64) {
        if self.seats[seat].life != life {
            return;
        }
        let Some(since) = self.seats[seat].stopped_since.take() else { return };
        let now = self.now;
        self.on_leader(seat, |leader| leader.wake(since, now));
        // What has arrived meanwhile may come before the writer's next look at the journal.
        self.soon(50, ClusterEvent::WriterWorks { seat, life });
        for event in std::mem::take(&mut self.waiting[seat]) {
            self.happen(event);
        }
    }

    fn deposed(&mut self, seat: usize) {
        self.outcome.deposed += 1;
        self.drop_links(seat);
        let stood = self.seats[seat].stand_by(&self.journal, self.plan.mutation);
        self.promises.check(stood.is_ok(), || format!("a deposed broker does not stand by: {stood:?}"));
        self.poll_soon(seat);
    }

    fn broker_dies(&mut self, seat: usize, power_failure: bool) {
        self.drop_links(seat);
        self.seats[seat].role = Role::Dead;
        self.seats[seat].life += 1;
        self.seats[seat].stopped_since = None;
        self.waiting[seat].clear();
        let within = if self.random.percent(40) { 400 } else { 6_000 };
        self.soon(within, ClusterEvent::BrokerStarts { seat, after_power_failure: power_failure });
    }

    fn drop_links(&mut self, seat: usize) {
        self.promises.begun.disturb_all();
        for link in 0..self.links.len() {
            if self.links[link].seat == seat && std::mem::take(&mut self.links[link].broker_side) {
                self.soon(2_000, ClusterEvent::PeerNoticesCut { link });
            }
        }
    }

    fn on_leader(&mut self, seat: usize, work: impl FnOnce(&mut super::leader::Leader)) {
        let Some(leader) = self.seats[seat].leader() else { return };
        work(leader);
        self.carry();
        self.wake(seat);
    }

    /// The broker's side of a link, if it still exists.
    fn on_link(&mut self, link: usize, work: impl FnOnce(&mut super::leader::Leader)) {
        let ClusterLink { seat, life, broker_side, .. } = self.links[link];
        if broker_side && self.seats[seat].life == life {
            self.on_leader(seat, work);
        }
    }

    fn wake(&mut self, seat: usize) {
        let life = self.seats[seat].life;
        let Some(deadline) = self.seats[seat].leads().and_then(|leader| leader.next_deadline()) else { return };
        let at = deadline.max(self.now + Duration::from_millis(1));
        let is_due = |(_, event): (_, &ClusterEvent)| matches!(event, ClusterEvent::BrokerWakes { seat: whose, life: of } if (*whose, *of) == (seat, life));
        if !self.agenda.range(..=(at, u64::MAX)).any(is_due) {
            self.put(at, ClusterEvent::BrokerWakes { seat, life });
        }
    }

    // The peers.

    fn connect(&mut self, peer: usize) {
        if self.links.iter().any(|link| link.peer == Some(peer) && link.peer_side) {
            return;
        }
        let leading: Vec<usize> = (0..self.seats.len())
            .filter(|seat| self.seats[*seat].leads().is_some() && self.seats[*seat].stopped_since.is_none())
            .collect();
        if leading.is_empty() {
            return self.soon(1_000, ClusterEvent::PeerConnects { peer });
        }
        let seat = *self.random.pick(&leading);
        let (identity, asks) = match &mut self.peers[peer] {
            ClusterPeer::Client(client) => (client.name.clone(), client.connected()),
            ClusterPeer::Worker(worker) => (worker.name.clone(), worker.connected()),
        };
        let Some(link) = self.link(Some(peer), seat, &identity) else { return };
        self.send(link, asks);
        self.soon(500, ClusterEvent::PeerActs { peer });
    }

    fn link(
        &mut self,
        peer: Option<usize>,
        seat: usize,
        identity: &tenure_hub::words::Name,
    ) -> Option<usize> {
        let (now, life) = (self.now, self.seats[seat].life);
        let (session, mailbox) = self.seats[seat].leader()?.open(identity);
        self.links.push(ClusterLink {
            peer,
            seat,
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

    fn act(&mut self, peer: usize) {
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

    fn receive(&mut self, link: usize, delivery: Delivery) {
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

    fn peer_notices_cut(&mut self, link: usize) {
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

    fn cut(&mut self, link: usize) {
        self.soon(3_000, ClusterEvent::BrokerNoticesCut { link });
        self.soon(3_000, ClusterEvent::PeerNoticesCut { link });
    }

    fn disturb(&mut self, link: usize) {
        if let Some(peer) = self.links[link].peer
            && let ClusterPeer::Worker(worker) = &self.peers[peer]
        {
            self.promises.begun.disturb(&worker.name);
        }
    }

    /// Asks every broker that leads, or believes so, for a task that was acknowledged before.
    fn observer_asks(&mut self) {
        self.soon(400, ClusterEvent::ObserverAsks);
        for seat in 0..self.seats.len() {
            let Some(task) = self.promises.some_acknowledged(&mut self.random) else { return };
            if self.seats[seat].leads().is_none() {
                continue;
            }
            let life = self.seats[seat].life;
            let is_open = |link: &ClusterLink| link.peer.is_none() && (link.seat, link.life) == (seat, life);
            let open = self.links.iter().position(is_open);
            let Some(link) = open.or_else(|| self.link(None, seat, &"observer".into())) else { continue };
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
        let name = self.seats[self.links[link].seat].name().to_owned();
        let is_unknown = matches!(reply, Err(Refusal::UnknownTask { .. }));
        self.promises.check(!is_unknown, || {
            format!("{name} was asked for {task}, which was acknowledged before, and does not know it")
        });
    }

    // Time and messages.

    fn send(&mut self, link: usize, asks: Vec<Ask>) {
        if asks.is_empty() {
            return;
        }
        let at = self.later(self.plan.delay_max_millis).max(self.links[link].last_to_broker);
        self.links[link].last_to_broker = at;
        self.put(at, ClusterEvent::AtBroker { link, asks });
    }

    /// Delivers the brokers' messages to the peers.
    fn carry(&mut self) {
        let mut deliveries = Vec::new();
        for link in 0..self.links.len() {
            let ClusterLink { seat, life, broker_side, .. } = self.links[link];
            if !broker_side || self.seats[seat].life != life || self.seats[seat].stopped_since.is_some() {
                continue;
            }
            self.links[link].mailbox.take(&mut deliveries);
            for delivery in deliveries.drain(..) {
                let at = self.later(self.plan.delay_max_millis).max(self.links[link].last_to_peer);
                self.links[link].last_to_peer = at;
                self.put(at, ClusterEvent::AtPeer { link, delivery });
            }
        }
    }

    fn soon(&mut self, within_millis: u64, event: ClusterEvent) {
        let at = self.later(within_millis);
        self.put(at, event);
    }

    fn later(&mut self, within_millis: u64) -> Timestamp {
        self.now + Duration::from_millis(self.random.between(1, within_millis.max(1) + 1))
    }

    fn put(&mut self, at: Timestamp, event: ClusterEvent) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), event);
    }
}

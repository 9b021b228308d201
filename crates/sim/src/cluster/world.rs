//! The world: an agenda of events for three brokers, their journal, clients and workers. The earliest event
//! always comes next, so a seed always gives the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_hub::words::{Command, Timestamp};
use tenure_hub::{Ask, Request};
use tenure_store::{JournalFaults, MemoryDisk, MemoryJournal, StoreError, Stream};

use super::ClusterOutcome;
use super::events::ClusterEvent;
use super::leader::{Leader, Wrote};
use super::links::{ClusterLink, ClusterPeer};
use super::member::{ClusterMember, Role, Round};
use super::plan::ClusterPlan;
use crate::client::{Client, TAGS};
use crate::promises::PromiseChecker;
use crate::random::Random;
use crate::worker::Worker;

const MEMBERS: u64 = 3;
/// Maximum duration of the calm phase in which everything must end.
const CALM_MILLIS: u64 = 600_000;
/// How long a leader may be stopped: longer than its lease.
const STOPPED_MILLIS: u64 = 9_000;
const AWAY_MILLIS: u64 = 9_000;

#[derive(Debug)]
pub(super) struct ClusterWorld {
    pub(super) plan: ClusterPlan,
    pub(super) random: Random,
    pub(super) now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), ClusterEvent>,
    entries: u64,
    journal: MemoryJournal,
    pub(super) members: Vec<ClusterMember>,
    /// What waits for each stopped process, in the order in which it came.
    waiting: Vec<Vec<ClusterEvent>>,
    pub(super) peers: Vec<ClusterPeer>,
    pub(super) links: Vec<ClusterLink>,
    pub(super) promises: PromiseChecker,
    /// The journal has lost what was acknowledged, and the leader must restore it up to here.
    owed: Option<u64>,
    pub(super) calm: bool,
    pub(super) outcome: ClusterOutcome,
}

pub(super) fn live(plan: ClusterPlan) -> ClusterOutcome {
    let mut world = ClusterWorld::new(plan);
    world.run();
    ClusterOutcome {
        broken: world.promises.broken().to_vec(),
        tasks: world.promises.tasks(),
        refused: world.promises.refusals(),
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
            members: (1..=MEMBERS).map(ClusterMember::new).collect(),
            waiting: (0..MEMBERS).map(|_| Vec::new()).collect(),
            peers,
            links: Vec::new(),
            promises: PromiseChecker::default(),
            owed: None,
            calm: false,
            outcome: ClusterOutcome::default(),
            plan,
        };
        for member in 0..world.members.len() {
            world.soon(300, ClusterEvent::BrokerStarts { member, after_power_failure: false });
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
                let leading = self.members.iter().find_map(ClusterMember::leads);
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
        let leader = self.legitimate().and_then(|member| self.members[member].leads());
        leader.is_some_and(|leader| self.promises.all_ended(leader.core()))
    }

    fn legitimate(&self) -> Option<usize> {
        let (name, instance) = self.journal.holder()?;
        let is_holder = |member: &ClusterMember| member.name() == name && member.instance == instance;
        let found = self.members.iter().position(is_holder)?;
        let member = &self.members[found];
        (member.stopped_since.is_none() && member.leads().is_some()).then_some(found)
    }

    fn happen(&mut self, event: ClusterEvent) {
        if self.plan.trace {
            println!("{} {event:?}", self.now);
        }
        if let Some((member, life)) = event.member() {
            if self.members[member].life != life {
                return;
            }
            if self.members[member].stopped_since.is_some() {
                return self.waiting[member].push(event);
            }
        }
        if let Some(link) = event.broker_side() {
            let ClusterLink { member, life, .. } = self.links[link];
            if self.members[member].stopped_since.is_some() && self.members[member].life == life {
                return self.waiting[member].push(event);
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
            ClusterEvent::BrokerWakes { member, .. } => {
                let now = self.now;
                self.on_leader(member, |leader| leader.turn(now));
            }
            ClusterEvent::WriterWorks { member, life } => self.writer_works(member, life),
            ClusterEvent::MaintenanceWorks { member, life } => {
                self.maintenance_works(member, life);
            }
            ClusterEvent::StandbyPolls { member, life } => self.standby_polls(member, life),
            ClusterEvent::BrokerStarts { member, after_power_failure } => {
                self.start_broker(member, after_power_failure);
            }
            ClusterEvent::BrokerGoesOn { member, life } => self.broker_goes_on(member, life),
            ClusterEvent::ObserverAsks => self.observer_asks(),
            ClusterEvent::Inspection => {
                if let Some(leader) = self.legitimate().and_then(|member| self.members[member].leads()) {
                    self.promises.inspect(leader.core());
                }
                self.soon(1_000, ClusterEvent::Inspection);
            }
        }
    }

    fn start_broker(&mut self, member: usize, after_power_failure: bool) {
        let disk = &self.members[member].disk;
        let is_replaced = !self.calm && self.owed.is_none() && self.random.percent(10);
        let disk = match (is_replaced, after_power_failure) {
            (true, _) => MemoryDisk::new(),
            (false, true) => disk.crash(self.random.next()),
            (false, false) => disk.reopen(),
        };
        self.members[member].disk = disk;
        let instance = self.random.next();
        let started = self.members[member].start(&self.journal, instance, self.plan.mutation);
        self.promises.check(started.is_ok(), || format!("a broker does not start: {started:?}"));
        self.poll_soon(member);
    }

    fn poll_soon(&mut self, member: usize) {
        let life = self.members[member].life;
        self.soon(250, ClusterEvent::StandbyPolls { member, life });
    }

    fn standby_polls(&mut self, member: usize, life: u64) {
        let storm = !self.calm && self.owed.is_none();
        if storm && self.random.percent(self.plan.standby_dies_percent) {
            let power_failure = self.random.percent(50);
            return self.broker_dies(member, power_failure);
        }
        if storm && self.random.percent(self.plan.power_fails_percent) {
            self.members[member].disk.fail_power_after(self.random.between(0, 6));
        }
        match self.members[member].round(self.now, self.plan.mutation) {
            Round::Follows | Round::TriesAgain => self.soon(250, ClusterEvent::StandbyPolls { member, life }),
            Round::Leads => self.takes_over(member),
            Round::Failed(StoreError::Io { .. } | StoreError::Sync { .. }) => self.broker_dies(member, true),
            Round::Failed(error) => {
                let name = self.members[member].name().to_owned();
                self.promises.check(false, || format!("{name} cannot stand by or take over: {error}"));
            }
        }
    }

    fn takes_over(&mut self, member: usize) {
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
        let life = self.members[member].life;
        if let Some(leader) = self.members[member].leads() {
            self.promises.inspect(leader.core());
        }
        self.soon(50, ClusterEvent::WriterWorks { member, life });
        self.set_limits(member);
    }

    fn set_limits(&mut self, member: usize) {
        let asks = TAGS.map(|tag| Ask {
            token: 0,
            request: Request::Command(Command::SetLimit { tag: tag.into(), limit: Some(2) }),
        });
        let now = self.now;
        self.on_leader(member, |leader| {
            let (session, _) = leader.open(&"operator".into());
            leader.take(now, session, asks.into());
        });
    }

    fn writer_works(&mut self, member: usize, life: u64) {
        if self.storm_strikes(member) {
            return;
        }
        let now = self.now;
        let is_cut_off = self.cuts_off(3);
        let Some(leader) = self.members[member].leader() else { return };
        let wrote = leader.write(now);
        if is_cut_off && self.random.percent(50) {
            return self.broker_dies(member, false);
        }
        let Some(leader) = self.members[member].leader() else { return };
        let (is_writing, refilled) = (leader.is_writing(), leader.refilled_bytes());
        self.outcome.refilled_bytes = self.outcome.refilled_bytes.max(refilled);
        if self.owed.is_some_and(|end| self.journal.end(Stream::Tasks) >= end) {
            self.owed = None;
            self.restore_faults();
        }
        match wrote {
            Wrote::Fine => {
                self.carry();
                self.wake(member);
                self.soon(30, ClusterEvent::MaintenanceWorks { member, life });
                self.soon(if is_writing { 15 } else { 150 }, ClusterEvent::WriterWorks { member, life });
            }
            Wrote::Away => self.soon(100, ClusterEvent::WriterWorks { member, life }),
            Wrote::Deposed => self.deposed(member),
            Wrote::Failed(StoreError::Io { .. } | StoreError::Sync { .. }) => self.broker_dies(member, true),
            Wrote::Failed(error) => {
                let name = self.members[member].name().to_owned();
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

    fn maintenance_works(&mut self, member: usize, life: u64) {
        let strikes = self.cuts_off(8);
        let has_worked = self.members[member].leader().is_some_and(Leader::keep);
        if strikes && self.random.percent(50) {
            return self.broker_dies(member, false);
        }
        if has_worked {
            self.soon(20, ClusterEvent::MaintenanceWorks { member, life });
        }
    }

    /// Returns whether the leader's process does not go on. What the journal has lost, only the leader can
    /// restore: until then nothing else breaks.
    fn storm_strikes(&mut self, member: usize) -> bool {
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
                self.broker_dies(member, false);
                return true;
            }
        }
        let has_time = self.journal.lease_left() > Duration::from_millis(1_500) && !self.journal.is_away();
        if self.random.percent(plan.lagging_fail_over_percent)
            && has_time
            && self.legitimate() == Some(member)
        {
            self.lagging_fail_over();
            return false;
        }
        if self.random.percent(plan.power_fails_percent) {
            self.members[member].disk.fail_power_after(self.random.between(0, 4));
        }
        if self.random.percent(plan.leader_dies_percent) {
            let power_failure = self.random.percent(30);
            self.broker_dies(member, power_failure);
            return true;
        }
        if self.random.percent(plan.leader_stops_percent) {
            self.promises.begun.disturb_all();
            let life = self.members[member].life;
            self.members[member].stopped_since = Some(self.now);
            self.soon(STOPPED_MILLIS, ClusterEvent::BrokerGoesOn { member, life });
            return true;
        }
        false
    }

    fn lagging_fail_over(&mut self) {
        self.journal.fail_over();
        let acknowledged = self.journal.end(Stream::Tasks);
        self.journal.fail_over_losing(self.random.between(1, 4) as usize);
        if self.journal.end(Stream::Tasks) == acknowledged {
            return;
        }
        self.owed = Some(acknowledged);
        self.journal.set_faults(JournalFaults::default());
        for member in &self.members {
            member.disk.fail_power_after(u64::MAX);
        }
    }

    fn restore_faults(&mut self) {
        if !self.calm {
            self.journal.set_faults(self.plan.faults);
        }
    }

    fn broker_goes_on(&mut self, member: usize, life: u64) {
        if self.members[member].life != life {
            return;
        }
        let Some(since) = self.members[member].stopped_since.take() else { return };
        let now = self.now;
        self.on_leader(member, |leader| leader.wake(since, now));
        // What has arrived meanwhile may come before the writer's next look at the journal.
        self.soon(50, ClusterEvent::WriterWorks { member, life });
        for event in std::mem::take(&mut self.waiting[member]) {
            self.happen(event);
        }
    }

    fn deposed(&mut self, member: usize) {
        self.outcome.deposed += 1;
        self.drop_links(member);
        let stood = self.members[member].stand_by(&self.journal, self.plan.mutation);
        self.promises.check(stood.is_ok(), || format!("a deposed broker does not stand by: {stood:?}"));
        self.poll_soon(member);
    }

    fn broker_dies(&mut self, member: usize, power_failure: bool) {
        self.drop_links(member);
        self.members[member].role = Role::Dead;
        self.members[member].life += 1;
        self.members[member].stopped_since = None;
        self.waiting[member].clear();
        let within = if self.random.percent(40) { 400 } else { 6_000 };
        self.soon(within, ClusterEvent::BrokerStarts { member, after_power_failure: power_failure });
    }

    fn drop_links(&mut self, member: usize) {
        self.promises.begun.disturb_all();
        for link in 0..self.links.len() {
            if self.links[link].member == member && std::mem::take(&mut self.links[link].broker_side) {
                self.soon(2_000, ClusterEvent::PeerNoticesCut { link });
            }
        }
    }

    fn on_leader(&mut self, member: usize, work: impl FnOnce(&mut Leader)) {
        let Some(leader) = self.members[member].leader() else { return };
        work(leader);
        self.carry();
        self.wake(member);
    }

    /// The broker's side of a link, if it still exists.
    pub(super) fn on_link(&mut self, link: usize, work: impl FnOnce(&mut Leader)) {
        let ClusterLink { member, life, broker_side, .. } = self.links[link];
        if broker_side && self.members[member].life == life {
            self.on_leader(member, work);
        }
    }

    fn wake(&mut self, member: usize) {
        let life = self.members[member].life;
        let Some(deadline) = self.members[member].leads().and_then(Leader::next_deadline) else {
            return;
        };
        let at = deadline.max(self.now + Duration::from_millis(1));
        let is_due = |(_, event): (_, &ClusterEvent)| matches!(event, ClusterEvent::BrokerWakes { member: whose, life: of } if (*whose, *of) == (member, life));
        if !self.agenda.range(..=(at, u64::MAX)).any(is_due) {
            self.put(at, ClusterEvent::BrokerWakes { member, life });
        }
    }

    pub(super) fn send(&mut self, link: usize, asks: Vec<Ask>) {
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
            let ClusterLink { member, life, broker_side, .. } = self.links[link];
            if !broker_side
                || self.members[member].life != life
                || self.members[member].stopped_since.is_some()
            {
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

    pub(super) fn soon(&mut self, within_millis: u64, event: ClusterEvent) {
        let at = self.later(within_millis);
        self.put(at, event);
    }

    pub(super) fn later(&mut self, within_millis: u64) -> Timestamp {
        self.now + Duration::from_millis(self.random.between(1, within_millis.max(1) + 1))
    }

    pub(super) fn put(&mut self, at: Timestamp, event: ClusterEvent) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), event);
    }
}

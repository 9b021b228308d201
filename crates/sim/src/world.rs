//! A simulated world: peers, a network that delays and breaks, a broker that dies and restarts, and one clock. The
//! earliest scheduled event always comes next, so a seed always gives the same run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{Command, Rate, SessionId, Timestamp};
use tenure_hub::{Ask, Delivery, Mailbox, Request};
use tenure_store::MemoryDisk;

use crate::broker::{Broker, Step};
use crate::client::{Client, QUEUES, TAGS};
use crate::plan::{Mutation, Plan};
use crate::promises::{PromiseChecker, live_workers};
use crate::random::Random;
use crate::worker::Worker;

/// Maximum duration of the calm phase in which everything must end.
const CALM_MILLIS: u64 = 600_000;
/// How long a broker may be stopped: longer than any lease.
const STOPPED_MILLIS: u64 = 60_000;
/// How long the disk may take for a sync: longer than any lease as well.
const STALL_MILLIS: u64 = 12_000;
const STALLS_AGAIN_PERCENT: u64 = 70;

#[derive(Debug)]
struct World {
    plan: Plan,
    random: Random,
    now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), WorldEvent>,
    entries: u64,
    broker: Option<Broker>,
    /// The disk that a dead broker has left.
    restart_from: Option<MemoryDisk>,
    /// The broker's process exists but is stopped.
    stopped: Option<Stopped>,
    peers: Vec<Peer>,
    links: Vec<Link>,
    /// Links that the broker considers open.
    open_links: Vec<usize>,
    promises: PromiseChecker,
    syncing: bool,
    disk_is_slow: bool,
    /// When the broker next wakes by itself.
    woken_at: Option<Timestamp>,
    calm: bool,
}

#[derive(Debug)]
struct Stopped {
    since: Timestamp,
    /// What waits for it, in the order in which it came.
    waiting: Vec<WorldEvent>,
}

#[derive(Debug)]
enum Peer {
    Client(Client),
    Worker(Worker),
}

/// One connection, as both ends see it.
#[derive(Debug)]
struct Link {
    peer: usize,
    session: SessionId,
    mailbox: Arc<Mailbox>,
    broker_side: bool,
    peer_side: bool,
    /// A connection keeps its order: nothing arrives before an earlier message.
    last_to_broker: Timestamp,
    last_to_peer: Timestamp,
}

#[derive(Debug)]
enum WorldEvent {
    PeerActs { peer: usize },
    PeerConnects { peer: usize },
    AtBroker { link: usize, asks: Vec<Ask> },
    AtPeer { link: usize, delivery: Delivery },
    BrokerNoticesCut { link: usize },
    PeerNoticesCut { link: usize },
    BrokerWakes,
    Synced,
    MaintenanceWorks,
    BrokerStarts { after_power_failure: bool },
    BrokerGoesOn,
    Inspection,
}

impl WorldEvent {
    /// Whether it needs a running broker.
    fn is_for_broker(&self) -> bool {
        match self {
            WorldEvent::AtBroker { .. }
            | WorldEvent::BrokerNoticesCut { .. }
            | WorldEvent::BrokerWakes
            | WorldEvent::Synced
            | WorldEvent::MaintenanceWorks => true,
            WorldEvent::PeerActs { .. }
            | WorldEvent::PeerConnects { .. }
            | WorldEvent::AtPeer { .. }
            | WorldEvent::PeerNoticesCut { .. }
            | WorldEvent::BrokerStarts { .. }
            | WorldEvent::BrokerGoesOn
            | WorldEvent::Inspection => false,
        }
    }
}

/// The outcome of a world.
#[derive(Debug, Default)]
pub struct Outcome {
    pub broken: Vec<String>,
    pub tasks: usize,
    pub happenings: u64,
    pub restarts: u64,
    /// Messages published to topics, and what subscribers read.
    pub messages: u64,
    pub deliveries: u64,
}

/// Simulates one world.
pub fn live(plan: Plan) -> Outcome {
    // Only this world has messages that the disk keeps back.
    let of_others = if plan.mutation == Mutation::StartClocksEarly { Mutation::None } else { plan.mutation };
    let of_keys = crate::keys::live(plan.seed, of_others);
    let of_schedules = crate::schedules::live(plan.seed, of_others);
    let of_reconciliations = crate::reconciling::live(plan.seed, of_others);
    let of_hooks = crate::hooks::live(plan.seed, of_others);
    let mut world = World::new(plan);
    world.run();
    world.promises.inspect_rates();
    Outcome {
        broken: world
            .promises
            .broken()
            .iter()
            .cloned()
            .chain(of_keys)
            .chain(of_schedules)
            .chain(of_reconciliations)
            .chain(of_hooks)
            .collect(),
        tasks: world.promises.tasks(),
        happenings: world.entries,
        restarts: world.promises.restarts,
        messages: 0,
        deliveries: 0,
    }
}

impl World {
    fn new(plan: Plan) -> World {
        let mut random = Random::new(plan.seed);
        let now = Timestamp(1_700_000_000_000);
        let disk = MemoryDisk::new();
        let broker = Broker::start(disk, plan.seed, now, plan.mutation).expect("an empty disk opens");
        let mut peers: Vec<Peer> =
            (0..plan.clients).map(|number| Peer::Client(Client::new(number))).collect();
        for number in 0..plan.workers {
            let slots = random.between(1, plan.slots_max + 1);
            let mut worker = Worker::new(number, slots, &mut random);
            worker.begins_early = plan.mutation == Mutation::BeginEarly;
            peers.push(Peer::Worker(worker));
        }
        let mut world = World {
            random,
            now,
            agenda: BTreeMap::new(),
            entries: 0,
            broker: Some(broker),
            restart_from: None,
            stopped: None,
            links: Vec::new(),
            open_links: Vec::new(),
            promises: PromiseChecker::default(),
            syncing: false,
            disk_is_slow: false,
            woken_at: None,
            calm: false,
            peers,
            plan,
        };
        for peer in 0..world.peers.len() {
            world.soon(100, WorldEvent::PeerConnects { peer });
        }
        world.soon(1_000, WorldEvent::Inspection);
        world.set_limits();
        world
    }

    fn run(&mut self) {
        let storm_until = self.now + Duration::from_millis(self.plan.storm_millis);
        let end = storm_until + Duration::from_millis(CALM_MILLIS);
        while let Some(((at, _), happening)) = self.agenda.pop_first() {
            self.now = at;
            if !self.calm && at >= storm_until {
                self.start_calm_phase();
            }
            self.happen(happening);
            if !self.promises.broken().is_empty() {
                return;
            }
            if self.calm && self.is_over() {
                return;
            }
            if at > end {
                let unfinished = self.broker.as_ref().map(|broker| self.promises.unfinished(broker.core()));
                self.promises
                    .check(false, || format!("after ten calm minutes these have not ended: {unfinished:?}"));
                return;
            }
        }
    }

    /// Starts the calm phase: no more faults, and every worker can run every task.
    fn start_calm_phase(&mut self) {
        self.calm = true;
        for peer in &mut self.peers {
            if let Peer::Worker(worker) = peer {
                worker.becomes_able();
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].peer_side {
                self.cut(link);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.broker.as_ref().is_some_and(|broker| self.promises.all_ended(broker.core()))
    }

    fn happen(&mut self, happening: WorldEvent) {
        if self.plan.trace {
            self.print(&happening);
        }
        if let Some(stopped) = &mut self.stopped
            && happening.is_for_broker()
        {
            return stopped.waiting.push(happening);
        }
        match happening {
            WorldEvent::PeerConnects { peer } => self.connect(peer),
            WorldEvent::PeerActs { peer } => self.act(peer),
            WorldEvent::AtBroker { link, asks } => {
                if self.links[link].broker_side {
                    let session = self.links[link].session;
                    self.broker_does(|broker, now| broker.take(now, session, asks));
                }
            }
            WorldEvent::AtPeer { link, delivery } => {
                if self.links[link].peer_side {
                    self.receive(link, delivery);
                }
            }
            WorldEvent::BrokerNoticesCut { link } => {
                self.disturb(link);
                if std::mem::take(&mut self.links[link].broker_side) {
                    let session = self.links[link].session;
                    self.broker_does(|broker, now| broker.close(now, session));
                }
            }
            WorldEvent::PeerNoticesCut { link } => {
                self.disturb(link);
                let peer = self.links[link].peer;
                if std::mem::take(&mut self.links[link].peer_side) {
                    if let Peer::Worker(worker) = &mut self.peers[peer] {
                        worker.disconnected();
                    }
                    self.soon(2_000, WorldEvent::PeerConnects { peer });
                }
            }
            WorldEvent::BrokerWakes => {
                self.woken_at = None;
                self.broker_does(Broker::turn);
                self.wake_broker();
            }
            WorldEvent::Synced => self.sync(),
            WorldEvent::MaintenanceWorks => {
                if self.broker.as_mut().is_some_and(Broker::keep) {
                    self.soon(20, WorldEvent::MaintenanceWorks);
                }
            }
            WorldEvent::BrokerStarts { after_power_failure } => self.start_broker(after_power_failure),
            WorldEvent::BrokerGoesOn => self.broker_goes_on(),
            WorldEvent::Inspection => {
                if let Some(broker) = &self.broker {
                    self.promises.inspect(broker.core());
                }
                self.soon(1_000, WorldEvent::Inspection);
            }
        }
    }

    fn print(&self, happening: &WorldEvent) {
        let of_link = |link: &usize| match &self.peers[self.links[*link].peer] {
            Peer::Client(client) => client.name.clone(),
            Peer::Worker(worker) => worker.name.clone(),
        };
        let who = match happening {
            WorldEvent::AtBroker { link, .. }
            | WorldEvent::AtPeer { link, .. }
            | WorldEvent::BrokerNoticesCut { link }
            | WorldEvent::PeerNoticesCut { link } => Some(of_link(link)),
            _ => None,
        };
        println!("{} {} {happening:?}", self.now, who.as_deref().unwrap_or("-"));
    }

    fn connect(&mut self, peer: usize) {
        if self.links.iter().any(|link| link.peer == peer && link.peer_side) {
            return;
        }
        let Some(broker) = self.broker.as_mut().filter(|_| self.stopped.is_none()) else {
            return self.soon(1_000, WorldEvent::PeerConnects { peer });
        };
        let (identity, asks) = match &mut self.peers[peer] {
            Peer::Client(client) => (client.name.clone(), client.connected()),
            Peer::Worker(worker) => (worker.name.clone(), worker.connected()),
        };
        let (session, mailbox) = broker.open(&identity);
        let (now, number) = (self.now, self.links.len());
        self.links.push(Link {
            peer,
            session,
            mailbox,
            broker_side: true,
            peer_side: true,
            last_to_broker: now,
            last_to_peer: now,
        });
        self.open_links.push(number);
        self.send(number, asks);
        self.soon(500, WorldEvent::PeerActs { peer });
    }

    fn act(&mut self, peer: usize) {
        let Some(link) = self.links.iter().rposition(|link| link.peer == peer && link.peer_side) else {
            return;
        };
        let storm = !self.calm;
        if storm && self.random.percent(self.plan.cut_percent) {
            return self.cut(link);
        }
        if let Peer::Worker(worker) = &mut self.peers[peer]
            && storm
            && self.random.percent(self.plan.worker_dies_percent)
        {
            self.promises.begun.disturb(&worker.name);
            worker.dies(&mut self.random);
            return self.cut(link);
        }
        let client_acts = if self.calm { 400 } else { self.plan.client_acts_millis };
        let (asks, next) = match &mut self.peers[peer] {
            Peer::Client(client) => {
                (client.act(self.now, &mut self.random, self.calm, &mut self.promises), client_acts)
            }
            Peer::Worker(worker) => (
                worker.act(self.now, &mut self.random, &mut self.promises),
                if self.calm { 300 } else { 1_200 },
            ),
        };
        self.send(link, asks);
        self.soon(next, WorldEvent::PeerActs { peer });
    }

    fn receive(&mut self, link: usize, delivery: Delivery) {
        let peer = self.links[link].peer;
        let asks = match &mut self.peers[peer] {
            Peer::Client(client) => {
                client.receive(delivery, &mut self.promises);
                Vec::new()
            }
            Peer::Worker(worker) => worker.receive(self.now, delivery, &mut self.random, &mut self.promises),
        };
        if !self.links[link].broker_side {
            // The broker had dropped the link before this arrived.
            self.disturb(link);
        }
        self.send(link, asks);
    }

    /// The connection breaks: each end notices in its own time, and messages in flight may still arrive before.
    fn cut(&mut self, link: usize) {
        self.soon(3_000, WorldEvent::BrokerNoticesCut { link });
        self.soon(3_000, WorldEvent::PeerNoticesCut { link });
    }

    /// From here on the broker may have a reason to end what the worker on this link runs.
    fn disturb(&mut self, link: usize) {
        if let Peer::Worker(worker) = &self.peers[self.links[link].peer] {
            self.promises.begun.disturb(&worker.name);
        }
    }

    fn send(&mut self, link: usize, asks: Vec<Ask>) {
        if asks.is_empty() {
            return;
        }
        let at = self.later(self.plan.delay_max_millis).max(self.links[link].last_to_broker);
        self.links[link].last_to_broker = at;
        self.put(at, WorldEvent::AtBroker { link, asks });
    }

    fn broker_does(&mut self, step: impl FnOnce(&mut Broker, Timestamp) -> Step) {
        let Some(broker) = &mut self.broker else { return };
        let step = step(broker, self.now);
        self.after(&step);
    }

    fn sync(&mut self) {
        self.syncing = false;
        let storm = !self.calm;
        let Some(broker) = &mut self.broker else { return };
        if storm && self.random.percent(self.plan.power_fails_percent) {
            // In the middle of the next few changes of the disk.
            broker.disk.fail_power_after(self.random.between(0, 4));
        } else if storm && self.random.percent(self.plan.broker_dies_percent) {
            return self.broker_dies(false);
        }
        let Some(broker) = &mut self.broker else { return };
        let step = broker.sync(self.now);
        self.after(&step);
        if self.plan.mutation == Mutation::StartClocksEarly {
            // What was kept back has left; the next batch may follow.
            self.broker_does(Broker::turn);
        }
        self.soon(30, WorldEvent::MaintenanceWorks);
        if storm && self.random.percent(self.plan.broker_stops_percent) {
            self.promises.begun.disturb_all();
            self.stopped = Some(Stopped { since: self.now, waiting: Vec::new() });
            self.soon(STOPPED_MILLIS, WorldEvent::BrokerGoesOn);
        }
    }

    fn broker_goes_on(&mut self) {
        let Some(stopped) = self.stopped.take() else { return };
        let live = self.broker.as_ref().map_or(0, |broker| live_workers(broker.core()));
        self.broker_does(|broker, now| broker.wake(stopped.since, now));
        if let Some(broker) = &self.broker {
            self.promises.compare_workers(live, live_workers(broker.core()));
        }
        for happening in stopped.waiting {
            self.happen(happening);
        }
    }

    fn after(&mut self, step: &Step) {
        match step {
            Step::Dead => return self.broker_dies(true),
            Step::Writing if !self.syncing => {
                self.syncing = true;
                // A slow disk stays slow for a while.
                let chance =
                    if self.disk_is_slow { STALLS_AGAIN_PERCENT } else { self.plan.disk_stalls_percent };
                self.disk_is_slow = !self.calm && self.random.percent(chance);
                self.soon(if self.disk_is_slow { STALL_MILLIS } else { 15 }, WorldEvent::Synced);
            }
            Step::Writing | Step::Fine => {}
        }
        self.carry();
        self.wake_broker();
    }

    /// Delivers the broker's messages to the peers.
    fn carry(&mut self) {
        if self.broker.as_ref().is_some_and(Broker::keeps_messages_back) {
            return;
        }
        let mut deliveries = Vec::new();
        self.open_links.retain(|link| self.links[*link].broker_side);
        for index in 0..self.open_links.len() {
            let link = self.open_links[index];
            self.links[link].mailbox.take(&mut deliveries);
            for delivery in deliveries.drain(..) {
                let at = self.later(self.plan.delay_max_millis).max(self.links[link].last_to_peer);
                self.links[link].last_to_peer = at;
                self.put(at, WorldEvent::AtPeer { link, delivery });
            }
        }
    }

    /// The process dies, possibly with a power failure. Its messages may still be in flight.
    fn broker_dies(&mut self, power_failure: bool) {
        self.promises.begun.disturb_all();
        self.syncing = false;
        for link in 0..self.links.len() {
            if std::mem::take(&mut self.links[link].broker_side) {
                self.soon(2_000, WorldEvent::PeerNoticesCut { link });
            }
        }
        self.soon(5_000, WorldEvent::BrokerStarts { after_power_failure: power_failure });
        self.restart_from = self.broker.take().map(|broker| broker.disk);
    }

    fn start_broker(&mut self, after_power_failure: bool) {
        let Some(disk) = self.restart_from.take() else { return };
        self.promises.restarts += 1;
        let disk = if after_power_failure { disk.crash(self.random.next()) } else { disk.reopen() };
        match Broker::start(disk, self.random.next(), self.now, self.plan.mutation) {
            Ok(broker) => {
                self.promises.inspect(broker.core());
                self.broker = Some(broker);
                self.set_limits();
                self.wake_broker();
            }
            Err(error) => self.promises.check(false, || format!("the broker does not start again: {error}")),
        }
    }

    /// Sets the limits and rates once, on a connection that is not used any further. A rate that is set again keeps its
    /// tokens.
    fn set_limits(&mut self) {
        let limit = Some(self.plan.tag_limit);
        let asks = TAGS.map(|tag| Ask {
            token: 0,
            request: Request::Command(Command::SetLimit { tag: tag.into(), limit }),
        });
        let (count, period, burst) = self.plan.rate;
        let rate = Some(Rate { count, period: Duration::from_millis(period), burst });
        let rates = [
            Command::SetTagRate { tag: TAGS[0].into(), rate },
            Command::SetQueueRate { queue: QUEUES[0].into(), rate },
        ];
        let rates = rates.map(|command| Ask { token: 0, request: Request::Command(command) });
        let asks = asks.into_iter().chain(rates).collect();
        let Some(broker) = &mut self.broker else { return };
        let (session, _) = broker.open(&"operator".into());
        self.broker_does(|broker, now| broker.take(now, session, asks));
    }

    fn wake_broker(&mut self) {
        let Some(deadline) = self.broker.as_ref().and_then(Broker::next_deadline) else { return };
        if self.woken_at.is_some_and(|at| at <= deadline) {
            return;
        }
        self.woken_at = Some(deadline);
        let at = deadline.max(self.now);
        self.put(at, WorldEvent::BrokerWakes);
    }

    fn soon(&mut self, within_millis: u64, happening: WorldEvent) {
        let at = self.later(within_millis);
        self.put(at, happening);
    }

    fn later(&mut self, within_millis: u64) -> Timestamp {
        self.now + Duration::from_millis(self.random.between(1, within_millis.max(1) + 1))
    }

    fn put(&mut self, at: Timestamp, happening: WorldEvent) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), happening);
    }
}

//! The desks of workers: each has a session with the hub, whose mail is taken by the connection that spoke there last,
//! and a task that keeps its deadlines and takes the mail while no connection does.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tenure_hub::words::{Name, Refusal, Timestamp};
use tenure_hub::{Delivery, HubHandle, Principal, Right, wall_clock};
use tokio::sync::{Mutex as Turns, Notify, mpsc};
use tokio::time::{Duration, Instant, sleep_until};

use super::locked;
use crate::session::DeskCall;
use crate::settings::Settings;
use crate::worker::{CallAnswer, Caller, KeyHolder, Output, Worker};

/// How far ahead a desk looks if nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

pub(super) struct Desks {
    hub: HubHandle,
    settings: Settings,
    open: Mutex<HashMap<(Name, Name), Arc<Desk>>>,
}

pub(super) struct Desk {
    pub(super) namespace: Name,
    /// Whoever has the turn asks the hub, so that questions leave in the order they were decided.
    seat: Turns<Seat>,
    name: Name,
    /// Whose worker it is.
    principal: Mutex<Principal>,
    /// None while nobody speaks as this worker: then the hub takes it for lost.
    session: Mutex<Option<Arc<tenure_hub::Session>>>,
    /// It has another session, or none.
    changed: Notify,
    hub: HubHandle,
    routes: Mutex<HashMap<u64, mpsc::UnboundedSender<News>>>,
    /// How many connections take the mail.
    attendants: AtomicUsize,
    wake: Notify,
}

struct Seat {
    worker: Worker,
    deliveries: Vec<Delivery>,
    /// Until when the desk's task sleeps if nobody wakes it.
    sleeps_until: Option<Timestamp>,
    /// The desk is closed; whoever comes late opens another.
    over: bool,
}

/// The way back to a connection.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) connection: u64,
    pub(super) sender: mpsc::UnboundedSender<News>,
}

/// What a connection is told by others.
pub(super) enum News {
    Answer {
        token: u64,
        answer: CallAnswer,
    },
    Wish {
        job: String,
        wanted: &'static str,
    },
    /// Something this connection published has been heard.
    Published {
        token: u64,
        outcome: Result<u64, String>,
    },
}

impl Desks {
    pub(super) fn new(hub: HubHandle, settings: Settings) -> Arc<Self> {
        Arc::new(Self { hub, settings, open: Mutex::default() })
    }

    /// The desk that a call is for, with a way back to whoever calls.
    pub(super) fn find(
        self: &Arc<Self>,
        namespace: &Name,
        call: &DeskCall,
        route: &Route,
        principal: &Principal,
    ) -> Result<Arc<Desk>, CallAnswer> {
        let mut open = locked(&self.open);
        let key = (namespace.clone(), call.worker.clone());
        if let Some(desk) = open.get(&key) {
            desk.attach(route);
            return Ok(Arc::clone(desk));
        }
        let Some(kind) = call.open_as else { return Err(CallAnswer::NotRegistered) };
        let worker = Worker::new(
            call.worker.clone(),
            principal.grant.name.clone(),
            kind,
            self.settings.clone(),
            wall_clock(),
        );
        let desk = Arc::new(Desk {
            namespace: namespace.clone(),
            seat: Turns::new(Seat { worker, deliveries: Vec::new(), sleeps_until: None, over: false }),
            name: call.worker.clone(),
            principal: Mutex::new(principal.clone()),
            session: Mutex::default(),
            changed: Notify::new(),
            hub: self.hub.clone(),
            routes: Mutex::default(),
            attendants: AtomicUsize::new(0),
            wake: Notify::new(),
        });
        desk.attach(route);
        open.insert(key.clone(), Arc::clone(&desk));
        drop(open);
        tokio::spawn(keep(Arc::clone(self), key, Arc::clone(&desk)));
        Ok(desk)
    }
}

impl Desk {
    /// A connection speaks: all calls from the first on that are for this desk. What it is to hear at once is added to
    /// `told`. Takes nothing and says no if the desk has been closed.
    pub(super) async fn call(
        &self,
        calls: &mut VecDeque<DeskCall>,
        route: &Route,
        principal: &Principal,
        told: &mut Vec<News>,
    ) -> bool {
        let mut seat = self.seat.lock().await;
        if seat.over {
            return false;
        }
        let mut out = Output::default();
        let from = KeyHolder::from(&*principal.grant);
        let calls = DeskCall::of_one_desk(calls, route.connection);
        seat.worker.call_from(wall_clock(), &from, calls, &mut out);
        if out.changes_owner {
            *locked(&self.principal) = principal.clone();
            self.close_session();
        }
        self.tell(&mut seat.worker, out, Some(route.connection), told).await;
        self.be_awake_for(&seat);
        true
    }

    /// Takes the mail, and does what is due. What a connection is to hear that does this itself is added to `told`.
    pub(super) async fn attend(&self, own: Option<u64>, told: &mut Vec<News>) {
        let mut seat = self.seat.lock().await;
        let Seat { worker, deliveries, .. } = &mut *seat;
        let mut out = Output::default();
        let now = wall_clock();
        if let Some(session) = self.session() {
            session.mailbox().take(deliveries);
        }
        for delivery in deliveries.drain(..) {
            worker.deliver(now, delivery, &mut out);
        }
        worker.tick(now, &mut out);
        self.tell(worker, out, own, told).await;
        self.be_awake_for(&seat);
    }

    /// A connection is gone.
    pub(super) async fn detach(&self, route: &Route) {
        let mut seat = self.seat.lock().await;
        locked(&self.routes).remove(&route.connection);
        let mut out = Output::default();
        seat.worker.detach(route.connection, &mut out);
        self.tell(&mut seat.worker, out, None, &mut Vec::new()).await;
        drop(seat);
        self.wake.notify_one();
    }

    fn attach(&self, route: &Route) {
        locked(&self.routes).insert(route.connection, route.sender.clone());
    }

    /// Waits for mail.
    pub(super) async fn mail(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let Some(session) = self.session() else {
                changed.await;
                continue;
            };
            let mailbox = session.mailbox();
            tokio::select! {
                () = mailbox.arrived() => {}
                () = changed => continue,
            }
            if mailbox.is_closed() {
                pending::<()>().await;
            }
            return;
        }
    }

    fn session(&self) -> Option<Arc<tenure_hub::Session>> {
        locked(&self.session).clone()
    }

    /// Its session with the hub; a worker that has none begins one.
    fn open_session(&self) -> Result<Arc<tenure_hub::Session>, Refusal> {
        let mut session = locked(&self.session);
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        // The door looks after the worker: it reads what the worker held before, and submits challenges.
        let principal = locked(&self.principal).with(Right::Read).with(Right::Submit);
        let opened = Arc::new(self.hub.open(principal, self.namespace.clone(), self.name.clone())?);
        *session = Some(Arc::clone(&opened));
        self.changed.notify_waiters();
        Ok(opened)
    }

    fn close_session(&self) {
        *locked(&self.session) = None;
        self.changed.notify_waiters();
    }

    /// Asks the hub, then answers connections.
    async fn tell(&self, worker: &mut Worker, mut out: Output, own: Option<u64>, told: &mut Vec<News>) {
        // A worker that was away and is back wants to see what it had put aside.
        for (token, blob) in std::mem::take(&mut out.reads) {
            let bytes = self.hub.read(blob).await;
            worker.has_read(token, bytes, &mut out);
        }
        self.ask(worker, &mut out).await;
        if out.closes_session {
            self.close_session();
        }
        let mut news = |connection, news| {
            if own == Some(connection) {
                told.push(news);
            } else if let Some(route) = locked(&self.routes).get(&connection) {
                let _ = route.send(news);
            }
        };
        for (Caller { connection, token }, answer) in out.answers {
            news(connection, News::Answer { token, answer });
        }
        for (connection, job, wanted) in out.wishes {
            news(connection, News::Wish { job, wanted });
        }
    }

    async fn ask(&self, worker: &mut Worker, out: &mut Output) {
        let asks = std::mem::take(&mut out.asks);
        if asks.is_empty() {
            return;
        }
        match self.open_session() {
            // If the hub is stopping, everybody is about to hear of it.
            Ok(session) => drop(session.send(asks).await),
            Err(refusal) => {
                for ask in asks {
                    let reply = Err(refusal.clone());
                    worker.deliver(wall_clock(), Delivery::Reply { token: ask.token, reply }, out);
                }
            }
        }
    }

    /// The desk's task has to know of an earlier deadline and of nothing else.
    fn be_awake_for(&self, seat: &Seat) {
        let sleeps_longer = |at| seat.sleeps_until.is_none_or(|sleeps_until| at < sleeps_until);
        if seat.worker.next_deadline().is_some_and(sleeps_longer) {
            self.wake.notify_one();
        }
    }
}

/// A connection takes the mail of a desk, until this is dropped.
pub(super) struct Attendance(Arc<Desk>);

impl Attendance {
    pub(super) fn begin(desk: Arc<Desk>) -> Attendance {
        desk.attendants.fetch_add(1, Ordering::Relaxed);
        Attendance(desk)
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.0
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.attendants.fetch_sub(1, Ordering::Relaxed);
        self.0.wake.notify_one();
    }
}

/// Keeps a desk until nobody needs it any more.
async fn keep(desks: Arc<Desks>, key: (Name, Name), desk: Arc<Desk>) {
    loop {
        let deadline = {
            let mut seat = desk.seat.lock().await;
            seat.sleeps_until = seat.worker.next_deadline();
            seat.sleeps_until
        };
        let is_alone = desk.attendants.load(Ordering::Relaxed) == 0;
        tokio::select! {
            () = desk.mail(), if is_alone => {}
            () = desk.wake.notified() => {}
            () = sleep_until(due(deadline)) => {}
        }
        desk.attend(None, &mut Vec::new()).await;
        let mut seat = desk.seat.lock().await;
        let hub_is_gone = desk.session().is_some_and(|session| session.mailbox().is_closed());
        if seat.worker.is_over(wall_clock()) || hub_is_gone {
            seat.over = true;
            locked(&desks.open).remove(&key);
            return;
        }
    }
}

fn due(deadline: Option<Timestamp>) -> Instant {
    Instant::now() + deadline.map_or(IDLE, |deadline| deadline.since(wall_clock()).min(IDLE))
}

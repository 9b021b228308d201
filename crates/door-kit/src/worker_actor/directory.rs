//! The worker actors of a door. Each has a session with the hub. The connection that called the actor last takes the
//! session's mail; a task handles deadlines, and the mail while no connection does.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_hub::words::{Name, Timestamp, Wanted};
use tenure_hub::{ClockReading, Delivery, HubHandle, HubRefusal, Principal, Right, monotonic_clock};
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio::time::{Duration, Instant, sleep_until};

use super::{
    ActorOutput, CallReply, Caller, Dialect, Heartbeats, KeyHolder, WorkerActor, WorkerKind, WorkerRequest,
};

/// How long an actor sleeps if nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// A call of a connection to the actor of a worker.
#[derive(Debug)]
pub struct WorkerCall<D: Dialect> {
    /// The number of the call on its connection.
    pub token: u64,
    /// The worker whose actor is called.
    pub worker: Name,
    /// Whether to start the actor if there is none, and for what kind of worker.
    pub open_as: Option<WorkerKind>,
    /// What is asked.
    pub call: WorkerRequest<D>,
}

impl<D: Dialect> WorkerCall<D> {
    /// Takes the first of a connection's calls, and all later ones for the same worker.
    pub fn of_one_worker(
        calls: &mut VecDeque<WorkerCall<D>>,
        connection: u64,
    ) -> impl Iterator<Item = (Caller, WorkerRequest<D>)> {
        let worker = calls.front().map(|call| call.worker.clone());
        std::iter::from_fn(move || {
            let WorkerCall { token, call, .. } =
                calls.pop_front_if(|call| Some(&call.worker) == worker.as_ref())?;
            Some((Caller { connection, token }, call))
        })
    }
}

/// The return path to a connection.
#[derive(Debug)]
pub struct Route<D: Dialect> {
    /// The number of the connection.
    pub connection: u64,
    /// Where its notices go.
    pub sender: mpsc::UnboundedSender<D::ConnectionNotice>,
}

/// What a connection receives from worker actors.
#[derive(Debug)]
pub enum WorkerNotice<D: Dialect> {
    /// The reply to a call.
    Answer {
        /// The number of the call.
        token: u64,
        /// The reply.
        answer: CallReply<D>,
    },
    /// A client wants a task of this worker cancelled or paused.
    Wish {
        /// The task, by the name that the worker knows.
        task: String,
        /// What the client wants.
        wanted: Wanted,
    },
}

/// By namespace and name.
type Actors<D> = HashMap<(Name, Name), Arc<Actor<D>>>;

/// All actors of a door.
#[derive(Debug)]
pub struct Directory<D: Dialect> {
    hub: HubHandle,
    heartbeats: Heartbeats,
    actors: Mutex<Actors<D>>,
}

/// The actor of one worker.
#[derive(Debug)]
pub struct Actor<D: Dialect> {
    namespace: Name,
    name: Name,
    hub: HubHandle,
    /// The holder of the turn sends the hub requests, so that they leave in the order of the decisions.
    turn: AsyncMutex<Turn<D>>,
    /// The owner of the worker.
    principal: Mutex<Principal>,
    /// `None` while no connection acts as this worker: then the hub counts it as lost.
    session: Mutex<Option<Arc<tenure_hub::Session>>>,
    /// The session was replaced or closed.
    changed: Notify,
    routes: Mutex<HashMap<u64, mpsc::UnboundedSender<D::ConnectionNotice>>>,
    /// How many connections take the mail.
    mail_receivers: AtomicUsize,
    wake: Notify,
}

#[derive(Debug)]
struct Turn<D: Dialect> {
    worker: WorkerActor<D>,
    deliveries: Vec<Delivery>,
    /// Until when the actor's task sleeps unless it is woken.
    sleeps_until: Option<Timestamp>,
    /// The actor has ended; a later connection starts another.
    is_over: bool,
}

impl<D: Dialect> Directory<D> {
    /// The actors of one door: none yet.
    pub fn new(hub: HubHandle, heartbeats: Heartbeats) -> Arc<Self> {
        Arc::new(Self { hub, heartbeats, actors: Mutex::default() })
    }

    /// The actor for a call, with a return path to the connection.
    pub fn find(
        self: &Arc<Self>,
        namespace: &Name,
        call: &WorkerCall<D>,
        route: &Route<D>,
        principal: &Principal,
    ) -> Result<Arc<Actor<D>>, CallReply<D>> {
        let mut actors = locked(&self.actors);
        let key = (namespace.clone(), call.worker.clone());
        if let Some(actor) = actors.get(&key) {
            actor.attach(route);
            return Ok(Arc::clone(actor));
        }
        let Some(kind) = call.open_as else { return Err(CallReply::NotRegistered) };
        let owner = principal.grant.name.clone();
        let worker = WorkerActor::new(call.worker.clone(), owner, kind, self.heartbeats, ClockReading::now());
        let actor = Arc::new(Actor {
            namespace: namespace.clone(),
            name: call.worker.clone(),
            hub: self.hub.clone(),
            turn: AsyncMutex::new(Turn {
                worker,
                deliveries: Vec::new(),
                sleeps_until: None,
                is_over: false,
            }),
            principal: Mutex::new(principal.clone()),
            session: Mutex::default(),
            changed: Notify::new(),
            routes: Mutex::default(),
            mail_receivers: AtomicUsize::new(0),
            wake: Notify::new(),
        });
        actor.attach(route);
        actors.insert(key.clone(), Arc::clone(&actor));
        drop(actors);
        tokio::spawn(run(Arc::clone(self), key, Arc::clone(&actor)));
        Ok(actor)
    }
}

impl<D: Dialect> Actor<D> {
    /// The namespace of the worker.
    pub fn namespace(&self) -> &Name {
        &self.namespace
    }

    /// Runs all calls of a connection for this worker, from the first on. Adds immediate notices to `told`. Takes
    /// nothing and returns false if the actor has ended.
    pub async fn call(
        &self,
        calls: &mut VecDeque<WorkerCall<D>>,
        route: &Route<D>,
        principal: &Principal,
        told: &mut Vec<D::ConnectionNotice>,
    ) -> bool {
        let mut turn = self.turn.lock().await;
        if turn.is_over {
            return false;
        }
        let mut out = ActorOutput::default();
        let from = KeyHolder::from(&*principal.grant);
        let calls = WorkerCall::of_one_worker(calls, route.connection);
        turn.worker.call_from(ClockReading::now(), &from, calls, &mut out);
        if out.changes_owner {
            *locked(&self.principal) = principal.clone();
            self.close_session();
        }
        self.send_outputs(&mut turn.worker, out, Some(route.connection), told).await;
        self.wake_for(&turn);
        true
    }

    /// Takes the mail, and does what is due. Adds notices for the calling connection to `told`.
    pub async fn take_mail(&self, now: ClockReading, own: Option<u64>, told: &mut Vec<D::ConnectionNotice>) {
        let mut turn = self.turn.lock().await;
        let Turn { worker, deliveries, .. } = &mut *turn;
        let mut out = ActorOutput::default();
        if let Some(session) = self.session() {
            session.mailbox().take(deliveries);
        }
        for delivery in deliveries.drain(..) {
            worker.deliver(now, delivery, &mut out);
        }
        worker.tick(now, &mut out);
        self.send_outputs(worker, out, own, told).await;
        self.wake_for(&turn);
    }

    /// A connection is gone.
    pub async fn detach(&self, route: &Route<D>) {
        let mut turn = self.turn.lock().await;
        locked(&self.routes).remove(&route.connection);
        let mut out = ActorOutput::default();
        turn.worker.detach(route.connection, &mut out);
        self.send_outputs(&mut turn.worker, out, None, &mut Vec::new()).await;
        drop(turn);
        self.wake.notify_one();
    }

    fn attach(&self, route: &Route<D>) {
        locked(&self.routes).insert(route.connection, route.sender.clone());
    }

    /// Waits for mail.
    pub async fn mail_arrived(&self) {
        loop {
            // It is notified of changes from here on, before its first poll.
            let changed = self.changed.notified();
            let Some(session) = self.session() else {
                changed.await;
                continue;
            };
            let mailbox = session.mailbox();
            tokio::select! {
                biased;
                () = mailbox.arrived() => {}
                () = changed => continue,
            }
            if mailbox.is_closed() {
                pending::<()>().await;
            }
            return;
        }
    }

    /// Whether mail waits.
    pub fn has_mail(&self) -> bool {
        locked(&self.session).as_ref().is_some_and(|session| session.mailbox().unread_bytes() > 0)
    }

    fn session(&self) -> Option<Arc<tenure_hub::Session>> {
        locked(&self.session).clone()
    }

    /// Returns the session with the hub; opens one if there is none.
    fn open_session(&self) -> Result<Arc<tenure_hub::Session>, HubRefusal> {
        let mut session = locked(&self.session);
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        // The door acts for the worker: it reads what the worker held before, and submits tasks that test it.
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

    /// Sends requests to the hub, then replies to connections.
    async fn send_outputs(
        &self,
        worker: &mut WorkerActor<D>,
        mut out: ActorOutput<D>,
        own: Option<u64>,
        told: &mut Vec<D::ConnectionNotice>,
    ) {
        // A returning worker needs what it had saved.
        for (token, blob) in std::mem::take(&mut out.reads) {
            let bytes = self.hub.read(blob).await;
            worker.has_read(token, bytes, &mut out);
        }
        self.ask(worker, &mut out).await;
        if out.closes_session {
            self.close_session();
        }
        let mut notify = |connection, notify: WorkerNotice<D>| {
            if own == Some(connection) {
                told.push(notify.into());
            } else if let Some(route) = locked(&self.routes).get(&connection) {
                let _ = route.send(notify.into());
            }
        };
        for (Caller { connection, token }, answer) in out.answers {
            notify(connection, WorkerNotice::Answer { token, answer });
        }
        for (connection, task, wanted) in out.wishes {
            notify(connection, WorkerNotice::Wish { task, wanted });
        }
    }

    async fn ask(&self, worker: &mut WorkerActor<D>, out: &mut ActorOutput<D>) {
        let asks = std::mem::take(&mut out.asks);
        if asks.is_empty() {
            return;
        }
        match self.open_session() {
            // If the hub is stopping, all connections are about to be notified.
            Ok(session) => drop(session.send(asks).await),
            Err(refusal) => {
                for ask in asks {
                    let reply = Err(refusal.clone());
                    worker.deliver(ClockReading::now(), Delivery::Reply { token: ask.token, reply }, out);
                }
            }
        }
    }

    /// Wakes the actor's task only for an earlier deadline.
    fn wake_for(&self, turn: &Turn<D>) {
        let sleeps_longer = |at| turn.sleeps_until.is_none_or(|sleeps_until| at < sleeps_until);
        if turn.worker.next_deadline().is_some_and(sleeps_longer) {
            self.wake.notify_one();
        }
    }
}

/// A connection takes the mail of an actor, until this is dropped.
#[derive(Debug)]
pub struct MailReceiver<D: Dialect>(Arc<Actor<D>>);

impl<D: Dialect> MailReceiver<D> {
    /// Takes the mail from now on.
    pub fn new(actor: Arc<Actor<D>>) -> MailReceiver<D> {
        actor.mail_receivers.fetch_add(1, Ordering::Relaxed);
        MailReceiver(actor)
    }

    /// The actor whose mail is taken.
    pub fn actor(&self) -> &Arc<Actor<D>> {
        &self.0
    }
}

impl<D: Dialect> Drop for MailReceiver<D> {
    fn drop(&mut self) {
        self.0.mail_receivers.fetch_sub(1, Ordering::Relaxed);
        self.0.wake.notify_one();
    }
}

/// Runs an actor until it is not needed any more.
async fn run<D: Dialect>(directory: Arc<Directory<D>>, key: (Name, Name), actor: Arc<Actor<D>>) {
    loop {
        let deadline = {
            let mut turn = actor.turn.lock().await;
            turn.sleeps_until = turn.worker.next_deadline();
            turn.sleeps_until
        };
        let is_alone = actor.mail_receivers.load(Ordering::Relaxed) == 0;
        let is_stopping = actor.hub.is_stopping();
        tokio::select! {
            () = actor.mail_arrived(), if is_alone => {}
            () = actor.wake.notified() => {}
            () = actor.hub.stopped(), if !is_stopping => {}
            () = sleep_until(due(deadline)) => {}
        }
        actor.take_mail(ClockReading::now(), None, &mut Vec::new()).await;
        let mut turn = actor.turn.lock().await;
        // An actor without a connection would keep a hub that stops, and its store, for its worker.
        let is_left = actor.hub.is_stopping() && locked(&actor.routes).is_empty();
        let hub_is_gone = is_left || actor.session().is_some_and(|session| session.mailbox().is_closed());
        if turn.worker.is_over(monotonic_clock()) || hub_is_gone {
            turn.is_over = true;
            locked(&directory.actors).remove(&key);
            return;
        }
    }
}

fn due(deadline: Option<Timestamp>) -> Instant {
    Instant::now() + deadline.map_or(IDLE, |deadline| deadline.since(monotonic_clock()).min(IDLE))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No statement leaves the guarded data inconsistent, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The desks of workers: each has a session with the hub and a task that waits for its mail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tenure_hub::HubHandle;
use tenure_hub::words::{Name, Timestamp};
use tokio::sync::{Mutex as Turns, Notify, mpsc};
use tokio::time::{Duration, Instant, sleep_until};

use super::{locked, wall_clock};
use crate::session::DeskCall;
use crate::settings::Settings;
use crate::worker::{CallAnswer, Caller, Output, Worker};

/// How far ahead a desk looks if nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

pub(super) struct Desks {
    hub: HubHandle,
    settings: Settings,
    open: Mutex<HashMap<(Name, Name), Arc<Desk>>>,
}

pub(super) struct Desk {
    /// Whoever has the turn asks the hub, so that questions leave in the order they were decided.
    seat: Turns<Seat>,
    session: tenure_hub::Session,
    routes: Mutex<HashMap<u64, mpsc::UnboundedSender<News>>>,
    wake: Notify,
}

struct Seat {
    worker: Worker,
    /// Until when the desk's task sleeps if no mail comes.
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

    /// Speaks with a desk. The answer comes as news; the desk is returned, to be told when the connection ends.
    pub(super) async fn call(
        self: &Arc<Self>,
        namespace: Name,
        call: DeskCall,
        route: &Route,
    ) -> Option<Arc<Desk>> {
        let caller = Caller { connection: route.connection, token: call.token };
        loop {
            let desk = match self.find(&namespace, &call) {
                Ok(desk) => desk,
                Err(answer) => {
                    let _ = route.sender.send(News::Answer { token: call.token, answer });
                    return None;
                }
            };
            let mut seat = desk.seat.lock().await;
            if seat.over {
                continue;
            }
            locked(&desk.routes).insert(route.connection, route.sender.clone());
            let mut out = Output::default();
            seat.worker.call(wall_clock(), caller, call.call, &mut out);
            desk.tell(out).await;
            // The desk's task has to know of an earlier deadline and of nothing else.
            let deadline = seat.worker.next_deadline();
            let is_earlier =
                deadline.is_some_and(|at| seat.sleeps_until.is_none_or(|sleeps_until| at < sleeps_until));
            drop(seat);
            if is_earlier {
                desk.wake.notify_one();
            }
            return Some(desk);
        }
    }

    fn find(self: &Arc<Self>, namespace: &Name, call: &DeskCall) -> Result<Arc<Desk>, CallAnswer> {
        let mut open = locked(&self.open);
        let key = (namespace.clone(), call.worker.clone());
        if let Some(desk) = open.get(&key) {
            return Ok(Arc::clone(desk));
        }
        let Some(kind) = call.open_as else { return Err(CallAnswer::NotRegistered) };
        let session = self.hub.open(namespace.clone(), call.worker.clone()).map_err(CallAnswer::Refused)?;
        let worker = Worker::new(call.worker.clone(), kind, self.settings.clone(), wall_clock());
        let desk = Arc::new(Desk {
            seat: Turns::new(Seat { worker, sleeps_until: None, over: false }),
            session,
            routes: Mutex::default(),
            wake: Notify::new(),
        });
        open.insert(key.clone(), Arc::clone(&desk));
        drop(open);
        tokio::spawn(attend(Arc::clone(self), key, Arc::clone(&desk)));
        Ok(desk)
    }
}

impl Desk {
    /// A connection is gone.
    pub(super) async fn detach(&self, route: &Route) {
        let mut seat = self.seat.lock().await;
        locked(&self.routes).remove(&route.connection);
        let mut out = Output::default();
        seat.worker.detach(route.connection, &mut out);
        self.tell(out).await;
        drop(seat);
        self.wake.notify_one();
    }

    /// Asks the hub, then answers connections.
    async fn tell(&self, out: Output) {
        // If the hub is stopping, everybody is about to hear of it.
        let _ = self.session.send(out.asks).await;
        let routes = locked(&self.routes);
        for (caller, answer) in out.answers {
            if let Some(route) = routes.get(&caller.connection) {
                let _ = route.send(News::Answer { token: caller.token, answer });
            }
        }
        for (connection, job, wanted) in out.wishes {
            if let Some(route) = routes.get(&connection) {
                let _ = route.send(News::Wish { job, wanted });
            }
        }
    }
}

/// Waits for a desk's mail and deadlines until nobody needs it any more.
async fn attend(desks: Arc<Desks>, key: (Name, Name), desk: Arc<Desk>) {
    let mut deliveries = Vec::new();
    loop {
        let deadline = {
            let mut seat = desk.seat.lock().await;
            seat.sleeps_until = seat.worker.next_deadline();
            seat.sleeps_until
        };
        tokio::select! {
            () = desk.session.mailbox().arrived() => {}
            () = desk.wake.notified() => {}
            () = sleep_until(due(deadline)) => {}
        }
        let mut seat = desk.seat.lock().await;
        let mut out = Output::default();
        let now = wall_clock();
        desk.session.mailbox().take(&mut deliveries);
        for delivery in deliveries.drain(..) {
            seat.worker.deliver(now, delivery, &mut out);
        }
        seat.worker.tick(now, &mut out);
        desk.tell(out).await;
        if seat.worker.is_over(now) || desk.session.mailbox().is_closed() {
            seat.over = true;
            locked(&desks.open).remove(&key);
            return;
        }
    }
}

fn due(deadline: Option<Timestamp>) -> Instant {
    Instant::now() + deadline.map_or(IDLE, |deadline| deadline.since(wall_clock()).min(IDLE))
}

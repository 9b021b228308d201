//! Watching events across lost connections: every event arrives, or a gap names those that do not.
//!
//! Each watcher has its own connection. If the program is slower than the broker, events wait in the socket and
//! then at the broker, which reads the rest from its disk later. Nothing accumulates in this process.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tenure_wire::event::{Event, EventKind};
use tenure_wire::request::Watch as WatchRequest;
use tenure_wire::{FromBroker, Name, Notice, Reply, Request, TaskId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Client, unexpected};
use crate::connection::{Connection, DIAL_TIMEOUT};
use crate::dialer::{Dialer, is_temporary};
use crate::error::Error;
use crate::keepalive::Keepalive;
use crate::resume::WatchPosition;

/// Maximum number of event frames that wait to be taken.
const FRAMES_WAITING_MAX: usize = 16;

/// Which events to receive. Every option that is set must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch(WatchRequest);

impl Watch {
    /// Starts with the event of this number; otherwise only events from now on arrive.
    #[must_use]
    pub fn from(mut self, seq: u64) -> Watch {
        self.0.from = Some(seq);
        self
    }

    /// Restricts the watch to one task.
    #[must_use]
    pub fn task(mut self, task: TaskId) -> Watch {
        self.0.task = Some(task);
        self
    }

    /// Restricts the watch to one queue and its tasks.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Watch {
        self.0.queue = Some(queue.into());
        self
    }

    /// Only events about tasks that this identity has submitted.
    #[must_use]
    pub fn submitter(mut self, identity: impl Into<Name>) -> Watch {
        self.0.submitter = Some(identity.into());
        self
    }

    /// Restricts the watch to events of one worker.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Name>) -> Watch {
        self.0.worker = Some(worker.into());
        self
    }

    /// Restricts the watch to these kinds of events.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Watch {
        self.0.kinds = kinds.into_iter().collect();
        self
    }
}

/// An event or a change of state that a watcher receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// The next event.
    Event(Event),
    /// Events that the broker no longer keeps: these numbers, both included, were missed. If `to` is less than `from`, the
    /// broker's log begins again after `to`, because an older backup was restored: what the program knows may have been
    /// undone.
    Gap {
        /// Number of the first missing event.
        from: u64,
        /// Number of the last missing event.
        to: u64,
    },
}

impl Client {
    /// Watches events. When this returns, the watch is active: the watcher receives everything that happens from then
    /// on.
    ///
    /// ```no_run
    /// use tenure_client::{Client, Watch, Watched};
    ///
    /// # async fn example(client: Client) -> Result<(), tenure_client::Error> {
    /// let mut watcher = client.watch(Watch::default().queue("images")).await?;
    /// while let Some(watched) = watcher.next().await {
    ///     match watched? {
    ///         Watched::Event(event) => println!("{} {}", event.seq, event.kind),
    ///         Watched::Gap { from, to } => println!("events {from} to {to} are gone"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn watch(&self, watch: Watch) -> Result<Watcher, Error> {
        let mut peer = self.shared().peer.clone();
        peer.identity = Some(self.identity());
        let deadline = Instant::now() + self.shared().connect_timeout;
        let mut watching = Watching {
            dialer: Dialer::new(peer),
            resume: WatchPosition::new(watch.0),
            group: None,
            undelivered: Vec::new(),
        };
        let connection = watching.begin(Some(deadline)).await?;
        let position = watching.resume.request().from.unwrap_or(0);
        let (frames, taken) = mpsc::channel(FRAMES_WAITING_MAX);
        tokio::spawn(watching.run(connection, frames));
        Ok(Watcher { frames: taken, ready: VecDeque::new(), position })
    }

    /// Watches the events of this client's own submissions.
    pub async fn watch_mine(&self) -> Result<Watcher, Error> {
        self.watch(Watch::default().submitter(self.identity())).await
    }
}

/// Events as they happen; also a [`Stream`]. Reconnects and continues where it stopped.
#[derive(Debug)]
pub struct Watcher {
    frames: mpsc::Receiver<Result<Vec<Watched>, Error>>,
    ready: VecDeque<Watched>,
    position: u64,
}

impl Watcher {
    /// Returns the next event or gap. After an error there is nothing more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Watched, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the number after the last event taken: where another watcher would continue.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Stream for Watcher {
    type Item = Result<Watched, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(watched) = self.ready.pop_front() {
                self.position = match &watched {
                    Watched::Event(event) => event.seq + 1,
                    Watched::Gap { to, .. } => to + 1,
                };
                return Poll::Ready(Some(Ok(watched)));
            }
            match ready!(self.frames.poll_recv(context)) {
                Some(Ok(frame)) => self.ready = frame.into(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The task behind a watcher.
struct Watching {
    dialer: Dialer,
    resume: WatchPosition,
    /// The group whose numbers the position has.
    group: Option<Name>,
    /// Received, not yet passed to the program.
    undelivered: Vec<Watched>,
}

type Frames = mpsc::Sender<Result<Vec<Watched>, Error>>;

impl Watching {
    /// Runs until the program drops the watcher, or the broker refuses for a reason that waiting does not change.
    async fn run(mut self, mut connection: Connection, frames: Frames) {
        loop {
            let Err(error) = self.follow(&mut connection, &frames).await else { return };
            tracing::debug!(%error, "watch interrupted, reconnecting");
            let begun = tokio::select! {
                begun = self.begin_again(error) => begun,
                () = frames.closed() => return,
            };
            match begun {
                Ok(next) => connection = next,
                Err(error) => {
                    // Sending fails only if the program has dropped the watcher.
                    let _ = frames.send(Ok(std::mem::take(&mut self.undelivered))).await;
                    let _ = frames.send(Err(error)).await;
                    return;
                }
            }
        }
    }

    async fn begin_again(&mut self, error: Error) -> Result<Connection, Error> {
        if is_temporary(&error) { self.begin(None).await } else { Err(error) }
    }

    /// Connects until the watch is active.
    async fn begin(&mut self, deadline: Option<Instant>) -> Result<Connection, Error> {
        loop {
            let mut connection = self.dialer.dial(deadline).await?;
            let standing = tokio::time::timeout(DIAL_TIMEOUT, self.establish(&mut connection)).await;
            match standing {
                Ok(Ok(())) => return Ok(connection),
                Ok(Err(error)) if !is_temporary(&error) => return Err(error),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Asks for the watch and waits for the reply and the number to continue from.
    async fn establish(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let group = connection.welcome().group.clone();
        let heard_before = self.undelivered.len();
        let has_moved = group.is_some() && self.group.is_some() && group != self.group;
        if has_moved {
            // The namespace is in another group now, which has other numbers.
            self.resume.restart();
        }
        let number = connection.ask(&Request::Watch(Box::new(self.resume.request())));
        let mut arrived = Vec::new();
        let mut answered = false;
        while !answered || !self.resume.is_known() {
            connection.turn(&mut arrived).await?;
            for message in arrived.drain(..) {
                match message {
                    FromBroker::Reply { number: to, reply } if to == number => match reply {
                        Reply::Watching(_) => answered = true,
                        Reply::Refused(refusal) => return Err(refusal.into()),
                        other => return Err(unexpected("watch", &other)),
                    },
                    FromBroker::Reply { .. } => {}
                    FromBroker::Notice(notice) => self.understand(notice)?,
                }
            }
        }
        if has_moved {
            // What happened meanwhile may be in the log of the other group only.
            let to = self.resume.request().from.unwrap_or(1).saturating_sub(1);
            self.undelivered.insert(heard_before, Watched::Gap { from: to.min(1), to });
        }
        self.group = group.or(self.group.take());
        Ok(())
    }

    /// Passes events to the program until the connection breaks or the program drops the watcher.
    async fn follow(&mut self, connection: &mut Connection, frames: &Frames) -> Result<(), Error> {
        let mut arrived = Vec::new();
        let mut keepalive = Keepalive::default();
        loop {
            if !self.undelivered.is_empty()
                && frames.send(Ok(std::mem::take(&mut self.undelivered))).await.is_err()
            {
                return Ok(());
            }
            tokio::select! {
                turned = keepalive.turn(connection, &mut arrived) => turned?,
                () = frames.closed() => return Ok(()),
            }
            for message in arrived.drain(..) {
                if let FromBroker::Notice(notice) = message {
                    self.understand(notice)?;
                }
            }
        }
    }

    fn understand(&mut self, notice: Notice) -> Result<(), Error> {
        match notice {
            Notice::Events(events) => {
                self.undelivered.extend(self.resume.events(events.events).into_iter().map(Watched::Event));
            }
            Notice::Gap(gap) => {
                let gap = self.resume.gap(gap.from, gap.to);
                self.undelivered.extend(gap.map(|(from, to)| Watched::Gap { from, to }));
            }
            Notice::Live(live) => self.resume.live(live.next),
            Notice::Bye(refusal) => return Err(refusal.into()),
            _ => {}
        }
        Ok(())
    }
}

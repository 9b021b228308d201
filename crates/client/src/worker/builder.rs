//! How a worker is set up and started.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_wire::task::Resource;
use tenure_wire::time::millis;
use tenure_wire::words::{OnClose, Role};
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{Name, Refusal, TaskId};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::context::Context;
use super::handle::{WorkerHandle, WorkerStats, WorkerTotals};
use super::link::{Link, OnAnswer, Settings};
use super::outbox::WorkerOutbox;
use super::outcome::IntoOutcome;
use super::run::{Finish, Handler};
use super::unreported::Unreported;
use crate::builder::CONNECT_TIMEOUT;
use crate::dialer::random;
use crate::error::Error;
use crate::peer::{PeerOptions, peer_setters};
use crate::quantity::Quantity;

/// Default time for handlers to wind down.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Entry point for workers: [`Worker::builder`].
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Returns a builder for a worker at this broker: `host:port`, `host`, `unix:/path`, or a comma-separated list of
    /// these.
    ///
    /// ```no_run
    /// use tenure_client::{Context, Interrupt, Outcome, Worker};
    ///
    /// async fn scan(context: Context) -> Outcome {
    ///     context.progress(Some(0), "begun");
    ///     tokio::select! {
    ///         result = async { "the result" } => Outcome::complete(result),
    ///         interrupt = context.interrupted() => match interrupt {
    ///             Interrupt::Cancel { .. } => Outcome::cancelled(""),
    ///             Interrupt::Pause { .. } => Outcome::paused("as far as it got"),
    ///             Interrupt::Leaving | Interrupt::Stop { .. } => Outcome::give_back("interrupted"),
    ///         },
    ///     }
    /// }
    ///
    /// # async fn example() -> Result<(), tenure_client::Error> {
    /// let worker = Worker::builder("127.0.0.1:7171").id("scanner-1").queues(["images"]).slots(4).handle(scan).start().await?;
    /// // Later, from anywhere:
    /// worker.drain();
    /// worker.ended().await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(addresses: &str) -> WorkerBuilder {
        WorkerBuilder::new().address(addresses)
    }
}

/// Settings of a worker.
#[derive(Debug)]
pub struct WorkerBuilder {
    peer: PeerOptions,
    spec: WorkerSpec,
    handler: Option<Handler>,
    stop_grace: Duration,
    stops_in_place: bool,
    connect_timeout: Duration,
    drain_on_sigterm: bool,
    die_with_lease: bool,
    unreported: Vec<Unreported>,
    on_answer: Option<OnAnswer>,
}

impl WorkerBuilder {
    peer_setters!();

    fn new() -> WorkerBuilder {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let id = format!(
            "{}-{}-{:04x}",
            if host.is_empty() { "worker" } else { host },
            std::process::id(),
            random() as u16
        );
        let mut spec = WorkerSpec::new(id, Vec::new(), 1);
        // A session can be taken over only by the process that has its instance number, so the number must be unique.
        // 0 is reserved.
        spec.instance = random().max(1);
        spec.host = (!host.is_empty()).then(|| host.into());
        spec.platform = Some(format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH).into());
        let peer = PeerOptions { roles: vec![Role::Worker], ..PeerOptions::default() };
        WorkerBuilder {
            peer,
            spec,
            handler: None,
            stop_grace: STOP_GRACE,
            stops_in_place: false,
            connect_timeout: CONNECT_TIMEOUT,
            drain_on_sigterm: false,
            die_with_lease: false,
            unreported: Vec::new(),
            on_answer: None,
        }
    }

    /// Sets the worker's name. Default: made from the host name and the process id.
    #[must_use]
    pub fn id(mut self, id: impl Into<Name>) -> WorkerBuilder {
        self.spec.worker = id.into();
        self
    }

    /// Sets the queues that the worker serves.
    #[must_use]
    pub fn queues<N: Into<Name>>(mut self, queues: impl IntoIterator<Item = N>) -> WorkerBuilder {
        self.spec.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the capabilities that the worker offers.
    #[must_use]
    pub fn capabilities<N: Into<Name>>(mut self, capabilities: impl IntoIterator<Item = N>) -> WorkerBuilder {
        self.spec.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many tasks the worker takes at once (1).
    #[must_use]
    pub fn slots(mut self, slots: u32) -> WorkerBuilder {
        self.spec.slots = slots;
        self
    }

    /// Sets how many tasks that weigh no slot the worker takes at once (1,000).
    #[must_use]
    pub fn light_slots(mut self, light_slots: u32) -> WorkerBuilder {
        self.spec.light_slots = Some(light_slots);
        self
    }

    /// Declares that the handlers can stop in place: a pause reaches them through
    /// [`Context::stop_wanted`](super::Context::stop_wanted) instead of an interrupt, unless its client wants the attempt
    /// to end.
    #[must_use]
    pub fn stops_in_place(mut self) -> WorkerBuilder {
        self.stops_in_place = true;
        self
    }

    /// Adds a resource that the worker has for tasks that need quantities of it.
    #[must_use]
    pub fn resource(mut self, name: impl Into<Name>, quantity: Quantity) -> WorkerBuilder {
        self.spec.resources.push(Resource { name: name.into(), quantity: quantity.0 });
        self
    }

    /// Sets the interval of heartbeats (5 s).
    #[must_use]
    pub fn heartbeat(mut self, interval: Duration) -> WorkerBuilder {
        self.spec.heartbeat_ms = millis(interval);
        self
    }

    /// Sets the silence after which the broker counts the worker as lost: it assigns nothing new to it and informs the
    /// submitters (15 s).
    #[must_use]
    pub fn lost_after(mut self, silence: Duration) -> WorkerBuilder {
        self.spec.lost_after_ms = millis(silence);
        self
    }

    /// Sets how long after the last sign of life the worker's attempts stay valid; then each task follows its policy
    /// (30 s).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> WorkerBuilder {
        self.spec.lease_ms = millis(lease);
        self
    }

    /// Sets whether a closed connection means that the worker's tasks are dead. By default they may still run, and the
    /// worker reconnects with them.
    #[must_use]
    pub fn on_close(mut self, on_close: OnClose) -> WorkerBuilder {
        self.spec.on_close = on_close;
        self
    }

    /// Sets the program's version, shown to people.
    #[must_use]
    pub fn version(mut self, version: &str) -> WorkerBuilder {
        self.spec.version = Some(version.into());
        self
    }

    /// Sets how long handlers may run on after their attempt is over, or after [`stop`](WorkerHandle::stop) (10 s).
    /// Then async handlers are dropped; blocking handlers cannot be, and keep their slot until they return.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> WorkerBuilder {
        self.stop_grace = grace;
        self
    }

    /// Sets how long the first connection may take (30 s). Reconnects have no time limit.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> WorkerBuilder {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets whether SIGTERM drains the worker (no).
    #[must_use]
    pub fn drain_on_sigterm(mut self, drain: bool) -> WorkerBuilder {
        self.drain_on_sigterm = drain;
        self
    }

    /// Lets the kernel kill this process when the lease ends while handlers run, even if the process is stopped at that
    /// moment, and kills it at once when the broker ends an attempt whose handler runs. For handlers whose side effects
    /// must never overlap with those of the next attempt, and which cannot pass the attempt's number on. The
    /// lease should not be longer than the broker's `restart_grace`. [`OnClose::TasksDie`] then counts only on connections
    /// that lead straight to a broker on this machine: behind a tunnel that ends, the process lives until its lease is
    /// over. Linux only.
    #[must_use]
    pub fn die_with_lease(mut self) -> WorkerBuilder {
        self.die_with_lease = true;
        self
    }

    /// Reports first what an earlier worker of the same name [could not](WorkerHandle::unreported). The broker accepts
    /// it if the attempt is still this worker's own.
    #[must_use]
    pub fn unreported(mut self, unreported: impl IntoIterator<Item = Unreported>) -> WorkerBuilder {
        self.unreported.extend(unreported);
        self
    }

    /// Sets a callback for each report of an end that the broker has accepted or finally refused.
    #[must_use]
    pub fn on_answer<F>(mut self, on_answer: F) -> WorkerBuilder
    where
        F: Fn(TaskId, u32, Result<(), &Refusal>) + Send + Sync + 'static,
    {
        self.on_answer = Some(OnAnswer(Box::new(on_answer)));
        self
    }

    /// Runs tasks in an async handler, on the runtime in which the worker is started.
    #[must_use]
    pub fn handle<F, Fut>(mut self, handler: F) -> WorkerBuilder
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.handler = Some(Handler::new_async(handler));
        self
    }

    /// Runs tasks in a blocking handler, each on its own thread.
    #[must_use]
    pub fn handle_blocking<F, O>(mut self, handler: F) -> WorkerBuilder
    where
        F: Fn(Context) -> O + Send + Sync + 'static,
        O: IntoOutcome,
    {
        self.handler = Some(Handler::new_blocking(handler));
        self
    }

    /// Passes each task to another runtime that this crate does not know. `handler` must only accept the task and
    /// return at once, because the worker's connection waits for it. The runtime calls
    /// [`Finish::with`](super::Finish::with) at the end, from any thread. The slot is taken until then, and the
    /// handler is never dropped: [`Context::on_interrupt`] tells it when to wind down.
    #[must_use]
    pub fn hand_over<F>(mut self, handler: F) -> WorkerBuilder
    where
        F: Fn(Context, Finish) + Send + Sync + 'static,
    {
        self.handler = Some(Handler::new_handed_over(handler));
        self
    }

    /// Starts the worker, and returns when it is registered. The worker then runs until it leaves.
    pub async fn start(self) -> Result<WorkerHandle, Error> {
        let (handle, registered) = self.spawn()?;
        registered.await.unwrap_or(Err(Error::Closed))?;
        Ok(handle)
    }

    /// Runs the worker until it has left.
    pub async fn run(self) -> Result<WorkerStats, Error> {
        self.start().await?.ended().await
    }

    /// Like [`run`](Self::run), for programs without a runtime, with a [blocking
    /// handler](WorkerBuilder::handle_blocking).
    ///
    /// ```no_run
    /// use tenure_client::{Context, Error, Worker};
    ///
    /// fn main() -> Result<(), Error> {
    ///     let count = |context: Context| context.body().len().to_string();
    ///     let worker = Worker::builder("127.0.0.1:7171").queues(["images"]).handle_blocking(count);
    ///     worker.drain_on_sigterm(true).run_blocking()?;
    ///     Ok(())
    /// }
    /// ```
    pub fn run_blocking(self) -> Result<WorkerStats, Error> {
        let (mut handle, registered) = self.spawn()?;
        registered.blocking_recv().unwrap_or(Err(Error::Closed))?;
        loop {
            let ended = handle.ended.borrow_and_update().clone();
            match ended {
                Some(ended) => return ended.map(|()| handle.stats()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn spawn(self) -> Result<(WorkerHandle, oneshot::Receiver<Result<(), Error>>), Error> {
        self.peer.check()?;
        let bad = |what, why: &str| Err(Error::BadSetting { what, why: why.into() });
        let runner = match self.handler {
            None => {
                return bad(
                    "the worker's handler",
                    "is missing: give one with `handle` or `handle_blocking`",
                );
            }
            Some(Handler::Blocking(runner)) => runner,
            Some(Handler::Async(make)) => match Handle::try_current() {
                Ok(runtime) => make(runtime),
                Err(_) => {
                    return bad(
                        "the worker's async handler",
                        "needs a tokio runtime: start the worker inside one",
                    );
                }
            },
        };
        let (outbox, tally) = (Arc::new(WorkerOutbox::default()), Arc::new(WorkerTotals::default()));
        let (tell_registered, registered) = oneshot::channel();
        let (tell_ended, ended) = watch::channel(None);
        let mut peer = self.peer;
        peer.identity = Some(self.spec.worker.clone());
        let settings = Settings {
            peer,
            spec: self.spec,
            stop_grace: self.stop_grace,
            stops_in_place: self.stops_in_place,
            connect_timeout: self.connect_timeout,
            drain_on_sigterm: self.drain_on_sigterm,
            die_with_lease: self.die_with_lease,
            unreported: self.unreported,
            on_answer: self.on_answer,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| no_thread(&error))?;
        let shared = (Arc::clone(&outbox), Arc::clone(&tally));
        let live = move || {
            // Made here: a timer of the kernel stays on its thread.
            let link = Link::new(settings, runner, shared.0, shared.1);
            let result = runtime.block_on(link.run(tell_registered));
            if let Err(error) = &result {
                tracing::error!(%error, "the worker has ended");
            }
            // The program may have dropped all handles.
            let _ = tell_ended.send(Some(result));
        };
        std::thread::Builder::new()
            .name("tenure-worker".into())
            .spawn(live)
            .map_err(|error| no_thread(&error))?;
        Ok((WorkerHandle { outbox, tally, ended }, registered))
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::BadSetting {
        what: "the worker's own thread",
        why: format!("could not be started: {error}").into(),
    }
}

//! A connection and its thread. Calls go to the thread and wait for their answer; when the link is dropped, the
//! connection is closed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tenure_store::ReplicationError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::JournalContext;
use crate::connect::{Connected, connect};
use crate::error::DatabaseFault;

type LinkCall = Box<dyn FnOnce(Rc<Connected>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// How long a statement that only reads may take.
pub(crate) const QUERY_MAX: Duration = Duration::from_secs(10);

pub(crate) struct PostgresLink {
    calls: UnboundedSender<LinkCall>,
}

impl PostgresLink {
    /// Starts the thread and waits until it is connected.
    pub(crate) fn open(shared: &Arc<JournalContext>) -> Result<PostgresLink, ReplicationError> {
        let (calls, receiver) = unbounded_channel();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("tenure-postgres".to_owned());
        let started = thread.spawn(move || run(&shared, receiver, &ready));
        started.map_err(|error| {
            ReplicationError::Away(format!("cannot start a thread for a database connection: {error}"))
        })?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(PostgresLink { calls }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ReplicationError::Away("the connection's thread has ended".to_owned())),
        }
    }

    /// Runs something on the connection, for at most this long. After that the link is useless.
    pub(crate) fn call<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(Rc<Connected>) -> F + Send + 'static,
    ) -> Result<T, DatabaseFault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DatabaseFault>> + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        let call: LinkCall = Box::new(move |connected| {
            Box::pin(async move {
                let result = tokio::time::timeout(limit, work(connected)).await;
                let _ = answer.send(result.unwrap_or(Err(DatabaseFault::NoAnswer(limit))));
            })
        });
        self.calls.send(call).map_err(|_| DatabaseFault::Closed)?;
        answered.recv().map_err(|_| DatabaseFault::Closed)?
    }

    /// The same for a change: a warning on the way makes it doubtful.
    pub(crate) fn change<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(Rc<Connected>) -> F + Send + 'static,
    ) -> Result<T, ReplicationError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DatabaseFault>> + 'static,
    {
        let done = self.call(limit, |connected| async move {
            connected.take_warning();
            let result = work(Rc::clone(&connected)).await;
            match connected.take_warning() {
                Some(warning) => Err(DatabaseFault::Warned(warning)),
                None => result,
            }
        });
        done.map_err(DatabaseFault::of_change)
    }

    pub(crate) fn query<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(Rc<Connected>) -> F + Send + 'static,
    ) -> Result<T, ReplicationError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DatabaseFault>> + 'static,
    {
        self.call(limit, work).map_err(DatabaseFault::of_query)
    }
}

impl fmt::Debug for PostgresLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLink").finish_non_exhaustive()
    }
}

fn run(
    shared: &JournalContext,
    mut calls: UnboundedReceiver<LinkCall>,
    ready: &mpsc::SyncSender<Result<(), ReplicationError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(ReplicationError::Away(format!(
                "cannot start the async runtime for a database connection: {error}"
            ))));
            return;
        }
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async move {
        let connected = match connect(shared).await {
            Ok(connected) => Rc::new(connected),
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        while let Some(call) = calls.recv().await {
            call(Rc::clone(&connected)).await;
        }
    });
}

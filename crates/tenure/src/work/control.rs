//! The control socket: over it, `tenure wait` in a command asks its worker to lend the slot of the attempt to others.
//!
//! One line of JSON each way: the command says for which tasks it waits, then that it wants to go on; the worker answers
//! when the attempt has its slot again. A connection that closes takes its wait back.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tenure_client::TaskId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};

/// Where a command finds the socket.
pub(crate) const VARIABLE: &str = "TENURE_CONTROL";
/// How many tasks one wait may name.
pub(crate) const TASKS_MAX: usize = 100_000;
/// The longest line: an id takes 39 bytes.
const LINE_BYTES_MAX: u64 = 8 << 20;
const CONNECTIONS_MAX: usize = 1_024;

/// A request from a command to its worker.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ControlRequest {
    Wait { task: String, attempt: u32, on: Vec<String> },
    GoOn,
}

/// The worker's reply.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ControlReply {
    /// The attempt has its slot again.
    Continued,
    /// The attempt keeps its slot.
    Refused(String),
}

/// A message from a process of an attempt, the waiter.
#[derive(Debug)]
pub(crate) enum AttemptMessage {
    Wait { waiter: u64, on: Vec<TaskId>, answer: mpsc::UnboundedSender<ControlReply> },
    GoOn { waiter: u64 },
    Gone { waiter: u64 },
}

type Attempts = Mutex<HashMap<(TaskId, u32), mpsc::UnboundedSender<AttemptMessage>>>;

/// The socket, and the attempts that can be reached over it.
#[derive(Debug)]
pub(crate) struct Control {
    dir: TempDir,
    attempts: Arc<Attempts>,
    listener: Mutex<Option<UnixListener>>,
}

impl Control {
    /// Opens the socket. The path of a socket is limited to about 100 bytes, so a long path for temporary files will
    /// not do.
    pub(crate) fn open() -> io::Result<Control> {
        let in_place = |base: &Path| {
            let dir = tempfile::Builder::new().prefix("tenure-").tempdir_in(base)?;
            let listener = UnixListener::bind(socket(&dir))?;
            listener.set_nonblocking(true)?;
            Ok(Control { dir, attempts: Arc::default(), listener: Mutex::new(Some(listener)) })
        };
        in_place(&std::env::temp_dir()).or_else(|error: io::Error| match error.kind() {
            io::ErrorKind::InvalidInput => in_place(Path::new("/tmp")),
            _ => Err(error),
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket(&self.dir)
    }

    /// Receives the messages of an attempt's processes, for as long as the returned entry exists.
    pub(crate) fn listen(
        &self,
        task: TaskId,
        attempt: u32,
    ) -> (Entry, mpsc::UnboundedReceiver<AttemptMessage>) {
        let (say, said) = mpsc::unbounded_channel();
        lock(&self.attempts).insert((task, attempt), say);
        (Entry { attempts: Arc::clone(&self.attempts), of: (task, attempt) }, said)
    }

    /// Serves the socket, once.
    pub(crate) fn serve(&self) -> io::Result<()> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = listener else { return Ok(()) };
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let attempts = Arc::clone(&self.attempts);
        tokio::spawn(async move {
            let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            while let Ok(place) = Arc::clone(&room).acquire_owned().await {
                let Ok((stream, _)) = listener.accept().await else {
                    // There may be too many open files. The commands wait meanwhile.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                };
                let attempts = Arc::clone(&attempts);
                tokio::spawn(async move {
                    // A command that has gone needs no answer.
                    let _ = converse(stream, &attempts).await;
                    drop(place);
                });
            }
        });
        Ok(())
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("control")
}

fn lock(
    attempts: &Attempts,
) -> std::sync::MutexGuard<'_, HashMap<(TaskId, u32), mpsc::UnboundedSender<AttemptMessage>>> {
    attempts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An attempt whose processes are heard.
#[derive(Debug)]
pub(crate) struct Entry {
    attempts: Arc<Attempts>,
    of: (TaskId, u32),
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.attempts).remove(&self.of);
    }
}

/// Says that a waiter has gone, whatever ends its conversation.
struct Waiter {
    number: u64,
    say: mpsc::UnboundedSender<AttemptMessage>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.say.send(AttemptMessage::Gone { waiter: self.number });
    }
}

async fn converse(stream: UnixStream, attempts: &Attempts) -> io::Result<()> {
    static WAITERS: AtomicU64 = AtomicU64::new(0);
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(LINE_BYTES_MAX)).lines();
    let Some(line) = lines.next_line().await? else { return Ok(()) };
    let Some((of, on)) = wait_in(&line) else {
        return answer(&mut write, &ControlReply::Refused("the worker does not understand it".to_owned()))
            .await;
    };
    let Some(say) = lock(attempts).get(&of).cloned() else {
        let why = "the worker does not run this attempt".to_owned();
        return answer(&mut write, &ControlReply::Refused(why)).await;
    };
    let waiter = Waiter { number: WAITERS.fetch_add(1, Ordering::Relaxed), say };
    let (tell, mut told) = mpsc::unbounded_channel();
    let _ = waiter.say.send(AttemptMessage::Wait { waiter: waiter.number, on, answer: tell });
    loop {
        tokio::select! {
            line = lines.next_line() => match line?.map(|line| serde_json::from_str(&line)) {
                Some(Ok(ControlRequest::GoOn)) => drop(waiter.say.send(AttemptMessage::GoOn { waiter: waiter.number })),
                _ => return Ok(()),
            },
            told = told.recv() => match told {
                Some(told) => answer(&mut write, &told).await?,
                None => return Ok(()),
            },
        }
    }
}

/// Whose wait a line asks for, and the tasks.
fn wait_in(line: &str) -> Option<((TaskId, u32), Vec<TaskId>)> {
    let Ok(ControlRequest::Wait { task, attempt, on }) = serde_json::from_str(line) else { return None };
    let on = on.iter().take(TASKS_MAX).map(|id| id.parse().ok()).collect::<Option<_>>()?;
    Some(((task.parse().ok()?, attempt), on))
}

async fn answer(write: &mut (impl AsyncWriteExt + Unpin), answer: &ControlReply) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    write.write_all(line.as_bytes()).await
}

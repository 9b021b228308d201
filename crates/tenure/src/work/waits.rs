//! The waits of one attempt: while a process of its command waits for other tasks, the attempt is suspended, and its
//! slot runs others.
//!
//! Several processes may wait at once. The attempt then waits for all their tasks together. A process whose own tasks
//! have ended says so; the attempt takes its slot back, the process goes on, and the attempt waits again for the others.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use tenure_client::{Error, TaskId, WaitEnd};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::control::{AttemptMessage, ControlReply};

/// How many tasks an attempt can wait for at once.
const ON_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Waits {
    said: mpsc::UnboundedReceiver<AttemptMessage>,
    waiters: BTreeMap<u64, Waiter>,
    /// Tasks that have ended.
    ended: HashSet<TaskId>,
    /// The attempt may have no slot.
    is_suspended: bool,
}

#[derive(Debug)]
struct Waiter {
    on: Vec<TaskId>,
    goes_on: bool,
    answer: mpsc::UnboundedSender<ControlReply>,
}

/// How long an attempt has been suspended: that is not run time.
#[derive(Debug, Default)]
pub(crate) struct SuspendedTime {
    inner: std::sync::Mutex<(Duration, Option<Instant>)>,
}

impl SuspendedTime {
    fn begin(&self, now: Instant) {
        self.lock().1.get_or_insert(now);
    }

    fn end(&self, now: Instant) {
        let mut inner = self.lock();
        if let Some(since) = inner.1.take() {
            inner.0 += now.saturating_duration_since(since);
        }
    }

    pub(crate) fn so_far(&self, now: Instant) -> Duration {
        let inner = self.lock();
        inner.0 + inner.1.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    pub(crate) fn is_now(&self) -> bool {
        self.lock().1.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Duration, Option<Instant>)> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Waits {
    pub(crate) fn new(said: mpsc::UnboundedReceiver<AttemptMessage>) -> Waits {
        Waits { said, waiters: BTreeMap::new(), ended: HashSet::new(), is_suspended: false }
    }

    /// Does what the processes ask for. While the attempt is `stopped`, it waits for a client instead, and for other tasks
    /// again when a client has resumed it.
    pub(crate) async fn serve<W: Future<Output = Result<Vec<WaitEnd>, Error>>>(
        mut self,
        mut stopped: watch::Receiver<bool>,
        suspended: &SuspendedTime,
        wait_for: impl Fn(&[TaskId]) -> W,
    ) -> Infallible {
        loop {
            until(&mut stopped, false).await;
            let Some(on) = self.next_wait() else {
                self.is_suspended = false;
                suspended.end(Instant::now());
                self.receive().await;
                continue;
            };
            self.is_suspended = true;
            suspended.begin(Instant::now());
            let mut waiting = pin!(wait_for(&on));
            loop {
                tokio::select! {
                    biased;
                    // The wait for the client has replaced this one.
                    () = until(&mut stopped, true) => {
                        suspended.end(Instant::now());
                        break;
                    }
                    ended = &mut waiting => {
                        suspended.end(Instant::now());
                        self.resolved(&on, ended).await;
                        break;
                    }
                    () = self.receive() => if self.next_wait().as_ref() != Some(&on) {
                        break;
                    },
                }
            }
        }
    }

    /// The next wait of the attempt: nothing at all, so that it has its slot again, or these tasks. `None`: it
    /// should run.
    fn next_wait(&self) -> Option<Vec<TaskId>> {
        if self.waiters.values().any(|waiter| waiter.goes_on) {
            return self.is_suspended.then(Vec::new);
        }
        let all = self.waiters.values().flat_map(|waiter| &waiter.on);
        let open: BTreeSet<TaskId> = all.filter(|task| !self.ended.contains(task)).copied().collect();
        (!open.is_empty()).then(|| open.into_iter().take(ON_MAX).collect())
    }

    async fn receive(&mut self) {
        match self.said.recv().await {
            Some(AttemptMessage::Wait { waiter, on, answer }) => {
                self.waiters.insert(waiter, Waiter { on, goes_on: false, answer });
            }
            Some(AttemptMessage::GoOn { waiter }) => {
                if let Some(waiter) = self.waiters.get_mut(&waiter) {
                    waiter.goes_on = true;
                }
                if !self.is_suspended {
                    self.release();
                }
            }
            Some(AttemptMessage::Gone { waiter }) => drop(self.waiters.remove(&waiter)),
            None => std::future::pending().await,
        }
    }

    async fn resolved(&mut self, on: &[TaskId], ended: Result<Vec<WaitEnd>, Error>) {
        match ended {
            Ok(_) => self.ended.extend(on),
            // The command ends.
            Err(Error::Interrupted { .. }) => std::future::pending().await,
            // Without the last one, the broker accepted it.
            Err(error) if !on.is_empty() => {
                if let Some((_, waiter)) = self.waiters.pop_last() {
                    let _ = waiter.answer.send(ControlReply::Refused(error.to_string()));
                }
            }
            Err(_) => {}
        }
        self.is_suspended = false;
        self.release();
    }

    /// The attempt has its slot: those that want to go on do.
    fn release(&mut self) {
        self.waiters.retain(|_, waiter| {
            if waiter.goes_on {
                let _ = waiter.answer.send(ControlReply::Continued);
            }
            !waiter.goes_on
        });
    }
}

async fn until(stopped: &mut watch::Receiver<bool>, wanted: bool) {
    if stopped.wait_for(|is_stopped| *is_stopped == wanted).await.is_err() {
        // The command has ended.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex as Lock;

    use tokio::sync::oneshot;

    use super::*;

    type Ending = oneshot::Sender<Result<Vec<WaitEnd>, Error>>;
    type Sent = Arc<Lock<Vec<(Vec<TaskId>, Option<Ending>)>>>;

    /// An attempt whose waits a test ends.
    struct Attempt {
        say: mpsc::UnboundedSender<AttemptMessage>,
        waits: Sent,
        stop: watch::Sender<bool>,
    }

    impl Attempt {
        fn begin() -> Attempt {
            let (say, said) = mpsc::unbounded_channel();
            let waits = Sent::default();
            let shared = Arc::clone(&waits);
            let (stop, stopped) = watch::channel(false);
            tokio::spawn(async move {
                let wait_for = |on: &[TaskId]| {
                    let (end, ended) = oneshot::channel();
                    shared.lock().unwrap().push((on.to_vec(), Some(end)));
                    async move { ended.await.expect("the test ends it") }
                };
                let suspended = SuspendedTime::default();
                Waits::new(said).serve(stopped, &suspended, wait_for).await
            });
            Attempt { say, waits, stop }
        }

        fn wait(&self, waiter: u64, on: &[u8]) -> mpsc::UnboundedReceiver<ControlReply> {
            let (answer, answers) = mpsc::unbounded_channel();
            let on = on.iter().map(|task| TaskId([*task; 16])).collect();
            self.say.send(AttemptMessage::Wait { waiter, on, answer }).unwrap();
            answers
        }

        fn go_on(&self, waiter: u64) {
            self.say.send(AttemptMessage::GoOn { waiter }).unwrap();
        }

        /// The wait of the attempt, after it has received all messages.
        async fn waits_for(&self) -> Option<Vec<u8>> {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let waits = self.waits.lock().unwrap();
            let open = waits.last().filter(|(_, end)| end.as_ref().is_some_and(|end| !end.is_closed()));
            open.map(|(on, _)| on.iter().map(|task| task.0[0]).collect())
        }

        fn end(&self, ended: Result<Vec<WaitEnd>, Error>) {
            let end = self.waits.lock().unwrap().last_mut().and_then(|(_, end)| end.take());
            drop(end.expect("it waits").send(ended));
        }
    }

    #[tokio::test]
    async fn a_process_goes_on_when_its_attempt_has_a_slot_again() {
        let attempt = Attempt::begin();
        let mut answers = attempt.wait(1, &[7]);
        assert_eq!(attempt.waits_for().await, Some(vec![7]));
        // The process may learn of the end before the attempt has its slot.
        attempt.go_on(1);
        assert_eq!(attempt.waits_for().await, Some(vec![]));
        assert!(answers.try_recv().is_err());
        attempt.end(Ok(Vec::new()));
        assert_eq!(answers.recv().await, Some(ControlReply::Continued));
        assert_eq!(attempt.waits_for().await, None);
    }

    #[tokio::test]
    async fn processes_that_wait_at_once_go_on_one_by_one() {
        let attempt = Attempt::begin();
        let (mut one, mut other) = (attempt.wait(1, &[7]), attempt.wait(2, &[8, 9]));
        assert_eq!(attempt.waits_for().await, Some(vec![7, 8, 9]));
        attempt.go_on(1);
        assert_eq!(attempt.waits_for().await, Some(vec![]));
        attempt.end(Ok(Vec::new()));
        assert_eq!(one.recv().await, Some(ControlReply::Continued));
        assert_eq!(attempt.waits_for().await, Some(vec![8, 9]));
        attempt.end(Ok(Vec::new()));
        assert_eq!(attempt.waits_for().await, None);
        assert!(other.try_recv().is_err());
        attempt.go_on(2);
        assert_eq!(other.recv().await, Some(ControlReply::Continued));
    }

    #[tokio::test]
    async fn a_process_that_ends_no_longer_waits() {
        let attempt = Attempt::begin();
        let _answers = attempt.wait(1, &[7]);
        assert_eq!(attempt.waits_for().await, Some(vec![7]));
        attempt.say.send(AttemptMessage::Gone { waiter: 1 }).unwrap();
        assert_eq!(attempt.waits_for().await, None);
    }

    #[tokio::test]
    async fn a_wait_that_the_broker_refuses_keeps_the_slot_and_does_not_stop_the_others() {
        let attempt = Attempt::begin();
        let (mut one, mut other) = (attempt.wait(1, &[7]), attempt.wait(2, &[8]));
        assert_eq!(attempt.waits_for().await, Some(vec![7, 8]));
        attempt.end(Err(Error::Closed));
        assert!(matches!(other.recv().await, Some(ControlReply::Refused(_))));
        assert_eq!(attempt.waits_for().await, Some(vec![7]));
        assert!(one.try_recv().is_err());
    }

    #[tokio::test]
    async fn an_attempt_that_is_stopped_waits_again_when_it_is_resumed() {
        let attempt = Attempt::begin();
        let mut answers = attempt.wait(1, &[7]);
        assert_eq!(attempt.waits_for().await, Some(vec![7]));
        attempt.stop.send(true).unwrap();
        assert_eq!(attempt.waits_for().await, None, "it waits for a client");
        attempt.stop.send(false).unwrap();
        assert_eq!(attempt.waits_for().await, Some(vec![7]));
        // The process may have wanted to go on before it was stopped.
        attempt.stop.send(true).unwrap();
        attempt.go_on(1);
        assert_eq!(attempt.waits_for().await, None);
        attempt.stop.send(false).unwrap();
        assert_eq!(attempt.waits_for().await, Some(vec![]));
        attempt.end(Ok(Vec::new()));
        assert_eq!(answers.recv().await, Some(ControlReply::Continued));
    }

    #[test]
    fn time_suspended_is_counted_once() {
        let suspended = SuspendedTime::default();
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        suspended.begin(begun);
        suspended.begin(after(5));
        assert_eq!((suspended.so_far(after(7)), suspended.is_now()), (Duration::from_secs(7), true));
        suspended.end(after(10));
        suspended.end(after(20));
        suspended.begin(after(60));
        suspended.end(after(61));
        assert_eq!((suspended.so_far(after(90)), suspended.is_now()), (Duration::from_secs(11), false));
    }

    #[tokio::test]
    async fn many_tasks_are_waited_for_in_parts() {
        let attempt = Attempt::begin();
        let (answer, _answers) = mpsc::unbounded_channel();
        let on = (0..1_500_u128).map(|number| TaskId(number.to_be_bytes())).collect();
        attempt.say.send(AttemptMessage::Wait { waiter: 1, on, answer }).unwrap();
        assert_eq!(attempt.waits_for().await.map(|on| on.len()), Some(1_000));
        attempt.end(Ok(Vec::new()));
        assert_eq!(attempt.waits_for().await.map(|on| on.len()), Some(500));
    }
}

//! Tells the group once a second that this member is alive, and hears what is asked of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_journal_postgres::{
    HeartbeatReply, LiveMember, MemberHeartbeat, MemberInfo, MemberSession, PostgresJournal,
};
use tokio::sync::Notify;

const INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Membership {
    shared: Arc<State>,
}

#[derive(Default)]
struct State {
    doors: Mutex<String>,
    position: AtomicU64,
    is_leading: AtomicBool,
    is_over: AtomicBool,
    step_down: Notify,
    last_reply: Mutex<Option<HeartbeatReply>>,
}

impl Membership {
    pub(super) fn start(journal: PostgresJournal, info: MemberInfo, session: MemberSession) -> Membership {
        let shared = Arc::new(State::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("tenure-member".to_owned());
        let started = thread.spawn(move || of_thread.run(&journal, &info, session));
        if let Err(error) = started {
            tracing::error!(%error, "cannot start the thread that sends this member's heartbeats");
        }
        Membership { shared }
    }

    pub(super) fn copied_up_to(&self, position: u64) {
        self.shared.position.store(position, Ordering::Release);
    }

    pub(super) fn set_doors(&self, doors: &str) {
        doors.clone_into(&mut self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn leads(&self) {
        self.shared.is_leading.store(true, Ordering::Release);
    }

    pub(super) fn stands_by(&self) {
        self.shared.is_leading.store(false, Ordering::Release);
    }

    /// The members whose heartbeats arrived lately.
    pub(super) fn members(&self) -> Vec<LiveMember> {
        self.last_reply().map(|reply| reply.members).unwrap_or_default()
    }

    /// The last reply of the group.
    pub(super) fn last_reply(&self) -> Option<HeartbeatReply> {
        self.shared.last_reply.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn asked_to_step_down(&self) {
        self.shared.step_down.notified().await;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
    }
}

impl State {
    fn run(&self, journal: &PostgresJournal, info: &MemberInfo, session: MemberSession) {
        let mut session = Some(session);
        while !self.is_over.load(Ordering::Acquire) {
            if session.is_none() {
                session = journal.join(info.clone()).ok().flatten();
            }
            if let Some(joined) = &mut session {
                match joined.beat(&self.beat(journal)) {
                    Ok(reply) => {
                        if reply.is_asked_to_step_down && self.is_leading.load(Ordering::Acquire) {
                            self.step_down.notify_waiters();
                        }
                        *self.last_reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot send this member's heartbeat to the group");
                        session = None;
                    }
                }
            }
            std::thread::sleep(INTERVAL);
        }
    }

    fn beat(&self, journal: &PostgresJournal) -> MemberHeartbeat {
        MemberHeartbeat {
            doors: self.doors.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            is_leading: self.is_leading.load(Ordering::Acquire),
            position: self.position.load(Ordering::Acquire),
            latency: journal.append_latency(),
        }
    }
}

//! Limits the memory that one connection can make the broker hold: incomplete messages, and replies that the peer does
//! not read. A connection that needs more waits, and delays only itself. What the replies of all connections hold counts
//! against the byte budget of the doors.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use tenure_door_kit::{ByteBudget, Charge, DoorSettings, LoginDeadline};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Extensions, Response, Status};

/// How many calls of one connection are read at the same time. The others wait for their turn.
pub(crate) const READ_AT_ONCE_MAX: usize = 4;
/// How many bytes of replies may be unsent on one connection.
pub(crate) const UNREAD_BYTES_MAX: u32 = 64 << 20;
/// Room for a reply that lists something, which is reserved before the hub is asked.
const LIST_BYTES: u32 = 8 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Where the connection comes from.
    pub(crate) address: Option<IpAddr>,
    /// The time for its first admitted call.
    pub(crate) login: LoginDeadline,
    turns: Arc<Semaphore>,
    unread: Arc<Semaphore>,
    budget: Arc<ByteBudget>,
    account: Arc<Mutex<Account>>,
}

/// What all replies of a connection hold of the byte budget.
#[derive(Debug)]
struct Account {
    charge: Charge,
    held: usize,
}

/// Held while the message of a call arrives.
#[derive(Clone, Debug)]
pub(crate) struct FlowTurn(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

/// Held while an answer is on its way.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "its fields are held")]
pub(crate) struct FlowPermit {
    room: Option<Arc<OwnedSemaphorePermit>>,
    share: Option<Arc<Share>>,
}

/// The bytes of one reply in the account of its connection.
#[derive(Debug)]
struct Share {
    account: Arc<Mutex<Account>>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut account = locked(&self.account);
        account.held -= self.bytes;
        let held = account.held;
        account.charge.set(held).expect("less always fits");
    }
}

fn locked(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    // A panic elsewhere leaves two numbers, which are set together.
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow {
    pub(crate) fn new(address: Option<IpAddr>, login: LoginDeadline, settings: &DoorSettings) -> Flow {
        let budget = &settings.budget;
        Flow {
            address,
            login,
            turns: Arc::new(Semaphore::new(READ_AT_ONCE_MAX)),
            unread: Arc::new(Semaphore::new(UNREAD_BYTES_MAX as usize)),
            budget: Arc::clone(budget),
            account: Arc::new(Mutex::new(Account { charge: budget.charge(), held: 0 })),
        }
    }

    /// The flow of the connection through which a call came.
    pub(crate) fn of(call: &Extensions) -> Option<Flow> {
        call.get::<Flow>().cloned()
    }

    pub(crate) async fn turn(&self) -> FlowTurn {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        FlowTurn(Arc::new(turn.expect("it is never closed")))
    }

    /// Room for a reply of this many bytes, if it is available at once.
    pub(crate) fn room_now(&self, bytes: u32) -> Option<FlowPermit> {
        let room = Arc::clone(&self.unread).try_acquire_many_owned(bytes.min(UNREAD_BYTES_MAX));
        room.ok().map(|room| FlowPermit { room: Some(Arc::new(room)), share: None })
    }

    /// Waits for room. A reply that is larger than all the room goes alone.
    pub(crate) async fn room(&self, bytes: u32) -> FlowPermit {
        let room = Arc::clone(&self.unread).acquire_many_owned(bytes.min(UNREAD_BYTES_MAX)).await;
        FlowPermit { room: Some(Arc::new(room.expect("it is never closed"))), share: None }
    }

    /// Waits for room for a reply that lists something. It comes before the question, so that no answer waits for it.
    /// When memory is short, a connection that leaves replies unread need not ask.
    pub(crate) async fn list_room(&self) -> Result<FlowPermit, Status> {
        let room = self.room(LIST_BYTES).await;
        if self.budget.is_short() && locked(&self.account).held > 0 {
            return Err(no_memory());
        }
        Ok(room)
    }

    /// Counts a reply of this many bytes against the byte budget. The message and its encoding exist at the same time.
    pub(crate) fn charge(&self, room: FlowPermit, bytes: usize) -> Result<FlowPermit, Status> {
        let bytes = 2 * bytes;
        let mut account = locked(&self.account);
        let held = account.held + bytes;
        account.charge.set(held).map_err(|exhausted| {
            tracing::warn!(door = "grpc", %exhausted, "reply refused: the connection buffers are full");
            no_memory()
        })?;
        account.held = held;
        let share = Share { account: Arc::clone(&self.account), bytes };
        Ok(FlowPermit { share: Some(Arc::new(share)), ..room })
    }

    /// A reply that keeps its room until it is sent.
    pub(crate) fn reply<T: Message>(&self, room: FlowPermit, answer: T) -> Result<Response<T>, Status> {
        let permit = self.charge(room, answer.encoded_len())?;
        Ok(permit.attach(answer))
    }
}

impl FlowPermit {
    /// Without room of the connection: a stream has one message at a time.
    pub(crate) const NONE: FlowPermit = FlowPermit { room: None, share: None };

    /// A reply that holds this.
    pub(crate) fn attach<T>(self, answer: T) -> Response<T> {
        let mut response = Response::new(answer);
        response.extensions_mut().insert(self);
        response
    }
}

/// All connections together hold as much as they may.
pub(crate) fn no_memory() -> Status {
    Status::resource_exhausted("the broker has no memory for a message of this size now: try again later")
}

//! The native door of a standby, for peers whose hello asks for this member itself: they may take a backup of its copy of
//! the journal. Everything else is done by the leader.

use std::future::{Future, pending};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_door_kit::forward::StandbyDoor;
use tenure_door_kit::{
    Authenticator, DoorSettings, DoorStream, DoorWriter, LoginError, Tls, read_secret_into,
};
use tenure_hub::words::{Name, Refusal as EngineRefusal};
use tenure_hub::{
    BackupFailure, BackupWritten, ClockReading, HubRefusal, Needs, Principal, Right, StandbyBackup,
};
use tenure_wire::envelope::NO_NUMBER;
use tenure_wire::frame::LENGTH_BYTES;
use tenure_wire::hello::{Hello, MEMBER_PROTOCOL, Welcome};
use tenure_wire::reply::{BackedUp, Pong};
use tenure_wire::request::Backup;
use tenure_wire::{Code, Refusal, Reply, Request, ToBroker, VERSION};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::codec::{decode_to_broker, encode_reply, split_frames};
use crate::frames::UNAUTHENTICATED_FRAME_BYTES_MAX;
use crate::session::group::{leader_address, member_addresses};
use crate::session::hello::{bad_version, not_admitted, peer_limits};
use crate::session::machine::machine;
use crate::settings::Settings;
use crate::translate;

/// How many peers are answered at once. Others wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a peer may stay without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Answers for a member that stands by.
#[derive(Debug)]
pub struct NativeStandby {
    door: &'static str,
    settings: DoorSettings,
    authenticator: Authenticator,
    backups: mpsc::Sender<StandbyBackup>,
    places: Semaphore,
}

/// One peer that is answered.
struct Conversation<'a> {
    standby: &'a NativeStandby,
    address: Option<IpAddr>,
    peer: Option<KnownPeer>,
    out: BytesMut,
    backup: Option<UnderWay>,
    is_over: bool,
    /// How long the reply to a wrong key is delayed.
    hold: Duration,
}

struct KnownPeer {
    principal: Principal,
    identity: Name,
}

/// A backup that the standby writes.
struct UnderWay {
    /// The number of the request.
    number: u64,
    name: String,
    reply: oneshot::Receiver<Result<BackupWritten, BackupFailure>>,
}

impl StandbyDoor for NativeStandby {
    fn first_bytes_max(&self) -> usize {
        LENGTH_BYTES + UNAUTHENTICATED_FRAME_BYTES_MAX
    }

    fn answers(&self, first: &[u8]) -> Option<bool> {
        if self.settings.tls.is_some() {
            return Tls::is_offered(first, MEMBER_PROTOCOL);
        }
        let (length, rest) = first.split_first_chunk::<LENGTH_BYTES>()?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > UNAUTHENTICATED_FRAME_BYTES_MAX {
            return Some(false);
        }
        let frame = Bytes::copy_from_slice(rest.get(..length)?);
        let request = decode_to_broker(&frame).map(|message| message.request);
        Some(matches!(request, Ok(Request::Hello(hello)) if hello.member))
    }

    fn answer(&self, stream: DoorStream) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Ok(_place) = self.places.acquire().await else { return };
            if let Err(error) = self.converse(stream).await {
                tracing::debug!(door = self.door, %error, "a connection of a standby broke");
            }
        })
    }
}

impl NativeStandby {
    /// The door of a standby. Each backup goes to `backups`.
    pub fn new(
        door: &'static str,
        settings: DoorSettings,
        authenticator: Authenticator,
        backups: mpsc::Sender<StandbyBackup>,
    ) -> NativeStandby {
        let places = Semaphore::new(CONNECTIONS_MAX);
        NativeStandby { door, settings, authenticator, backups, places }
    }

    async fn converse(&self, stream: DoorStream) -> io::Result<()> {
        let login_by = Instant::now() + self.settings.login_within;
        let mut address = None;
        let stream = match (stream, &self.settings.tls) {
            (DoorStream::Tcp(tcp), tls) => {
                address = Some(tcp.peer_addr()?.ip());
                match tls {
                    None => DoorStream::Tcp(tcp),
                    Some(tls) => {
                        let secured = timeout_at(login_by, tls.acceptor().accept(tcp)).await??;
                        DoorStream::Tls(Box::new(secured))
                    }
                }
            }
            (other, _) => other,
        };
        let (mut read, mut write) = stream.into_split();
        let mut arrived = BytesMut::new();
        let mut conversation = Conversation {
            standby: self,
            address,
            peer: None,
            out: BytesMut::new(),
            backup: None,
            is_over: false,
            hold: Duration::ZERO,
        };
        while !conversation.is_over {
            let leaves_at = if conversation.peer.is_some() { Instant::now() + IDLE_MAX } else { login_by };
            let is_idle = conversation.backup.is_none();
            tokio::select! {
                count = read_secret_into(&mut read, &mut arrived, UNAUTHENTICATED_FRAME_BYTES_MAX) => {
                    if count? == 0 {
                        return Ok(());
                    }
                    conversation.receive(&mut arrived).await;
                }
                written = reply_of(&mut conversation.backup) => conversation.has_written(written),
                () = tokio::time::sleep_until(leaves_at), if is_idle => return Ok(()),
            }
            tokio::time::sleep(conversation.hold).await;
            self.send(&mut write, &mut conversation.out).await?;
        }
        write.shutdown().await
    }

    async fn send(&self, write: &mut DoorWriter, out: &mut BytesMut) -> io::Result<()> {
        timeout(self.settings.read_within, write.write_all(out)).await??;
        write.flush().await?;
        out.clear();
        Ok(())
    }

    fn welcome(&self, identity: Name, namespace: Name) -> Welcome {
        let group = self.settings.group.as_ref();
        Welcome {
            version: VERSION,
            identity,
            namespace,
            session: 0,
            features: Vec::new(),
            limits: peer_limits(),
            now: translate::time(ClockReading::now().wall),
            software: Some(Settings::default().software),
            leader: group.and_then(leader_address),
            members: group.map(member_addresses).unwrap_or_default(),
            group: group.map(|group| group.group.as_str().into()),
            machine: machine(),
            local_address: None,
            remote_address: None,
        }
    }

    /// The answer to everything else: another member leads.
    fn not_leading(&self) -> Refusal {
        let group = self.settings.group.as_ref();
        let leader = group.and_then(|group| Some(group.view.borrow().leader.as_ref()?.name.clone()));
        let holder = leader.unwrap_or_else(|| "another member".to_owned()).into();
        let address = group.and_then(leader_address);
        Refusal { address, ..translate::refusal(&HubRefusal::Deposed { holder }) }
    }
}

async fn reply_of(backup: &mut Option<UnderWay>) -> Option<Result<BackupWritten, BackupFailure>> {
    match backup {
        Some(backup) => (&mut backup.reply).await.ok(),
        None => pending().await,
    }
}

impl Conversation<'_> {
    async fn receive(&mut self, arrived: &mut BytesMut) {
        let frames = match split_frames(arrived, UNAUTHENTICATED_FRAME_BYTES_MAX) {
            Ok(frames) => frames,
            Err(error) => return self.end(NO_NUMBER, Refusal::new(Code::TooLong, error.to_string())),
        };
        for frame in frames {
            match decode_to_broker(&frame) {
                Ok(ToBroker { number, request }) => self.request(number, request).await,
                Err(error) => self.end(error.number, Refusal::new(Code::Malformed, error.to_string())),
            }
            if self.is_over {
                return;
            }
        }
    }

    async fn request(&mut self, number: u64, request: Request) {
        match request {
            Request::Hello(hello) if self.peer.is_none() => {
                if let Err(refusal) = self.hello(number, &hello) {
                    self.end(number, refusal);
                }
            }
            _ if self.peer.is_none() => {
                self.end(number, Refusal::new(Code::NotAllowed, "the first request must be hello"));
            }
            Request::Ping => {
                let now = translate::time(ClockReading::now().wall);
                encode_reply(&mut self.out, number, &Reply::Pong(Pong { now }));
            }
            Request::Backup(backup) => {
                if let Err(refusal) = self.back_up(number, backup).await {
                    self.refuse(number, refusal);
                }
            }
            _ => self.refuse(number, self.standby.not_leading()),
        }
    }

    fn hello(&mut self, number: u64, hello: &Hello) -> Result<(), Box<Refusal>> {
        if hello.version < VERSION {
            return Err(bad_version().into());
        }
        let key = hello.key.as_ref().map(|key| key.reveal().as_bytes());
        let login = self.standby.authenticator.login(ClockReading::now(), self.address, key);
        let principal = login.map_err(|no| {
            if let LoginError::WrongKey { wait, .. } = no {
                self.hold = wait;
            }
            Box::new(not_admitted(&no))
        })?;
        let namespace = principal.grant.namespace_for(hello.namespace.clone());
        let namespace = namespace.map_err(|no| Box::new(translate::refusal(&no)))?;
        let identity = hello.identity.clone().unwrap_or_else(|| "peer".into());
        let welcome = self.standby.welcome(identity.clone(), namespace);
        self.peer = Some(KnownPeer { principal, identity });
        encode_reply(&mut self.out, number, &Reply::Welcome(Box::new(welcome)));
        Ok(())
    }

    async fn back_up(&mut self, number: u64, backup: Backup) -> Result<(), Box<Refusal>> {
        let name = String::from(backup.directory);
        let rights = self.peer.as_ref().map(|peer| peer.principal.grant.rights).unwrap_or_default();
        if let Err(no) = rights.check(Needs::Right(Right::Backup)) {
            self.note(&name, Err((no.code(), no.to_string())));
            return Err(translate::refusal(&no).into());
        }
        if self.backup.is_some() {
            let why = "is under way on this connection already";
            let no = HubRefusal::from(EngineRefusal::BadValue { what: "backup", why });
            return Err(translate::refusal(&no).into());
        }
        let (sender, reply) = oneshot::channel();
        // While others wait as well, the peer waits here.
        let _ = self.standby.backups.send(StandbyBackup { name: name.clone().into(), reply: sender }).await;
        self.backup = Some(UnderWay { number, name, reply });
        Ok(())
    }

    fn has_written(&mut self, written: Option<Result<BackupWritten, BackupFailure>>) {
        let Some(UnderWay { number, name, .. }) = self.backup.take() else { return };
        match written {
            Some(Ok(BackupWritten { bytes, position })) => {
                self.note(&name, Ok(bytes));
                let member = self.standby.settings.group.as_ref().map(|group| group.name.as_str().into());
                encode_reply(&mut self.out, number, &Reply::BackedUp(BackedUp { bytes, position, member }));
            }
            Some(Err(failure @ BackupFailure::Name(_))) => {
                let no = HubRefusal::from(failure);
                self.note(&name, Err((no.code(), no.to_string())));
                self.refuse(number, translate::refusal(&no));
            }
            Some(Err(BackupFailure::JournalAway)) => {
                let why = "the replicated journal does not answer: no backup was written, try again later";
                self.note(&name, Err(("journal-away", why.to_owned())));
                self.refuse(number, Refusal::new(Code::JournalAway, why));
            }
            // This member takes over, and closes all connections.
            None => self.is_over = true,
        }
    }

    fn note(&self, directory: &str, outcome: Result<u64, (&'static str, String)>) {
        if let (Some(audit), Some(peer)) = (self.standby.authenticator.audit(), &self.peer) {
            audit.backed_up(&peer.principal, peer.identity.clone(), directory, outcome);
        }
    }

    fn refuse(&mut self, number: u64, refusal: impl Into<Box<Refusal>>) {
        encode_reply(&mut self.out, number, &Reply::Refused(refusal.into()));
    }

    fn end(&mut self, number: u64, refusal: impl Into<Box<Refusal>>) {
        self.refuse(number, refusal);
        self.is_over = true;
    }
}

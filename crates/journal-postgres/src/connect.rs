//! Finds the primary: asks all servers at once, with a limit on the whole handshake. A frozen server that is named
//! first must not keep the brokers away from its successor.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tenure_store::{PerStream, ReplicationError};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, Statement};

use crate::JournalContext;
use crate::address::{ServerAddress, ServerHost};
use crate::error::{DatabaseFault, described};
use crate::password::password_for;
use crate::segments::SegmentTable;
use crate::tls::{Handshake, RawStream, client_config, is_tls_mistake};

/// How long the whole handshake with one server may take.
const HANDSHAKE_MAX: Duration = Duration::from_millis(1_500);
/// How long to wait for another server's answer after a primary has been found: an old primary may be the faster one.
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// The oldest server that is supported.
const SERVER_VERSION_MIN: u32 = 140_000;

/// What this process has seen of the servers.
#[derive(Debug, Default)]
pub(crate) struct ServerHistory {
    /// The highest timeline. A promotion raises it.
    timeline: AtomicU64,
    has_connected: AtomicBool,
    is_warned: AtomicBool,
}

impl ServerHistory {
    /// Settings that have worked are right. A server that refuses them now is being stopped or replaced, or is another
    /// one: waiting helps, and ending every broker of the group does not.
    fn judge(&self, error: ReplicationError) -> ReplicationError {
        match error {
            ReplicationError::Misconfigured(why) if self.has_connected.load(Ordering::Acquire) => {
                if !self.is_warned.swap(true, Ordering::AcqRel) {
                    tracing::warn!(why, "a server refuses settings that have worked before; trying again");
                }
                ReplicationError::Away(why)
            }
            other => other,
        }
    }

    fn connected(&self) {
        self.has_connected.store(true, Ordering::Release);
        self.is_warned.store(false, Ordering::Release);
    }
}

/// A session with a primary.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) server: String,
    statements: RefCell<HashMap<String, Statement>>,
    warning: Rc<RefCell<Option<String>>>,
    /// The newest segments, as far as this session knows.
    pub(crate) newest: RefCell<PerStream<Option<SegmentTable>>>,
    /// This session holds the group's lock.
    pub(crate) is_locked: Cell<bool>,
}

impl Connected {
    /// A prepared statement.
    pub(crate) async fn statement(&self, sql: &str) -> Result<Statement, DatabaseFault> {
        let known = self.statements.borrow().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Forgets the statements of tables that are gone.
    pub(crate) fn forget_statements(&self) {
        self.statements.borrow_mut().clear();
    }

    /// A warning that came since the last look. The session asks for nothing weaker than warnings.
    pub(crate) fn take_warning(&self) -> Option<String> {
        self.warning.borrow_mut().take()
    }
}

struct Found {
    connected: Connected,
    timeline: u64,
}

/// Connects to the primary. Must run inside the session's runtime.
pub(crate) async fn connect(shared: &JournalContext) -> Result<Connected, ReplicationError> {
    let mut tries: FuturesUnordered<_> =
        shared.settings.address.hosts.iter().map(|server| connect_within_limit(shared, server)).collect();
    let mut best: Option<Found> = None;
    let mut failed: Vec<(String, ReplicationError)> = Vec::new();
    loop {
        let next = match &best {
            None => tries.next().await,
            Some(_) => tokio::time::timeout(SECOND_LOOK, tries.next()).await.unwrap_or(None),
        };
        match next {
            Some((_, Ok(found))) => {
                if best.as_ref().is_none_or(|best| best.timeline < found.timeline) {
                    best = Some(found);
                }
            }
            Some((server, Err(error))) => failed.push((server, error)),
            None => break,
        }
    }
    let Some(found) = best else { return Err(shared.servers.judge(summary(&failed))) };
    let known = shared.servers.timeline.fetch_max(found.timeline, Ordering::AcqRel);
    if found.timeline < known {
        return Err(ReplicationError::Away(format!(
            "{} is a primary of timeline {}, but timeline {known} has begun: it was replaced",
            found.connected.server, found.timeline
        )));
    }
    shared.servers.connected();
    Ok(found.connected)
}

/// A wrong password is named even if another server is away.
fn summary(failed: &[(String, ReplicationError)]) -> ReplicationError {
    let misconfigured = failed.iter().find_map(|(server, error)| match error {
        ReplicationError::Misconfigured(why) => Some(format!("{server}: {why}")),
        _ => None,
    });
    if let Some(why) = misconfigured {
        return ReplicationError::Misconfigured(why);
    }
    let why: Vec<String> = failed
        .iter()
        .map(|(server, error)| match error {
            ReplicationError::Away(why) => format!("{server}: {why}"),
            other => format!("{server}: {other}"),
        })
        .collect();
    ReplicationError::Away(format!("no primary answers ({})", why.join("; ")))
}

async fn connect_within_limit(
    shared: &JournalContext,
    server: &ServerAddress,
) -> (String, Result<Found, ReplicationError>) {
    let connecting = connect_to(shared, server);
    let result = match tokio::time::timeout(HANDSHAKE_MAX, connecting).await {
        Ok(result) => result,
        Err(_) => Err(ReplicationError::Away(format!("no answer within {HANDSHAKE_MAX:?}"))),
    };
    (server.to_string(), result)
}

async fn connect_to(shared: &JournalContext, server: &ServerAddress) -> Result<Found, ReplicationError> {
    let settings = &shared.settings;
    let address = &settings.address;
    let mut config = Config::new();
    let member = if settings.member.is_empty() { "cli" } else { &settings.member };
    config.user(&address.user).dbname(&address.database);
    config.application_name(format!("tenure {}/{member}", settings.group));
    if let Some(password) = password_for(address, server).map_err(ReplicationError::Misconfigured)? {
        config.password(password.as_bytes());
    }
    let tls = client_config(address).map_err(ReplicationError::Misconfigured)?;
    let stream = open(server).await.map_err(|error| ReplicationError::Away(error.to_string()))?;
    let warning = Rc::new(RefCell::new(None));
    let client = match (tls, &server.host) {
        (Some(tls), ServerHost::Tcp(host)) => {
            config.ssl_mode(SslMode::Require);
            let handshake = Handshake { config: tls, host: host.clone() };
            let (client, connection) =
                config.connect_raw(stream, handshake).await.map_err(|error| explain(&error))?;
            listen(connection, &warning);
            client
        }
        _ => {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) =
                config.connect_raw(stream, NoTls).await.map_err(|error| explain(&error))?;
            listen(connection, &warning);
            client
        }
    };
    let found = set_up(&client, settings.lease).await;
    let (is_standby, timeline) = found.map_err(DatabaseFault::of_query)?;
    if is_standby {
        return Err(ReplicationError::Away("a standby, not the primary".to_owned()));
    }
    let connected = Connected {
        client,
        server: server.to_string(),
        statements: RefCell::default(),
        warning,
        newest: RefCell::default(),
        is_locked: Cell::new(false),
    };
    Ok(Found { connected, timeline })
}

async fn open(server: &ServerAddress) -> std::io::Result<RawStream> {
    match &server.host {
        ServerHost::Tcp(host) => {
            let stream = TcpStream::connect((host.as_str(), server.port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        ServerHost::Unix(directory) => {
            let socket = directory.join(format!(".s.PGSQL.{}", server.port));
            Ok(Box::new(UnixStream::connect(socket).await?))
        }
    }
}

/// Runs the connection. A warning is noted before the answer that follows it is given to its statement.
fn listen<T>(mut connection: Connection<RawStream, T>, warning: &Rc<RefCell<Option<String>>>)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let warning = Rc::clone(warning);
    tokio::task::spawn_local(async move {
        while let Some(Ok(message)) = futures::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                *warning.borrow_mut() = Some(notice.to_string());
            }
        }
    });
}

/// Settings of the session, whatever the role, the database or the server has as its default. A statement timeout
/// would cancel the wait for a standby and still answer that the change is committed. A lock timeout never cancels
/// that wait: it ends a statement that has done nothing, so that sessions do not pile up behind one that waits.
async fn set_up(client: &Client, lease: Duration) -> Result<(bool, u64), DatabaseFault> {
    let lock_timeout = lease.as_millis();
    let sql = format!(
        "set statement_timeout = 0; set lock_timeout = {lock_timeout}; set synchronous_commit = on; \
         set client_min_messages = warning; set idle_in_transaction_session_timeout = 0; \
         set default_transaction_read_only = off; set default_transaction_isolation = 'read committed'; \
         set search_path = pg_catalog"
    );
    let row = first_row(
        client,
        "select pg_is_in_recovery(), current_setting('server_version_num'), current_setting('server_version')",
    )
    .await?;
    let is_standby = row.first().is_some_and(|text| text == "t");
    let version: u32 = row.get(1).and_then(|text| text.parse().ok()).unwrap_or_default();
    if version < SERVER_VERSION_MIN {
        let shown = row.get(2).map_or("unknown", String::as_str);
        let why = format!("the server is PostgreSQL {shown}: at least 14 is needed");
        return Err(ReplicationError::Misconfigured(why).into());
    }
    if is_standby {
        return Ok((true, 0));
    }
    client.batch_execute(&sql).await?;
    // Not every server has these.
    for setting in
        ["idle_session_timeout = 0", "transaction_timeout = 0", "client_connection_check_interval = '2s'"]
    {
        if let Err(error) = client.batch_execute(&format!("set {setting}")).await
            && error.as_db_error().is_none()
        {
            return Err(error.into());
        }
    }
    let timeline = match first_row(client, "select pg_walfile_name(pg_current_wal_insert_lsn())").await {
        Ok(row) => row.first().and_then(|name| u64::from_str_radix(name.get(..8)?, 16).ok()).unwrap_or(0),
        Err(DatabaseFault::Database(error)) if error.as_db_error().is_some() => 0,
        Err(other) => return Err(other),
    };
    Ok((false, timeline))
}

async fn first_row(client: &Client, sql: &str) -> Result<Vec<String>, DatabaseFault> {
    let messages = client.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(Vec::new()) };
    Ok((0..row.len()).map(|index| row.get(index).unwrap_or_default().to_owned()).collect())
}

/// What a failed handshake means.
fn explain(error: &tokio_postgres::Error) -> ReplicationError {
    let said = described(error);
    let code = error.as_db_error().map(|error| error.code().code().to_owned()).unwrap_or_default();
    match code.as_str() {
        "28P01" | "28000" => ReplicationError::Misconfigured(format!(
            "the database refuses this user or its password: {said}. Give the password with journal_password_file \
             or PGPASSFILE, and allow the user in pg_hba.conf"
        )),
        "3D000" => ReplicationError::Misconfigured(format!("{said}: create it with `createdb`")),
        _ if said.contains("invalid configuration") || said.contains("password missing") => {
            ReplicationError::Misconfigured(format!(
                "{said}: give the password with journal_password_file or PGPASSFILE"
            ))
        }
        _ if is_tls_mistake(error) => ReplicationError::Misconfigured(format!(
            "TLS with the database fails: {said}. Name its authority with ?sslrootcert=FILE, or turn TLS off with \
                 ?sslmode=disable"
        )),
        _ => ReplicationError::Away(said),
    }
}

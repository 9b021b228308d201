//! Joins a group: checks the database, makes the schema if asked to, and takes the member's name.

use std::time::{Duration, Instant};

use tenure_journal_postgres::{Checked, MemberInfo, MemberSession, PostgresJournal, PostgresSettings};
use tenure_store::ReplicationError;

use crate::config::cluster::ClusterSettings;
use crate::exit::{Failure, SYSTEM, USAGE};

/// How long the database may be away when a broker starts.
const DATABASE_WITHIN: Duration = Duration::from_secs(30);
/// How long it may be away when a person waits for an answer: a moment of a failover, and no longer.
const TOOL_WITHIN: Duration = Duration::from_secs(10);
/// How long the last process of this name may take to be gone.
const NAME_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Joined {
    pub(super) journal: PostgresJournal,
    pub(super) checked: Checked,
    pub(super) info: MemberInfo,
    pub(super) session: MemberSession,
}

pub(super) async fn join(cluster: &ClusterSettings, creates: bool, instance: u64) -> Result<Joined, Failure> {
    let journal = open(cluster)?;
    let info =
        MemberInfo { name: cluster.name.clone(), instance, version: env!("CARGO_PKG_VERSION").to_owned() };
    let (name, group) = (cluster.name.clone(), cluster.group.clone());
    let joining = tokio::task::spawn_blocking(move || {
        if creates {
            retry_while_away(DATABASE_WITHIN, || journal.create())?;
        }
        let checked = retry_while_away(DATABASE_WITHIN, || journal.check())?;
        let session = take_name(&journal, &info)?;
        Ok((journal, checked, info, session))
    });
    let joined: Result<_, ReplicationError> =
        joining.await.map_err(|error| Failure::internal(error.to_string()))?;
    let (journal, checked, info, session) = joined.map_err(|error| explain(&error))?;
    let session = session.ok_or_else(|| {
        Failure::new(
            SYSTEM,
            format!("another broker with the name {name} is alive in the group {group}: choose another with --name"),
        )
    })?;
    Ok(Joined { journal, checked, info, session })
}

/// The journal with the password of its file.
pub(crate) fn open(cluster: &ClusterSettings) -> Result<PostgresJournal, Failure> {
    Ok(PostgresJournal::new(PostgresSettings {
        address: cluster.address()?,
        group: cluster.group.clone(),
        member: cluster.name.clone(),
        lease: cluster.lease,
    }))
}

/// The same for a program that is no member.
pub(crate) fn open_as_tool(cluster: &ClusterSettings) -> Result<PostgresJournal, Failure> {
    open(&ClusterSettings { name: String::new(), ..cluster.clone() })
}

pub(crate) fn explain(error: &ReplicationError) -> Failure {
    match error {
        ReplicationError::Misconfigured(why) => Failure::new(USAGE, format!("journal: {why}")),
        other => Failure::system(format!("journal: {other}")),
    }
}

/// Refuses a database that acknowledges what only one disk has, unless the setting allows it. What is allowed is said at
/// every start.
pub(super) fn refuse_unreplicated(cluster: &ClusterSettings, checked: &Checked) -> Result<(), Failure> {
    if !checked.is_synchronous && !cluster.is_single {
        return Err(Failure::new(
            USAGE,
            "journal: the database has no synchronous standby: what is acknowledged would be lost with its disk. Set \
             synchronous_standby_names on the primary, such as 'ANY 1 (db2, db3)', or allow it with --journal-single on \
             (journal_single = \"on\"), for example if the storage of the database is replicated",
        ));
    }
    if !checked.is_synchronous {
        tracing::warn!(
            "journal_single: the database has no synchronous standby; what is acknowledged is as safe as its disk"
        );
    }
    if cluster.address.crosses_in_clear() {
        tracing::warn!(
            "bodies and results cross the network to the database in clear text: remove sslmode=disable"
        );
    }
    Ok(())
}

/// Tries again while the database is away, for at most this long.
pub(crate) fn retry_while_away<T>(
    within: Duration,
    work: impl Fn() -> Result<T, ReplicationError>,
) -> Result<T, ReplicationError> {
    let since = Instant::now();
    let mut is_logged = false;
    loop {
        match work() {
            Err(error) if error.is_passing() && since.elapsed() < within => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(%error, "waiting for the database");
                }
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

/// The same for a tool, with what to tell its user.
pub(crate) fn retry_as_tool<T>(work: impl Fn() -> Result<T, ReplicationError>) -> Result<T, Failure> {
    retry_while_away(TOOL_WITHIN, work).map_err(|error| explain(&error))
}

fn take_name(
    journal: &PostgresJournal,
    info: &MemberInfo,
) -> Result<Option<MemberSession>, ReplicationError> {
    let since = Instant::now();
    loop {
        match retry_while_away(DATABASE_WITHIN, || journal.join(info.clone()))? {
            None if since.elapsed() < NAME_WITHIN => std::thread::sleep(PAUSE),
            other => return Ok(other),
        }
    }
}

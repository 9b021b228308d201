//! The group's row: who leads, until when, and how far the journal is settled.

use std::time::Duration;

use crc32c::crc32c;
use tenure_store::{
    FileEntry, GroupState, LeaderClaim, Leadership, Member, PerStream, Place, ReplicationError, Stream,
    StreamState,
};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::connect::Connected;
use crate::error::DatabaseFault;
use crate::link::QUERY_MAX;
use crate::segments::{self, SegmentTable, place};
use crate::session::PostgresSession;

/// Everything about a group in one statement, so that it is of one moment.
const LOOK: &str = "\
    select g.epoch, g.holder, g.instance, g.doors, g.settled_tasks, g.settled_topics, g.settled_keys, \
      (extract(epoch from case \
        when g.chosen_until > clock_timestamp() \
          and (g.barred = $2 or (g.reserved_for is not null and g.reserved_for <> $2)) \
        then g.chosen_until else g.until end - clock_timestamp()) * 1000)::float8, \
      coalesce(g.locked_epoch = g.epoch and g.locked_in = pg_postmaster_start_time(), false), \
      s.streams, s.starts, s.chains, s.tables, f.names, f.sizes, f.crcs \
    from tenure.groups g, \
      lateral (select array_agg(stream order by start) as streams, array_agg(start order by start) as starts, \
        array_agg(chain order by start) as chains, array_agg(table_name order by start) as tables \
        from tenure.segments where group_name = g.name) s, \
      lateral (select array_agg(name order by name) as names, array_agg(bytes order by name) as sizes, \
        array_agg(crc order by name) as crcs from tenure.files where group_name = g.name) f \
    where g.name = $1";

/// The common part of every claim to lead.
const LEAD: &str = "\
    update tenure.groups set epoch = epoch + 1, holder = $2, instance = $3, doors = $4, \
      until = clock_timestamp() + $5::float8 * interval '1 millisecond', \
      locked_epoch = case when $6::bool then epoch + 1 end, \
      locked_in = case when $6::bool then pg_postmaster_start_time() end, \
      led_since = case when holder = $2 and instance = $3 then led_since else clock_timestamp() end, \
      led_why = case when holder = $2 and instance = $3 then led_why \
        when epoch = 0 then 'the group was new' when holder is null then 'the leader had left' \
        else $7::text end, ";

/// A new leader is what was wished for.
const WISH_FULFILLED: &str =
    "step_down_epoch = null, chosen_until = 'epoch', barred = null, reserved_for = null";

/// A leader on a new connection is still asked to step down.
const WISH_KEPT: &str = "step_down_epoch = case when step_down_epoch = epoch then epoch + 1 end";

/// How long the wish of a step-down holds once the leader has released its lease.
const CHOSEN_FOR: &str = "interval '10 seconds'";

/// After a step-down, for a moment, one member is preferred and one is barred.
const MAY_FOLLOW: &str = "\
    (chosen_until < clock_timestamp() or ((reserved_for is null or reserved_for = $2) \
      and (barred is null or barred <> $2)))";

/// The number of the advisory lock of a name.
pub(crate) fn lock_number(kind: &str, name: &str) -> i64 {
    const OURS: u64 = 0x7e57_0bde;
    let hash = crc32c(format!("{kind} {name}").as_bytes());
    (OURS << 32 | u64::from(hash)).cast_signed()
}

/// Fails if another epoch has begun.
pub(crate) async fn fenced(connected: &Connected, group: &str, epoch: i64) -> Result<(), DatabaseFault> {
    let statement = connected.statement("select epoch, holder from tenure.groups where name = $1").await?;
    let row = connected.client.query_opt(&statement, &[&group]).await?;
    let row = row.ok_or_else(|| missing(group))?;
    let current: i64 = row.get(0);
    if current == epoch {
        return Ok(());
    }
    let holder = row.get::<_, Option<String>>(1).unwrap_or_default();
    Err(ReplicationError::Fenced { holder, epoch: current.cast_unsigned() }.into())
}

/// The newest table that a leader knows may be gone: a later leader has begun another one and dropped it.
pub(crate) async fn fenced_if_gone(
    connected: &Connected,
    group: &str,
    epoch: i64,
    fault: DatabaseFault,
) -> DatabaseFault {
    if fault.code() != Some(&SqlState::UNDEFINED_TABLE) {
        return fault;
    }
    fenced(connected, group, epoch).await.err().unwrap_or(fault)
}

pub(crate) fn missing(group: &str) -> ReplicationError {
    ReplicationError::Misconfigured(format!(
        "the database has no group {group}: make it with `tenure cluster init --group {group}`, or start once with \
         --create"
    ))
}

impl PostgresSession {
    pub(crate) fn look_now(&mut self) -> Result<GroupState, ReplicationError> {
        let (group, member) = (self.group(), self.shared.settings.member.clone());
        self.link.query(QUERY_MAX, move |connected| async move {
            let statement = connected.statement(LOOK).await?;
            let row = connected.client.query_opt(&statement, &[&group, &member]).await?;
            let row = row.ok_or_else(|| missing(&group))?;
            let listed = ListedSegments::of_row(&row).ok_or_else(|| missing(&group))?;
            let ends = segments::ends_of(&connected, &listed.tables).await?;
            let settled = PerStream { tasks: row.get(4), topics: row.get(5), keys: row.get(6) };
            let streams = PerStream::new(|stream| StreamState {
                end: ends[stream],
                settled: i64::cast_unsigned(settled[stream]),
                segments: listed.places[stream].clone(),
            });
            *connected.newest.borrow_mut() = PerStream::new(|stream| {
                let start = listed.places[stream].last()?.position;
                Some(SegmentTable { start, table: listed.tables[stream].clone() })
            });
            let is_probed: bool = row.get(8);
            let is_leader_gone =
                is_probed && !connected.is_locked.get() && is_lock_free(&connected, &group).await?;
            let left: f64 = row.get(7);
            Ok(GroupState {
                epoch: row.get::<_, i64>(0).cast_unsigned(),
                holder: row.get(1),
                instance: row.get::<_, i64>(2).cast_unsigned(),
                doors: row.get(3),
                lease_left: Duration::from_secs_f64(left.max(0.0) / 1000.0),
                is_leader_gone,
                streams,
                files: listed_files(&row),
            })
        })
    }

    /// The end is read by a later statement: the snapshot of the first one may be older than the lock it waited for.
    pub(crate) fn lead_now(
        &mut self,
        member: &Member,
        claim: LeaderClaim,
    ) -> Result<Option<Leadership>, ReplicationError> {
        let (group, member) = (self.group(), member.clone());
        let limit = member.lease.max(Duration::from_secs(3));
        self.link.change(limit, move |connected| async move {
            let is_locked = try_lock(&connected, &group).await?;
            let (condition, why, claimed) = match claim {
                LeaderClaim::LeaseEnded => (
                    "$8::bigint is null and (until < clock_timestamp() or holder = $2)",
                    "the lease had ended",
                    None,
                ),
                LeaderClaim::Own { epoch } => (
                    "epoch = $8::bigint and holder = $2 and instance = $3",
                    "a new connection",
                    Some(epoch.cast_signed()),
                ),
                LeaderClaim::LeaderGone { epoch } => {
                    ("epoch = $8::bigint", "the leader's session was gone", Some(epoch.cast_signed()))
                }
            };
            let (wish, may_follow) = match claim {
                LeaderClaim::Own { .. } => (WISH_KEPT, "true"),
                LeaderClaim::LeaseEnded | LeaderClaim::LeaderGone { .. } => (WISH_FULFILLED, MAY_FOLLOW),
            };
            let sql =
                format!("{LEAD}{wish} where name = $1 and {condition} and {may_follow} returning epoch");
            let statement = connected.statement(&sql).await?;
            let lease_millis = member.lease.as_millis() as f64;
            let instance = member.instance.cast_signed();
            let row = connected
                .client
                .query_opt(
                    &statement,
                    &[
                        &group,
                        &member.name,
                        &instance,
                        &member.doors,
                        &lease_millis,
                        &is_locked,
                        &why,
                        &claimed,
                    ],
                )
                .await?;
            let Some(row) = row else {
                unlock(&connected, &group).await?;
                return Ok(None);
            };
            let tails = segments::tails(&connected, &group).await?;
            Ok(Some(Leadership { epoch: row.get::<_, i64>(0).cast_unsigned(), tails, lease: member.lease }))
        })
    }

    pub(crate) fn renew_now(
        &mut self,
        leadership: &Leadership,
        settled: PerStream<u64>,
    ) -> Result<(), ReplicationError> {
        let (group, epoch, lease) = (self.group(), leadership.epoch.cast_signed(), leadership.lease);
        self.link.change(lease, move |connected| async move {
            let is_locked = connected.is_locked.get() || try_lock(&connected, &group).await?;
            let sql = "update tenure.groups set \
                       until = clock_timestamp() + $3::float8 * interval '1 millisecond', \
                       settled_tasks = greatest(settled_tasks, $5), \
                       settled_topics = greatest(settled_topics, $6), \
                       settled_keys = greatest(settled_keys, $7), \
                       locked_epoch = case when $4::bool then epoch else locked_epoch end, \
                       locked_in = case when $4::bool then pg_postmaster_start_time() else locked_in end \
                       where name = $1 and epoch = $2 and holder is not null";
            let statement = connected.statement(sql).await?;
            let millis = lease.as_millis() as f64;
            let settled = PerStream::new(|stream| settled[stream].cast_signed());
            let params: [&(dyn ToSql + Sync); 7] =
                [&group, &epoch, &millis, &is_locked, &settled.tasks, &settled.topics, &settled.keys];
            if connected.client.execute(&statement, &params).await? == 0 {
                fenced(&connected, &group, epoch).await?;
                // The lease is released.
                let fenced = ReplicationError::Fenced { holder: String::new(), epoch: epoch.cast_unsigned() };
                return Err(fenced.into());
            }
            Ok(())
        })
    }

    /// Leaves no holder: the next process of this member has no better claim than the others.
    pub(crate) fn release_now(&mut self, leadership: &Leadership) -> Result<(), ReplicationError> {
        let (group, epoch) = (self.group(), leadership.epoch.cast_signed());
        self.link.change(leadership.lease, move |connected| async move {
            let sql = format!(
                "update tenure.groups set until = 'epoch', holder = null, locked_epoch = null, \
                 chosen_until = case when step_down_epoch = epoch then clock_timestamp() + {CHOSEN_FOR} \
                   else 'epoch' end \
                 where name = $1 and epoch = $2"
            );
            if connected.client.execute(&sql, &[&group, &epoch]).await? == 0 {
                fenced(&connected, &group, epoch).await?;
            }
            unlock(&connected, &group).await
        })
    }
}

/// The leader's session holds a lock that ends with it. A standby that gets it knows that the session is gone.
async fn try_lock(connected: &Connected, group: &str) -> Result<bool, DatabaseFault> {
    if connected.is_locked.get() {
        return Ok(true);
    }
    let statement = connected.statement("select pg_try_advisory_lock($1)").await?;
    let row = connected.client.query_one(&statement, &[&lock_number("group", group)]).await?;
    connected.is_locked.set(row.get(0));
    Ok(connected.is_locked.get())
}

async fn unlock(connected: &Connected, group: &str) -> Result<(), DatabaseFault> {
    if connected.is_locked.replace(false) {
        let statement = connected.statement("select pg_advisory_unlock($1)").await?;
        connected.client.query_one(&statement, &[&lock_number("group", group)]).await?;
    }
    Ok(())
}

async fn is_lock_free(connected: &Connected, group: &str) -> Result<bool, DatabaseFault> {
    let is_free = try_lock(connected, group).await?;
    unlock(connected, group).await?;
    Ok(is_free)
}

/// The segments of all streams, as one row lists them.
struct ListedSegments {
    places: PerStream<Vec<Place>>,
    /// The tables of the newest ones.
    tables: PerStream<String>,
}

impl ListedSegments {
    /// `None` if a stream has no segment: the group is not complete yet.
    fn of_row(row: &Row) -> Option<ListedSegments> {
        let streams: Vec<String> = row.get::<_, Option<_>>(9)?;
        let starts: Vec<i64> = row.get(10);
        let chains: Vec<i64> = row.get(11);
        let names: Vec<String> = row.get(12);
        let (mut places, mut tables) = (PerStream::<Vec<Place>>::default(), PerStream::<String>::default());
        for (index, name) in streams.iter().enumerate() {
            if let Some(stream) = Stream::ALL.into_iter().find(|stream| stream.name() == name) {
                places[stream].push(place(starts[index], chains[index]));
                tables[stream].clone_from(&names[index]);
            }
        }
        let is_complete = Stream::ALL.into_iter().all(|stream| !places[stream].is_empty());
        is_complete.then_some(ListedSegments { places, tables })
    }
}

fn listed_files(row: &Row) -> Vec<FileEntry> {
    let names: Vec<String> = row.get::<_, Option<_>>(13).unwrap_or_default();
    let sizes: Vec<i64> = row.get::<_, Option<_>>(14).unwrap_or_default();
    let crcs: Vec<i64> = row.get::<_, Option<_>>(15).unwrap_or_default();
    let entry = |(name, (bytes, crc)): (String, (i64, i64))| FileEntry {
        name,
        bytes: bytes.cast_unsigned(),
        crc: crc as u32,
    };
    names.into_iter().zip(sizes.into_iter().zip(crcs)).map(entry).collect()
}

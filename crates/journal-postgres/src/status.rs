//! The group as a person wants to see it.

use std::time::Duration;

use tenure_store::{ReplicationError, Stream};

use crate::PostgresJournal;
use crate::group::missing;
use crate::link::QUERY_MAX;
use crate::schema::check_format;
use crate::segments;

/// A group at one moment.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// The name of the group.
    pub group: String,
    /// The random id of the group.
    pub id: String,
    /// The epoch of the last leader.
    pub epoch: u64,
    /// The member that leads. `None`: no member does, and any may.
    pub leader: Option<String>,
    /// How much of the lease is left.
    pub lease_left: Duration,
    /// How long the leader has led.
    pub led_for: Option<Duration>,
    /// Why it could begin to lead.
    pub led_why: String,
    /// Where the journal of tasks ends.
    pub end: u64,
    /// Up to where the leader has seen that journal committed.
    pub settled: u64,
    /// The number of segments of all streams.
    pub segments: u64,
    /// The number of snapshots, event files and files of hooks.
    pub files: u64,
    /// The bytes of these files.
    pub file_bytes: u64,
    /// The members that have ever sent a sign of life.
    pub members: Vec<MemberStatus>,
    /// The servers.
    pub database: DatabaseStatus,
}

/// A member, as its last sign of life describes it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The name of the member.
    pub name: String,
    /// Whether it leads.
    pub is_leading: bool,
    /// The addresses of its doors.
    pub doors: String,
    /// The version of its program.
    pub version: String,
    /// Where its copy of the journal of tasks ends.
    pub position: u64,
    /// How many bytes of the journal its copy lacks.
    pub behind_bytes: u64,
    /// The median time of its last appends.
    pub append_p50: Duration,
    /// The time that one of its appends in a hundred exceeds.
    pub append_p99: Duration,
    /// The number of its appends since it was started.
    pub appends: u64,
    /// How long ago its last sign of life was.
    pub seen_ago: Duration,
}

/// The database behind the group.
#[derive(Clone, Debug)]
pub struct DatabaseStatus {
    /// The address of the primary.
    pub primary: String,
    /// The version of the server.
    pub version: String,
    /// The setting of that name.
    pub synchronous_standby_names: String,
    /// How many standbys are connected.
    pub standbys: u64,
    /// How many sessions of brokers wait for a standby at this moment.
    pub waiting_for_standby: u64,
    /// The bytes of the segments and files of this group.
    pub bytes: u64,
}

impl PostgresJournal {
    /// Reads the status of the group from the primary.
    pub fn status(&self) -> Result<GroupStatus, ReplicationError> {
        let link = self.link()?;
        check_format(&link)?;
        let group = self.group().to_owned();
        link.query(QUERY_MAX, move |connected| async move {
            let client = &connected.client;
            let sql = "select id::text, epoch, case when until > clock_timestamp() then holder end, \
                       (extract(epoch from until - clock_timestamp()) * 1000)::float8, \
                       (extract(epoch from clock_timestamp() - led_since) * 1000)::float8, led_why, settled_tasks, \
                       (select count(*) from tenure.segments where group_name = $1), \
                       (select count(*) from tenure.files where group_name = $1), \
                       (select coalesce(sum(bytes), 0)::bigint from tenure.files where group_name = $1) \
                       from tenure.groups where name = $1";
            let row = client.query_opt(sql, &[&group]).await?.ok_or_else(|| missing(&group))?;
            let end = segments::end(&connected, &group, Stream::Tasks).await?.position;
            let leader: Option<String> = row.get(2);
            let sql = "select name, doors, version, position, append_p50_us, append_p99_us, appends, \
                       (extract(epoch from clock_timestamp() - seen) * 1000)::float8 \
                       from tenure.members where group_name = $1 order by name";
            let members = client.query(sql, &[&group]).await?;
            let sql = "select current_setting('server_version'), current_setting('synchronous_standby_names'), \
                       (select count(*) from pg_stat_replication), \
                       (select count(*) from pg_stat_activity where wait_event = 'SyncRep' \
                         and application_name like 'tenure %'), \
                       coalesce((select sum(pg_total_relation_size(to_regclass('tenure.' || table_name))) \
                         from tenure.segments where group_name = $1), 0)::bigint";
            let database = client.query_one(sql, &[&group]).await?;
            let members = members.iter().map(|row| {
                let name: String = row.get(0);
                let position = row.get::<_, i64>(3).cast_unsigned();
                MemberStatus {
                    is_leading: leader.as_ref() == Some(&name),
                    name,
                    doors: row.get(1),
                    version: row.get(2),
                    position,
                    behind_bytes: end.saturating_sub(position),
                    append_p50: micros(row.get(4)),
                    append_p99: micros(row.get(5)),
                    appends: row.get::<_, i64>(6).cast_unsigned(),
                    seen_ago: millis(row.get(7)),
                }
            });
            let file_bytes = row.get::<_, i64>(9).cast_unsigned();
            Ok(GroupStatus {
                id: row.get(0),
                epoch: row.get::<_, i64>(1).cast_unsigned(),
                leader: leader.clone(),
                lease_left: millis(row.get(3)),
                led_for: row.get::<_, Option<f64>>(4).map(millis),
                led_why: row.get(5),
                end,
                settled: row.get::<_, i64>(6).cast_unsigned(),
                segments: row.get::<_, i64>(7).cast_unsigned(),
                files: row.get::<_, i64>(8).cast_unsigned(),
                file_bytes,
                members: members.collect(),
                database: DatabaseStatus {
                    primary: connected.server.clone(),
                    version: database.get(0),
                    synchronous_standby_names: database.get(1),
                    standbys: database.get::<_, i64>(2).cast_unsigned(),
                    waiting_for_standby: database.get::<_, i64>(3).cast_unsigned(),
                    bytes: database.get::<_, i64>(4).cast_unsigned() + file_bytes,
                },
                group: group.clone(),
            })
        })
    }
}

fn millis(value: f64) -> Duration {
    Duration::from_secs_f64(value.max(0.0) / 1000.0)
}

fn micros(value: i64) -> Duration {
    Duration::from_micros(value.max(0).cast_unsigned())
}

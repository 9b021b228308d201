//! Which group serves which namespace, if several groups share a database. `spec/replication.md` says why a move loses and
//! doubles nothing: the row changes only while one program leads both groups.

use tenure_store::ReplicationError;
use tokio_postgres::Row;

use crate::PostgresJournal;
use crate::connect::Connected;
use crate::error::DatabaseFault;
use crate::link::QUERY_MAX;
use crate::schema::check_format;

/// The row of the group that serves all namespaces without a row of their own.
pub const DEFAULT_ROW: &str = "*";

pub(crate) const CREATE: &str = "
create table if not exists tenure.namespaces (
    name text primary key,
    group_name text not null,
    -- placed, or moving while a program brings its tasks into another group
    state text not null default 'placed',
    -- how often it was placed
    epoch bigint not null default 1,
    -- the first event of the group that can be about the namespace
    first_event bigint not null default 0,
    placed_at timestamptz not null default clock_timestamp()
);
";

/// Where the namespaces are. There is none as long as nothing is placed: then every group serves every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPlacement {
    /// The group of all namespaces that are not placed.
    pub default_group: String,
    /// The namespaces that are placed, by name.
    pub namespaces: Vec<NamespaceRow>,
    /// The members of all groups that were heard lately, the leader of each group first.
    pub members: Vec<PlacedMember>,
}

/// A namespace that is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceRow {
    /// The name of the namespace.
    pub name: String,
    /// The group that serves it.
    pub group: String,
    /// Its tasks are on their way into another group, or were when the program that moved them ended.
    pub is_moving: bool,
    /// How often it was placed.
    pub epoch: u64,
    /// The first event of the group that can be about the namespace.
    pub first_event: u64,
}

/// A member of any group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedMember {
    /// Its group.
    pub group: String,
    /// The addresses of its doors, as it advertises them.
    pub doors: String,
}

/// A group, as a program that places namespaces sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// The number of its last leadership; 0 if no member has ever led it.
    pub epoch: u64,
}

impl ClusterPlacement {
    /// The group that serves a namespace.
    pub fn group_of(&self, namespace: &str) -> &str {
        let placed = self.namespaces.iter().find(|row| row.name == namespace);
        placed.map_or(&self.default_group, |row| &row.group)
    }
}

impl PostgresJournal {
    /// Where the namespaces are. A leader reads it after its epoch has begun, and before it serves.
    pub fn placement(&self) -> Result<Option<ClusterPlacement>, ReplicationError> {
        let link = self.link()?;
        check_format(&link)?;
        link.query(QUERY_MAX, |connected| async move { read(&connected).await })
    }

    /// All groups of the database, the oldest first.
    pub fn groups(&self) -> Result<Vec<GroupEntry>, ReplicationError> {
        let link = self.link()?;
        check_format(&link)?;
        link.query(QUERY_MAX, |connected| async move {
            let sql = "select name, epoch from tenure.groups order by number";
            let rows = connected.client.query(sql, &[]).await?;
            let of_row = |row: &Row| GroupEntry { name: row.get(0), epoch: unsigned(row, 1) };
            Ok(rows.iter().map(of_row).collect())
        })
    }

    /// Makes a group the one of all namespaces that are not placed, if none is yet. `false` if another leadership than
    /// these has begun in one of the groups, or a group is new.
    pub fn set_default_group(&self, default: &str, seen: &[GroupEntry]) -> Result<bool, ReplicationError> {
        let link = self.link()?;
        let (default, fence) = (default.to_owned(), Fence::of(seen));
        link.change(QUERY_MAX, move |connected| async move {
            let client = &connected.client;
            client.batch_execute(CREATE).await?;
            // A group that is made meanwhile waits: its first leader then finds the row.
            client.batch_execute("begin; lock table tenure.groups in share row exclusive mode").await?;
            let sql = format!(
                "{FENCE} insert into tenure.namespaces (name, group_name) select $3, $4 from fence \
                 where holds and not exists (select 1 from tenure.groups where name <> all ($1)) \
                 on conflict do nothing"
            );
            let Fence { names, epochs } = &fence;
            let done = client.execute(&sql, &[names, epochs, &DEFAULT_ROW, &default]).await?;
            client.batch_execute("commit").await?;
            Ok(done == 1)
        })
    }

    /// Says that a namespace is about to leave its group, so that what another group has of it counts for nothing.
    pub fn begin_move(&self, namespace: &str, from: &str) -> Result<(), ReplicationError> {
        let link = self.link()?;
        let (namespace, from) = (namespace.to_owned(), from.to_owned());
        link.change(QUERY_MAX, move |connected| async move {
            let sql = "insert into tenure.namespaces as n (name, group_name, state) values ($1, $2, 'moving') \
                       on conflict (name) do update set state = 'moving' where n.group_name = $2";
            match connected.client.execute(sql, &[&namespace, &from]).await? {
                1 => Ok(()),
                _ => Err(ReplicationError::Away("the namespace was placed by another program".into()).into()),
            }
        })
    }

    /// Gives a namespace to a group, in the moment in which the leaderships of these groups are the last ones. `false` if
    /// they are not.
    pub fn finish_move(
        &self,
        namespace: &str,
        (from, to): (&str, &str),
        first_event: u64,
        led: &[GroupEntry],
    ) -> Result<bool, ReplicationError> {
        let link = self.link()?;
        let [namespace, from, to] = [namespace, from, to].map(str::to_owned);
        let (fence, first_event) = (Fence::of(led), first_event.cast_signed());
        link.change(QUERY_MAX, move |connected| async move {
            let sql = format!(
                "{FENCE} update tenure.namespaces set group_name = $5, state = 'placed', epoch = epoch + 1, \
                 first_event = $6, placed_at = clock_timestamp() from fence \
                 where holds and name = $3 and group_name = $4 and state = 'moving'"
            );
            let Fence { names, epochs } = &fence;
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [names, epochs, &namespace, &from, &to, &first_event];
            Ok(connected.client.execute(&sql, &params).await? == 1)
        })
    }

    /// The namespace stays where it is.
    pub fn cancel_move(&self, namespace: &str) -> Result<(), ReplicationError> {
        let link = self.link()?;
        let namespace = namespace.to_owned();
        link.change(QUERY_MAX, move |connected| async move {
            let sql = "update tenure.namespaces set state = 'placed' where name = $1 and state = 'moving'";
            connected.client.execute(sql, &[&namespace]).await?;
            Ok(())
        })
    }
}

/// Holds if no later leadership has begun. The rows stay locked until the statement is committed, and a leadership begins
/// with an update of its row.
const FENCE: &str = "\
    with locked as materialized (select name, epoch from tenure.groups where name = any ($1) for share), \
    fence as (select count(*) = cardinality($1::text[]) as holds from locked \
      join unnest($1::text[], $2::bigint[]) as seen (name, epoch) using (name, epoch))";

struct Fence {
    names: Vec<String>,
    epochs: Vec<i64>,
}

impl Fence {
    fn of(groups: &[GroupEntry]) -> Fence {
        Fence {
            names: groups.iter().map(|group| group.name.clone()).collect(),
            epochs: groups.iter().map(|group| group.epoch.cast_signed()).collect(),
        }
    }
}

/// A schema of an earlier version has no such table, until the first namespace is placed.
pub(crate) async fn read(connected: &Connected) -> Result<Option<ClusterPlacement>, DatabaseFault> {
    let client = &connected.client;
    let statement = connected.statement("select to_regclass('tenure.namespaces') is not null").await?;
    if !client.query_one(&statement, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql =
        "select name, group_name, state = 'moving', epoch, first_event from tenure.namespaces order by name";
    let statement = connected.statement(sql).await?;
    let rows = client.query(&statement, &[]).await?;
    let mut placement = ClusterPlacement::default();
    for row in &rows {
        let row = NamespaceRow {
            name: row.get(0),
            group: row.get(1),
            is_moving: row.get(2),
            epoch: unsigned(row, 3),
            first_event: unsigned(row, 4),
        };
        match row.name.as_str() {
            DEFAULT_ROW => placement.default_group = row.group,
            _ => placement.namespaces.push(row),
        }
    }
    if placement.default_group.is_empty() {
        return Ok(None);
    }
    let sql = "select m.group_name, m.doors from tenure.members m join tenure.groups g on g.name = m.group_name \
               where m.seen > clock_timestamp() - interval '10 seconds' and m.doors <> '' \
               order by m.group_name, m.name = g.holder desc nulls last, m.name";
    let statement = connected.statement(sql).await?;
    let rows = client.query(&statement, &[]).await?;
    let of_row = |row: &Row| PlacedMember { group: row.get(0), doors: row.get(1) };
    placement.members = rows.iter().map(of_row).collect();
    Ok(Some(placement))
}

fn unsigned(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).cast_unsigned()
}

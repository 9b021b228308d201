//! Segments: one table each, created ahead and dropped under the fence.

use tenure_store::{Leadership, PerStream, Place, ReplicationError, Stream, Tail};

use crate::PostgresJournal;
use crate::connect::Connected;
use crate::error::DatabaseFault;
use crate::group::fenced;
use crate::link::QUERY_MAX;
use crate::session::PostgresSession;

/// A segment and its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentTable {
    pub(crate) start: u64,
    pub(crate) table: String,
}

/// How long a table that is read at this moment is waited for before its removal is left to a later call.
const DROP_WAIT: &str = "500ms";

/// Makes an empty table that belongs to no segment yet. Its name begins with the group's number.
pub(crate) async fn create_table(connected: &Connected, group_number: i32) -> Result<String, DatabaseFault> {
    let client = &connected.client;
    let number: i64 = client.query_one("select nextval('tenure.segment_numbers')", &[]).await?.get(0);
    let table = format!("g{group_number}_seg_{number}");
    let sql = format!(
        "create table tenure.{table} (start bigint primary key, fin bigint not null, epoch bigint not null, \
         chain bigint not null, bytes bytea not null); \
         alter table tenure.{table} alter column bytes set storage external"
    );
    client.batch_execute(&sql).await?;
    Ok(table)
}

/// All segments of the stream, in order.
pub(crate) async fn list(
    connected: &Connected,
    group: &str,
    stream: Stream,
) -> Result<Vec<SegmentTable>, DatabaseFault> {
    let sql =
        "select start, table_name from tenure.segments where group_name = $1 and stream = $2 order by start";
    let statement = connected.statement(sql).await?;
    let rows = connected.client.query(&statement, &[&group, &stream.name()]).await?;
    let of_row = |row: &tokio_postgres::Row| SegmentTable {
        start: row.get::<_, i64>(0).cast_unsigned(),
        table: row.get(1),
    };
    Ok(rows.iter().map(of_row).collect())
}

/// The newest segment, as this session knows it or as the database says.
pub(crate) async fn newest(
    connected: &Connected,
    group: &str,
    stream: Stream,
) -> Result<SegmentTable, DatabaseFault> {
    let known = connected.newest.borrow()[stream].clone();
    if let Some(segment) = known {
        return Ok(segment);
    }
    let last = list(connected, group, stream).await?.pop();
    let last =
        last.ok_or_else(|| ReplicationError::Misconfigured(format!("the group {group} has no segments")))?;
    connected.newest.borrow_mut()[stream] = Some(last.clone());
    Ok(last)
}

/// The end of a stream: the end of the newest segment's last row.
pub(crate) async fn end(connected: &Connected, group: &str, stream: Stream) -> Result<Place, DatabaseFault> {
    let segment = newest(connected, group, stream).await?;
    end_of(connected, &segment.table).await
}

pub(crate) async fn end_of(connected: &Connected, table: &str) -> Result<Place, DatabaseFault> {
    let sql = format!("select fin, chain from tenure.{table} order by start desc limit 1");
    let statement = connected.statement(&sql).await?;
    let row = connected.client.query_one(&statement, &[]).await?;
    Ok(place(row.get(0), row.get(1)))
}

/// The ends of all streams, and their newest segments, as the database has them now.
pub(crate) async fn tails(connected: &Connected, group: &str) -> Result<PerStream<Tail>, DatabaseFault> {
    *connected.newest.borrow_mut() = PerStream::default();
    let mut tails = PerStream::default();
    for stream in Stream::ALL {
        let segment = newest(connected, group, stream).await?;
        tails[stream] = Tail { end: end_of(connected, &segment.table).await?, segment: segment.start };
    }
    Ok(tails)
}

/// The ends of these tables, in one statement.
pub(crate) async fn ends_of(
    connected: &Connected,
    tables: &PerStream<String>,
) -> Result<PerStream<Place>, DatabaseFault> {
    let one = |table: &str| format!("(select fin, chain from tenure.{table} order by start desc limit 1)");
    let all: Vec<String> = Stream::ALL.iter().map(|stream| one(&tables[*stream])).collect();
    let statement = connected.statement(&all.join(" union all ")).await?;
    let rows = connected.client.query(&statement, &[]).await?;
    let of_row = |row: &tokio_postgres::Row| place(row.get(0), row.get(1));
    match &rows[..] {
        [tasks, topics, keys] => {
            Ok(PerStream { tasks: of_row(tasks), topics: of_row(topics), keys: of_row(keys) })
        }
        _ => Err(ReplicationError::Gone("a segment".to_owned()).into()),
    }
}

pub(crate) fn place(position: i64, chain: i64) -> Place {
    Place { position: position.cast_unsigned(), chain: chain as u32 }
}

impl PostgresSession {
    pub(crate) fn begin(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        at: Place,
    ) -> Result<(), ReplicationError> {
        let (group, epoch) = (self.group(), leadership.epoch.cast_signed());
        self.link.change(leadership.lease, move |connected| async move {
            connected.newest.borrow_mut()[stream] = None;
            let old = newest(&connected, &group, stream).await?;
            fenced(&connected, &group, epoch).await?;
            if old.start == at.position {
                return Ok(());
            }
            let sql = "select number from tenure.groups where name = $1";
            let number: i32 = connected.client.query_one(sql, &[&group]).await?.get(0);
            let table = create_table(&connected, number).await?;
            let sql = format!(
                "with o as (select 1 from tenure.groups where name = $1 and epoch = $2 for share), \
                 l as (select fin, chain from tenure.{} order by start desc limit 1), \
                 s as (insert into tenure.segments (group_name, stream, start, chain, table_name) \
                 select $1, $3, $4, $5, $6 from o, l where l.fin = $4 and l.chain = $5 returning 1) \
                 insert into tenure.{table} (start, fin, epoch, chain, bytes) select -1, $4, $2, $5, '' from s",
                old.table
            );
            let (start, chain) = (at.position.cast_signed(), i64::from(at.chain));
            let done = connected.client.execute(&sql, &[&group, &epoch, &stream.name(), &start, &chain, &table]).await?;
            if done == 0 {
                fenced(&connected, &group, epoch).await?;
                let end = end(&connected, &group, stream).await?.position;
                return Err(ReplicationError::NotAtEnd { end }.into());
            }
            connected.newest.borrow_mut()[stream] = Some(SegmentTable { start: at.position, table });
            Ok(())
        })
    }

    /// First the entries, under the fence; then the tables, which nothing names any longer. A table that is being
    /// read stays for a later call.
    pub(crate) fn drop_all(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        starts: &[u64],
    ) -> Result<(), ReplicationError> {
        let (group, epoch) = (self.group(), leadership.epoch.cast_signed());
        let starts: Vec<i64> = starts.iter().map(|start| start.cast_signed()).collect();
        let lock_timeout = leadership.lease.as_millis();
        self.link.change(QUERY_MAX, move |connected| async move {
            fenced(&connected, &group, epoch).await?;
            let sql = "with o as (select 1 from tenure.groups where name = $1 and epoch = $2 for share) \
                       delete from tenure.segments s using o where s.group_name = $1 and s.stream = $3 \
                       and s.start = any($4) and s.start < (select max(n.start) from tenure.segments n \
                       where n.group_name = $1 and n.stream = $3)";
            connected.client.execute(sql, &[&group, &epoch, &stream.name(), &starts]).await?;
            connected.forget_statements();
            for table in obsolete(&connected, &group).await? {
                let sql = format!("set lock_timeout = '{DROP_WAIT}'; drop table if exists tenure.{table}");
                let dropped = connected.client.batch_execute(&sql).await;
                connected.client.batch_execute(&format!("set lock_timeout = {lock_timeout}")).await?;
                match dropped {
                    Err(error) if error.as_db_error().is_none() => return Err(error.into()),
                    Err(error) => {
                        tracing::debug!(table, %error, "a dropped segment is still in use; its table stays for now");
                    }
                    Ok(()) => {}
                }
            }
            Ok(())
        })
    }
}

impl PostgresJournal {
    /// Lets a stream of a new group begin at a position, as that of a broker whose first segments are gone. Returns
    /// whether the group is new.
    pub fn begin_at(&self, stream: Stream, position: u64) -> Result<bool, ReplicationError> {
        let (link, group) = (self.link()?, self.group().to_owned());
        link.change(QUERY_MAX, move |connected| async move {
            let segment = newest(&connected, &group, stream).await?;
            let sql = format!(
                "with s as (update tenure.segments set start = $2 where group_name = $1 and stream = $3 and start = 0 \
                 and exists (select 1 from tenure.groups where name = $1 and epoch = 0) returning 1) \
                 update tenure.{} set fin = $2 where start = -1 and exists (select 1 from s)",
                segment.table
            );
            let (position, stream) = (position.cast_signed(), stream.name());
            Ok(connected.client.execute(&sql, &[&group, &position, &stream]).await? == 1)
        })
    }
}

/// Tables of the group that no segment names and that are older than its newest segment: a later one may have been
/// created ahead.
async fn obsolete(connected: &Connected, group: &str) -> Result<Vec<String>, DatabaseFault> {
    let sql = "select number from tenure.groups where name = $1";
    let number: i32 = connected.client.query_one(sql, &[&group]).await?.get(0);
    let prefix = format!("g{number}_seg_");
    let sql = "select t.tablename::text from pg_catalog.pg_tables t where t.schemaname = 'tenure' \
               and starts_with(t.tablename::text, $1)";
    let tables = connected.client.query(sql, &[&prefix]).await?;
    let sql = "select table_name from tenure.segments where group_name = $1";
    let named: Vec<String> =
        connected.client.query(sql, &[&group]).await?.iter().map(|row| row.get(0)).collect();
    let number_of = |table: &str| table.strip_prefix(&prefix).and_then(|number| number.parse::<u64>().ok());
    let newest = named.iter().filter_map(|table| number_of(table)).max().unwrap_or(0);
    let is_obsolete =
        |table: &String| !named.contains(table) && number_of(table).is_some_and(|number| number < newest);
    Ok(tables.iter().map(|row| row.get(0)).filter(is_obsolete).collect())
}

//! Groups of frames: one row each, inserted behind the last one.

use std::time::Instant;

use tenure_store::{FrameGroup, Leadership, ReplicationError, StoredGroup, Stream};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::DatabaseFault;
use crate::group::{fenced, fenced_if_gone};
use crate::link::QUERY_MAX;
use crate::segments::{self, SegmentTable, place};
use crate::session::PostgresSession;

impl PostgresSession {
    /// One statement and one transaction: it locks the group's row for sharing and continues the last row. It updates
    /// nothing, because a row that is updated at each append decays while another session holds an old snapshot.
    pub(crate) fn append_rows(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        frames: &FrameGroup,
    ) -> Result<(), ReplicationError> {
        let (group, epoch) = (self.group(), leadership.epoch.cast_signed());
        let (start, end, bytes) = (frames.start, frames.end, frames.bytes.clone());
        let begun = Instant::now();
        self.link.change(leadership.lease, move |connected| async move {
            let segment = segments::newest(&connected, &group, stream).await?;
            let sql = format!(
                "with o as (select 1 from tenure.groups where name = $1 and epoch = $2 for share), \
                 l as (select fin, chain from tenure.{0} order by start desc limit 1) \
                 insert into tenure.{0} (start, fin, epoch, chain, bytes) \
                 select $3, $4, $2, $6, $7 from o, l where l.fin = $3 and l.chain = $5",
                segment.table
            );
            let (from, to) = (start.position.cast_signed(), end.position.cast_signed());
            let (chain_before, chain) = (i64::from(start.chain), i64::from(end.chain));
            let params: [&(dyn ToSql + Sync); 7] =
                [&group, &epoch, &from, &to, &chain_before, &chain, &bytes];
            let inserting = async {
                let statement = connected.statement(&sql).await?;
                Ok::<_, DatabaseFault>(connected.client.execute(&statement, &params).await?)
            };
            let done = match inserting.await {
                Ok(rows) => rows,
                Err(fault) => return Err(fenced_if_gone(&connected, &group, epoch, fault).await),
            };
            if done == 1 {
                return Ok(());
            }
            fenced(&connected, &group, epoch).await?;
            let end = segments::end(&connected, &group, stream).await?.position;
            Err(ReplicationError::NotAtEnd { end }.into())
        })?;
        self.shared.latencies.add(begun.elapsed());
        Ok(())
    }

    /// The first chunk comes without its bytes: it shows only where it ends, and the chain there.
    pub(crate) fn read_rows(
        &mut self,
        stream: Stream,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredGroup>, ReplicationError> {
        let group = self.group();
        self.link.query(QUERY_MAX, move |connected| async move {
            let listed = segments::list(&connected, &group, stream).await?;
            let Some(first) = listed.iter().rposition(|segment| segment.start <= from) else {
                return Err(ReplicationError::Gone(format!("position {from}")).into());
            };
            let mut found: Vec<StoredGroup> = Vec::new();
            let mut bytes = 0;
            for segment in &listed[first..] {
                if bytes > bytes_max {
                    break;
                }
                // Positions count bytes, so they bound what a statement returns.
                let sql = format!(
                    "select start, fin, epoch, chain, case when fin <= $1 then ''::bytea else bytes end \
                     from tenure.{0} where start >= coalesce((select start from tenure.{0} \
                     where start <= $1 and fin <= $1 order by start desc limit 1), -1) \
                     and start <= $2 order by start",
                    segment.table
                );
                let after = from.max(segment.start);
                let until = after + (bytes_max - bytes) as u64;
                let statement = connected.statement(&sql).await?;
                let params = [after.cast_signed(), until.cast_signed()];
                let rows = connected.client.query(&statement, &[&params[0], &params[1]]).await?;
                let groups = rows.iter().map(|row| of_row(row, segment));
                // A later segment is shown from its beginning on.
                let is_first = found.is_empty();
                for group in groups.skip_while(|group| !is_first && group.start < segment.start) {
                    bytes += group.bytes.len();
                    found.push(group);
                }
            }
            Ok(found)
        })
    }
}

fn of_row(row: &Row, segment: &SegmentTable) -> StoredGroup {
    let start: i64 = row.get(0);
    StoredGroup {
        segment: segment.start,
        start: if start < 0 { segment.start } else { start.cast_unsigned() },
        end: place(row.get(1), row.get(3)),
        epoch: row.get::<_, i64>(2).cast_unsigned(),
        bytes: row.get(4),
    }
}

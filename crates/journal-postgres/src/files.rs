//! Snapshots and event files, in parts. A file gets its name when all its parts are there.

use std::time::Duration;

use crc32c::crc32c;
use tenure_store::{Leadership, ReplicationError};

use crate::group::fenced;
use crate::session::PostgresSession;

const PART_BYTES: usize = 1 << 20;
/// How long one part may take. A part that is in doubt is uploaded again with its file.
const PART_MAX: Duration = Duration::from_secs(30);

/// Names the new parts, and deletes those they replace.
const PUT: &str = "\
    with o as (select 1 from tenure.groups where name = $1 and epoch = $2 for share), \
      old as (select upload from tenure.files where group_name = $1 and name = $3), \
      put as (insert into tenure.files as f (group_name, name, upload, bytes, crc) \
        select $1, $3, $4, $5, $6 from o \
        where (select count(*) from tenure.file_parts where upload = $4) = $7 \
        on conflict (group_name, name) do update \
          set upload = excluded.upload, bytes = excluded.bytes, crc = excluded.crc \
          where f.bytes <= excluded.bytes \
        returning 1), \
      gone as (delete from tenure.file_parts where upload in (select upload from old) and exists (select 1 from put)) \
    select (select count(*) from put)";

impl PostgresSession {
    pub(crate) fn upload(
        &mut self,
        leadership: &Leadership,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), ReplicationError> {
        let (group, epoch) = (self.group(), leadership.epoch.cast_signed());
        let upload: i64 = self.link.change(PART_MAX, move |connected| async move {
            fenced(&connected, &group, epoch).await?;
            let client = &connected.client;
            // Parts that an earlier leader has left behind.
            let sql = "delete from tenure.file_parts where group_name = $1 and epoch < $2 \
                       and upload not in (select upload from tenure.files where group_name = $1)";
            client.execute(sql, &[&group, &epoch]).await?;
            Ok(client.query_one("select nextval('tenure.uploads')", &[]).await?.get(0))
        })?;
        for (part, bytes) in bytes.chunks(PART_BYTES).enumerate() {
            let (group, part, bytes) = (self.group(), part as i32, bytes.to_vec());
            self.link.change(PART_MAX, move |connected| async move {
                let sql = "insert into tenure.file_parts (upload, part, group_name, epoch, bytes) \
                           values ($1, $2, $3, $4, $5)";
                let statement = connected.statement(sql).await?;
                connected.client.execute(&statement, &[&upload, &part, &group, &epoch, &bytes]).await?;
                Ok(())
            })?;
        }
        let (group, name) = (self.group(), name.to_owned());
        let (len, crc) = (bytes.len() as i64, i64::from(crc32c(bytes)));
        let parts = bytes.len().div_ceil(PART_BYTES) as i64;
        self.link.change(PART_MAX, move |connected| async move {
            let client = &connected.client;
            let put: i64 =
                client.query_one(PUT, &[&group, &epoch, &name, &upload, &len, &crc, &parts]).await?.get(0);
            if put == 1 {
                return Ok(());
            }
            client.execute("delete from tenure.file_parts where upload = $1", &[&upload]).await?;
            fenced(&connected, &group, epoch).await?;
            let sql = "select 1 from tenure.files where group_name = $1 and name = $2 and bytes > $3";
            match client.query_opt(sql, &[&group, &name, &len]).await? {
                Some(_) => Ok(()),
                // A later leader has removed the parts, and is fenced again already: this one may try again.
                None => Err(ReplicationError::Doubt.into()),
            }
        })
    }

    pub(crate) fn download(&mut self, name: &str) -> Result<Vec<u8>, ReplicationError> {
        let (group, wanted) = (self.group(), name.to_owned());
        let (upload, len): (i64, i64) = self.link.query(PART_MAX, move |connected| async move {
            let sql = "select upload, bytes from tenure.files where group_name = $1 and name = $2";
            let row = connected.client.query_opt(sql, &[&group, &wanted]).await?;
            let row = row.ok_or_else(|| ReplicationError::Gone(wanted.clone()))?;
            Ok((row.get(0), row.get(1)))
        })?;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        for part in 0.. {
            if bytes.len() as i64 >= len {
                break;
            }
            let name = name.to_owned();
            let read: Vec<u8> = self.link.query(PART_MAX, move |connected| async move {
                let sql = "select bytes from tenure.file_parts where upload = $1 and part = $2";
                let statement = connected.statement(sql).await?;
                let row = connected.client.query_opt(&statement, &[&upload, &part]).await?;
                // It was replaced or removed meanwhile.
                Ok(row.ok_or(ReplicationError::Gone(name))?.get(0))
            })?;
            bytes.extend_from_slice(&read);
        }
        Ok(bytes)
    }

    pub(crate) fn delete_file(
        &mut self,
        leadership: &Leadership,
        name: &str,
    ) -> Result<(), ReplicationError> {
        let (group, epoch, name) = (self.group(), leadership.epoch.cast_signed(), name.to_owned());
        self.link.change(PART_MAX, move |connected| async move {
            let sql = "with o as (select 1 from tenure.groups where name = $1 and epoch = $2 for share), \
                       gone as (delete from tenure.files f using o where f.group_name = $1 and f.name = $3 \
                         returning f.upload) \
                       delete from tenure.file_parts where upload in (select upload from gone)";
            connected.client.execute(sql, &[&group, &epoch, &name]).await?;
            fenced(&connected, &group, epoch).await
        })
    }
}

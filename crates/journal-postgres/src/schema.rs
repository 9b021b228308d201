//! The tables. One schema per database, shared by all groups; one table per segment, because dropping a table costs
//! nothing while deleting rows writes them to the log once more.

use tenure_store::{ReplicationError, Stream};

use crate::connect::Connected;
use crate::error::DatabaseFault;
use crate::link::{PostgresLink, QUERY_MAX};
use crate::{PostgresJournal, namespaces, segments};

/// The schema that holds everything.
pub const SCHEMA: &str = "tenure";
/// What this program reads and writes. Another number is refused.
pub const FORMAT: i32 = 1;

const CREATE: &str = "
create schema if not exists tenure;
create table if not exists tenure.format (
    number int not null,
    created_at timestamptz not null default now()
);
create table if not exists tenure.groups (
    name text primary key,
    number int not null generated always as identity,
    id uuid not null default gen_random_uuid(),
    -- Members prove with it to each other that they belong to the group.
    secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    epoch bigint not null default 0,
    holder text,
    instance bigint not null default 0,
    doors text not null default '',
    until timestamptz not null default 'epoch',
    settled_tasks bigint not null default 0,
    settled_topics bigint not null default 0,
    settled_keys bigint not null default 0,
    -- The epoch whose leader holds the advisory lock, and the server process in which it does.
    locked_epoch bigint,
    locked_in timestamptz,
    led_since timestamptz,
    led_why text not null default '',
    -- The epoch whose leader is asked to step down; then, for a moment, who may and who may not follow it.
    step_down_epoch bigint,
    reserved_for text,
    barred text,
    chosen_until timestamptz not null default 'epoch'
) with (fillfactor = 20);
create table if not exists tenure.members (
    group_name text not null,
    name text not null,
    instance bigint not null,
    doors text not null,
    version text not null,
    role text not null,
    position bigint not null,
    appends bigint not null,
    append_p50_us bigint not null,
    append_p99_us bigint not null,
    seen timestamptz not null,
    primary key (group_name, name)
) with (fillfactor = 20);
create table if not exists tenure.segments (
    group_name text not null,
    stream text not null,
    start bigint not null,
    chain bigint not null,
    table_name text not null,
    primary key (group_name, stream, start)
);
create sequence if not exists tenure.segment_numbers;
create table if not exists tenure.files (
    group_name text not null,
    name text not null,
    upload bigint not null,
    bytes bigint not null,
    crc bigint not null,
    primary key (group_name, name)
);
create table if not exists tenure.file_parts (
    upload bigint not null,
    part int not null,
    group_name text not null,
    epoch bigint not null,
    bytes bytea not null,
    primary key (upload, part)
);
alter table tenure.file_parts alter column bytes set storage external;
create sequence if not exists tenure.uploads;
insert into tenure.format (number) select 1 where not exists (select 1 from tenure.format);
";

impl PostgresJournal {
    /// Makes the schema and the group. Does nothing if they are there already. Returns whether the group is new.
    pub fn create(&self) -> Result<bool, ReplicationError> {
        let link = self.link()?;
        if read_format(&link)?.is_none() {
            // Two members may do this at once: the second one finds everything there, or its names taken.
            let made = link.call(QUERY_MAX, |connected| async move {
                connected.client.batch_execute(CREATE).await?;
                Ok(connected.client.batch_execute(namespaces::CREATE).await?)
            });
            if let Err(fault) = made
                && read_format(&link)?.is_none()
            {
                return Err(explain(fault, &self.address().to_string()));
            }
        }
        check_format(&link)?;
        self.create_group(&link)
    }

    fn create_group(&self, link: &PostgresLink) -> Result<bool, ReplicationError> {
        let group = self.group().to_owned();
        link.change(QUERY_MAX, |connected| async move {
            let sql = "insert into tenure.groups (name) values ($1) on conflict do nothing";
            let is_new = connected.client.execute(sql, &[&group]).await? == 1;
            for stream in Stream::ALL {
                create_first_segment(&connected, &group, stream).await?;
            }
            Ok(is_new)
        })
    }
}

/// Two programs may do this at once, and one may end between two statements: the next call continues.
async fn create_first_segment(
    connected: &Connected,
    group: &str,
    stream: Stream,
) -> Result<(), DatabaseFault> {
    let client = &connected.client;
    if !segments::list(connected, group, stream).await?.is_empty() {
        return Ok(());
    }
    let sql = "select number from tenure.groups where name = $1";
    let number: i32 = client.query_one(sql, &[&group]).await?.get(0);
    let table = segments::create_table(connected, number).await?;
    let sql = format!(
        "with s as (insert into tenure.segments (group_name, stream, start, chain, table_name) \
         values ($1, $2, 0, 0, $3) on conflict do nothing returning 1) \
         insert into tenure.{table} (start, fin, epoch, chain, bytes) select -1, 0, 0, 0, '' from s"
    );
    if client.execute(&sql, &[&group, &stream.name(), &table]).await? == 0 {
        client.batch_execute(&format!("drop table tenure.{table}")).await?;
    }
    Ok(())
}

/// `None`: there is no schema.
pub(crate) fn read_format(link: &PostgresLink) -> Result<Option<i32>, ReplicationError> {
    link.query(QUERY_MAX, |connected| async move {
        let read = connected.client.query_opt("select number from tenure.format", &[]).await;
        match read {
            Ok(row) => Ok(row.map(|row| row.get(0))),
            Err(error) if error.code().is_some_and(|code| matches!(code.code(), "42P01" | "3F000")) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    })
}

pub(crate) fn check_format(link: &PostgresLink) -> Result<(), ReplicationError> {
    match read_format(link)? {
        Some(FORMAT) => Ok(()),
        Some(other) => Err(ReplicationError::Misconfigured(format!(
            "the schema {SCHEMA} has format {other}, and this program knows format {FORMAT}: use the program that \
             made it, or another database"
        ))),
        None => Err(ReplicationError::Misconfigured(format!(
            "the database has no schema {SCHEMA}: make it with `tenure cluster init`, or start once with --create"
        ))),
    }
}

fn explain(fault: DatabaseFault, address: &str) -> ReplicationError {
    if fault.code().is_some_and(|code| code.code() == "42501") {
        return ReplicationError::Misconfigured(format!(
            "the user of {address} may not make the schema {SCHEMA}: as an administrator, run \
             `grant create on database DATABASE to USER`"
        ));
    }
    fault.of_query()
}

//! `tenure cluster status`.

use serde_json::{Value, json};
use tenure_journal_postgres::{GroupStatus, MemberStatus, PostgresJournal};

use crate::exit::{FOUND_TROUBLE, OK, Outcome};
use crate::output::Screen;
use crate::output::table::{Column, Table};
use crate::serve::cluster::start;
use crate::units::{counted, show_duration, show_size};

/// A member that was not heard for this long is shown as silent.
const SILENT_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// Ends with the code of found trouble if no member leads or the database replicates nothing.
pub(super) fn show(journal: &PostgresJournal, screen: &Screen) -> Outcome {
    let status = start::retry_as_tool(|| journal.status())?;
    screen.one(|| text(&status, screen), || value(&status))?;
    Ok(if status.leader.is_some() { OK } else { FOUND_TROUBLE })
}

fn text(status: &GroupStatus, screen: &Screen) -> String {
    let leader = match (&status.leader, status.led_for) {
        (Some(leader), Some(led_for)) => {
            format!("{leader}, for {} ({})", show_duration(led_for), status.led_why)
        }
        (Some(leader), None) => leader.clone(),
        (None, _) => "none: start a member, or look at its log".to_owned(),
    };
    let mut text = format!(
        "group     {} (epoch {})\nleader    {leader}\njournal   position {}, {}, {} ({})\n",
        status.group,
        status.epoch,
        status.end,
        counted(status.segments, "segment", "segments"),
        counted(status.files, "file", "files"),
        show_size(status.file_bytes),
    );
    text += &format!("database  {}\n\n", database(status));
    let columns = [
        Column::Fixed("MEMBER"),
        Column::Fixed("ROLE"),
        Column::Number("BEHIND"),
        Column::Number("SEEN"),
        Column::Number("APPEND P50"),
        Column::Number("P99"),
        Column::Fixed("VERSION"),
        Column::Flexible("DOORS"),
    ];
    let mut table = Table::new(columns, "no member has joined yet");
    for member in &status.members {
        let latency = |span: std::time::Duration| match member.appends {
            0 => "-".to_owned(),
            _ => format!("{:.2}ms", span.as_secs_f64() * 1000.0),
        };
        table.row([
            member.name.as_str().into(),
            role(member).into(),
            show_size(if member.is_leading { 0 } else { member.behind_bytes }).into(),
            format!("{} ago", show_duration(member.seen_ago)).into(),
            latency(member.append_p50).into(),
            latency(member.append_p99).into(),
            member.version.as_str().into(),
            member.doors.as_str().into(),
        ]);
    }
    text + &table.render(screen.width, screen.paint)
}

fn role(member: &MemberStatus) -> &'static str {
    match member.is_leading {
        true => "leading",
        false if member.seen_ago > SILENT_AFTER => "silent",
        false => "standby",
    }
}

fn database(status: &GroupStatus) -> String {
    let database = &status.database;
    let replication = match database.synchronous_standby_names.trim() {
        "" => format!(
            "no synchronous standby: what is acknowledged is as safe as one disk, and members start only with journal_single ({} connected)",
            database.standbys
        ),
        names => format!("synchronous: {names} ({} connected)", database.standbys),
    };
    let waiting = match database.waiting_for_standby {
        0 => String::new(),
        count => format!("; {count} commits wait for a standby"),
    };
    format!(
        "PostgreSQL {} at {}, {}{waiting}, {}",
        database.version,
        database.primary,
        replication,
        show_size(database.bytes)
    )
}

fn value(status: &GroupStatus) -> Value {
    let millis = |span: std::time::Duration| span.as_millis() as u64;
    let members: Vec<Value> = status
        .members
        .iter()
        .map(|member| {
            json!({
                "name": member.name, "role": role(member), "position": member.position,
                "behind_bytes": if member.is_leading { 0 } else { member.behind_bytes },
                "seen_ago_ms": millis(member.seen_ago), "version": member.version, "doors": member.doors,
                "appends": member.appends, "append_p50_us": member.append_p50.as_micros() as u64,
                "append_p99_us": member.append_p99.as_micros() as u64,
            })
        })
        .collect();
    let database = &status.database;
    json!({
        "group": status.group, "id": status.id, "epoch": status.epoch, "leader": status.leader,
        "lease_left_ms": millis(status.lease_left), "led_for_ms": status.led_for.map(millis),
        "led_why": status.led_why, "end": status.end, "settled": status.settled, "segments": status.segments,
        "files": status.files, "file_bytes": status.file_bytes, "members": members,
        "database": {
            "primary": database.primary, "version": database.version,
            "synchronous_standby_names": database.synchronous_standby_names,
            "synchronous": !database.synchronous_standby_names.trim().is_empty(), "standbys": database.standbys,
            "waiting_for_standby": database.waiting_for_standby, "bytes": database.bytes,
        },
    })
}

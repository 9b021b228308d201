//! What a session promises, shown on a real server. Each story has a group of its own.

use std::time::{Duration, Instant};

use tenure_journal_postgres::testing::{PostgresCluster, programs};
use tenure_journal_postgres::{
    GroupEntry, MemberHeartbeat, MemberInfo, PostgresJournal, PostgresSettings, StepDownReply,
};
use tenure_store::{
    FrameGroup, LeaderClaim, Leadership, Member, PerStream, Place, ReplicatedJournal as _, ReplicatedSession,
    ReplicationError, Stream,
};

const LEASE: Duration = Duration::from_secs(3);

fn journal(cluster: &PostgresCluster, group: &str, member: &str) -> PostgresJournal {
    let address = cluster.url().parse().expect("a URL");
    let settings =
        PostgresSettings { address, group: group.to_owned(), member: member.to_owned(), lease: LEASE };
    PostgresJournal::new(settings)
}

fn created(cluster: &PostgresCluster, group: &str) -> PostgresJournal {
    let journal = journal(cluster, group, "b1");
    assert!(journal.create().expect("a group"), "the group is new");
    assert!(!journal.create().expect("the same group"), "it is there already");
    journal
}

fn member(name: &str, instance: u64) -> Member {
    Member { name: name.to_owned(), instance, lease: LEASE, doors: format!("doors of {name}") }
}

fn frames(start: Place, bytes: &[u8]) -> FrameGroup {
    FrameGroup { start, end: start.after(bytes), bytes: bytes.to_vec() }
}

fn lead(session: &mut dyn ReplicatedSession, name: &str, instance: u64) -> Leadership {
    let led = session.lead(&member(name, instance), LeaderClaim::LeaseEnded).expect("an answer");
    led.expect("the claim holds")
}

#[test]
fn a_server_keeps_the_rules_of_a_journal() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 0);
    what_is_appended_is_read(&cluster);
    an_append_needs_its_epoch_and_its_place(&cluster);
    a_lease_keeps_others_away_and_a_lost_session_is_seen(&cluster);
    segments_are_begun_read_across_and_dropped(&cluster);
    a_late_leader_whose_segments_are_dropped_is_fenced(&cluster);
    the_status_counts_the_bytes_of_its_group(&cluster);
    files_are_stored_in_parts(&cluster);
    a_name_belongs_to_one_process(&cluster);
    a_step_down_is_kept_until_another_member_leads(&cluster);
    a_group_knows_why_its_leader_leads(&cluster);
    settings_of_the_role_do_not_matter(&cluster);
    a_namespace_is_placed_only_under_the_last_leaderships(&cluster);
    what_cannot_be_used_is_refused(&cluster);
}

fn a_namespace_is_placed_only_under_the_last_leaderships(cluster: &PostgresCluster) {
    let (one, two) = (created(cluster, "place1"), created(cluster, "place2"));
    assert_eq!(one.placement().unwrap(), None, "nothing is placed");
    let [mut first, mut second] = [&one, &two].map(|journal| journal.connect().unwrap());
    lead(&mut *first, "b1", 1);
    let old = lead(&mut *second, "b1", 1);

    // A group that begins to lead, or is made, after it was looked at keeps the default group from being set.
    let seen = one.groups().unwrap();
    assert_eq!(seen.last(), Some(&GroupEntry { name: "place2".to_owned(), epoch: 1 }), "the oldest first");
    assert!(!one.set_default_group("place1", &seen[1..]).unwrap(), "one is missing");
    second.lead(&member("b1", 1), LeaderClaim::Own { epoch: old.epoch }).unwrap().unwrap();
    assert!(!one.set_default_group("place1", &seen).unwrap(), "another epoch has begun");
    let seen = one.groups().unwrap();
    assert!(one.set_default_group("place1", &seen).unwrap());
    assert!(!one.set_default_group("place2", &seen).unwrap(), "there is one");
    let placement = two.placement().unwrap().expect("something is placed");
    assert_eq!((placement.group_of("lab"), &placement.namespaces[..]), ("place1", &[][..]));

    // A row changes if both leaderships are the last ones, and if it is where it is said to be.
    let led = |epochs: [u64; 2]| {
        ["place1", "place2"]
            .iter()
            .zip(epochs)
            .map(|(name, epoch)| GroupEntry { name: (*name).to_owned(), epoch })
    };
    let move_to = |from: &str, to: &str, epochs: [u64; 2]| {
        one.finish_move("lab", (from, to), 7, &led(epochs).collect::<Vec<_>>()).unwrap()
    };
    assert!(!move_to("place1", "place2", [1, 2]), "no move has begun");
    one.begin_move("lab", "place1").unwrap();
    assert!(one.begin_move("lab", "place2").is_err(), "it is not there");
    assert!(!move_to("place1", "place2", [1, 1]), "fenced");
    assert!(!move_to("place2", "place1", [1, 2]), "it is not there");
    assert_eq!(one.placement().unwrap().unwrap().group_of("lab"), "place1");
    assert!(move_to("place1", "place2", [1, 2]));
    assert!(!move_to("place1", "place2", [1, 2]), "once");
    let row = &one.placement().unwrap().unwrap().namespaces[0];
    assert_eq!((&*row.group, row.is_moving, row.epoch, row.first_event), ("place2", false, 2, 7));
}

fn what_is_appended_is_read(cluster: &PostgresCluster) {
    let journal = created(cluster, "append");
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 7);
    assert_eq!(
        (leadership.epoch, leadership.tails.tasks.end, leadership.tails.tasks.segment),
        (1, Place::default(), 0)
    );
    let one = frames(leadership.tails.tasks.end, b"first");
    session.append(&leadership, Stream::Tasks, &one).unwrap();
    let two = frames(one.end, b"second group");
    session.append(&leadership, Stream::Tasks, &two).unwrap();
    let read = session.read(Stream::Tasks, 0, 1 << 20).unwrap();
    let bytes: Vec<&[u8]> = read.iter().map(|group| &group.bytes[..]).collect();
    assert_eq!(bytes, [b"", &one.bytes[..], &two.bytes[..]]);
    assert_eq!((read[1].end, read[2].end, read[2].start), (one.end, two.end, one.end.position));
    let state = session.look().unwrap();
    assert_eq!((state.streams.tasks.end, state.holder.as_deref(), state.instance), (two.end, Some("b1"), 7));
    assert_eq!(state.doors, "doors of b1");
    // The last group that ends at or before the position comes first.
    let read = session.read(Stream::Tasks, two.end.position, 0).unwrap();
    assert_eq!((read.len(), read[0].start, read[0].end), (1, one.end.position, two.end));
    let read = session.read(Stream::Tasks, one.end.position + 1, 0).unwrap();
    assert_eq!((read[0].end, read.len()), (one.end, 2), "the group around a position follows");
}

fn an_append_needs_its_epoch_and_its_place(cluster: &PostgresCluster) {
    let journal = created(cluster, "fence");
    let mut session = journal.connect().unwrap();
    let old = lead(&mut *session, "b1", 1);
    let one = frames(old.tails.tasks.end, b"one");
    session.append(&old, Stream::Tasks, &one).unwrap();
    let misplaced = session.append(&old, Stream::Tasks, &frames(old.tails.tasks.end, b"again")).unwrap_err();
    assert_eq!(misplaced, ReplicationError::NotAtEnd { end: 3 });
    let forked = Place { chain: 1, ..one.end };
    assert_eq!(
        session.append(&old, Stream::Tasks, &frames(forked, b"x")),
        Err(ReplicationError::NotAtEnd { end: 3 })
    );
    let mut other = journal.connect().unwrap();
    let own = other.lead(&member("b1", 1), LeaderClaim::Own { epoch: old.epoch }).unwrap().unwrap();
    assert_eq!((own.epoch, own.tails.tasks.end), (2, one.end));
    let fenced = ReplicationError::Fenced { holder: "b1".to_owned(), epoch: 2 };
    assert_eq!(session.append(&old, Stream::Tasks, &frames(one.end, b"late")), Err(fenced.clone()));
    assert_eq!(session.renew(&old, PerStream::default()), Err(fenced.clone()));
    assert_eq!(session.begin_segment(&old, Stream::Tasks, one.end), Err(fenced.clone()));
    assert_eq!(session.put_file(&old, "snapshot-1", b"x"), Err(fenced.clone()));
    assert_eq!(session.drop_segments(&old, Stream::Tasks, &[0]), Err(fenced.clone()));
    assert_eq!(session.release(&old), Err(fenced));
    let stale = other.lead(&member("b1", 1), LeaderClaim::Own { epoch: old.epoch }).unwrap();
    assert_eq!(stale, None, "an epoch can be continued once");
    other.append(&own, Stream::Tasks, &frames(one.end, b"two")).unwrap();
}

fn a_lease_keeps_others_away_and_a_lost_session_is_seen(cluster: &PostgresCluster) {
    let journal_1 = created(cluster, "lease");
    let journal_2 = journal(cluster, "lease", "b2");
    let mut leader = journal_1.connect().unwrap();
    let leadership = lead(&mut *leader, "b1", 1);
    let mut standby = journal_2.connect().unwrap();
    let state = standby.look().unwrap();
    assert!(state.lease_left > Duration::from_secs(1) && !state.is_leader_gone, "{state:?}");
    assert_eq!(standby.lead(&member("b2", 2), LeaderClaim::LeaseEnded).unwrap(), None);
    leader.renew(&leadership, PerStream::default()).unwrap();
    drop(leader);
    let since = Instant::now();
    let state = loop {
        let state = standby.look().unwrap();
        if state.is_leader_gone || since.elapsed() > LEASE {
            break state;
        }
    };
    assert!(state.is_leader_gone, "the session's end is seen before the lease ends");
    let led =
        standby.lead(&member("b2", 2), LeaderClaim::LeaderGone { epoch: state.epoch }).unwrap().unwrap();
    assert_eq!(led.epoch, 2);
    standby.release(&led).unwrap();
    let renewed = standby.renew(&led, PerStream::default());
    assert!(matches!(renewed, Err(ReplicationError::Fenced { .. })), "{renewed:?} after the release");
    let again = standby.lead(&member("b2", 2), LeaderClaim::Own { epoch: led.epoch }).unwrap();
    assert_eq!(again, None, "it leads no longer");
    let mut third = journal_1.connect().unwrap();
    let state = third.look().unwrap();
    assert_eq!((state.lease_left, state.holder), (Duration::ZERO, None));
}

fn segments_are_begun_read_across_and_dropped(cluster: &PostgresCluster) {
    let journal = created(cluster, "segments");
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 1);
    let mut place = leadership.tails.tasks.end;
    let mut starts = vec![place];
    for text in [&b"in the first"[..], b"in the second", b"in the third"] {
        if place.position > 0 {
            session.begin_segment(&leadership, Stream::Tasks, place).unwrap();
            session.begin_segment(&leadership, Stream::Tasks, place).unwrap();
            starts.push(place);
        }
        let group = frames(place, text);
        session.append(&leadership, Stream::Tasks, &group).unwrap();
        place = group.end;
    }
    assert_eq!(session.look().unwrap().streams.tasks.segments, starts);
    let read = session.read(Stream::Tasks, 0, 1 << 20).unwrap();
    let shown: Vec<(u64, u64, usize)> =
        read.iter().map(|group| (group.segment, group.start, group.bytes.len())).collect();
    assert_eq!(shown, [(0, 0, 0), (0, 0, 12), (12, 12, 0), (12, 12, 13), (25, 25, 0), (25, 25, 12)]);
    let read = session.read(Stream::Tasks, 12, 1 << 20).unwrap();
    assert_eq!((read[0].segment, read[0].end), (12, starts[1]), "a segment's beginning is a place");
    session.drop_segments(&leadership, Stream::Tasks, &[0, 25]).unwrap();
    assert_eq!(session.look().unwrap().streams.tasks.segments, starts[1..], "the newest segment stays");
    assert!(matches!(session.read(Stream::Tasks, 3, 10), Err(ReplicationError::Gone(_))));
    let orphans = "select count(*) from pg_tables where tablename like 'g%_seg_%' \
                   and tablename not in (select table_name from tenure.segments)";
    assert_eq!(cluster.sql(0, orphans).trim(), "0", "a dropped segment leaves no table");
}

/// A leader that was frozen for long knows a table as the newest that its successor has dropped.
fn a_late_leader_whose_segments_are_dropped_is_fenced(cluster: &PostgresCluster) {
    let journal = created(cluster, "dropped");
    let mut frozen = journal.connect().unwrap();
    let old = lead(&mut *frozen, "b1", 1);
    let ends = PerStream::new(|stream| {
        let group = frames(old.tails[stream].end, b"of the first leader");
        frozen.append(&old, stream, &group).unwrap();
        group.end
    });
    let mut next = journal.connect().unwrap();
    let own = next.lead(&member("b2", 2), LeaderClaim::LeaderGone { epoch: old.epoch }).unwrap().unwrap();
    for stream in Stream::ALL {
        next.begin_segment(&own, stream, ends[stream]).unwrap();
        next.drop_segments(&own, stream, &[0]).unwrap();
    }
    for stream in Stream::ALL {
        let late = frozen.append(&old, stream, &frames(ends[stream], b"late"));
        assert_eq!(late, Err(ReplicationError::Fenced { holder: "b2".to_owned(), epoch: 2 }), "{stream:?}");
    }
    assert_eq!(
        frozen.begin_segment(&old, Stream::Tasks, ends.tasks),
        Err(ReplicationError::Fenced { holder: "b2".to_owned(), epoch: 2 })
    );
}

fn the_status_counts_the_bytes_of_its_group(cluster: &PostgresCluster) {
    let (large, small) = (created(cluster, "large"), created(cluster, "small"));
    let mut session = large.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 1);
    let group = frames(leadership.tails.tasks.end, &vec![7; 2 << 20]);
    session.append(&leadership, Stream::Tasks, &group).unwrap();
    let before = large.status().unwrap().database.bytes;
    assert!(before > 2 << 20, "{before}");
    session.put_file(&leadership, "snapshot-1", &vec![7; 1 << 20]).unwrap();
    let grown = large.status().unwrap().database.bytes - before;
    assert!(grown >= 1 << 20, "{grown}");
    let other = small.status().unwrap().database.bytes;
    assert!(other < 1 << 20, "{other} bytes of a group that is empty");
}

fn files_are_stored_in_parts(cluster: &PostgresCluster) {
    let journal = created(cluster, "files");
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 1);
    let long: Vec<u8> = (0..2_500_000_u32).map(|number| (number % 251) as u8).collect();
    session.put_file(&leadership, "snapshot-1", &long).unwrap();
    session.put_file(&leadership, "events-1", b"").unwrap();
    assert_eq!(session.get_file("snapshot-1").unwrap(), long);
    assert_eq!(session.get_file("events-1").unwrap(), b"");
    session.put_file(&leadership, "snapshot-1", b"shorter").unwrap();
    assert_eq!(session.get_file("snapshot-1").unwrap().len(), long.len(), "a longer file is the newer one");
    session.put_file(&leadership, "events-1", b"grown").unwrap();
    let files = session.look().unwrap().files;
    let listed: Vec<(&str, u64)> = files.iter().map(|file| (&*file.name, file.bytes)).collect();
    assert_eq!(listed, [("events-1", 5), ("snapshot-1", 2_500_000)]);
    session.remove_file(&leadership, "snapshot-1").unwrap();
    assert!(matches!(session.get_file("snapshot-1"), Err(ReplicationError::Gone(_))));
    let parts = cluster.sql(0, "select count(*) from tenure.file_parts where group_name = 'files'");
    assert_eq!(parts.trim(), "1", "replaced and removed parts are gone");
}

fn a_name_belongs_to_one_process(cluster: &PostgresCluster) {
    let journal = created(cluster, "names");
    let info = |name: &str, instance| MemberInfo { name: name.to_owned(), instance, version: "1".to_owned() };
    let mut first = journal.join(info("b1", 1)).unwrap().expect("the name is free");
    assert!(journal.join(info("b1", 2)).unwrap().is_none(), "the name is taken");
    let beat = MemberHeartbeat {
        doors: "{}".to_owned(),
        is_leading: true,
        position: 9,
        latency: journal.append_latency(),
    };
    assert!(!first.beat(&beat).unwrap().is_asked_to_step_down);
    let mut session = journal.connect().unwrap();
    lead(&mut *session, "b1", 1);
    assert_eq!(journal.ask_to_step_down(None).unwrap(), StepDownReply::NoStandby);
    let mut second = journal.join(info("b2", 5)).unwrap().unwrap();
    second.beat(&MemberHeartbeat { is_leading: false, ..beat.clone() }).unwrap();
    assert_eq!(journal.ask_to_step_down(Some("b3")).unwrap(), StepDownReply::NoStandby);
    assert_eq!(journal.ask_to_step_down(Some("b1")).unwrap(), StepDownReply::NoStandby, "it leads");
    cluster.sql(
        0,
        "update tenure.members set seen = seen - interval '1 minute' where group_name = 'names' and name = 'b2'",
    );
    assert_eq!(journal.ask_to_step_down(Some("b2")).unwrap(), StepDownReply::SilentStandby);
    second.beat(&MemberHeartbeat { is_leading: false, ..beat.clone() }).unwrap();
    let asked = StepDownReply::Asked { leader: "b1".to_owned(), epoch: 1 };
    assert_eq!(journal.ask_to_step_down(None).unwrap(), asked);
    let heard = first.beat(&beat).unwrap();
    assert!(heard.is_asked_to_step_down);
    assert_eq!(heard.members.iter().map(|member| &*member.name).collect::<Vec<_>>(), ["b1", "b2"]);
    let status = journal.status().unwrap();
    assert_eq!((status.leader.as_deref(), status.members.len()), (Some("b1"), 2));
    assert!(journal.forget("b1").unwrap_err().to_string().contains("b1 is alive"));
    drop(first);
    let since = Instant::now();
    let forgotten = loop {
        match journal.forget("b1") {
            Err(_) if since.elapsed() < LEASE => std::thread::sleep(Duration::from_millis(20)),
            other => break other.unwrap(),
        }
    };
    assert!(forgotten && !journal.forget("stranger").unwrap());
}

/// What is wished with a step-down holds although the leader connects again and takes long to release its lease.
fn a_step_down_is_kept_until_another_member_leads(cluster: &PostgresCluster) {
    let first = created(cluster, "wish");
    let info = |name: &str, instance| MemberInfo { name: name.to_owned(), instance, version: "1".to_owned() };
    let beat = MemberHeartbeat {
        doors: String::new(),
        is_leading: true,
        position: 0,
        latency: first.append_latency(),
    };
    let mut heartbeats = first.join(info("b1", 1)).unwrap().expect("the name is free");
    let mut session = first.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 1);
    heartbeats.beat(&beat).unwrap();
    for name in ["b2", "b3"] {
        let mut standby = first.join(info(name, 2)).unwrap().expect("the name is free");
        standby.beat(&MemberHeartbeat { is_leading: false, ..beat.clone() }).unwrap();
    }
    let asked = first.ask_to_step_down(Some("b3")).unwrap();
    assert_eq!(asked, StepDownReply::Asked { leader: "b1".to_owned(), epoch: 1 });

    // The leader begins a new epoch on a new connection before it hears of it.
    let mut session = first.connect().unwrap();
    let again = LeaderClaim::Own { epoch: leadership.epoch };
    let leadership = session.lead(&member("b1", 1), again).unwrap().expect("it leads still");
    assert!(heartbeats.beat(&beat).unwrap().is_asked_to_step_down, "with the new epoch, too");
    // What it has to write takes longer than the group reserves the lease for b3.
    cluster.sql(
        0,
        "update tenure.groups set chosen_until = least(chosen_until, clock_timestamp() - interval '1 second') \
         where name = 'wish'",
    );
    session.release(&leadership).unwrap();
    let (second, third) = (journal(cluster, "wish", "b2"), journal(cluster, "wish", "b3"));
    let mut of_second = second.connect().unwrap();
    assert!(!of_second.look().unwrap().lease_left.is_zero(), "it is not the turn of b2");
    assert_eq!(of_second.lead(&member("b2", 2), LeaderClaim::LeaseEnded).unwrap(), None);
    let mut of_third = third.connect().unwrap();
    assert!(of_third.look().unwrap().lease_left.is_zero());
    lead(&mut *of_third, "b3", 3);
}

/// A standby that looks in the moment of a release sees a free lock, and takes the leader for gone.
fn a_group_knows_why_its_leader_leads(cluster: &PostgresCluster) {
    let journal = created(cluster, "why");
    let why = || journal.status().unwrap().led_why;
    let mut session = journal.connect().unwrap();
    let first = lead(&mut *session, "b1", 1);
    assert_eq!(why(), "the group was new");
    session.release(&first).unwrap();
    let mut other = journal.connect().unwrap();
    let second =
        other.lead(&member("b2", 2), LeaderClaim::LeaderGone { epoch: first.epoch }).unwrap().unwrap();
    assert_eq!(why(), "the leader had left");
    let mut again = journal.connect().unwrap();
    let third = again.lead(&member("b2", 2), LeaderClaim::Own { epoch: second.epoch }).unwrap().unwrap();
    assert_eq!(why(), "the leader had left", "a new connection is no takeover");
    let gone = LeaderClaim::LeaderGone { epoch: third.epoch };
    session.lead(&member("b1", 1), gone).unwrap().unwrap();
    assert_eq!(why(), "the leader's session was gone");
    cluster.sql(0, "update tenure.groups set until = 'epoch' where name = 'why'");
    lead(&mut *other, "b2", 2);
    assert_eq!(why(), "the lease had ended");
}

/// A role's timeouts would cancel the wait for a standby, and its isolation level would fail appends.
fn settings_of_the_role_do_not_matter(cluster: &PostgresCluster) {
    cluster.sql(0, "alter role tenure set statement_timeout = '100ms'");
    cluster.sql(0, "alter role tenure set synchronous_commit = off");
    cluster.sql(0, "alter role tenure set default_transaction_isolation = 'serializable'");
    let journal = created(cluster, "role");
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, "b1", 1);
    session
        .append(&leadership, Stream::Tasks, &frames(leadership.tails.tasks.end, &vec![7; 1 << 20]))
        .unwrap();
    let slow = cluster.sql(0, "show synchronous_commit");
    assert_eq!(slow.trim(), "off", "the role's own sessions have them");
    cluster.sql(0, "alter role tenure reset all");
}

fn what_cannot_be_used_is_refused(cluster: &PostgresCluster) {
    let refused = |journal: &PostgresJournal| match journal.check() {
        Err(ReplicationError::Misconfigured(why)) => why,
        other => panic!("{other:?} is no refusal"),
    };
    let unknown = journal(cluster, "unknown", "b1");
    let why = refused(&unknown);
    assert!(why.contains("no group unknown: make it with `tenure cluster init --group unknown`"), "{why}");
    let checked = created(cluster, "checked").check().unwrap();
    assert!(!checked.is_synchronous && checked.group.name == "checked" && checked.group.id.len() == 36);
    cluster.sql(0, "update tenure.format set number = 99");
    assert!(refused(&unknown).contains("format 99"));
    cluster.sql(0, "update tenure.format set number = 1");
    for setting in ["fsync", "full_page_writes"] {
        cluster.sql(0, &format!("alter system set {setting} = off"));
        cluster.sql(0, "select pg_reload_conf()");
        cluster.wait(0, &format!("show {setting}"), "off");
        assert!(refused(&unknown).contains(&format!("{setting} = off")));
        cluster.sql(0, &format!("alter system reset {setting}"));
        cluster.sql(0, "select pg_reload_conf()");
        cluster.wait(0, &format!("show {setting}"), "on");
    }
    cluster.sql(0, "create role weak login");
    let weak = PostgresSettings {
        address: cluster.url().replace("tenure@", "weak@").parse().unwrap(),
        group: "weak".to_owned(),
        member: "b1".to_owned(),
        lease: LEASE,
    };
    let why = refused(&PostgresJournal::new(weak));
    assert!(why.contains("too few rights"), "{why}");
}

//! Faults of a real database that each taught a rule, with a primary and two standbys. Each has servers of its own,
//! because it leaves them in pieces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_engine::{Settings, Timestamp};
use tenure_journal_postgres::testing::{AnswerProxy, PostgresCluster, programs};
use tenure_journal_postgres::{PostgresJournal, PostgresSettings};
use tenure_store::{
    FrameGroup, LeaderClaim, Leadership, Member, MemoryDisk, Parts, PerStream, Place, Replica,
    ReplicaSettings, ReplicatedJournal as _, ReplicatedSession, ReplicationError, StoreSettings, Stream,
    TopicLog, TopicRows,
};

const LEASE: Duration = Duration::from_secs(5);

fn created(cluster: &PostgresCluster) -> PostgresJournal {
    created_at(&cluster.url())
}

fn created_at(url: &str) -> PostgresJournal {
    let address = url.parse().expect("a URL");
    let settings = PostgresSettings { address, group: "g1".into(), member: "b1".into(), lease: LEASE };
    let journal = PostgresJournal::new(settings);
    journal.create().expect("a group");
    journal
}

fn member() -> Member {
    Member { name: "b1".to_owned(), instance: 1, lease: LEASE, doors: String::new() }
}

fn lead(session: &mut dyn ReplicatedSession, claim: LeaderClaim) -> Leadership {
    session.lead(&member(), claim).expect("an answer").expect("the claim holds")
}

fn append(
    session: &mut dyn ReplicatedSession,
    leadership: &Leadership,
    at: Place,
) -> Result<Place, ReplicationError> {
    let bytes = b"some frames".to_vec();
    let group = FrameGroup { start: at, end: at.after(&bytes), bytes };
    session.append(leadership, Stream::Tasks, &group).map(|()| group.end)
}

/// The server answers "committed" to a commit whose wait for a standby was cancelled. It may not be on any standby.
#[test]
fn a_cancelled_wait_for_a_standby_is_a_doubt_that_a_new_epoch_resolves() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 2);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let end = append(&mut *session, &leadership, leadership.tails.tasks.end).unwrap();
    for standby in [1, 2] {
        cluster.freeze(standby, true);
    }
    let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| append(&mut *session, &leadership, end));
        cluster.wait(0, waiting, "1");
        cluster.sql(0, cancel);
        appending.join().expect("no panic")
    });
    assert_eq!(appended, Err(ReplicationError::Doubt), "the warning is heeded");
    for standby in [1, 2] {
        cluster.freeze(standby, false);
    }
    let mut again = journal.connect().unwrap();
    let own = lead(&mut *again, LeaderClaim::Own { epoch: leadership.epoch });
    assert_eq!(own.tails.tasks.end.position, 22, "what a standby has now is committed");
    let late = append(&mut *session, &leadership, own.tails.tasks.end);
    assert!(matches!(late, Err(ReplicationError::Fenced { .. })), "{late:?}");
}

/// A role's statement timeout would cancel the wait for a standby, and the server would answer that it is committed.
#[test]
fn a_statement_timeout_of_the_role_cancels_no_wait_for_a_standby() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 2);
    cluster.sql(0, "alter role tenure set statement_timeout = '300ms'");
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    for standby in [1, 2] {
        cluster.freeze(standby, true);
    }
    let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| append(&mut *session, &leadership, leadership.tails.tasks.end));
        cluster.wait(0, waiting, "1");
        // Well beyond the timeout of the role, and within the lease.
        std::thread::sleep(Duration::from_millis(900));
        assert!(!appending.is_finished(), "the wait goes on");
        for standby in [1, 2] {
            cluster.freeze(standby, false);
        }
        appending.join().expect("no panic")
    });
    match appended {
        Ok(end) => assert_eq!(end.position, 11),
        // On a machine that is busy for longer than the lease.
        Err(error) => assert_eq!(error, ReplicationError::Doubt),
    }
}

/// Sessions of brokers must not pile up while commits wait for a standby.
#[test]
fn a_missing_standby_blocks_changes_and_nothing_else() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 2);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    for standby in [1, 2] {
        cluster.freeze(standby, true);
    }
    let begun = Instant::now();
    let appended = append(&mut *session, &leadership, leadership.tails.tasks.end);
    assert_eq!(appended, Err(ReplicationError::Doubt), "no answer within the lease");
    assert!(begun.elapsed() < LEASE * 3, "{:?}", begun.elapsed());
    let mut other = journal.connect().expect("connections are possible");
    assert_eq!(other.look().expect("reading is possible").epoch, leadership.epoch);
    let refused = other.lead(&member(), LeaderClaim::Own { epoch: leadership.epoch });
    assert!(matches!(refused, Err(ReplicationError::Doubt | ReplicationError::Away(_))), "{refused:?}");
    drop((session, other));
    for standby in [1, 2] {
        cluster.freeze(standby, false);
    }
    let gone = "select count(*) from pg_stat_activity where application_name like 'tenure g1%'";
    cluster.wait(0, gone, "0");
    let mut later = journal.connect().unwrap();
    let state = later.look().unwrap();
    let own = lead(&mut *later, LeaderClaim::Own { epoch: state.epoch });
    assert_eq!(own.tails.tasks.end.position, 11, "the append was committed when a standby had it");
}

/// A frozen primary that is named first must not keep brokers away from its successor.
#[test]
fn a_frozen_primary_is_left_for_its_successor_and_refused_when_it_thaws() {
    let Some(programs) = programs() else { return };
    let mut cluster = PostgresCluster::start(programs, 2);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let end = append(&mut *session, &leadership, leadership.tails.tasks.end).unwrap();
    cluster.freeze(0, true);
    cluster.promote(1);
    cluster.follow(2);
    let begun = Instant::now();
    let mut next = journal.connect().expect("the new primary is found");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let own = lead(&mut *next, LeaderClaim::Own { epoch: leadership.epoch });
    assert_eq!(own.tails.tasks.end, end);
    let end = append(&mut *next, &own, end).unwrap();
    // The old primary still believes that it is one.
    cluster.freeze(0, false);
    cluster.wait(0, "select pg_is_in_recovery()", "f");
    for _ in 0..5 {
        let mut session = journal.connect().unwrap();
        assert_eq!(session.look().unwrap().streams.tasks.end, end, "the newer timeline is used");
    }
    let late = append(&mut *session, &leadership, Place::default());
    assert!(late.is_err(), "{late:?}");
}

/// A session that was cut in the middle is in doubt, and what it still has under way is fenced.
#[test]
fn a_cut_connection_is_a_doubt() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 0);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let mut leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let mut end = leadership.tails.tasks.end;
    for _ in 0..20 {
        end = append(&mut *session, &leadership, end).unwrap();
        cluster.sql(
            0,
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'tenure %'",
        );
        let cut = append(&mut *session, &leadership, end);
        assert_eq!(cut, Err(ReplicationError::Doubt));
        assert!(session.look().is_err(), "the session is useless");
        session = journal.connect().unwrap();
        leadership = lead(&mut *session, LeaderClaim::Own { epoch: leadership.epoch });
        assert_eq!(leadership.tails.tasks.end, end, "it was not done");
        session.renew(&leadership, PerStream::default()).unwrap();
    }
}

/// Committed, and the answer lost: the next epoch finds it, and nothing is written twice.
#[test]
fn an_append_whose_answer_is_lost_is_found_by_the_next_epoch() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 0);
    let proxy = AnswerProxy::start(cluster.servers[0].port);
    let journal = created_at(&format!("postgres://tenure@127.0.0.1:{}/work", proxy.port));
    let table = "select table_name from tenure.segments where group_name = 'g1' and stream = 'tasks'";
    let table = cluster.sql(0, table).trim().to_owned();
    let mut session = journal.connect().unwrap();
    let mut leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let mut end = append(&mut *session, &leadership, leadership.tails.tasks.end).unwrap();
    for _ in 0..10 {
        proxy.lose_answers();
        let cut = std::thread::scope(|scope| {
            let appending = scope.spawn(|| append(&mut *session, &leadership, end));
            let last = format!("select max(fin) from tenure.{table}");
            cluster.wait(0, &last, &(end.position + 11).to_string());
            proxy.cut();
            appending.join().expect("no panic")
        });
        assert_eq!(cut, Err(ReplicationError::Doubt), "it is committed, and the leader cannot know");
        session = journal.connect().unwrap();
        leadership = lead(&mut *session, LeaderClaim::Own { epoch: leadership.epoch });
        assert_eq!(leadership.tails.tasks.end, end.after(b"some frames"), "it was done, once");
        end = append(&mut *session, &leadership, leadership.tails.tasks.end).unwrap();
    }
    assert!(proxy.lost_bytes() > 0);
}

/// A commit waits for a standby, and the primary crashes and comes back: it shows what no standby has. A leader that
/// resolved its doubt by reading would acknowledge it, and the next failover would lose it.
#[test]
fn what_a_restarted_primary_shows_is_acknowledged_only_when_a_standby_has_it() {
    let Some(programs) = programs() else { return };
    let mut cluster = PostgresCluster::start(programs, 2);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let end = append(&mut *session, &leadership, leadership.tails.tasks.end).unwrap();
    for standby in [1, 2] {
        cluster.kill(standby);
    }
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| append(&mut *session, &leadership, end));
        cluster.wait(0, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'", "1");
        cluster.kill(0);
        appending.join().expect("no panic")
    });
    assert_eq!(appended, Err(ReplicationError::Doubt));
    cluster.start_server(0);
    let mut session = journal.connect().unwrap();
    let shown = session.look().unwrap().streams.tasks.end;
    assert_eq!(shown, end.after(b"some frames"), "a read shows it as committed");
    let own = LeaderClaim::Own { epoch: leadership.epoch };
    let led = session.lead(&member(), own);
    assert!(matches!(led, Err(ReplicationError::Doubt)), "a change waits for a standby: {led:?}");

    cluster.kill(0);
    for standby in [1, 2] {
        cluster.start_server(standby);
    }
    cluster.promote(1);
    cluster.follow(2);
    let mut session = journal.connect().unwrap();
    assert_eq!(session.look().unwrap().streams.tasks.end, end, "what was shown is gone");
    let own = lead(&mut *session, own);
    assert_eq!(own.tails.tasks.end, end, "the leader learns it, and sends its frames again");
    let again = append(&mut *session, &own, end).unwrap();
    assert_eq!(again, shown);
}

/// The append updates nothing, so an old snapshot, such as that of a dump, does not slow it down.
#[test]
#[ignore = "measures: cargo xtask test cluster"]
fn a_held_snapshot_does_not_slow_appends() {
    let Some(programs) = programs() else { return };
    let cluster = PostgresCluster::start(programs, 0);
    let journal = created(&cluster);
    let mut session = journal.connect().unwrap();
    let leadership = lead(&mut *session, LeaderClaim::LeaseEnded);
    let mut end = leadership.tails.tasks.end;
    let mut half = |count: usize| {
        let mut spans: Vec<Duration> = (0..count)
            .map(|_| {
                let begun = Instant::now();
                end = append(&mut *session, &leadership, end).unwrap();
                begun.elapsed()
            })
            .collect();
        session.renew(&leadership, PerStream::default()).unwrap();
        spans.sort_unstable();
        spans[count / 2]
    };
    let before = half(3_000);
    // In full as long as a dump of a small database; shorter where faults are fewer, too.
    let is_short = std::env::var_os("TENURE_TEST_FAULTS").is_some();
    let held_for = Duration::from_secs(if is_short { 10 } else { 50 });
    std::thread::scope(|scope| {
        // A statement of the test may take 60 s.
        let held =
            "begin isolation level repeatable read; select count(*) from tenure.groups; select pg_sleep(59)";
        let cluster = &cluster;
        let holding = scope.spawn(move || cluster.sql(0, held));
        let is_held = "select count(*) from pg_stat_activity where query like '%pg_sleep%' \
                       and state = 'active' and pid <> pg_backend_pid()";
        cluster.wait(0, is_held, "1");
        let begun = Instant::now();
        let first = half(3_000);
        while begun.elapsed() < held_for {
            half(500);
        }
        let last = half(3_000);
        println!(
            "append p50: {before:?} before, {first:?} and {last:?} with a snapshot held for {held_for:?}"
        );
        let most = if is_short { before * 3 } else { before.mul_f64(1.3) };
        assert!(last < most, "{last:?} against {before:?}");
        cluster.sql(0, "select pg_cancel_backend(pid) from pg_stat_activity where query like '%pg_sleep%' and pid <> pg_backend_pid()");
        let _ = holding.join();
    });
}

/// A member that leads, with its log of topics.
fn lead_topics(journal: &PostgresJournal, name: &str, instance: u64) -> (Parts, TopicLog) {
    let member = Member { name: name.to_owned(), ..member() };
    let settings = ReplicaSettings {
        member: Member { instance, ..member },
        store: StoreSettings::default(),
        mutation: None,
    };
    let disk = Arc::new(MemoryDisk::new());
    let mut replica = Replica::open(disk, Arc::new(journal.clone()), settings).expect("the disk is free");
    let now = Timestamp(1_769_860_800_000);
    let led = replica.lead(LeaderClaim::LeaseEnded, Settings::default(), now, now);
    let parts = led.expect("the database answers").expect("the group is free").store.split();
    let log =
        parts.reader.open_topics(tenure_store::TopicLogSettings::default()).expect("the copy is sound").log;
    (parts, log)
}

fn publish(log: &mut TopicLog, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let mut rows = TopicRows::default();
        rows.message(Timestamp(number), b"audit", &number.to_le_bytes());
        log.append(&rows).expect("nothing is written yet");
        let since = Instant::now();
        while let Err(error) = log.sync() {
            assert!(since.elapsed() < Duration::from_secs(60), "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An asynchronous standby lacks what was acknowledged, and is promoted. The leader has it in its files.
#[test]
fn what_a_lagging_standby_lacks_is_put_back_when_it_is_promoted() {
    let Some(programs) = programs() else { return };
    let mut cluster = PostgresCluster::start(programs, 1);
    let journal = created(&cluster);
    // Neither of them waits: the standby has none of its own when it is promoted.
    for server in [0, 1] {
        cluster.sql(server, "alter system set synchronous_standby_names = ''");
        cluster.sql(server, "select pg_reload_conf()");
    }
    let (mut parts, mut log) = lead_topics(&journal, "b1", 1);
    publish(&mut log, 1..=10);
    cluster.wait(0, "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()", "1");
    cluster.sql(1, "alter system set primary_conninfo = ''");
    cluster.sql(1, "select pg_reload_conf()");
    cluster.wait(1, "select count(*) from pg_stat_wal_receiver", "0");
    publish(&mut log, 11..=20);
    cluster.kill(0);
    cluster.promote(1);
    publish(&mut log, 21..=21);
    assert!(parts.writer.refilled_bytes() > 0, "ten messages were put back");
    let now = Timestamp(1_769_860_800_000);
    parts.writer.close(now).expect("the lease ends");
    let (_parts, log) = lead_topics(&journal, "b2", 2);
    let mut found = Vec::new();
    log.messages(|at, _, _| found.push(at.0)).expect("the copy is sound");
    assert_eq!(found, (1..=21).collect::<Vec<_>>());
}

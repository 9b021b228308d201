//! Servers that refuse or break a connection: before the first success that is a mistake in the settings, and afterwards
//! a server that is not the one it was.

use std::path::Path;
use std::time::Duration;

use tenure_journal_postgres::testing::{FaultyAnswer, FaultyHost, PASSWORD, PostgresCluster, programs};
use tenure_journal_postgres::{PostgresJournal, PostgresSettings};
use tenure_store::{LeaderClaim, Member, ReplicatedJournal as _, ReplicationError};

const LEASE: Duration = Duration::from_secs(5);

fn journal(url: &str) -> PostgresJournal {
    let address = url.parse().expect("a URL");
    PostgresJournal::new(PostgresSettings { address, group: "g1".into(), member: "b1".into(), lease: LEASE })
}

fn refusal(journal: &PostgresJournal) -> ReplicationError {
    journal.connect().expect_err("there is no primary")
}

/// The URL with one more host.
fn with_host(url: &str, host: &FaultyHost) -> String {
    url.replace("/work", &format!(",127.0.0.1:{}/work", host.port))
}

#[test]
fn a_broken_tls_handshake_is_no_mistake_in_the_settings() {
    let host = FaultyHost::start(FaultyAnswer::BrokenHandshake);
    let authorities = tempfile::NamedTempFile::new().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(authorities.path(), made.cert.pem()).unwrap();
    let url = format!(
        "postgres://tenure@127.0.0.1:{}/work?sslmode=verify-full&sslrootcert={}",
        host.port,
        authorities.path().display()
    );
    let error = refusal(&journal(&url));
    assert!(matches!(error, ReplicationError::Away(_)), "{error:?}");
}

#[test]
fn a_host_that_refuses_the_login_is_named_at_the_start_and_waited_for_later() {
    let Some(programs) = programs() else { return };
    let mut cluster = PostgresCluster::start(programs, 0);
    for code in ["28000", "28P01", "3D000"] {
        let host = FaultyHost::start(FaultyAnswer::Refusal(code));
        let url = with_host(&cluster.url(), &host);
        let journal_of_broker = journal(&url);
        journal_of_broker.create().unwrap();
        let mut leader = journal_of_broker.connect().expect("the primary is found beside it");
        let member = Member { name: "b1".to_owned(), instance: 1, lease: LEASE, doors: String::new() };
        leader.lead(&member, LeaderClaim::LeaseEnded).unwrap().expect("the group is free or its own");
        cluster.kill(0);
        let error = refusal(&journal_of_broker);
        assert!(matches!(&error, ReplicationError::Away(why) if why.contains(code)), "{code}: {error:?}");
        let error = refusal(&journal(&url));
        assert!(
            matches!(&error, ReplicationError::Misconfigured(why) if why.contains(code)),
            "a process that has never connected names it: {code}: {error:?}"
        );
        cluster.start_server(0);
    }
}

#[test]
fn a_secured_server_is_used_with_its_certificate_and_password_only() {
    let Some(programs) = programs() else { return };
    let mut cluster = PostgresCluster::start_secured(programs, 1);
    let url = cluster.secured_url("tenure", PASSWORD, cluster.authority());
    let right = journal(&url);
    right.create().unwrap();
    assert!(right.check().unwrap().is_synchronous);
    let mistake = |url: &str| match journal(url).check() {
        Err(ReplicationError::Misconfigured(why)) => why,
        other => panic!("{other:?} names no mistake"),
    };
    let why = mistake(&cluster.secured_url("tenure", "wrong-horse", cluster.authority()));
    assert!(why.contains("28P01") && why.contains("journal_password_file"), "{why}");
    assert!(!why.contains("wrong-horse"), "{why}");
    let why = mistake(&cluster.secured_url("stranger", PASSWORD, cluster.authority()));
    assert!(why.contains("refuses this user or its password"), "{why}");
    let why = mistake(&url.replace("/work?", "/other?"));
    assert!(why.contains("createdb"), "{why}");

    // Another authority, and a name that the certificate lacks.
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.pem");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    let why = mistake(&cluster.secured_url("tenure", PASSWORD, &other));
    assert!(why.contains("TLS") && why.contains("sslrootcert"), "{why}");
    let why = mistake(&url.replace("127.0.0.1", "localhost"));
    assert!(why.contains("TLS"), "{why}");
    let why = mistake(&cluster.secured_url("tenure", PASSWORD, Path::new("/nonexistent.pem")));
    assert!(why.contains("sslrootcert"), "{why}");
    let plain = cluster.url().replace("tenure@", &format!("tenure:{PASSWORD}@"));
    let why = mistake(&format!("{plain}?sslmode=disable"));
    assert!(why.contains("28000"), "without TLS: {why}");

    // What has worked is right, whatever a server says later: its successor is used as soon as it is there.
    let broken = FaultyHost::start(FaultyAnswer::BrokenHandshake);
    let broker = journal(&with_host(&url, &broken));
    broker.connect().expect("the primary is found beside it");
    cluster.kill(0);
    assert!(matches!(refusal(&broker), ReplicationError::Away(_)));
    cluster.promote(1);
    broker.connect().expect("the new primary is found");
}

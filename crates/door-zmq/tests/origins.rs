//! What the origins of the two protocols ask for and existing programs rely on, told without a clock.

mod support;

use support::cbor::Item;
use support::majordomo::{PATH, SECOND, ask, calls, frames, heard, introduces_itself, notices, submits};
use support::plugin::says;
use support::world::World;
use tenure_door_zmq::{PingPongSettings, Settings};
use tenure_hub::Request;
use tenure_hub::Right;
use tenure_hub::words::{Backoff, Command, OnLost, StateName};

#[test]
fn when_a_rack_dies_for_the_last_time_each_kind_of_notice_comes_once() {
    let mut world = World::new(Settings { retry_attempts: 1, ..Settings::default() });
    world.named("rack");
    introduces_itself(&mut world, "rack", 20, "rack");
    world.says("rack", frames(&["", "MDPW01_PL", "\x04", "20"]));
    world.named("lab");
    let jobs: Vec<String> = (0..20).map(|number| format!("job-{number}")).collect();
    submits(&mut world, "lab", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(calls(&mut world, "rack").len(), 20);
    notices(&mut world, "lab");
    world.closes("rack");
    world.pass(SECOND);
    let told = notices(&mut world, "lab");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(says(&told[0], r#"{"error": "WORKER_CRASHED", "count": 20, …}"#), "{:?}", told[0]);
    assert!(says(&told[1], r#"{"error": "JOB_FAILED", "count": 20, …}"#), "{:?}", told[1]);
}

#[test]
fn a_plugin_client_that_switched_notices_off_gets_none_until_it_switches_them_on() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    world.says("lab", frames(&["", "MDPC01_PL", "mmi.notify", "off"]));
    submits(&mut world, "lab", &["job-1"]);
    world.says("lab", frames(&["", "MDPC01_PL", "mmi.status"]));
    submits(&mut world, "lab", &["job-2"]);
    world.pass(SECOND);
    assert_eq!(notices(&mut world, "lab"), []);
    world.says("lab", frames(&["", "MDPC01_PL", "mmi.notify", "on"]));
    submits(&mut world, "lab", &["job-3"]);
    world.pass(SECOND);
    let told = notices(&mut world, "lab");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(says(&told[0], r#"{"error": "NO_WORKERS", "job_id": "job-3", …}"#), "{told:?}");
}

#[test]
fn a_client_asks_what_has_become_of_a_job() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    let told = notices(&mut world, "lab");
    let Some(Item::Text(task)) = told[0].get("task") else { panic!("{told:?}") };
    let first = ask(&mut world, "lab", "mmi.job", &[task]);
    assert_eq!(first[..6], ["200", task, PATH, "ready", "0", ""], "{first:?}");
    assert_eq!(first[6], "2025-11-17T10:00:00.000Z");
    assert_eq!(first[7..], ["", "", ""], "due, started, ended");
    assert_eq!(ask(&mut world, "lab", "mmi.job", &["job-1"]), first, "by its own name for it");

    world.named("node-1");
    introduces_itself(&mut world, "node-1", 1, "node");
    world.says("node-1", frames(&["", "MDPW01_PL", "\x04", "1"]));
    let second = ask(&mut world, "lab", "mmi.job", &[task]);
    assert_eq!(second[3..6], ["running", "1", "node-1"], "{second:?}");
    assert_ne!(second[8], "");
    world.says("node-1", frames(&["", "MDPW01_PL", "\x01", "lab", "0", "42"]));
    let third = ask(&mut world, "lab", "mmi.job", &[task]);
    assert_eq!(third[3..6], ["completed", "1", "node-1"], "{third:?}");
    assert_ne!(third[9], "");

    assert_eq!(ask(&mut world, "lab", "mmi.job", &["job-1"]), ["404"], "it has ended and has only its id");
    assert_eq!(ask(&mut world, "lab", "mmi.job", &["no such job"]), ["404"]);
    assert_eq!(ask(&mut world, "lab", "mmi.job", &[]), ["400"]);
    // Another client needs the right to read.
    world.named_with("stranger", &[Right::Submit], false);
    assert_eq!(ask(&mut world, "stranger", "mmi.job", &[task]), ["404"]);
    world.named_with("monitor", &[Right::Read], false);
    assert_eq!(ask(&mut world, "monitor", "mmi.job", &[task]), third);
}

#[test]
fn after_a_crash_a_job_may_have_to_wait_before_it_is_tried_again() {
    let crash_backoff = Some(Backoff { first: 10 * SECOND, max: 20 * SECOND });
    let mut world = World::new(Settings { crash_backoff, retry_attempts: 9, ..Settings::default() });
    world.named("lab");
    world.says("lab", frames(&["", "MDPC01_PL", "echo", "", ""]));
    world.majordomo("c");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    for (crash, least, most) in [(1, 8, 10), (2, 16, 20), (3, 16, 20)] {
        let name = format!("w{crash}");
        world.majordomo(&name);
        world.says(&name, frames(&["", "MDPW01", "\x01", "echo"]));
        assert_eq!(heard(&mut world, &name).len(), 1, "it gets the job, and crashes with it");
        world.closes(&name);
        assert_eq!(world.tasks_in(StateName::Delayed), 1);
        world.pass(least * SECOND - SECOND);
        assert_eq!(world.tasks_in(StateName::Delayed), 1, "crash {crash}");
        world.pass((most - least + 1) * SECOND);
        assert_eq!(world.tasks_in(StateName::Ready), 1, "crash {crash}");
    }
}

#[test]
fn a_new_plugin_worker_gets_its_first_job_before_it_beats() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    submits(&mut world, "lab", &["job-1", "job-2"]);
    world.named("node-1");
    introduces_itself(&mut world, "node-1", 1, "node");
    assert_eq!(calls(&mut world, "node-1"), ["job-1"]);
    world.majordomo("without-a-name");
    introduces_itself(&mut world, "without-a-name", 1, "other");
    assert_eq!(calls(&mut world, "without-a-name"), ["job-2"]);
}

#[test]
fn a_plugin_worker_that_may_compute_what_it_lost_waits_for_its_first_beat() {
    for is_named in [true, false] {
        let mut world = World::new(Settings { retry_attempts: 9, ..Settings::default() });
        let arrives = |world: &mut World, worker: &str| match is_named {
            true => world.named(worker),
            false => world.majordomo(worker),
        };
        world.named("lab");
        submits(&mut world, "lab", &["job-1"]);
        arrives(&mut world, "w");
        introduces_itself(&mut world, "w", 1, "node");
        assert_eq!(calls(&mut world, "w"), ["job-1"]);
        world.closes("w");
        arrives(&mut world, "w");
        introduces_itself(&mut world, "w", 1, "node");
        assert_eq!(calls(&mut world, "w"), [""; 0], "it may compute it on: {is_named}");
        world.says("w", frames(&["", "MDPW01_PL", "\x04", "1"]));
        assert_eq!(calls(&mut world, "w"), ["job-1"], "now it is known to be free");
        // Another one has nothing to do with that.
        submits(&mut world, "lab", &["job-2"]);
        arrives(&mut world, "w2");
        introduces_itself(&mut world, "w2", 1, "other");
        assert_eq!(calls(&mut world, "w2"), ["job-2"]);
    }
}

#[test]
fn a_plugin_worker_that_crashed_before_a_restart_waits_for_its_first_beat() {
    let mut world = World::new(Settings { retry_attempts: 9, ..Settings::default() });
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.named("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), ["job-1"]);
    world.closes("w");
    world.is_restarted();
    world.named("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), [""; 0]);
}

#[test]
fn after_a_restart_with_jobs_in_hand_workers_wait_for_their_first_beat() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.majordomo("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), ["job-1"]);
    world.is_restarted();
    world.named("lab");
    submits(&mut world, "lab", &["job-2"]);
    world.majordomo("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), [""; 0]);
    world.says("w", frames(&["", "MDPW01_PL", "\x04", "1"]));
    assert_eq!(calls(&mut world, "w").len(), 1);
}

#[test]
fn the_health_of_a_worker_without_an_identity_is_kept_under_the_name_it_announced() {
    let mut world = World::new(Settings { retry_attempts: 99, ..Settings::default() });
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    for crash in 1..=5 {
        let worker = format!("connection-{crash}");
        world.majordomo(&worker);
        introduces_itself(&mut world, &worker, 1, "node-3");
        world.says(&worker, frames(&["", "MDPW01_PL", "\x04", "1"]));
        assert_eq!(calls(&mut world, &worker), ["job-1"], "{crash}");
        world.closes(&worker);
    }
    world.majordomo("connection-6");
    introduces_itself(&mut world, "connection-6", 1, "node-3");
    world.says("connection-6", frames(&["", "MDPW01_PL", "\x04", "1"]));
    assert_eq!(calls(&mut world, "connection-6"), [""; 0], "it is in quarantine");
    let health = ask(&mut world, "lab", "mmi.health", &[]);
    assert!(health[0].starts_with("node-3/1|node-3|"), "{health:?}");
    assert!(health[0].ends_with("#Crashes:5#HealthScore:0"), "{health:?}");

    // Two at once are two.
    world.majordomo("connection-7");
    introduces_itself(&mut world, "connection-7", 1, "node-3");
    world.says("connection-7", frames(&["", "MDPW01_PL", "\x04", "1"]));
    assert_eq!(calls(&mut world, "connection-7"), ["job-1"]);
    let services = ask(&mut world, "lab", "mmi.list_services", &[]);
    assert_eq!(services, ["node-3/1|node-3#Tools/Count|v1", "node-3/2|node-3#Tools/Count|v1"]);
}

#[test]
fn the_health_of_a_worker_with_a_new_identity_at_each_connection_follows_the_name_it_announced() {
    let mut world = World::new(Settings { retry_attempts: 99, ..Settings::default() });
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    for crash in 1..=6 {
        let worker = format!("{crash}A3F-09C{crash}");
        world.named(&worker);
        introduces_itself(&mut world, &worker, 1, "node-3");
        world.says(&worker, frames(&["", "MDPW01_PL", "\x04", "1"]));
        if crash < 6 {
            assert_eq!(calls(&mut world, &worker), ["job-1"], "{crash}");
            world.closes(&worker);
        } else {
            assert_eq!(calls(&mut world, &worker), [""; 0], "it is in quarantine");
        }
    }
    let health = ask(&mut world, "lab", "mmi.health", &[]);
    assert!(health[0].starts_with("6A3F-09C6|node-3|"), "{health:?}");
    assert!(health[0].ends_with("#Crashes:5#HealthScore:0"), "{health:?}");

    // Another server has a record of its own.
    world.named("7A3F-09C7");
    introduces_itself(&mut world, "7A3F-09C7", 1, "node-4");
    world.says("7A3F-09C7", frames(&["", "MDPW01_PL", "\x04", "1"]));
    assert_eq!(calls(&mut world, "7A3F-09C7"), ["job-1"]);
}

#[test]
fn a_plugin_worker_that_tells_again_what_it_can_do_keeps_its_name_and_its_job() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.majordomo("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), ["job-1"]);
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(world.tasks_in(StateName::Running), 1);
    world.says("w", frames(&["", "MDPW01_PL", "\x01", "lab", "0", "42"]));
    assert_eq!(world.tasks_in(StateName::Completed), 1);
}

#[test]
fn a_name_that_another_worker_has_is_not_taken_from_it() {
    let mut world = World::new(Settings::default());
    world.named("node/1");
    world.says("node/1", frames(&["", "MDPW01", "\x01", "echo"]));
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.majordomo("w");
    introduces_itself(&mut world, "w", 1, "node");
    assert_eq!(calls(&mut world, "w"), ["job-1"], "it works under the name that the door gave it");
    assert_eq!(ask(&mut world, "lab", "mmi.service", &["echo"]), ["200"]);
}

#[test]
fn requests_of_a_client_without_an_identity_do_not_outlive_it_for_long() {
    let mut world = World::with_settings(Settings::default(), PingPongSettings::default());
    world.majordomo("c");
    world.named("lab");
    world.ping_pong_client("p");
    for _ in 0..3 {
        world.says("c", frames(&["", "MDPC01", "echo", "x"]));
        world.says("lab", frames(&["", "MDPC01", "echo", "x"]));
        world.says("p", frames(&["", "x"]));
    }
    world.pass(3600 * SECOND);
    assert_eq!(world.tasks_in(StateName::Ready), 9, "as long as their clients wait, they wait");
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    assert_eq!(world.tasks_in(StateName::Running) + world.tasks_in(StateName::Assigned), 1);
    for client in ["c", "lab", "p"] {
        world.closes(client);
    }
    world.pass(55 * SECOND);
    assert_eq!(world.tasks_in(StateName::Ready), 8);
    world.pass(10 * SECOND);
    assert_eq!(world.tasks_in(StateName::Ready), 3, "those of the client that can come back");
    assert_eq!(world.tasks_in(StateName::Failed), 5);
}

#[test]
fn requests_of_a_client_that_invents_an_identity_for_each_socket_do_not_outlive_it_for_long() {
    let mut world = World::new(Settings::default());
    for client in ["6A3F-09C6", "0af1-77be", "node-0012"] {
        world.named(client);
        world.says(client, frames(&["", "MDPC01", "echo", "x"]));
    }
    world.pass(3600 * SECOND);
    assert_eq!(world.tasks_in(StateName::Ready), 3, "as long as their clients wait, they wait");
    for client in ["6A3F-09C6", "0af1-77be", "node-0012"] {
        world.closes(client);
    }
    world.pass(65 * SECOND);
    assert_eq!((world.tasks_in(StateName::Ready), world.tasks_in(StateName::Failed)), (1, 2));
}

#[test]
fn requests_of_clients_that_were_connected_when_the_broker_died_go_too() {
    let mut world = World::new(Settings::default());
    world.majordomo("c");
    world.named("lab");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    world.says("lab", frames(&["", "MDPC01", "echo", "x"]));
    world.is_restarted();
    world.pass(65 * SECOND);
    assert_eq!((world.tasks_in(StateName::Ready), world.tasks_in(StateName::Failed)), (1, 1));
}

#[test]
fn requests_of_disconnected_clients_wait_without_limit_if_configured() {
    let mut world = World::new(Settings { expire_gone: None, ..Settings::default() });
    world.majordomo("c");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    world.closes("c");
    world.pass(7 * 24 * 3600 * SECOND);
    assert_eq!(world.tasks_in(StateName::Ready), 1);
}

#[test]
fn a_worker_that_pings_first_joins_while_tasks_of_other_queues_are_held() {
    let mut world = World::new(Settings::default());
    world.submits_elsewhere("another", OnLost::Requeue, b"long work");
    world.works_elsewhere("another");
    assert_eq!(world.tasks_in(StateName::Running), 1);
    world.is_restarted();
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "PING"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "PONG"])));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "x"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "x"])));
}

#[test]
fn a_worker_that_pings_first_is_not_answered_if_it_may_compute_from_before_a_restart() {
    let mut world = World::new(Settings::default());
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "x"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "x"])));
    world.is_restarted();
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "PING"]));
    assert_eq!(world.hears("w"), None);
}

#[test]
fn a_drained_worker_is_sent_exit_when_it_has_no_job_any_more() {
    let mut world = World::with_settings(
        Settings::default(),
        PingPongSettings { exit_on_drain: true, ..Default::default() },
    );
    let drain = |worker: &str| Request::Command(Command::DrainWorker { worker: worker.into() });
    world.ping_pong_worker("idle");
    world.says("idle", frames(&["", "READY"]));
    world.elsewhere(drain("idle"));
    assert_eq!(world.hears("idle"), Some(frames(&["", "EXIT"])));
    world.ping_pong_worker("busy");
    world.says("busy", frames(&["", "READY"]));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "x"]));
    assert_eq!(world.hears("busy"), Some(frames(&["", "x"])));
    world.elsewhere(drain("busy"));
    assert_eq!(world.hears("busy"), None, "it finishes first");
    world.says("busy", frames(&["", "y"]));
    assert_eq!(world.hears("busy"), Some(frames(&["", "EXIT"])));
    assert_eq!(world.hears("c"), Some(frames(&["", "y"])));
    world.says("c", frames(&["", "z"]));
    assert_eq!((world.hears("busy"), world.hears("idle")), (None, None));
    // A worker would take this for the word.
    world.ping_pong_worker("next");
    world.says("next", frames(&["", "READY"]));
    assert_eq!(world.hears("next"), Some(frames(&["", "z"])));
    world.says("next", frames(&["", "Z"]));
    world.says("c", frames(&["", "EXIT"]));
    assert_eq!(world.hears("next"), None);
    assert_eq!(world.tasks_in(StateName::Failed), 1);
}

#[test]
fn a_drained_worker_is_not_sent_exit_unless_that_is_set() {
    let mut world = World::new(Settings::default());
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    world.elsewhere(Request::Command(Command::DrainWorker { worker: "w".into() }));
    assert_eq!(world.hears("w"), None);
}

#[test]
fn workers_of_the_older_form_get_an_address_with_each_job_if_that_is_set() {
    let mut world = World::with_settings(
        Settings::default(),
        PingPongSettings { addressed_jobs: true, ..Default::default() },
    );
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "first"]));
    let job = world.hears("w").expect("a job");
    assert_eq!((&job[2..], job.len()), (&frames(&["", "first"])[..], 4));
    // The result of another attempt is not the result of this one.
    let other = "00000000-0000-0000-0000-000000000007#1#w";
    world.says("w", frames(&["", "JOB COMPLETE", other, "", "stray"]));
    assert_eq!(world.hears("c"), None);
    world.says("w", frames(&[&b""[..], b"JOB COMPLETE", &job[1], b"", b"1"]));
    assert_eq!(world.hears("c"), Some(frames(&["", "1"])));
}

//! Command hooks: programs that are started for events.

mod support;

use std::path::Path;
use std::time::Duration;

use support::{Broker, PATIENCE, until, webhook};
use tenure_outbound::hooks::{CommandSettings, HookRunner, HookSettings, HookTarget};

fn command(script: &str, file: &Path) -> HookSettings {
    let command = ["/bin/sh", "-c", script, "hook", &file.display().to_string()].map(str::to_owned).to_vec();
    HookSettings { target: HookTarget::Command(CommandSettings { command }), ..webhook("http://localhost/") }
}

async fn written(file: &Path) -> String {
    let waiting = async {
        loop {
            match std::fs::read_to_string(file) {
                Ok(text) if text.ends_with("end\n") => return text,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the program writes its file")
}

#[tokio::test]
async fn a_program_finds_the_event_on_stdin_and_in_its_environment() {
    let (broker, directory) = (Broker::start(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("out");
    let script = r#"{ echo "$TENURE_HOOK $TENURE_EVENT_KIND $TENURE_EVENT_QUEUE $TENURE_EVENT_NAMESPACE"; cat; echo; echo end; } > "$1""#;
    let mut runner = HookRunner::start(broker.hub.clone(), vec![command(script, &file)]);
    // A hook that is opened gets the very next event.
    runner.opened().await;
    broker.submit("gpu").await;
    let text = written(&file).await;
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("ops submitted gpu default"));
    let body: serde_json::Value = serde_json::from_str(lines.next().unwrap_or_default()).expect("JSON");
    assert_eq!(body["event"]["kind"], "submitted");
    until(&broker.hub, |hook| hook.counts.delivered == 1).await;
}

#[tokio::test]
async fn a_program_that_fails_is_started_again_and_given_up_at_last() {
    let (broker, directory) = (Broker::start(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("out");
    let _runner = HookRunner::start(broker.hub.clone(), vec![command(r#"echo x >> "$1"; exit 3"#, &file)]);
    until(&broker.hub, |hook| hook.next_event > 0).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "x\nx\nx\n");
    until(&broker.hub, |hook| hook.last_error.as_deref().is_some_and(|why| why.contains("exit status: 3")))
        .await;
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_all_that_it_started() {
    let (broker, directory) = (Broker::start(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("out");
    let script = r#"sleep 600 & echo "$! end" > "$1"; wait"#;
    let hook = HookSettings { timeout: Duration::from_millis(300), attempts: 1, ..command(script, &file) };
    let _runner = HookRunner::start(broker.hub.clone(), vec![hook]);
    until(&broker.hub, |hook| hook.next_event > 0).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    // A machine that is too busy to start a shell in time has no file, and nothing to end.
    if let Ok(text) = std::fs::read_to_string(&file)
        && let Some(pid) = text.split(' ').next().filter(|pid| !pid.is_empty())
    {
        let is_alive = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !status.is_empty() && !status.contains(") Z ")
        };
        let waiting = async {
            while is_alive() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the grandchild ends");
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    let broker = Broker::start();
    let target = HookTarget::Command(CommandSettings { command: vec!["/nonexistent/notify".to_owned()] });
    let hook = HookSettings { target, attempts: 1, ..webhook("http://localhost/") };
    let _runner = HookRunner::start(broker.hub.clone(), vec![hook]);
    until(&broker.hub, |hook| hook.next_event > 0).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    until(&broker.hub, |hook| {
        hook.last_error.as_deref().is_some_and(|why| why.contains("/nonexistent/notify"))
    })
    .await;
}

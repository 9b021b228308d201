//! Backlogs as Redis clients hear of them: in the log of events, as a channel, and in the numbers of a queue.

use std::time::Duration;

use crate::support::broker::Broker;
use crate::support::peer::Client;
use crate::support::world::World;
use tenure_hub::words::{Settings, Thresholds};

fn thresholds() -> Settings {
    let backlog = Thresholds { depth: Some(2), age: Some(Duration::from_millis(1_500)) };
    Settings { backlog, ..Settings::default() }
}

#[test]
fn the_log_of_events_tells_when_a_queue_is_too_deep_or_too_old_and_when_not_any_more() {
    let mut world = World::of(thresholds());
    world.ask(1, r#"LPUSH queue:a '{"job_id":"i"}' '{"job_id":"j"}'"#);
    let told = world.ask(2, "XREAD STREAMS events:a 0").join(" ");
    let deep = "$ depth $ 2 $ event $ queue-backlog $ oldest_job_age_seconds";
    assert!(told.contains(&format!("{deep} $ 0.0 $ queue $ a")), "{told}");
    assert!(told.ends_with("$ threshold $ depth"), "{told}");
    assert!(world.ask(2, "XREAD BLOCK 0 STREAMS events:a $").is_empty());
    world.pass(Duration::from_millis(1_500));
    let told = world.heard(2).join(" ");
    assert!(told.contains(&format!("{deep} $ 1.5 $ queue $ a")), "{told}");
    assert!(told.ends_with("$ threshold $ age"), "{told}");
    let stats = world.ask(1, "QUEUE.STATS a").join("");
    for field in [r#""backlog":["depth","age"]"#, r#""depth_threshold":2"#, r#""age_threshold_seconds":1.5"#]
    {
        assert!(stats.contains(field), "{stats}");
    }
    let figures = world.ask(1, "METRICS json").join("");
    assert!(figures.contains(r#""tenure_queues_with_backlog":1.0"#), "{figures}");
    assert!(world.ask(2, "XREAD BLOCK 0 STREAMS events:a $").is_empty());
    world.ask(1, "JOB.CANCEL i");
    world.ask(1, "JOB.CANCEL j");
    let told = world.ask(2, "XREAD STREAMS events:a 0").join(" ");
    assert_eq!(told.matches("$ event $ queue-backlog-cleared").count(), 2, "{told}");
}

#[tokio::test]
async fn a_channel_of_a_queue_tells_of_its_backlog() {
    let broker = Broker::start().await;
    broker.hub.configure(thresholds());
    let mut ear = Client::connect(broker.address).await;
    ear.ask("SUBSCRIBE queue.a").await;
    let mut client = Client::connect(broker.address).await;
    client.ask(r#"LPUSH queue:a '{"job_id":"i"}' '{"job_id":"j"}'"#).await;
    loop {
        let heard = format!("{:?}", ear.reply().await);
        if heard.contains("queue-backlog") {
            assert!(heard.contains("threshold") && heard.contains("depth"), "{heard}");
            return;
        }
    }
}

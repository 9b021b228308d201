//! Publishes, subscribes and asks a question on topics: `cargo run --example subscribe -- 127.0.0.1:7171`

use std::time::Duration;

use tenure_client::{Client, Error, Received, Recovery, Subscribe};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7171".into());
    run(&address, |line| println!("{line}")).await
}

pub(crate) async fn run(address: &str, mut say: impl FnMut(String)) -> Result<(), Error> {
    let client = Client::connect(address).await?;

    // A subscriber that misses nothing while it is away, as far as the broker keeps it.
    let mut sensors = client.subscribe(Subscribe::to(["sensor.*"]).recovery(Recovery::Replay)).await?;
    client.publish("sensor.kitchen", "21.5").await?;
    client.publish("sensor.hall", "18.0").await?;
    for _ in 0..2 {
        match sensors.next().await {
            Some(Ok(Received::Message { message, .. })) => {
                let reading = String::from_utf8_lossy(&message.payload);
                say(format!("{} {}: {reading}", message.topic, message.sequence));
            }
            Some(Ok(Received::Gap(gap))) => {
                say(format!("{} {} to {} are gone", gap.topic, gap.first_missed, gap.last_missed));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }

    // One client answers, another one asks.
    let mut questions = client.subscribe(Subscribe::to(["clock"]).group("clocks")).await?;
    let answering = client.clone();
    let clock = tokio::spawn(async move {
        if let Some(Ok(Received::Message { message, .. })) = questions.next().await
            && let Some(reply_to) = message.reply_to
        {
            answering.publish(reply_to, "noon").await?;
        }
        Ok::<(), Error>(())
    });
    let answer = client.request("clock", "what time is it?", Duration::from_secs(5)).await?;
    say(format!("the clock says: {}", String::from_utf8_lossy(&answer.payload)));
    clock.await.unwrap_or(Ok(()))
}

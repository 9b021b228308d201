//! Runs tasks that turn their bodies into capitals: `cargo run --example worker -- 127.0.0.1:7171`

use std::time::Duration;

use tenure_client::{Context, Error, Failure, Interrupt, Outcome, Worker, WorkerBuilder};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7171".into());
    let stats = worker(&address).drain_on_sigterm(true).run().await?;
    println!("{} completed, {} failed", stats.completed, stats.failed);
    Ok(())
}

pub(crate) fn worker(address: &str) -> WorkerBuilder {
    Worker::builder(address).queues(["shout"]).slots(8).handle(shout)
}

/// Any error that can be shown becomes a failure, so `?` works.
async fn shout(context: Context) -> Result<Outcome, Failure> {
    let text = std::str::from_utf8(context.body())?;
    let mut capitals = String::new();
    for (index, letter) in text.chars().enumerate() {
        context.progress(Some((index * 100 / text.len()) as u8), "shouting");
        tokio::select! {
            // What takes long in real life.
            () = tokio::time::sleep(Duration::from_millis(5)) => capitals.extend(letter.to_uppercase()),
            interrupt = context.interrupted() => return Ok(match interrupt {
                Interrupt::Cancel { .. } => Outcome::cancelled(capitals),
                Interrupt::Pause { .. } => Outcome::paused(capitals),
                Interrupt::Leaving | Interrupt::Stop { .. } => Outcome::give_back("the worker was asked to leave"),
            }),
        }
    }
    Ok(Outcome::complete(capitals))
}

//! Prints events as they happen, through restarts of the broker: `cargo run --example watch -- 127.0.0.1:7171`

use tenure_client::{Client, Error, Watch, Watched};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7171".into());
    run(&address, |line| {
        println!("{line}");
        true
    })
    .await
}

/// Tells each event to `say`, until it has heard enough.
pub(crate) async fn run(address: &str, mut say: impl FnMut(String) -> bool) -> Result<(), Error> {
    let client = Client::connect(address).await?;
    let mut watcher = client.watch(Watch::default().from(1)).await?;
    while let Some(watched) = watcher.next().await {
        let line = match watched? {
            Watched::Event(event) => {
                let task = event.task.map_or_else(|| "-".to_owned(), |task| task.to_string());
                format!("{} {} {task}", event.seq, event.kind)
            }
            Watched::Gap { from, to } => format!("events {from} to {to} are no longer kept"),
        };
        if !say(line) {
            break;
        }
    }
    Ok(())
}

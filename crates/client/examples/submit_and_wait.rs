//! Submits a task and waits for what becomes of it: `cargo run --example submit_and_wait -- 127.0.0.1:7171`

use tenure_client::{Client, Ended, Error, Submission};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7171".into());
    let ended = run(&address).await?;
    let result = String::from_utf8_lossy(ended.result.as_deref().unwrap_or_default()).into_owned();
    println!("{} with exit code {}: {result}", ended.state, ended.exit_code);
    Ok(())
}

pub(crate) async fn run(address: &str) -> Result<Ended, Error> {
    let client = Client::builder().address(address).identity("ada").connect().await?;
    // The name makes it safe to say this twice: if the connection breaks, the client does.
    let accepted = client.submit(Submission::to("shout").body("hello").name("greeting")).await?;
    if let Some(why) = accepted.unserved {
        println!("not yet: {why}");
    }
    client.wait(accepted.task).await
}

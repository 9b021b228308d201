//! Looks at a million waiting jobs, and how long another client waits for its answers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tenure_door_resp::testing::Reply;

use super::server::Server;

const JOBS: usize = 1_000_000;
const BATCH: usize = 1_000;

pub(crate) async fn run(server: &Server) {
    let mut peer = server.peer().await;
    let begun = Instant::now();
    let mut words: Vec<&[u8]> = vec![b"LPUSH", b"queue:long"];
    words.extend(vec![&b"hello"[..]; BATCH]);
    for _ in 0..JOBS / BATCH {
        peer.add(&words);
    }
    peer.flush().await;
    for _ in 0..JOBS / BATCH {
        peer.reply().await;
    }
    println!("{JOBS} jobs wait, pushed {BATCH} at a time within {:.1} s", begun.elapsed().as_secs_f64());
    looked(server, "nothing else", async { tokio::time::sleep(std::time::Duration::from_secs(2)).await })
        .await;
    looked(server, "LLEN 1000 times", async {
        for _ in 0..1000 {
            peer.ask(&[b"LLEN", b"queue:long"]).await;
        }
    })
    .await;
    looked(server, "LRANGE 0 -1", async {
        peer.add(&[b"LRANGE", b"queue:long", b"0", b"-1"]);
        peer.flush().await;
        // An id is a UUID of 36 digits with a length before it.
        peer.skip(format!("*{JOBS}\r\n").len() + JOBS * "$36\r\n\r\n".len() + JOBS * 36).await;
        assert_eq!(peer.ask(&[b"PING"]).await, Reply::simple("PONG"));
    })
    .await;
    looked(server, "LRANGE 0 9", async {
        peer.ask(&[b"LRANGE", b"queue:long", b"0", b"9"]).await;
    })
    .await;
    looked(server, "SCAN to the end", async {
        let (mut cursor, mut found) = (b"0"[..].to_vec(), 0);
        loop {
            let Reply::Array(page) = peer.ask(&[b"SCAN", &cursor, b"COUNT", b"1000"]).await else { panic!() };
            let (Reply::Bulk(next), Reply::Array(keys)) = (&page[0], &page[1]) else { panic!() };
            found += keys.len();
            if &**next == b"0" {
                break;
            }
            cursor = next.to_vec();
        }
        assert!(found >= JOBS);
    })
    .await;
    looked(server, "KEYS queue:*", async {
        peer.ask(&[b"KEYS", b"queue:*"]).await;
    })
    .await;
}

/// Runs a look and tells what it costs others.
async fn looked(server: &Server, what: &str, look: impl Future<Output = ()>) {
    let over = Arc::new(AtomicBool::new(false));
    let mut other = server.peer().await;
    let waiting = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut waits = Vec::new();
            while !over.load(Ordering::Relaxed) || waits.is_empty() {
                let begun = Instant::now();
                other.ask(&[b"PING"]).await;
                other.ask(&[b"LPUSH", b"queue:other", b"x"]).await;
                waits.push(begun.elapsed().as_secs_f64() * 1000.0);
            }
            waits
        }
    });
    let begun = Instant::now();
    look.await;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    over.store(true, Ordering::Relaxed);
    let mut waits = waiting.await.expect("the other client");
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "  {what}: {took:.0} ms; meanwhile PING and a durable LPUSH take {:.1} ms, 99 % at most {:.1}, the longest {:.1}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

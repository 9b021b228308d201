//! What clients that wait cost.

use std::time::{Duration, Instant};

use tenure_door_resp::testing::Reply;

use super::server::Server;

const CROWD: usize = 10_000;
const PUSHES: usize = 100;
const WATCHED: Duration = Duration::from_secs(5);

pub(crate) async fn run(server: &Server) {
    let before = server.resident();
    let mut crowd = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        let mut peer = server.peer().await;
        peer.add(&[b"BRPOP", b"queue:idle", b"0"]);
        peer.flush().await;
        crowd.push(peer);
    }
    let mut looker = server.peer().await;
    loop {
        let Reply::Bulk(stats) = looker.ask(&[b"QUEUE.STATS", b"idle"]).await else { continue };
        let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
        if stats["workers"] == CROWD {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let each = server.resident().saturating_sub(before) / CROWD;
    println!("{CROWD} clients wait in BRPOP: {each} bytes of the server each");
    let busy = server.cpu_seconds();
    tokio::time::sleep(WATCHED).await;
    let share = (server.cpu_seconds() - busy) / WATCHED.as_secs_f64() * 100.0;
    println!("  while they wait: {share:.1} % of one core");
    let mut one = server.peer().await;
    let mut times = Vec::new();
    for _ in 0..PUSHES {
        one.add(&[b"BRPOP", b"queue:one", b"0"]);
        one.flush().await;
        let begun = Instant::now();
        looker.ask(&[b"LPUSH", b"queue:one", b"x"]).await;
        one.reply().await;
        times.push(milliseconds(begun));
    }
    times.sort_by(f64::total_cmp);
    println!("  a durable push reaches one among them after {:.2} ms", times[PUSHES / 2]);
    let begun = Instant::now();
    let bodies = vec![&b"x"[..]; CROWD];
    let words: Vec<&[u8]> = [&b"LPUSH"[..], b"queue:idle"].into_iter().chain(bodies).collect();
    looker.ask(&words).await;
    for peer in &mut crowd {
        peer.reply().await;
    }
    println!("  {CROWD} jobs in one push reach all of them within {:.0} ms", milliseconds(begun));
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

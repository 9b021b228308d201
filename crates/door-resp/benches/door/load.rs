//! Durable pushes and whole cycles, turn by turn with Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tenure_door_resp::codec::Reply;
use tokio::task::JoinSet;

use super::server::{Kind, Server};

const ROUNDS: usize = 5;
const PUSHES: usize = 40_000;
const CYCLES: usize = 20_000;
const PRODUCERS: usize = 4;
/// Unanswered pushes of one producer.
const WINDOW: usize = 64;
const WORKERS: usize = 32;
const BODY: &[u8] = &[b'x'; 100];
const RESULT: &[u8] = b"0123456789";

pub(crate) async fn run() {
    let tenure = Server::start(Kind::Tenure).await;
    let Some(redis) = Server::try_start(Kind::Redis).await else {
        println!("redis-server is not installed: nothing to compare with");
        return;
    };
    let servers = [tenure, redis];
    let mut pushes: [Vec<Figure>; 2] = Default::default();
    let mut cycles: [Vec<Figure>; 2] = Default::default();
    for round in 0..ROUNDS {
        for (index, server) in servers.iter().enumerate() {
            let queue = format!("queue:push{round}");
            pushes[index].push(measured(server, PUSHES, push(server, queue, PUSHES)).await);
        }
        for (index, server) in servers.iter().enumerate() {
            cycles[index].push(measured(server, CYCLES, cycle(server, round)).await);
        }
    }
    tell(&format!("LPUSH, {PRODUCERS} producers with {WINDOW} unanswered each"), &mut pushes);
    tell(&format!("LPUSH, claim, finish with a result, {WORKERS} workers with one job each"), &mut cycles);
}

struct Figure {
    per_second: f64,
    /// Of the server, for 100,000.
    cpu_seconds: f64,
}

async fn measured(server: &Server, count: usize, work: impl Future<Output = ()>) -> Figure {
    let (begun, cpu) = (Instant::now(), server.cpu_seconds());
    work.await;
    let each = count as f64 / 100_000.0;
    Figure {
        per_second: count as f64 / begun.elapsed().as_secs_f64(),
        cpu_seconds: (server.cpu_seconds() - cpu) / each,
    }
}

fn tell(what: &str, figures: &mut [Vec<Figure>; 2]) {
    println!("{what}:");
    let mut middle = [0.0; 2];
    for (index, name) in ["tenure", "redis "].into_iter().enumerate() {
        let of = &mut figures[index];
        of.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        let (least, most) = (of[0].per_second, of[of.len() - 1].per_second);
        middle[index] = of[of.len() / 2].per_second;
        let cpu = of.iter().map(|figure| figure.cpu_seconds).sum::<f64>() / of.len() as f64;
        println!(
            "  {name} {:>7.0} per second ({least:.0} to {most:.0}), {cpu:.2} CPU s of the server per 100,000",
            middle[index]
        );
    }
    println!("  ratio {:.2}", middle[0] / middle[1]);
}

async fn push(server: &Server, queue: String, count: usize) {
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let mut peer = server.peer().await;
        let queue = queue.clone();
        producers.spawn(async move {
            let (mut sent, mut answered) = (0, 0);
            let share = count / PRODUCERS;
            while answered < share {
                // Half a window at a time, so that the pipeline never runs dry.
                while sent < share && sent - answered < WINDOW {
                    peer.add(&[b"LPUSH", queue.as_bytes(), BODY]);
                    sent += 1;
                }
                peer.flush().await;
                for _ in 0..(WINDOW / 2).min(sent - answered) {
                    peer.reply().await;
                    answered += 1;
                }
            }
        });
    }
    producers.join_all().await;
}

/// Producers and workers at the same time. On both sides a job that was taken is not lost with its worker.
async fn cycle(server: &Server, round: usize) {
    let left = Arc::new(AtomicUsize::new(CYCLES));
    let queue = format!("queue:cycle{round}");
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let (peer, left, queue, kind) = (server.peer().await, Arc::clone(&left), queue.clone(), server.kind);
        workers.spawn(async move {
            match kind {
                Kind::Tenure => work_here(peer, &queue, &left).await,
                Kind::Redis => work_with_lists(peer, &queue, number, &left).await,
            }
        });
    }
    push(server, queue, CYCLES).await;
    workers.join_all().await;
}

/// Takes a job whole and reports its result.
async fn work_here(mut peer: super::peer::Peer, queue: &str, left: &AtomicUsize) {
    while take(left) {
        let job = peer.ask(&[b"BRPOP", queue.as_bytes(), b"0"]).await;
        let Reply::Bulk(job) = job else { panic!("no job: {job:?}") };
        let job: serde_json::Value = serde_json::from_slice(&job).expect("JSON");
        let id = job["job_id"].as_str().expect("an id");
        let update = format!(r#"{{"status":"completed","result":"{}"}}"#, String::from_utf8_lossy(RESULT));
        peer.ask(&[b"JOB.UPDATE", id.as_bytes(), update.as_bytes()]).await;
    }
}

/// The usual way with lists: a job is moved to a list of its worker's own, removed from there when it is done, and its
/// result is set.
async fn work_with_lists(mut peer: super::peer::Peer, queue: &str, number: usize, left: &AtomicUsize) {
    let own = format!("processing:{number}");
    while take(left) {
        let job = peer.ask(&[b"BLMOVE", queue.as_bytes(), own.as_bytes(), b"RIGHT", b"LEFT", b"0"]).await;
        let Reply::Bulk(job) = job else { panic!("no job: {job:?}") };
        peer.add(&[b"LREM", own.as_bytes(), b"-1", &job]);
        peer.add(&[b"SET", format!("result:{number}").as_bytes(), RESULT]);
        peer.flush().await;
        peer.reply().await;
        peer.reply().await;
    }
}

/// Whether there is one more job for this worker.
fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

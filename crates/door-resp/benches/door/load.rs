//! Durable pushes and whole cycles, turn by turn with Redis.

use std::time::Instant;

use tokio::task::JoinSet;

use super::cycles::{self, SHAPES};
use super::server::{Kind, Server};

const ROUNDS: usize = 9;
const PUSHES: usize = 40_000;
const PRODUCERS: usize = 4;
/// Unanswered pushes of one producer.
const WINDOW: usize = 64;
const BODY: &[u8] = &[b'x'; 100];

pub(crate) async fn run() {
    let tenure = Server::start(Kind::Tenure).await;
    let Some(redis) = Server::try_start(Kind::Redis).await else {
        println!("redis-server is not installed: nothing to compare with");
        return;
    };
    let servers = [tenure, redis];
    let mut pushes: [Vec<Figure>; 2] = Default::default();
    let mut cycles: [[Vec<Figure>; 2]; SHAPES.len()] = Default::default();
    for round in 0..ROUNDS {
        for (index, server) in servers.iter().enumerate() {
            let queue = format!("queue:push{round}");
            pushes[index].push(measured(server, PUSHES, push(server, &queue, PUSHES)).await);
        }
        for (number, shape) in SHAPES.iter().enumerate() {
            for (index, server) in servers.iter().enumerate() {
                let queue = format!("queue:cycle{number}-{round}");
                let work = cycles::run(shape, server, &queue, shape.cycles);
                cycles[number][index].push(measured(server, shape.cycles, work).await);
            }
        }
    }
    tell(&format!("LPUSH, {PRODUCERS} producers with {WINDOW} unanswered each"), &pushes);
    for (shape, figures) in SHAPES.iter().zip(&cycles) {
        tell(shape.name, figures);
    }
}

#[derive(Clone, Copy)]
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

/// The two are compared within each round, because the machine is not the same from round to round.
fn tell(what: &str, figures: &[Vec<Figure>; 2]) {
    println!("{what}:");
    for (name, of) in ["tenure", "redis "].into_iter().zip(figures) {
        let rates = sorted(of.iter().map(|figure| figure.per_second));
        let cpu = sorted(of.iter().map(|figure| figure.cpu_seconds));
        println!(
            "  {name} {:>7.0} per second ({:.0} to {:.0}), {:.2} CPU s of the server per 100,000",
            middle(&rates),
            rates[0],
            rates[rates.len() - 1],
            middle(&cpu),
        );
    }
    let [tenure, redis] = figures;
    let ratios = sorted(tenure.iter().zip(redis).map(|(tenure, redis)| tenure.per_second / redis.per_second));
    println!("  ratio {:.2}, between {:.2} and {:.2}", middle(&ratios), ratios[0], ratios[ratios.len() - 1]);
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// Producers push this many jobs to a queue.
pub(crate) async fn push(server: &Server, queue: &str, count: usize) {
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let mut peer = server.peer().await;
        let queue = queue.to_owned();
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

//! Whole cycles: jobs are pushed, taken and finished with a result. On both sides a job that was taken is not lost with
//! its worker: with lists it is moved to a list of the worker's own, removed from there when it is done, and its result
//! is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tenure_door_resp::testing::Reply;
use tokio::task::JoinSet;

use super::load::push;
use super::peer::Peer;
use super::server::{Kind, Server};

const RESULT: &str = "0123456789";

/// How workers work.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) cycles: usize,
    workers: usize,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    /// Take a job, then report it.
    OneByOne,
    /// Report a job and ask for the next in one write.
    Overlapping,
    /// Take this many at once, then report them at once.
    Many(usize),
}

pub(crate) const SHAPES: [Shape; 4] = [
    Shape {
        name: "cycles, 1 worker: BRPOP, then JOB.UPDATE (BLMOVE, then LREM and SET)",
        cycles: 2_000,
        workers: 1,
        way: Way::OneByOne,
    },
    Shape {
        name: "cycles, 32 workers: BRPOP, then JOB.UPDATE (BLMOVE, then LREM and SET)",
        cycles: 20_000,
        workers: 32,
        way: Way::OneByOne,
    },
    Shape {
        name: "cycles, 32 workers: JOB.UPDATE and the next BRPOP in one write (LREM, SET and BLMOVE)",
        cycles: 20_000,
        workers: 32,
        way: Way::Overlapping,
    },
    Shape {
        name: "cycles, 8 workers: RPOP 16, then 16 JOB.UPDATE in one write (16 LMOVE, then 16 LREM and SET)",
        cycles: 20_000,
        workers: 8,
        way: Way::Many(16),
    },
];

/// Producers and workers at the same time; workers that do not wait for jobs begin when all are there.
pub(crate) async fn run(shape: &Shape, server: &Server, queue: &str, count: usize) {
    let left = Arc::new(AtomicUsize::new(count));
    let waits = !matches!(shape.way, Way::Many(_));
    if !waits {
        push(server, queue, count).await;
    }
    let mut workers = JoinSet::new();
    for number in 0..shape.workers {
        let worker = Worker {
            peer: server.peer().await,
            kind: server.kind,
            queue: queue.to_owned(),
            own: format!("processing:{number}"),
            result: format!("result:{number}"),
            left: Arc::clone(&left),
        };
        workers.spawn(worker.work(shape.way));
    }
    if waits {
        push(server, queue, count).await;
    }
    workers.join_all().await;
}

struct Worker {
    peer: Peer,
    kind: Kind,
    queue: String,
    /// With lists: where its jobs and their results are.
    own: String,
    result: String,
    left: Arc<AtomicUsize>,
}

impl Worker {
    async fn work(mut self, way: Way) {
        match way {
            Way::OneByOne => {
                while self.take(1) > 0 {
                    self.ask();
                    self.peer.flush().await;
                    let job = self.job().await;
                    self.finish(&job);
                    self.peer.flush().await;
                    self.finished().await;
                }
            }
            Way::Overlapping => {
                let mut done = None;
                while self.take(1) > 0 {
                    if let Some(job) = &done {
                        self.finish(job);
                    }
                    self.ask();
                    self.peer.flush().await;
                    if done.is_some() {
                        self.finished().await;
                    }
                    done = Some(self.job().await);
                }
                if let Some(job) = done {
                    self.finish(&job);
                    self.peer.flush().await;
                    self.finished().await;
                }
            }
            Way::Many(most) => loop {
                let count = self.take(most);
                if count == 0 {
                    return;
                }
                let jobs = self.many(count).await;
                jobs.iter().for_each(|job| self.finish(job));
                self.peer.flush().await;
                for _ in jobs {
                    self.finished().await;
                }
            },
        }
    }

    /// How many more jobs there are for this worker.
    fn take(&self, most: usize) -> usize {
        let take = |left: usize| Some(left.saturating_sub(most));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).expect("it is taken");
        before.min(most)
    }

    fn ask(&mut self) {
        let (queue, own) = (self.queue.as_bytes(), self.own.as_bytes());
        match self.kind {
            Kind::Tenure => self.peer.add(&[b"BRPOP", queue, b"0"]),
            Kind::Redis => self.peer.add(&[b"BLMOVE", queue, own, b"RIGHT", b"LEFT", b"0"]),
        }
    }

    async fn job(&mut self) -> Bytes {
        match self.peer.reply().await {
            // BRPOP answers the key as well.
            Reply::Array(mut pair) => self.name_of(pair.pop().expect("a key and a job")),
            job => self.name_of(job),
        }
    }

    async fn many(&mut self, count: usize) -> Vec<Bytes> {
        let (queue, own) = (self.queue.as_bytes(), self.own.as_bytes());
        match self.kind {
            Kind::Tenure => {
                let Reply::Array(jobs) = self.peer.ask(&[b"RPOP", queue, count.to_string().as_bytes()]).await
                else {
                    panic!("no jobs");
                };
                assert_eq!(jobs.len(), count, "all are there");
                jobs.into_iter().map(|job| self.name_of(job)).collect()
            }
            Kind::Redis => {
                for _ in 0..count {
                    self.peer.add(&[b"LMOVE", queue, own, b"RIGHT", b"LEFT"]);
                }
                self.peer.flush().await;
                let mut jobs = Vec::with_capacity(count);
                for _ in 0..count {
                    jobs.push(self.job().await);
                }
                jobs
            }
        }
    }

    /// What a job is called when it is finished: its id, with lists the job itself.
    fn name_of(&self, job: Reply) -> Bytes {
        let Reply::Bulk(job) = job else { panic!("no job: {job:?}") };
        match self.kind {
            Kind::Tenure => {
                let job: serde_json::Value = serde_json::from_slice(&job).expect("JSON");
                Bytes::from(job["job_id"].as_str().expect("an id").to_owned())
            }
            Kind::Redis => job,
        }
    }

    fn finish(&mut self, job: &Bytes) {
        match self.kind {
            Kind::Tenure => {
                let update = format!(r#"{{"status":"completed","result":"{RESULT}"}}"#);
                self.peer.add(&[b"JOB.UPDATE", job, update.as_bytes()]);
            }
            Kind::Redis => {
                self.peer.add(&[b"LREM", self.own.as_bytes(), b"-1", job]);
                self.peer.add(&[b"SET", self.result.as_bytes(), RESULT.as_bytes()]);
            }
        }
    }

    async fn finished(&mut self) {
        let answers = match self.kind {
            Kind::Tenure => 1,
            Kind::Redis => 2,
        };
        for _ in 0..answers {
            let reply = self.peer.reply().await;
            assert!(!reply.is_error(), "{reply:?}");
        }
    }
}

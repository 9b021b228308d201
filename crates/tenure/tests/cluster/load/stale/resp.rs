//! The RESP door: a worker that pops jobs and reports with `JOB.UPDATE`.

use std::time::Duration;

use serde_json::Value;

use super::{Attempt, LateWorker, Verdict, queue_of};
use crate::redis::Redis;

/// Between two pops.
const POP_PAUSE: Duration = Duration::from_millis(10);

pub(in super::super) struct RespWorker {
    redis: Option<Redis>,
}

impl LateWorker for RespWorker {
    const DOOR: &'static str = "resp";

    async fn connect(port: u16) -> Option<RespWorker> {
        let connecting = tokio::task::spawn_blocking(move || Redis::connect(port));
        let mut worker = RespWorker { redis: Some(connecting.await.ok()?.ok()?) };
        worker.ask("PING late-resp".to_owned()).await?;
        Some(worker)
    }

    async fn take(&mut self) -> Option<Attempt> {
        loop {
            let popped = self.ask(format!("RPOP queue:{}", queue_of(Self::DOOR))).await?;
            if let Ok(job) = serde_json::from_str::<Value>(&popped)
                && let (Some(task), Some(attempt)) = (job["job_id"].as_str(), job["attempt"].as_u64())
            {
                return Some((task.parse().expect("an id"), u32::try_from(attempt).expect("a few")));
            }
            tokio::time::sleep(POP_PAUSE).await;
        }
    }

    async fn fail(&mut self, attempt: Attempt) -> Option<Verdict> {
        self.report(attempt, r#""status":"failed","exit_code":1"#).await
    }

    async fn complete(&mut self, attempt: Attempt, result: &str) -> Option<Verdict> {
        self.report(attempt, &format!(r#""status":"completed","result":"{result}""#)).await
    }
}

impl RespWorker {
    async fn report(&mut self, (task, attempt): Attempt, fields: &str) -> Option<Verdict> {
        let said = self.ask(format!(r#"JOB.UPDATE {task} {{{fields},"attempt":{attempt}}}"#)).await?;
        Some(match said {
            said if said.starts_with('+') => Verdict::Accepted,
            // Its name while a later attempt is current, and when the task has ended.
            said if said.starts_with("-ERR Stale attempt") => Verdict::Stale,
            said if said.starts_with("-ERR Invalid status transition: completed") => Verdict::Stale,
            said => Verdict::Refused(said),
        })
    }

    /// The connection is blocking, and may wait for a leader.
    async fn ask(&mut self, command: String) -> Option<String> {
        let mut redis = self.redis.take()?;
        let asking = tokio::task::spawn_blocking(move || (redis.ask(&command), redis));
        let (said, redis) = asking.await.ok()?;
        self.redis = Some(redis);
        said.ok()
    }
}

//! `tenure demo`: within a minute it kills a worker and then the broker, and shows that nothing is lost or done twice.
//!
//! Everything is real: processes, signals, files. `stage.rs` holds the processes, `story.rs` tracks the events,
//! `picture.rs` draws them, and `truth.rs` compares them at the end with what the commands themselves recorded.

mod picture;
mod stage;
mod story;
mod truth;

use std::time::Duration;

use clap::Args;
use tenure_client::EventKind;

use crate::exit::{FOUND_TROUBLE, Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::paint::Color;
use picture::Picture;
use stage::Stage;
use story::TaskPhase;
use truth::Verdict;

/// How quickly the submitter must learn of a dead worker.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// How long anything may take before the demonstration is given up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Watch workers and the broker being killed without losing a task
#[derive(Args, Debug)]
#[command(after_help = "\
Starts a broker and three workers of its own on a temporary directory, and removes all of it afterwards.
Exits with 78 if a promise was broken.

Examples:
  tenure demo
  tenure demo --fast   a few seconds, for the impatient and for tests")]
pub(crate) struct Demo {
    /// Do not pause for the viewer
    #[arg(long)]
    fast: bool,
}

impl Demo {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
        let outcome = runtime.block_on(self.play(screen));
        runtime.shutdown_background();
        outcome
    }

    async fn play(&self, screen: &Screen) -> Outcome {
        let names = ["ada", "ben", "cleo"];
        let mut stage = Stage::set(&names, Picture::new(screen.paint)).await?;
        let mut verdicts = Vec::new();

        stage.picture.act("A broker and three workers", "Each is a process of its own, with two slots.");
        let told = format!("   the broker is process {} at {}", stage.broker_pid(), stage.address());
        stage.picture.line(&told);
        let mut there = 0;
        stage
            .until("three workers", TIMEOUT, |_, event| {
                there += usize::from(event.kind == EventKind::WorkerRegistered);
                there == names.len()
            })
            .await?;

        stage.picture.act(
            "Nine tasks of a few seconds and a long one",
            "Each writes to a file when it begins and when it ends: the truth, to compare with at the end.",
        );
        let long = stage.submit("long", self.pick(25.0, 6.0)).await?;
        for number in 1..=9 {
            stage.submit(&number.to_string(), self.pick(5.0, 1.5)).await?;
        }
        stage.until("five running", TIMEOUT, |story, _| story.count(TaskPhase::Running) >= 5).await?;
        stage.pause(self.pick(3.0, 0.1)).await?;

        verdicts.push(self.kill_a_worker(&mut stage, long).await?);
        verdicts.push(self.kill_the_broker(&mut stage, long).await?);

        stage.picture.act("The rest", "Until everything is done.");
        if !stage.story.is_over() {
            stage.until("all tasks end", TIMEOUT, |story, _| story.is_over()).await?;
        }
        stage.stop_workers();
        verdicts.extend(truth::compare(stage.truth(), &stage.story));
        print_verdicts(&mut stage.picture, &verdicts, screen)
    }

    /// Kills a worker in the middle of its work. The submitter must get the event at once, and another worker must
    /// take over.
    async fn kill_a_worker(
        &self,
        stage: &mut Stage,
        long: tenure_client::TaskId,
    ) -> Result<Verdict, Failure> {
        stage.picture.act(
            "kill -9 of a worker",
            "The client learns at once which worker died, and what happens next.",
        );
        let Some((victim, killed_at)) = stage.kill_worker(long) else {
            return Err(Failure::internal("no worker runs anything that could be spared"));
        };
        let text = format!("   worker {victim} is killed without warning");
        stage.picture.line(&text);
        let (_, told_at) = stage
            .until("the notice of the worker's death", TIMEOUT, |_, event| {
                event.worker.as_deref() == Some(victim)
                    && matches!(event.kind, EventKind::HolderLost | EventKind::Crashed)
            })
            .await?;
        let delay = told_at.duration_since(killed_at);
        let mut crashed = Vec::new();
        stage
            .until("another worker takes over", TIMEOUT, |_, event| {
                match event.kind {
                    EventKind::Crashed => crashed.push(event.task),
                    EventKind::Started => return event.attempt > 1,
                    _ => {}
                }
                false
            })
            .await?;
        stage.pause(self.pick(2.0, 0.0)).await?;
        let sentence = format!("the client learned of the worker's death after {} ms", delay.as_millis());
        Ok(Verdict { kept: delay < TOLD_WITHIN, sentence })
    }

    /// Kills the broker while the long task runs, and restarts it. The task must continue as if nothing had happened.
    async fn kill_the_broker(
        &self,
        stage: &mut Stage,
        long: tenure_client::TaskId,
    ) -> Result<Verdict, Failure> {
        stage.picture.act(
            "kill -9 of the broker itself",
            "Commands run on without it. Started again, it knows everything, and its workers come back with what they hold.",
        );
        let pid = stage.kill_broker();
        let text = format!(
            "   the broker, process {pid}, is killed without warning; {} tasks run on",
            stage.story.count(TaskPhase::Running)
        );
        stage.picture.line(&text);
        stage.pause(self.pick(3.0, 0.3)).await?;
        let begun = std::time::Instant::now();
        stage.start_broker()?;
        let text = format!(
            "   it is started again, as process {}, and answers after {} ms",
            stage.broker_pid(),
            begun.elapsed().as_millis()
        );
        stage.picture.line(&text);
        let holds = |story: &story::Story| {
            story.part(long).is_some_and(|part| part.returned > 0 || part.completed > 0)
        };
        stage.until("the long task's worker comes back", TIMEOUT, |story, _| holds(story)).await?;
        stage.pause(self.pick(2.0, 0.0)).await?;
        let part = stage.story.part(long);
        let attempts = part.map_or(0, |part| part.attempt);
        let sentence = "the long task ran through the broker's death, in its first attempt".to_owned();
        Ok(Verdict { kept: attempts == 1, sentence })
    }

    /// Time for the viewer, or hardly any.
    fn pick(&self, slow: f64, fast: f64) -> Duration {
        Duration::from_secs_f64(if self.fast { fast } else { slow })
    }
}

fn print_verdicts(picture: &mut Picture, verdicts: &[Verdict], screen: &Screen) -> Outcome {
    picture.act("The verdict", "What the commands wrote themselves, against what the broker says.");
    for verdict in verdicts {
        let sign = if verdict.kept {
            screen.paint.apply(Color::Green, "✓ kept  ")
        } else {
            screen.paint.apply(Color::Red, "✗ BROKEN")
        };
        picture.line(&format!("   {sign}  {}", verdict.sentence));
    }
    if verdicts.iter().all(|verdict| verdict.kept) {
        picture.line("\n   Try it yourself: tenure serve, tenure work, tenure submit --wait -- sleep 60, and kill what you like.");
        return Ok(OK);
    }
    Ok(FOUND_TROUBLE)
}

//! The processes of the demo: a real broker and real workers that can be killed, and a client that watches.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tenure_client::{Client, Event, Submission, TaskId, Watch, Watched, Watcher};

use super::picture::{Picture, Scene};
use super::story::Story;
use super::truth::SCRIPT;
use crate::exit::{Failure, INTERNAL, TASK_CANCELLED};
use crate::output::events::sentence;
use crate::output::times::now;
use crate::spawned::{Broker, Process, scratch};

pub(crate) const QUEUE: &str = "demo";
/// How often the picture is drawn when nothing happens.
const DRAW_EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Stage {
    pub(crate) picture: Picture,
    pub(crate) story: Story,
    broker: Broker,
    broker_is_up: bool,
    workers: Vec<Actor>,
    client: Client,
    watcher: Watcher,
    truth: PathBuf,
    /// The last field, so that it is dropped after all processes that use it.
    directory: TempDir,
}

struct Actor {
    name: &'static str,
    process: Process,
    is_up: bool,
}

impl Stage {
    /// Starts all processes.
    pub(crate) async fn set(names: &[&'static str], picture: Picture) -> Result<Stage, Failure> {
        let directory = scratch("demo")?;
        let broker = Broker::start(directory.path(), &[])?;
        let client = Client::builder()
            .address(broker.address())
            .identity("you")
            .software("tenure demo")
            .connect_timeout(Duration::from_secs(30))
            .connect()
            .await?;
        let watcher = client.watch(Watch::default()).await?;
        let truth = directory.path().join("truth");
        let mut workers = Vec::new();
        for name in names {
            let mut command = Process::tenure()?;
            command.args([
                "work",
                "--queue",
                QUEUE,
                "--id",
                name,
                "--slots",
                "2",
                "--quiet",
                "--broker",
                broker.address(),
            ]);
            command.args([
                "--heartbeat",
                "1s",
                "--lease",
                "10s",
                "--grace",
                "1s",
                "--connect-timeout",
                "30s",
            ]);
            command.stdout(Stdio::null());
            let process = Process::start(&mut command, &directory.path().join(format!("{name}.log")))?;
            workers.push(Actor { name, process, is_up: true });
        }
        let story = Story::default();
        Ok(Stage { picture, story, broker, broker_is_up: true, workers, client, watcher, truth, directory })
    }

    /// Submits a command that works for so long.
    pub(crate) async fn submit(&mut self, label: &str, work: Duration) -> Result<TaskId, Failure> {
        let body = json!({
            "command": ["sh", "-c", SCRIPT],
            "env": { "TRUTH": self.truth, "SECONDS_OF_WORK": work.as_secs_f64().to_string() },
        });
        let id = TaskId::new();
        self.story.add(id, label.to_owned());
        self.client.submit(Submission::to(QUEUE).id(id).body(body.to_string())).await?;
        Ok(id)
    }

    /// Shows what happens until `enough` says so. Returns the event that did it and when it was heard.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        timeout: Duration,
        mut enough: impl FnMut(&Story, &Event) -> bool,
    ) -> Result<(Event, Instant), Failure> {
        let begun = Instant::now();
        loop {
            self.draw();
            let heard = tokio::select! {
                heard = self.watcher.next() => heard,
                () = tokio::time::sleep(DRAW_EVERY) => {
                    if begun.elapsed() > timeout {
                        return Err(Failure::new(INTERNAL, format!("timed out after {timeout:?}: {what}\n{}", self.logs())));
                    }
                    continue;
                }
                _ = tokio::signal::ctrl_c() => return Err(Failure::new(TASK_CANCELLED, "the demonstration was ended")),
            };
            let at = Instant::now();
            match heard {
                Some(Ok(Watched::Event(event))) => {
                    self.show_event(&event);
                    if enough(&self.story, &event) {
                        self.draw();
                        return Ok((event, at));
                    }
                }
                Some(Ok(Watched::Gap { from, to })) => {
                    return Err(Failure::new(INTERNAL, format!("events {from} to {to} were missed")));
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Failure::new(INTERNAL, "the watch has ended")),
            }
        }
    }

    /// Lets the viewer look for a while.
    pub(crate) async fn pause(&mut self, span: Duration) -> Result<(), Failure> {
        let until = Instant::now() + span;
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            self.draw();
            match tokio::time::timeout(rest.min(DRAW_EVERY), self.watcher.next()).await {
                Ok(Some(Ok(Watched::Event(event)))) => self.show_event(&event),
                Ok(Some(Err(error))) => return Err(error.into()),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// `kill -9` of a worker that runs something other than `spared`. Returns its name and when it was killed.
    pub(crate) fn kill_worker(&mut self, spared: TaskId) -> Option<(&'static str, Instant)> {
        let spares = self.story.part(spared).map(|part| part.worker.clone()).unwrap_or_default();
        let story = &self.story;
        let victim = self.workers.iter_mut().filter(|worker| worker.is_up && worker.name != spares);
        let victim = victim.max_by_key(|worker| story.run_by(worker.name).len())?;
        victim.process.kill();
        victim.is_up = false;
        Some((victim.name, Instant::now()))
    }

    pub(crate) fn kill_broker(&mut self) -> u32 {
        let pid = self.broker.pid();
        self.broker.kill();
        self.broker_is_up = false;
        pid
    }

    pub(crate) fn start_broker(&mut self) -> Result<(), Failure> {
        self.broker.start_again()?;
        self.broker_is_up = true;
        Ok(())
    }

    pub(crate) fn broker_pid(&self) -> u32 {
        self.broker.pid()
    }

    pub(crate) fn address(&self) -> &str {
        self.broker.address()
    }

    pub(crate) fn truth(&self) -> &std::path::Path {
        &self.truth
    }

    /// Sends the workers home in peace.
    pub(crate) fn stop_workers(&mut self) {
        for worker in self.workers.iter().filter(|worker| worker.is_up) {
            worker.process.terminate();
        }
        let since = Instant::now();
        while self.workers.iter_mut().any(|worker| worker.process.ended().is_none())
            && since.elapsed() < Duration::from_secs(3)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn draw(&mut self) {
        let workers = self.workers.iter().map(|worker| (worker.name, worker.is_up)).collect();
        self.picture.draw(&Scene { story: &self.story, workers, broker_is_up: self.broker_is_up });
    }

    /// Takes an event in, and says it if it is worth a line.
    fn show_event(&mut self, event: &Event) {
        use tenure_client::EventKind as Kind;
        let label = self.story.handle_event(event).map(str::to_owned);
        let quiet = matches!(
            event.kind,
            Kind::Submitted
                | Kind::Assigned
                | Kind::Progress
                | Kind::Checkpoint
                | Kind::QueueServed
                | Kind::QueueUnserved
                | Kind::WorkerLeft
        );
        // The dead worker's guard acts in its name; that is no return.
        let of_the_dead = event.kind == Kind::WorkerReturned
            && self
                .workers
                .iter()
                .any(|worker| !worker.is_up && event.worker.as_deref() == Some(worker.name));
        if quiet || of_the_dead {
            return;
        }
        let sentence = sentence(event, now());
        match label {
            Some(label) => self.picture.line(&format!("   task {label}: {sentence}")),
            None => self.picture.line(&format!("   {sentence}")),
        }
    }

    /// The last lines of every process, to diagnose a failure.
    fn logs(&self) -> String {
        let mut text = String::new();
        let files = std::fs::read_dir(self.directory.path()).into_iter().flatten().flatten();
        for file in files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log")) {
            let said = std::fs::read_to_string(file.path()).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            for line in last.iter().rev() {
                text += &format!("{}: {line}\n", file.file_name().to_string_lossy());
            }
        }
        text
    }
}

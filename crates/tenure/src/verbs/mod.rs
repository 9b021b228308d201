//! The subcommands, one file each: their options and what they do.

mod arrays;
mod backup;
mod cancel;
mod cluster;
pub(crate) mod completions;
pub(crate) mod config;
mod connect;
mod doctor;
mod explain;
mod follow;
mod history;
mod hooks;
mod input;
mod journal;
mod labels;
mod limits;
mod list;
mod logs;
mod lost_output;
mod man;
mod move_task;
pub(crate) mod open;
mod pause;
mod progress;
mod publish;
mod queues;
mod rate;
mod reconcile;
mod release;
mod report;
mod resume;
mod retry;
mod schedules;
mod select;
mod selected_arrays;
pub(crate) mod serve;
mod shares;
mod show;
mod slot;
mod stats;
pub(crate) mod submit;
mod subscribe;
mod top;
mod topics;
mod wait;
mod watch;
mod which;
mod workers;

use clap::Subcommand;

use crate::args::Cli;
use crate::exit::Outcome;
use crate::key;
use crate::output::Screen;
use connect::with_broker;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(Box<serve::Serve>),
    Work(Box<crate::work::Work>),
    Submit(Box<submit::Submit>),
    List(list::List),
    Show(show::Show),
    Explain(explain::Explain),
    Watch(watch::Watch),
    Wait(wait::Wait),
    Logs(logs::Logs),
    #[command(visible_alias = "kill")]
    Cancel(cancel::Cancel),
    Pause(pause::Pause),
    #[command(visible_alias = "play")]
    Resume(resume::Resume),
    Retry(retry::Retry),
    Release(release::Release),
    Move(move_task::MoveTask),
    Queues(queues::Queues),
    Workers(workers::Workers),
    Drain(workers::Drain),
    Limits(limits::Limits),
    Schedules(schedules::Schedules),
    Hooks(hooks::Hooks),
    Arrays(arrays::Arrays),
    Shares(shares::Shares),
    Reconcile(Box<reconcile::Reconcile>),
    Pub(Box<publish::Pub>),
    Sub(Box<subscribe::Sub>),
    Topics(topics::Topics),
    Report(report::Report),
    Stats(stats::Stats),
    Top(top::Top),
    Backup(backup::Backup),
    Restore(Box<backup::Restore>),
    Journal(journal::Journal),
    Cluster(cluster::Cluster),
    Doctor(Box<doctor::Doctor>),
    Open(Box<open::Open>),
    Demo(crate::demo::Demo),
    Bench(crate::bench::Bench),
    Config(config::Config),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Verb {
    /// Whether it talks to a broker that may want a key.
    fn wants_a_key(&self) -> bool {
        !matches!(
            self,
            Verb::Serve(_)
                | Verb::Restore(_)
                | Verb::Journal(_)
                | Verb::Cluster(_)
                | Verb::Demo(_)
                | Verb::Config(_)
                | Verb::Open(_)
                | Verb::Completions(_)
                | Verb::Man(_)
        )
    }
}

pub(crate) fn run(cli: Cli) -> Outcome {
    let Cli { mut global, verb } = cli;
    if verb.wants_a_key() {
        global.key = key::find(&global)?;
    }
    let screen = &Screen::new(global.output, global.no_color);
    match verb {
        Verb::Serve(serve) => crate::serve::run(&serve),
        Verb::Work(work) => work.run(&global),
        Verb::Submit(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::List(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Show(verb) => with_broker(&global, async |client| verb.run(&client, &global, screen).await),
        Verb::Explain(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Watch(verb) => with_broker(&global, async |client| verb.run(&client, &global, screen).await),
        Verb::Wait(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Logs(verb) => with_broker(&global, async |client| verb.run(&client, &global, screen).await),
        Verb::Cancel(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Pause(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Resume(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Retry(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Release(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Move(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Queues(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Workers(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Drain(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Limits(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Reconcile(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Schedules(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Hooks(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Arrays(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Shares(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Pub(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Sub(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Topics(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Report(verb) => with_broker(&global, async |client| verb.run(&client, &global, screen).await),
        Verb::Stats(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Top(verb) => with_broker(&global, async |client| verb.run(&client, screen).await),
        Verb::Backup(verb) => verb.run(&global, screen),
        Verb::Restore(restore) => restore.run(screen),
        Verb::Journal(journal) => journal.run(screen),
        Verb::Cluster(cluster) => cluster.run(screen),
        Verb::Doctor(doctor) => doctor.run(&global, screen),
        Verb::Open(open) => open.run(screen),
        Verb::Demo(demo) => demo.run(screen),
        Verb::Bench(bench) => bench.run(&global, screen),
        Verb::Config(config) => config.run(screen),
        Verb::Completions(completions) => completions.run(),
        Verb::Man(man) => man.run(),
    }
}

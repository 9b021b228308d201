//! `tenure cluster`: the group of brokers that share a journal. It talks to the database, so it works when no broker
//! does.

mod backup;
mod led_group;
mod namespaces;
mod place;
mod repair;
mod status;

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_journal_postgres::{PostgresJournal, StepDownReply};

use crate::config::cluster::ClusterSettings;
use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome, TRY_LATER};
use crate::output::Screen;
use crate::serve::cluster::start;
use crate::verbs::config::read;

/// Between two looks at the group.
const PAUSE: Duration = Duration::from_millis(50);

/// Set up and look after a group of brokers that share a journal
#[derive(Args, Debug)]
#[command(after_help = "\
These verbs talk to the database that --journal names (or `journal` in the file, or TENURE_JOURNAL).

Examples:
  tenure cluster init --journal postgres://tenure@db1,db2/tenure --group g1
  tenure cluster status --journal postgres://tenure@db1,db2/tenure --group g1
  tenure cluster step-down   let another member lead, before an upgrade
  tenure cluster backup /srv/backups/monday
  tenure cluster forget b3   a machine that does not come back
  tenure cluster place lab g2   let the group g2 serve the namespace lab
  tenure cluster namespaces  show which group serves which namespace")]
pub(crate) struct Cluster {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Create the schema and the group in the database
    Init(Box<Flags>),
    /// Show who leads, how far each member is, and whether the database replicates
    Status(Box<Flags>),
    /// Let another member lead
    StepDown(Box<StepDown>),
    /// Back up the group from the database to a directory on this machine
    Backup(Box<backup::BackUp>),
    /// Forget a member that does not come back
    Forget(Box<Forget>),
    /// Move a namespace to another group, with its tasks, topics and stored keys
    Place(Box<place::Place>),
    /// Show which group serves which namespace
    Namespaces(Box<Flags>),
    /// Set aside a copy that differs from the group's journal, so that it is read again
    Repair(Box<repair::Repair>),
}

#[derive(Args, Debug)]
struct StepDown {
    /// The member that leads next
    #[arg(long, value_name = "MEMBER")]
    to: Option<String>,
    /// How long to wait until another member leads
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = crate::units::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Args, Debug)]
struct Forget {
    /// Name of the member to forget
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    flags: Flags,
}

impl Cluster {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        match &self.act {
            Act::Init(flags) => init(&journal(flags)?, screen),
            Act::Status(flags) => status::show(&journal(flags)?, screen),
            Act::StepDown(args) => args.run(screen),
            Act::Backup(args) => args.run(screen),
            Act::Forget(args) => args.run(screen),
            Act::Place(args) => args.run(screen),
            Act::Namespaces(flags) => namespaces::show(&journal(flags)?, screen),
            Act::Repair(args) => args.run(screen),
        }
    }
}

fn journal(flags: &Flags) -> Result<PostgresJournal, Failure> {
    start::open_as_tool(&configured(flags)?.1)
}

fn configured(flags: &Flags) -> Result<(Config, ClusterSettings), Failure> {
    let config = Config::build(&read(flags)?, random_seed());
    let cluster = config.cluster.clone().ok_or_else(|| {
        Failure::usage("no journal is named: pass --journal postgres://USER@HOST/DATABASE, and --group")
    })?;
    Ok((config, cluster))
}

fn init(journal: &PostgresJournal, screen: &Screen) -> Outcome {
    let is_new = start::retry_as_tool(|| journal.create())?;
    let checked = start::retry_as_tool(|| journal.check())?;
    let text = || {
        let (group, address) = (journal.group(), journal.address());
        let state = if is_new { "is ready" } else { "was there already" };
        let warning = if checked.is_synchronous {
            ""
        } else {
            "\nwarning: the database has no synchronous standby; members start only with --journal-single on, and what \
             is acknowledged is lost with its disk"
        };
        format!(
            "the group {group} {state} in {address}{warning}\nStart its members, each with a name and a data directory of \
             its own:\n  tenure serve --journal {address} --group {group} --name b1 --data-dir /var/lib/tenure"
        )
    };
    screen.one(text, || {
        json!({
            "group": checked.group.name, "id": checked.group.id, "created": is_new,
            "server_version": checked.server_version, "synchronous": checked.is_synchronous,
        })
    })?;
    Ok(OK)
}

/// How long a standby may be silent: it may have been stopped, and has not said yet that it is alive again.
const STANDBY_WITHIN: Duration = Duration::from_secs(10);

impl StepDown {
    fn run(&self, screen: &Screen) -> Outcome {
        let journal = journal(&self.flags)?;
        let since = Instant::now();
        let (old, epoch) = self.ask(&journal)?;
        let leader = loop {
            let status = start::retry_as_tool(|| journal.status())?;
            match status.leader {
                Some(leader) if leader != old && status.epoch > epoch => break leader,
                _ if since.elapsed() > self.timeout => {
                    return Err(Failure::new(
                        TRY_LATER,
                        format!(
                            "{old} was asked to step down, and no other member leads yet: see `tenure cluster status`"
                        ),
                    ));
                }
                _ => std::thread::sleep(PAUSE),
            }
        };
        let took = since.elapsed();
        let text =
            || format!("{leader} leads now; {old} stepped down {} ago", crate::units::show_duration(took));
        screen.one(text, || json!({ "from": old, "to": leader, "millis": took.as_millis() as u64 }))?;
        Ok(OK)
    }

    /// Asks the leader, and returns its name and its epoch.
    fn ask(&self, journal: &PostgresJournal) -> Result<(String, u64), Failure> {
        let since = Instant::now();
        loop {
            let problem = match start::retry_as_tool(|| journal.ask_to_step_down(self.to.as_deref()))? {
                StepDownReply::Asked { leader, epoch } => return Ok((leader, epoch)),
                StepDownReply::NoStandby => {
                    return Err(Failure::usage(match &self.to {
                        Some(to) => format!("{to} is no standby of the group: see `tenure cluster status`"),
                        None => "the group has no other member: start one first".to_owned(),
                    }));
                }
                StepDownReply::SilentStandby => match &self.to {
                    Some(to) => format!("{to} is not alive: see `tenure cluster status`"),
                    None => "no other member is alive: start one first".to_owned(),
                },
                StepDownReply::NoLeader => {
                    "no member leads at this moment: see `tenure cluster status`".to_owned()
                }
            };
            if since.elapsed() > STANDBY_WITHIN.min(self.timeout) {
                return Err(Failure::new(TRY_LATER, problem));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Forget {
    fn run(&self, screen: &Screen) -> Outcome {
        let (journal, member) = (journal(&self.flags)?, &self.member);
        if !start::retry_as_tool(|| journal.forget(member))? {
            let group = journal.group();
            return Err(Failure::input(format!("the group {group} has no member {member}")));
        }
        screen.one(|| format!("{member} is forgotten"), || json!({ "forgotten": member }))?;
        Ok(OK)
    }
}

//! `tenure doctor`: checks the machine and the broker, and suggests what to do.

mod disk;
mod system;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tenure_client::Client;

use super::connect::connect;
use super::journal::holder;
use crate::args::Global;
use crate::config::flags::Flags;
use crate::config::load::{Loaded, environment, load};
use crate::config::{Config, random_seed};
use crate::exit::{FOUND_TROUBLE, Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::paint::Color;
use crate::output::times::now;
use crate::units::show_duration;

/// Clocks that differ by more make delays, expiries and ages look wrong.
const CLOCK_SKEW_MAX_MILLIS: u64 = 2_000;

/// Check this machine and the broker for problems
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 78 if something needs to be done. Settings are read as `tenure serve` would read them.

Examples:
  tenure doctor
  tenure doctor --data-dir /var/lib/tenure --broker broker.example:7171
  tenure doctor -o json | jq '.[] | select(.verdict != \"good\")'")]
pub(crate) struct Doctor {
    #[command(flatten)]
    flags: Flags,
}

/// The result of one check.
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) says: String,
    /// The remedy; empty if all is well.
    pub(crate) advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    /// Works, but not as it should.
    Fair,
    Bad,
}

impl Finding {
    pub(crate) fn good(check: &'static str, says: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Good, says: says.into(), advice: String::new() }
    }

    pub(crate) fn fair(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Fair, says: says.into(), advice: advice.into() }
    }

    pub(crate) fn bad(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Bad, says: says.into(), advice: advice.into() }
    }
}

impl Doctor {
    pub(crate) fn run(&self, global: &Global, screen: &Screen) -> Outcome {
        let mut findings = Vec::new();
        if let Some(loaded) = self.configuration(&mut findings) {
            let config = Config::build(&loaded, random_seed());
            let holder = holder_of(&config.data_dir);
            findings.extend(disk::check(&config.data_dir, holder.as_deref()));
            findings.extend(system::ports(&config.doors, holder.is_some()));
        }
        findings.push(system::open_files());
        findings.push(system::clock(now()));
        super::connect::block_on(async {
            findings.extend(broker(global).await);
            Ok(())
        })?;
        print_findings(&findings, screen)
    }

    fn configuration(&self, findings: &mut Vec<Finding>) -> Option<Loaded> {
        let variables: Vec<String> =
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        match load(&self.flags, &environment, &variables) {
            Ok(loaded) => {
                let file =
                    loaded.file.as_ref().map_or("no file".to_owned(), |file| file.display().to_string());
                findings.push(match loaded.warnings.first() {
                    None => Finding::good("configuration", file),
                    Some(warning) => Finding::fair("configuration", warning, "rename or remove the variable"),
                });
                Some(loaded)
            }
            Err(problems) => {
                for problem in problems {
                    findings.push(Finding::bad(
                        "configuration",
                        problem.to_string(),
                        "fix it, then run `tenure config check`",
                    ));
                }
                None
            }
        }
    }
}

/// Is the broker there, is it of this version, and does its clock agree?
async fn broker(global: &Global) -> Vec<Finding> {
    let client = match connect(global).await {
        Ok(client) => client,
        Err(Failure { message, .. }) => {
            let mut lines = message.lines();
            let says = lines.next().unwrap_or_default().to_owned();
            let advice = lines.next().unwrap_or("look at the address and the key").to_owned();
            return vec![Finding::bad("broker", says, advice)];
        }
    };
    let mut findings = vec![version(&client)];
    let asked = now();
    match client.ping().await {
        Ok(theirs) => {
            let skew = theirs.0.abs_diff(asked);
            findings.push(if skew <= CLOCK_SKEW_MAX_MILLIS {
                Finding::good(
                    "broker's clock",
                    format!("within {}", show_duration(std::time::Duration::from_millis(skew.max(1)))),
                )
            } else {
                let by = show_duration(std::time::Duration::from_millis(skew));
                Finding::fair(
                    "broker's clock",
                    format!("differs from this machine's by {by}"),
                    "let both machines keep network time",
                )
            });
        }
        Err(error) => findings.push(Finding::bad("broker", error.to_string(), "look at the broker's log")),
    }
    findings
}

fn version(client: &Client) -> Finding {
    let welcome = client.welcome();
    let theirs = welcome.software.as_deref().unwrap_or("unknown");
    let ours = concat!("tenure ", env!("CARGO_PKG_VERSION"));
    if theirs == ours {
        Finding::good("broker", format!("reached, {theirs}"))
    } else {
        Finding::fair(
            "broker",
            format!("reached, but it is {theirs} and this is {ours}"),
            "use the same version on both sides",
        )
    }
}

fn holder_of(dir: &PathBuf) -> Option<String> {
    if dir.is_dir() { holder(dir) } else { None }
}

fn print_findings(findings: &[Finding], screen: &Screen) -> Outcome {
    let name = |verdict| match verdict {
        Verdict::Good => ("good", Color::Green),
        Verdict::Fair => ("fair", Color::Yellow),
        Verdict::Bad => ("bad", Color::Red),
    };
    let text = || {
        let mut text = String::new();
        for finding in findings {
            let (verdict, color) = name(finding.verdict);
            text += &format!(
                "{}  {:<16} {}\n",
                screen.paint.apply(color, format!("{verdict:<4}")),
                finding.check,
                finding.says
            );
            if !finding.advice.is_empty() {
                text += &format!("      {:<16} → {}\n", "", finding.advice);
            }
        }
        text
    };
    let value = || {
        let all = findings.iter().map(|finding| {
            json!({ "check": finding.check, "verdict": name(finding.verdict).0, "says": finding.says, "advice": finding.advice })
        });
        all.collect::<Vec<_>>().into()
    };
    screen.one(text, value)?;
    Ok(if findings.iter().any(|finding| finding.verdict == Verdict::Bad) { FOUND_TROUBLE } else { OK })
}

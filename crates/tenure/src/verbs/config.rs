//! `tenure config`: checks the configuration, and shows each value and its source.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::config::absent::default_text;
use crate::config::flags::Flags;
use crate::config::hooks;
use crate::config::load::{Loaded, Origin, environment, load};
use crate::config::problem;
use crate::config::settings::SETTINGS;
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Screen, remark};
use crate::serve::check::{directory, faults};
use crate::serve::refuse;
use crate::units::counted;

/// Check or show the broker's configuration
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure config check --config /etc/tenure/tenure.toml
  tenure config check --running && systemctl reload tenure
  tenure config check --running && kill -HUP PID   without systemd
  tenure config show   every setting, its value, and where it was set
  tenure config show -o json | jq '.settings[] | select(.from != \"default\")'")]
pub(crate) struct Config {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Check whether the broker would start with this configuration
    ///
    /// Opens no port, so whether one is taken shows only when the broker starts.
    Check(Box<Check>),
    /// Show every setting, its value and its source; keys are never shown
    Show(Box<Flags>),
}

#[derive(Args, Debug)]
struct Check {
    #[command(flatten)]
    flags: Flags,
    /// Ignore that a running broker uses the data directory
    #[arg(long)]
    running: bool,
}

impl Config {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        match &self.verb {
            ConfigVerb::Check(given) => check(&read(&given.flags)?, given.running, screen),
            ConfigVerb::Show(flags) => show(&read(flags)?, screen),
        }
    }
}

/// Loads the configuration of this process, and reports all problems at once.
pub(crate) fn read(flags: &Flags) -> Result<Loaded, Failure> {
    let variables: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let loaded = load(flags, &environment, &variables);
    loaded.map_err(|problems| {
        Failure::usage(format!("the configuration is invalid\n{}", problem::list(&problems)))
    })
}

fn check(loaded: &Loaded, running: bool, screen: &Screen) -> Outcome {
    for warning in &loaded.warnings {
        remark(format!("tenure: {warning}"));
    }
    let built = crate::config::Config::build(loaded, 0);
    let mut faults = faults(&built);
    if !running {
        faults.extend(directory(&built).err());
    }
    if let Some(first) = faults.first()
        && !screen.is_table()
    {
        let problems: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        screen
            .one(String::new, || json!({ "ok": false, "problems": problems, "warnings": loaded.warnings }))?;
        return Ok(first.code);
    }
    refuse(&faults)?;
    let file = loaded.file.as_ref().map(|file| file.display().to_string());
    let text = || match &file {
        Some(file) => {
            let keys = counted(loaded.access.count() as u64, "key", "keys");
            format!("the configuration is valid ({file}, {keys})")
        }
        None => "the configuration is valid (no file)".to_owned(),
    };
    screen.one(text, || json!({ "ok": true, "file": file, "warnings": loaded.warnings }))?;
    Ok(OK)
}

fn show(loaded: &Loaded, screen: &Screen) -> Outcome {
    let mut table =
        Table::new([Column::Fixed("SETTING"), Column::Flexible("VALUE"), Column::Flexible("FROM")], "");
    let mut settings = Vec::new();
    for setting in SETTINGS {
        let (value, from) = (loaded.value_text(setting.key), loaded.origin(setting.key));
        let color = if *from == Origin::Default { Color::Dim } else { Color::Plain };
        let shown = if value.is_empty() { "(none)" } else { &value };
        table.row([setting.key.into(), Cell::new(shown, color), Cell::new(from.to_string(), color)]);
        settings.push(json!({
            "key": setting.key, "value": value, "from": from.to_string(), "default": default_text(setting),
            "variable": setting.variable(), "flag": format!("--{}", setting.flag()), "reloads": setting.reloads,
        }));
    }
    let keys = loaded.access.describe();
    let workers: Vec<&str> = loaded.access.workers().collect();
    let otlp = loaded.otlp.as_ref().map(|otlp| otlp.target.without_secrets());
    let hooks: Vec<String> = loaded.hooks.iter().map(hooks::describe).collect();
    let text = || {
        let mut text = table.render(screen.width, screen.paint);
        for key in &keys {
            text += &format!("key: {key}\n");
        }
        for worker in &workers {
            text += &format!("worker with a key: {worker}\n");
        }
        for hook in &hooks {
            text += &format!("hook: {hook}\n");
        }
        if let Some(target) = &otlp {
            text += &format!("spans go to: {target}\n");
        }
        text
    };
    screen.one(
        text,
        || json!({ "settings": settings, "keys": keys, "workers": workers, "hooks": hooks, "otlp": otlp }),
    )?;
    Ok(OK)
}

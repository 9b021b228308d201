//! The startup message: one screen for people, one line of JSON for programs.

use std::io::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure_store::{OpenReport, Sync};

use super::doors::Door;
use crate::config::Config;
use crate::exit::Failure;
use crate::units::{counted, show_duration};
use crate::verbs::open::url;
use crate::verbs::serve::{AddressFormat, Serve};

pub(crate) struct Banner<'a> {
    pub(crate) config: &'a Config,
    pub(crate) doors: &'a [Door],
    pub(crate) report: &'a OpenReport,
    pub(crate) took: Duration,
    /// The epoch of the leader of a group.
    pub(crate) epoch: Option<u64>,
}

impl Banner<'_> {
    pub(crate) fn print(&self, serve: &Serve) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        let line = format!("{}\n", self.addresses());
        let written = match serve.print_addresses {
            Some(AddressFormat::Json) => out.write_all(line.as_bytes()),
            None => out.write_all(self.text().as_bytes()),
        };
        // A broker whose stdout is closed is still a broker.
        let _ = written.and_then(|()| out.flush());
        if let Some(file) = &serve.ready_file {
            let beside = file.with_extension("tmp");
            let written = std::fs::write(&beside, line).and_then(|()| std::fs::rename(&beside, file));
            written.map_err(|error| Failure::system(format!("cannot write {}: {error}", file.display())))?;
        }
        Ok(())
    }

    /// Names and addresses of all open doors.
    fn addresses(&self) -> Value {
        let doors: Map<String, Value> =
            self.doors.iter().map(|door| (door.name.to_owned(), door.address.clone().into())).collect();
        let mut line = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "data_dir": self.config.data_dir.display().to_string(),
            "doors": doors,
        });
        if let (Some(cluster), Some(epoch)) = (&self.config.cluster, self.epoch) {
            line["group"] = cluster.group.clone().into();
            line["name"] = cluster.name.clone().into();
            line["epoch"] = epoch.into();
        }
        line
    }

    fn text(&self) -> String {
        let mut text = format!("tenure {}\n\n", crate::args::VERSION);
        if let Some(door) = self.doors.iter().find(|door| door.name == "http") {
            let url = url(&door.address, self.config.tls.is_some());
            text += &format!("  {url}    in a browser, or `{}`\n\n", open_command(&door.address));
        }
        for door in self.doors {
            text += &format!("  {:<16} {:<31} {}\n", door.name, door.address, door.about);
        }
        text += &format!("\n  data             {}\n", self.config.data_dir.display());
        text += &match (&self.config.cluster, self.epoch) {
            (Some(cluster), Some(epoch)) => format!(
                "  journal          {}\n  group            {}: {} leads with epoch {epoch}\n",
                cluster.address, cluster.group, cluster.name
            ),
            _ => format!("  sync             {}\n", self.sync()),
        };
        text += &format!("  keys             {}\n", self.keys());
        text += &format!("  recovered        {}\n", self.recovered());
        if let Some(cut) = &self.report.cut {
            text += &format!(
                "                   the last write was incomplete and was cut off ({} at byte {}: {});\n                   normal after a crash, otherwise a write that may have been acknowledged is lost\n",
                cut.file, cut.offset, cut.why
            );
        }
        text + "\n" + &self.first_task()
    }

    fn sync(&self) -> String {
        match self.config.store.sync {
            Sync::Always => "always: what is acknowledged is on disk".to_owned(),
            Sync::Interval(span) => {
                format!("every {}: a power failure may lose what was acknowledged since", show_duration(span))
            }
            Sync::Os => "os: a power failure may lose half a minute of what was acknowledged".to_owned(),
        }
    }

    fn keys(&self) -> String {
        match self.config.access.count() {
            0 => "none: every local user has all rights".to_owned(),
            1 => "1 key".to_owned(),
            count => format!("{count} keys"),
        }
    }

    fn recovered(&self) -> String {
        let OpenReport { tasks, records, snapshot_tasks, .. } = self.report;
        format!(
            "{} in {} ({snapshot_tasks} from the snapshot, {} of the journal)",
            counted(*tasks, "task", "tasks"),
            show_duration(self.took),
            counted(*records, "record", "records"),
        )
    }

    fn first_task(&self) -> String {
        let native = self.doors.iter().find(|door| door.name == "native");
        let broker = match native {
            Some(door) if door.address == "127.0.0.1:7171" => String::new(),
            Some(door) => format!(" --broker {}", door.address),
            None => return "The native door is off: submit through one of the others.\n".to_owned(),
        };
        let key = if self.config.access.count() > 0 { "TENURE_KEY=… " } else { "" };
        format!(
            "Submit a first task:  {key}tenure submit{broker} -- echo hello\nand run it:           {key}tenure work{broker}\n"
        )
    }
}

/// The command that opens the dashboard of this broker.
fn open_command(address: &str) -> String {
    match address {
        "127.0.0.1:7173" => "tenure open".to_owned(),
        other => format!("tenure open --http {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_opens_the_dashboard_names_an_address_that_is_not_the_default() {
        assert_eq!(open_command("127.0.0.1:7173"), "tenure open");
        assert_eq!(open_command("127.0.0.1:9000"), "tenure open --http 127.0.0.1:9000");
    }
}

//! `tenure backup` and `tenure restore`: a copy of everything, made while the broker runs, and brought back while none does.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tenure_client::Client;
use tenure_hub::store::{Manifest, RealDisk, check_backup, restore};

use super::journal::{explain, look_at};
use crate::config::flags::Flags;
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::units::show_size;
use crate::verbs::config::read;

/// Copy everything to a directory of the broker's machine, while the broker goes on working
#[derive(Args, Debug)]
#[command(after_help = "\
The directory is made if it is not there, and must be empty. Everything that was acknowledged before the backup began
is in it.

Examples:
  tenure backup /backup/tenure-2026-01-31
  tenure restore /backup/tenure-2026-01-31 --data-dir /var/lib/tenure")]
pub(crate) struct Backup {
    /// Where to, on the broker's machine
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Backup {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        // The broker has another current directory.
        let directory = std::path::absolute(&self.directory)?;
        let directory =
            directory.to_str().ok_or_else(|| Failure::usage("the directory's name is not readable text"))?;
        let bytes = client.backup(directory).await?;
        screen.one(
            || format!("{directory} holds a backup of {}", show_size(bytes)),
            || json!({ "directory": directory, "bytes": bytes }),
        )?;
        Ok(OK)
    }
}

/// Bring a backup back into an empty data directory, while no broker runs there
#[derive(Args, Debug)]
#[command(after_help = "\
Every file is checked against the backup's list before anything is copied.

Examples:
  tenure restore /backup/tenure-2026-01-31 --data-dir /var/lib/tenure
  tenure restore /backup/tenure-2026-01-31 --check        only look whether it is whole")]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Only check that the backup is whole
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Restore {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        let shown = self.backup.display();
        if !self.backup.is_dir() {
            return Err(Failure::input(format!(
                "{shown} is not a directory: name the one that `tenure backup` wrote"
            )));
        }
        let from = look_at(&self.backup)?;
        if self.check {
            let manifest = check_backup(&from).map_err(|error| explain(&self.backup, &error))?;
            return tell(&manifest, &format!("{shown} is whole"), screen);
        }
        let data_dir = PathBuf::from(read(&self.flags)?.text("data_dir"));
        let to = RealDisk::new(&data_dir)
            .map_err(|error| Failure::system(format!("{} cannot be used: {error}", data_dir.display())))?;
        let manifest = restore(&from, &to).map_err(|error| explain(&data_dir, &error))?;
        tell(&manifest, &format!("restored {shown} to {}", data_dir.display()), screen)
    }
}

fn tell(manifest: &Manifest, what: &str, screen: &Screen) -> Outcome {
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let files = manifest.files.len();
    screen.one(
        || format!("{what}: {files} files, {}", show_size(bytes)),
        || json!({ "files": files, "bytes": bytes, "position": manifest.position }),
    )?;
    Ok(OK)
}

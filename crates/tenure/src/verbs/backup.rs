//! `tenure backup` and `tenure restore`: copies the store of a running broker, and restores it while none runs.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tenure_client::BackedUp;
use tenure_store::{Manifest, RealDisk, check_backup, restore};

use super::journal::{explain, open_read_only};
use crate::args::Global;
use crate::config::flags::Flags;
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::units::{counted, show_size};
use crate::verbs::config::read;
use crate::verbs::connect::{block_on, connect_to_member};

/// Back up the running broker to a directory on its machine
#[derive(Args, Debug)]
#[command(after_help = "\
The broker writes the backup to the directory NAME below its setting backup_dir, which defaults to `backups` in the
data directory. NAME must be new or empty. The backup contains everything that the broker acknowledged before it began.
In a group, the member that --broker names writes it, also while it stands by: that costs the leader nothing.

Examples:
  tenure backup monday
  tenure restore /var/lib/tenure/backups/monday --data-dir /var/lib/tenure-restored")]
pub(crate) struct Backup {
    /// Name of the backup, such as 2026-01-31
    #[arg(value_name = "NAME")]
    name: String,
}

impl Backup {
    pub(crate) fn run(&self, global: &Global, screen: &Screen) -> Outcome {
        let name = &self.name;
        let written = block_on(async { Ok(connect_to_member(global).await?.backup(name).await?) })?;
        let BackedUp { bytes, position, member } = written;
        screen.one(
            || {
                let whose =
                    member.as_ref().map_or_else(|| "the broker's".to_owned(), |member| format!("{member}'s"));
                format!("backup {name} holds {}, below {whose} backup_dir", show_size(bytes))
            },
            || json!({ "name": name, "bytes": bytes, "position": position, "member": member }),
        )?;
        Ok(OK)
    }
}

/// Restore a backup into an empty data directory
#[derive(Args, Debug)]
#[command(after_help = "\
Every file is checked against the backup's list before anything is copied.

Examples:
  tenure restore /var/lib/tenure/backups/monday --data-dir /var/lib/tenure-restored
  tenure restore /var/lib/tenure/backups/monday --check   only verify it")]
pub(crate) struct Restore {
    /// Directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Only verify the backup
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
        let from = open_read_only(&self.backup)?;
        if self.check {
            let manifest = check_backup(&from).map_err(|error| explain(&self.backup, &error))?;
            return print_manifest(&manifest, &format!("{shown} is whole"), screen);
        }
        let data_dir = PathBuf::from(read(&self.flags)?.text("data_dir"));
        let to = RealDisk::new(&data_dir)
            .map_err(|error| Failure::system(format!("{} cannot be used: {error}", data_dir.display())))?;
        let manifest = restore(&from, &to).map_err(|error| explain(&data_dir, &error))?;
        print_manifest(&manifest, &format!("restored {shown} to {}", data_dir.display()), screen)
    }
}

fn print_manifest(manifest: &Manifest, what: &str, screen: &Screen) -> Outcome {
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let files = manifest.files.len();
    screen.one(
        || format!("{what}: {}, {}", counted(files as u64, "file", "files"), show_size(bytes)),
        || json!({ "files": files, "bytes": bytes, "position": manifest.position }),
    )?;
    Ok(OK)
}

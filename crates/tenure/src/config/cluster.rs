//! The settings of a broker in a group.

use std::path::PathBuf;
use std::time::Duration;

use tenure_journal_postgres::JournalAddress;
use zeroize::Zeroizing;

use super::load::{Loaded, Origin};
use super::value;
use crate::exit::Failure;

#[derive(Clone, Debug)]
pub(crate) struct ClusterSettings {
    pub(crate) address: JournalAddress,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) advertise: Option<String>,
    pub(crate) lease: Duration,
    /// The database replicates in a way that it does not show.
    pub(crate) is_single: bool,
    /// The doors of a standby forward to the leader.
    pub(crate) forwards: bool,
}

impl ClusterSettings {
    /// The servers, with the password of the file.
    pub(crate) fn address(&self) -> Result<JournalAddress, Failure> {
        let mut address = self.address.clone();
        if let Some(file) = &self.password_file {
            let text = std::fs::read_to_string(file).map(Zeroizing::new).map_err(|error| {
                Failure::system(format!("journal_password_file: cannot read {}: {error}", file.display()))
            })?;
            address.set_password(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(address)
    }
}

/// `None` without a replicated journal.
pub(super) fn cluster(loaded: &Loaded) -> Option<ClusterSettings> {
    let address = value::journal(loaded.text("journal")).expect("checked when loaded")?;
    Some(cluster_at(loaded, address))
}

/// A setting of a member that was given without `journal`: the broker would serve a journal of its own beside its group.
pub(super) fn groupless(loaded: &Loaded) -> Option<(&'static str, String)> {
    if !loaded.text("journal").is_empty() {
        return None;
    }
    let is_given = |key: &&'static str| *loaded.origin(key) != Origin::Default;
    let key = ["group", "name", "advertise"].into_iter().find(is_given)?;
    Some((key, loaded.origin(key).to_string()))
}

/// The same with its servers named elsewhere.
pub(crate) fn cluster_at(loaded: &Loaded, address: JournalAddress) -> ClusterSettings {
    let text = |key: &str| loaded.text(key);
    let name = value::name_or_none(text("name")).expect("checked when loaded").map(str::to_owned);
    ClusterSettings {
        address,
        password_file: value::path(text("journal_password_file")),
        group: text("group").to_owned(),
        name: name.unwrap_or_else(machine_name),
        advertise: value::host(text("advertise")).expect("checked when loaded").map(str::to_owned),
        lease: value::lease(text("journal_lease")).expect("checked when loaded"),
        forwards: value::standby_doors(text("standby_doors")).expect("checked when loaded"),
        is_single: value::switch(text("journal_single")).expect("checked when loaded"),
    }
}

fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "broker".to_owned() } else { name }
}

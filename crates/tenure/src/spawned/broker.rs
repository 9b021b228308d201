//! The broker's process: started on a free port, killed without warning, restarted on the same port.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tenure_client::Address;

use super::process::{Process, Usage};
use crate::config::settings::{Kind, SETTINGS};
use crate::exit::Failure;

/// A running broker of this very program. Only its native door is open.
#[derive(Debug)]
pub(crate) struct Broker {
    process: Process,
    directory: PathBuf,
    address: String,
    more: Vec<String>,
}

impl Broker {
    /// Starts a broker on a directory and returns when it answers. `more` are further flags of `serve`.
    pub(crate) fn start(directory: &Path, more: &[&str]) -> Result<Broker, Failure> {
        let more: Vec<String> = more.iter().map(|flag| (*flag).to_owned()).collect();
        let (process, address) = launch(directory, "127.0.0.1:0", &more)?;
        Ok(Broker { process, directory: directory.to_owned(), address, more })
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same directory and port, after it was killed.
    pub(crate) fn start_again(&mut self) -> Result<(), Failure> {
        let (process, address) = launch(&self.directory, &self.address, &self.more)?;
        self.process = process;
        self.address = address;
        Ok(())
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn wire_address(&self) -> Result<Address, Failure> {
        Ok(self.address.parse()?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }
}

fn launch(directory: &Path, native: &str, more: &[String]) -> Result<(Process, String), Failure> {
    let mut command = Process::tenure()?;
    command.arg("serve").arg("--data-dir").arg(directory.join("data")).args(["--native", native]);
    command.args(["--print-addresses", "json", "--log", "warn"]);
    let other_doors = SETTINGS.iter().filter(|setting| setting.key != "native");
    for door in other_doors.filter(|setting| matches!(setting.kind, Kind::Address | Kind::TwoAddresses)) {
        command.arg(format!("--{}", door.flag())).arg("off");
    }
    command.args(more).stdout(Stdio::piped());
    let log = directory.join("broker.log");
    let mut process = Process::start(&mut command, &log)?;
    let mut line = String::new();
    if let Some(stdout) = process.child().stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let told: Value = serde_json::from_str(&line).unwrap_or_default();
    match told["doors"]["native"].as_str() {
        Some(address) => Ok((process, address.to_owned())),
        None => {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            Err(Failure::system(format!("the broker did not start. Its output:\n{}", said.trim_end())))
        }
    }
}

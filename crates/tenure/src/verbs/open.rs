//! `tenure open`: opens the broker's pages in a browser.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use super::config::read;
use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome};
use crate::output::{Screen, remark};

/// Open the broker in a browser
#[derive(Args, Debug)]
#[command(after_help = "\
Settings are read as `tenure serve` would read them.

Examples:
  tenure open
  tenure open --print
  tenure open --http broker.example:7173")]
pub(crate) struct Open {
    /// Print the address and open nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Open {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        let config = Config::build(&read(&self.flags)?, random_seed());
        let Some(address) = &config.doors.http else {
            return Err(Failure::usage("the HTTP door is off: set its address with --http"));
        };
        let url = url(address, config.tls.is_some());
        screen.one(|| url.clone(), || json!({ "url": url }))?;
        if !self.print && !browse(&url) {
            remark("no browser could be started: open the address yourself");
        }
        Ok(OK)
    }
}

/// The address for a browser on this machine. A broker that listens on all addresses is reached on loopback.
pub(crate) fn url(address: &str, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    let everywhere = address.to_socket_addrs().ok().and_then(|mut all| all.next());
    let host = match everywhere {
        Some(socket) if socket.ip().is_unspecified() => {
            let loopback: IpAddr =
                if socket.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            SocketAddr::new(loopback, socket.port()).to_string()
        }
        _ => address.to_owned(),
    };
    format!("{scheme}://{host}/")
}

/// Starts the user's browser: the program in `BROWSER`, else the desktop's.
fn browse(url: &str) -> bool {
    let own = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let programs = own.iter().map(String::as_str).chain(["xdg-open", "open"]);
    programs.into_iter().any(|program| {
        let mut command = Command::new(program);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_machines_is_opened_on_this_one() {
        assert_eq!(url("127.0.0.1:7173", false), "http://127.0.0.1:7173/");
        assert_eq!(url("0.0.0.0:80", true), "https://127.0.0.1:80/");
        assert_eq!(url("[::]:7173", false), "http://[::1]:7173/");
        assert_eq!(url("broker.invalid:7173", false), "http://broker.invalid:7173/");
    }
}

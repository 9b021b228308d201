//! All doors of one broker at once, the real binary: what each key may do through each of them, and what hostile peers can do to
//! others.

mod audit;
mod forwarding;
mod hostile;
mod open;
mod peers;
mod resuming;
mod revocation;
mod rights;
mod sharing;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the stories of the command line")]
mod support;
mod tls;
mod unfinished_logins;
mod wrong_keys;

//! All doors of one broker at once, the real binary: what each key may do through each of them, and what strangers can do to
//! everybody else.

mod audit;
mod hostile;
mod open;
mod peers;
mod revocation;
mod rights;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the stories of the command line")]
mod support;

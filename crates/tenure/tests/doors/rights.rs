//! Which right lets whom do what: every right, through every door, with every verb of that door.
//!
//! What a verb needs is never written down here: a row names the request of the hub, or the act on topics, that the verb stands
//! for, and `needs()` of that says the rest. A verb without a row, a row without a verb, and a request of the hub that no row
//! stands for fail the test.

mod grpc;
mod http;
mod native;
mod raw_codec;
mod resp;
mod resp_keys;
mod what;
mod xmessage;
mod zmq;

use std::collections::BTreeSet;

use tenure_hub::{Right, Rights};

use crate::support::Broker;
use what::What;

/// One key, and what it may do.
pub(crate) struct Holder {
    pub(crate) name: &'static str,
    pub(crate) rights: Rights,
    pub(crate) key: String,
}

/// What a verb of a door stands for, and an example of it.
pub(crate) struct Row<T> {
    pub(crate) verb: &'static str,
    pub(crate) what: What,
    pub(crate) example: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Refused,
}

/// Everything that the doors let through or refused although they should not.
#[derive(Default)]
struct Findings {
    wrong: Vec<String>,
    /// What rows stand for, by name.
    covered: BTreeSet<&'static str>,
    cells: usize,
}

impl Findings {
    /// Goes over the rows of one door with every key.
    fn examine<T>(
        &mut self,
        door: &str,
        verbs: &[String],
        rows: &[Row<T>],
        mut ask: impl FnMut(&Holder, &T) -> Result<Verdict, String>,
    ) {
        for verb in verbs {
            if !rows.iter().any(|row| row.verb == verb) {
                self.wrong.push(format!("{door}: `{verb}` has no row: say which right it needs"));
            }
        }
        for row in rows {
            if !verbs.iter().any(|verb| verb == row.verb) {
                self.wrong.push(format!("{door}: there is no verb `{}`", row.verb));
            }
            row.what.names(&mut self.covered);
            for holder in holders() {
                let expected =
                    if row.what.is_allowed(holder.rights) { Verdict::Allowed } else { Verdict::Refused };
                self.cells += 1;
                match ask(&holder, &row.example) {
                    Ok(found) if found == expected => {}
                    Ok(found) => {
                        let (verb, name) = (row.verb, holder.name);
                        self.wrong.push(format!("{door}: `{verb}` with the key `{name}`: {found:?}"));
                    }
                    Err(said) => {
                        let (verb, name) = (row.verb, holder.name);
                        self.wrong.push(format!("{door}: `{verb}` with the key `{name}`: {said}"));
                    }
                }
            }
        }
    }
}

#[test]
fn every_verb_of_every_door_needs_the_right_of_what_it_stands_for() {
    let directory = tempfile::tempdir().unwrap();
    let broker = broker(directory.path());
    let mut findings = Findings::default();
    native::examine(&broker, &mut findings);
    xmessage::examine(&broker, &mut findings);
    resp::examine(&broker, &mut findings);
    grpc::examine(&broker, &mut findings);
    http::examine(&broker, &mut findings);
    zmq::examine(&broker, &mut findings);
    for name in what::all_names() {
        if !findings.covered.contains(name) {
            findings.wrong.push(format!("`{name}` is not reached through any door: add a row"));
        }
    }
    eprintln!("{} cells", findings.cells);
    assert!(findings.wrong.is_empty(), "{} findings:\n{}", findings.wrong.len(), findings.wrong.join("\n"));
}

fn broker(directory: &std::path::Path) -> Broker {
    let keys: String = holders()
        .iter()
        .map(|holder| {
            let may: Vec<String> =
                holder.rights.iter().map(|right| format!("{:?}", right.as_str())).collect();
            format!(
                "[[keys]]\nname = \"{}\"\nkey = \"{}\"\nmay = [{}]\n",
                holder.name,
                holder.key,
                may.join(", ")
            )
        })
        .collect();
    std::fs::write(directory.join("tenure.toml"), keys).unwrap();
    Broker::start_in(directory, &crate::peers::ALL_DOORS)
}

/// Each right alone, none, and all.
fn holders() -> Vec<Holder> {
    let one = |right: Right| (right.as_str(), Rights::of(&[right]));
    let sets = Right::ALL.map(one).into_iter().chain([("none", Rights::NONE), ("all", Rights::ALL)]);
    let key = |index| std::iter::repeat_n(char::from(b'1' + index as u8), 64).collect();
    sets.enumerate().map(|(index, (name, rights))| Holder { name, rights, key: key(index) }).collect()
}

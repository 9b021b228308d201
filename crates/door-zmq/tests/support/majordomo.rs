//! What Majordomo peers say and hear in a [`World`].

use std::time::Duration;

use bytes::Bytes;

use super::cbor::Item;
use super::world::World;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const PATH: &str = "Tools/Count";

pub(crate) fn frames<B: AsRef<[u8]>>(parts: &[B]) -> Vec<Bytes> {
    parts.iter().map(|part| Bytes::copy_from_slice(part.as_ref())).collect()
}

pub(crate) fn texts(frames: &[Bytes]) -> Vec<String> {
    frames.iter().map(|frame| String::from_utf8_lossy(frame).into_owned()).collect()
}

pub(crate) fn map(text: &str) -> Bytes {
    Item::read(text).0.encode()
}

/// A `_PL` worker introduces itself and does not beat.
pub(crate) fn introduces_itself(world: &mut World, worker: &str, threads: usize, host: &str) {
    let plugin = format!("{{\"Path\": {PATH:?}, \"PluginVersion\": \"v1\"}}");
    world.says(worker, frames(&["", "MDPW01_PL", "\x01", "processes"]));
    world.says(worker, frames(&["", "MDPW01_PL", "\x06", &threads.to_string(), host, &plugin]));
}

pub(crate) fn submits(world: &mut World, client: &str, jobs: &[&str]) {
    let mut message = frames(&["", "MDPC01_PL", PATH]);
    message.push(map("{1: \"JobID\"}"));
    message.extend(jobs.iter().map(|job| map(&format!("{{1: {job:?}}}"))));
    world.says(client, message);
}

pub(crate) fn heard(world: &mut World, peer: &str) -> Vec<Vec<Bytes>> {
    std::iter::from_fn(|| world.hears(peer)).collect()
}

/// The notices among what was said to a client.
pub(crate) fn notices(world: &mut World, client: &str) -> Vec<Item> {
    let said = heard(world, client);
    let notices = said.iter().filter_map(|frames| Item::decode(frames.get(3)?));
    notices.filter(|notice| notice.get("error").is_some()).collect()
}

/// The `JobID`s of the calls among what was said to a worker.
pub(crate) fn calls(world: &mut World, worker: &str) -> Vec<String> {
    let said = heard(world, worker);
    let calls = said.iter().filter(|frames| frames[2][..] == [2]);
    let job = |frames: &Vec<Bytes>| match Item::decode(&frames[4])?.get("JobID")? {
        Item::Text(job) => Some(job.clone()),
        _ => None,
    };
    calls.filter_map(job).collect()
}

pub(crate) fn ask(world: &mut World, client: &str, service: &str, body: &[&str]) -> Vec<String> {
    heard(world, client);
    world.says(client, frames(&[&["", "MDPC01", service], body].concat()));
    texts(&world.hears(client).expect("an answer")[3..])
}

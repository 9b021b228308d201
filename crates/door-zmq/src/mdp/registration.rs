//! What a `_PL` worker can do: its threads and its plugins.

use bytes::Bytes;
use serde_json::Value;

use super::{MdpError, SERVICE_BYTES_MAX, cbor, decimal};

/// The most threads a worker may offer.
pub const THREADS_MAX: u32 = 4096;
/// The most plugins a worker may offer.
pub const PLUGINS_MAX: usize = 4096;
/// The longest description of one plugin.
pub const PLUGIN_BYTES_MAX: usize = 256 << 10;
/// The longest name of a worker.
const NAME_BYTES_MAX: usize = 255;
/// The most bytes all descriptions of one worker may have together, since they are kept while it is connected.
const REGISTRATION_BYTES_MAX: usize = 16 << 20;

/// A worker's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdpRegistration {
    /// How many jobs it takes at once.
    pub threads: u32,
    /// The name of its server, for people.
    pub name: String,
    pub plugins: Vec<Plugin>,
    /// How many descriptions were invalid. One bad plugin does not invalidate a worker.
    pub skipped: usize,
}

/// One plugin: its service and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    pub path: String,
    pub version: String,
    record: Bytes,
}

impl Plugin {
    /// The whole description as CBOR, the form in which clients ask for it.
    pub fn record(&self) -> Bytes {
        let value = serde_json::from_slice(&self.record).unwrap_or(Value::Null);
        cbor::from_json(&value)
    }
}

/// Reads the frames of PROCESSES: threads, name, one JSON document per plugin. Older workers leave the name out.
pub(super) fn parse(frames: &[Bytes]) -> Result<MdpRegistration, MdpError> {
    let (threads, rest) = frames.split_first().ok_or(MdpError::FrameCount)?;
    let threads = decimal(threads).ok_or(MdpError::Number)?;
    let (name, documents) = match rest.split_first() {
        Some((first, others)) if plugin(first).is_none() => (name(first)?, others),
        _ => (String::new(), rest),
    };
    let bytes: usize = documents.iter().map(Bytes::len).sum();
    if !(1..=THREADS_MAX).contains(&threads)
        || documents.len() > PLUGINS_MAX
        || bytes > REGISTRATION_BYTES_MAX
    {
        return Err(MdpError::Registration);
    }
    let documents = documents.iter().filter(|document| !document.is_empty());
    let count = documents.clone().count();
    let plugins: Vec<Plugin> = documents.filter_map(plugin).collect();
    let skipped = count - plugins.len();
    Ok(MdpRegistration { threads, name, plugins, skipped })
}

fn name(frame: &Bytes) -> Result<String, MdpError> {
    if frame.len() > NAME_BYTES_MAX {
        return Err(MdpError::Registration);
    }
    Ok(String::from_utf8_lossy(frame).chars().filter(|c| !c.is_control()).collect())
}

fn plugin(document: &Bytes) -> Option<Plugin> {
    if document.len() > PLUGIN_BYTES_MAX {
        return None;
    }
    let value: Value = serde_json::from_slice(document).ok()?;
    let path = value.get("Path")?.as_str()?.to_owned();
    if path.is_empty()
        || path.len() > SERVICE_BYTES_MAX
        || path.starts_with("mmi.")
        || path.chars().any(char::is_control)
    {
        return None;
    }
    let version = value.get("PluginVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Plugin { path, version, record: document.clone() })
}

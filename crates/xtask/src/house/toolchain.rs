//! Rule: the toolchain file pins a version of Rust, and the manifest's `rust-version` is the same.
//!
//! Every test then runs with the minimum that the manifest promises.

use toml::{Table, Value};

use super::Breach;
use super::tree::Tree;

const TOOLCHAIN: &str = "rust-toolchain.toml";
const MANIFEST: &str = "Cargo.toml";

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let Some(pinned) = value(tree, TOOLCHAIN, &["toolchain", "channel"]) else {
        return vec![breach(TOOLCHAIN, "names no channel")];
    };
    let Some(promised) = value(tree, MANIFEST, &["workspace", "package", "rust-version"]) else {
        return vec![breach(MANIFEST, "names no rust-version")];
    };
    let is_version =
        pinned.split('.').count() == 3 && pinned.split('.').all(|part| part.parse::<u32>().is_ok());
    if !is_version {
        return vec![breach(TOOLCHAIN, &format!("`{pinned}` is not a version such as 1.95.0"))];
    }
    if pinned.strip_prefix(promised.as_str()).is_some_and(|patch| patch.is_empty() || patch.starts_with('.'))
    {
        return Vec::new();
    }
    vec![breach(MANIFEST, &format!("rust-version is {promised}, but the tests run with {pinned}"))]
}

fn value(tree: &Tree, path: &str, keys: &[&str]) -> Option<String> {
    let mut value = Value::Table(tree.text(path)?.parse::<Table>().ok()?);
    for key in keys {
        value = value.get(key)?.clone();
    }
    Some(value.as_str()?.to_owned())
}

fn breach(path: &str, what: &str) -> Breach {
    Breach { path: path.to_owned(), line: 1, what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(channel: &str, promised: &str) -> Vec<String> {
        let toolchain = format!("[toolchain]\nchannel = \"{channel}\"\n");
        let manifest = format!("[workspace.package]\nrust-version = \"{promised}\"\n");
        let tree = Tree::of(&[(TOOLCHAIN, &toolchain), (MANIFEST, &manifest)]);
        breaches(&tree).into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn the_pinned_version_is_the_promised_one() {
        assert_eq!(found("1.95.0", "1.95"), [""; 0]);
        assert_eq!(found("1.95.0", "1.95.0"), [""; 0]);
    }

    #[test]
    fn another_version_or_a_moving_channel_is_a_breach() {
        assert_eq!(found("1.95.0", "1.9"), ["rust-version is 1.9, but the tests run with 1.95.0"]);
        assert_eq!(found("1.96.1", "1.95"), ["rust-version is 1.95, but the tests run with 1.96.1"]);
        assert_eq!(found("stable", "1.95"), ["`stable` is not a version such as 1.95.0"]);
    }
}

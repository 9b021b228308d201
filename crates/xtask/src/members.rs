//! The crates of this workspace, from their folders and manifests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// One folder under `crates/` that has a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The folder's name, which is what people call the crate: `engine`.
    pub(crate) folder: String,
    /// The package's name, which is what cargo calls it: `tenure-engine`.
    pub(crate) package: String,
    pub(crate) has_benches: bool,
}

/// All members, by folder name.
pub(crate) fn members(root: &Path) -> Result<Vec<Member>> {
    let crates = root.join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))? {
        let folder = entry?;
        let path = folder.path();
        // A folder without a manifest is unfinished or left over.
        let Ok(text) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
        let folder = folder.file_name().to_string_lossy().into_owned();
        let package = package_name(&text).with_context(|| format!("crates/{folder}/Cargo.toml"))?;
        found.push(Member { folder, package, has_benches: path.join("benches").is_dir() });
    }
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(found)
}

pub(crate) fn has(root: &Path, folder: &str) -> bool {
    root.join("crates").join(folder).join("Cargo.toml").is_file()
}

fn package_name(manifest: &str) -> Result<String> {
    let manifest: toml::Table = manifest.parse()?;
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    Ok(name.context("no package name")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_crate_is_found_in_its_own_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let all = members(root).unwrap();
        assert!(all.contains(&Member {
            folder: "xtask".into(),
            package: "xtask".into(),
            has_benches: false
        }));
        assert!(has(root, "xtask"));
        assert!(!has(root, "no-such-crate"));
    }

    #[test]
    fn a_manifest_without_a_name_is_refused() {
        assert!(package_name("[workspace]").is_err());
        assert_eq!(package_name("[package]\nname = \"tenure-engine\"").unwrap(), "tenure-engine");
    }
}

//! The C library that a program needs, and builds that run with an older one than this machine has.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::place::Workspace;
use crate::process::{ask, program, run};
use crate::third_party::environment;

/// The oldest version with which the results run: that of manylinux2014, and the oldest one that Rust supports.
pub(crate) const OLDEST: Version = Version { major: 2, minor: 17 };
/// zig, which links against the symbols of any version, and the programs that call it.
const REQUIREMENTS: &str = include_str!("../../../sdk/python/requirements-release.txt");

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The tag of a wheel that needs this version.
    pub(crate) fn wheel_tag(self) -> String {
        format!("manylinux_{}_{}", self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The python of the environment with the tools.
pub(crate) fn tools(place: &Workspace) -> Result<PathBuf> {
    environment(&place.python().join("release"), REQUIREMENTS)
}

/// What Rust calls this machine.
pub(crate) fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the broker so that it runs with [`OLDEST`]. Returns where it is.
pub(crate) fn build_broker(place: &Workspace, profile: &str) -> Result<PathBuf> {
    let python = tools(place)?;
    let zigbuild = python.with_file_name("cargo-zigbuild");
    let target = target();
    let mut build = program(&zigbuild, &place.root);
    build.args(["rustc", "--profile", profile, "--locked", "--package", "tenure", "--bin", "tenure"]);
    // zig would remove the names of functions together with debug information.
    build.arg("--target").arg(format!("{target}.{OLDEST}")).args(["--", "-C", "strip=none"]);
    // It finds zig by the interpreter of its own environment.
    build.env("PATH", crate::process::path_with(&python)?);
    run(&mut build)?;
    let built = place.built.parent().unwrap_or(&place.built).join(target).join(profile).join("tenure");
    let needs = needed(&built)?;
    if needs > OLDEST {
        bail!("{} needs glibc {needs} and not {OLDEST}", built.display());
    }
    Ok(built)
}

/// The newest version whose symbols a program uses.
pub(crate) fn needed(binary: &Path) -> Result<Version> {
    let symbols = ask(program("objdump", Path::new(".")).arg("-T").arg(binary));
    let newest = symbols.as_deref().and_then(newest);
    newest.with_context(|| format!("objdump cannot tell which glibc {} needs", binary.display()))
}

fn newest(symbols: &str) -> Option<Version> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest[..end].split('.').map(str::parse);
        Some(Version { major: parts.next()?.ok()?, minor: parts.next()?.ok()? })
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number_and_not_by_letter() {
        let symbols = "write (GLIBC_2.2.5) x\nmemcpy (GLIBC_2.14)\nstat (GLIBC_2.9) y GLIBC_PRIVATE";
        assert_eq!(newest(symbols), Some(Version { major: 2, minor: 14 }));
        assert_eq!(newest("nothing"), None);
    }

    #[test]
    fn a_wheel_names_the_version_it_needs() {
        assert_eq!(OLDEST.wheel_tag(), "manylinux_2_17");
        assert_eq!(OLDEST.to_string(), "2.17");
    }
}

//! The folders of the tree and of the build output.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The two folders every verb starts from.
pub(crate) struct Workspace {
    /// The folder with the workspace's `Cargo.toml`. Every child runs here, wherever `cargo xtask` was typed.
    pub(crate) root: PathBuf,
    /// The folder cargo builds into for the dev profile, `target/debug` by default.
    pub(crate) built: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        // Cargo sets the variable when it runs us; the constant serves when the binary is started by hand.
        let manifest =
            env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root =
            Path::new(&manifest).ancestors().nth(2).context("xtask does not lie in crates/xtask")?.to_owned();
        let exe = env::current_exe().context("cannot find the path of this program")?;
        let built = exe.parent().context("this program lies in no folder")?.to_owned();
        Ok(Self { root, built })
    }

    /// Where the third-party clients are installed. Beside the build, so that throwing one away throws away both.
    pub(crate) fn third_party(&self) -> PathBuf {
        self.built.parent().unwrap_or(&self.built).join("third-party")
    }

    /// Where the environment of the Python SDK lies.
    pub(crate) fn python(&self) -> PathBuf {
        self.built.parent().unwrap_or(&self.built).join("python")
    }

    /// The broker's binary of another profile.
    pub(crate) fn broker_of(&self, profile: &str) -> PathBuf {
        match profile {
            "dev" => self.broker(),
            other => self.built.parent().unwrap_or(&self.built).join(other).join("tenure"),
        }
    }

    /// The broker's binary as the build step leaves it.
    pub(crate) fn broker(&self) -> PathBuf {
        self.built.join("tenure")
    }
}

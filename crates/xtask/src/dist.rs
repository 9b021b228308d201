//! `cargo xtask dist`: everything that a release consists of, in `target/dist`.

mod binary;
mod deb;
mod files;
mod image;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use toml::{Table, Value};

use crate::place::Workspace;
use crate::process::{ask, program, run};
use crate::steps::Steps;
use crate::{glibc, python};

/// The profile of `Cargo.toml` with optimization across crates.
const PROFILE: &str = "release-lto";

/// Build a release: stripped binary, Debian package, container image, Python wheel, source archive, checksums
///
/// Everything is written to target/dist. The binary and the wheel run with glibc 2.17 and later, whatever this machine
/// has: zig links them, which comes from the Python package index. The programs `strip`, `objdump`, `tar`, `gzip`,
/// `sha256sum` and `python3` must be installed, `dpkg-deb` for the package, `git` for the source archive.
#[derive(Args)]
pub(crate) struct Dist {
    /// Package uncommitted changes too; the version names the last commit
    #[arg(long)]
    allow_dirty: bool,
    /// Package this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// What every step of a release needs to know.
struct Release {
    root: PathBuf,
    /// Where the results go.
    out: PathBuf,
    /// Where files are laid out before they are packed.
    stage: PathBuf,
    version: String,
    /// Of the last commit, for the times of packed files: the same commit gives the same archives.
    seconds: String,
}

impl Dist {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        let release = Release::new(place)?;
        if !self.allow_dirty && release.is_dirty() {
            bail!("there are uncommitted changes; commit them, or pass --allow-dirty");
        }
        let mut steps = Steps::default();
        let repeat = "cargo xtask dist";
        let built = steps.run("build", repeat, || {
            let binary = match &self.binary {
                Some(binary) => std::path::absolute(binary)?,
                None => glibc::build_broker(place, PROFILE)?,
            };
            binary::strip(&release, &binary)?;
            files::generate(&release)
        });
        if built {
            steps.run("binary archive", repeat, || binary::archive(&release));
            steps.run("debian package", repeat, || deb::build(&release));
            steps.run("container image", repeat, || image::prepare(&release));
            steps.run("python wheel", repeat, || release.wheel(place));
        }
        steps.run("source archive", repeat, || source::archive(&release));
        steps.run("checksums", repeat, || release.write_checksums());
        fs::remove_dir_all(&release.stage).context("cannot remove the stage")?;
        Ok(steps.report())
    }
}

impl Release {
    fn new(place: &Workspace) -> Result<Release> {
        let manifest: Table = fs::read_to_string(place.root.join("Cargo.toml"))?.parse()?;
        let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
        let version = package.and_then(|package| package.get("version")).and_then(Value::as_str);
        let out = place.built.parent().unwrap_or(&place.built).join("dist");
        let stage = out.join("stage");
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
        }
        fs::create_dir_all(&stage).with_context(|| format!("cannot make {}", stage.display()))?;
        let seconds = std::env::var("SOURCE_DATE_EPOCH").ok();
        let seconds =
            seconds.or_else(|| ask(program("git", &place.root).args(["log", "-1", "--format=%ct"])));
        Ok(Release {
            root: place.root.clone(),
            out,
            stage,
            version: version.context("the workspace has no version")?.to_owned(),
            seconds: seconds.unwrap_or_else(|| "0".to_owned()),
        })
    }

    fn is_dirty(&self) -> bool {
        ask(program("git", &self.root).args(["status", "--porcelain"])).is_some_and(|said| !said.is_empty())
    }

    /// The Python SDK with the broker in it.
    fn wheel(&self, place: &Workspace) -> Result<()> {
        let wheel = python::wheel(place, &self.binary(), PROFILE)?;
        let name = wheel.file_name().context("the wheel has no name")?;
        fs::copy(&wheel, self.out.join(name)).context("cannot copy the wheel")?;
        Ok(())
    }

    /// The stripped binary.
    fn binary(&self) -> PathBuf {
        self.stage.join("tenure")
    }

    /// Packs a folder as `NAME.tar.gz`. Order, owner and times do not depend on the machine.
    fn pack(&self, folder: &Path, name: &str) -> Result<()> {
        let (parent, inner) = (folder.parent().unwrap_or(folder), folder.file_name().unwrap_or_default());
        let mut tar = program("tar", parent);
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.seconds)).args(["--use-compress-program=gzip -9n", "--create"]);
        run(tar.arg("--file").arg(self.out.join(format!("{name}.tar.gz"))).arg(inner))
    }

    fn write_checksums(&self) -> Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.out)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        let sums = ask(program("sha256sum", &self.out).args(&names)).context("sha256sum has failed")?;
        println!("{sums}");
        fs::write(self.out.join("SHA256SUMS"), sums + "\n").context("cannot write SHA256SUMS")
    }
}

/// The processor as Rust and as Debian call it.
fn machine() -> (&'static str, &'static str) {
    let rust = std::env::consts::ARCH;
    let debian = match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    (rust, debian)
}

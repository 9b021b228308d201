//! The Debian package: broker, service, configuration, manual pages, completions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::files::{copy, copy_folder, write};
use super::{Release, machine};
use crate::glibc;
use crate::process::{ask, program, run};

/// Where each file of `packaging/` goes.
const FILES: [(&str, &str, u32); 5] = [
    ("tenure.service", "usr/lib/systemd/system/tenure.service", 0o644),
    ("tenure.toml", "etc/tenure/tenure.toml", 0o640),
    ("debian/postinst", "DEBIAN/postinst", 0o755),
    ("debian/prerm", "DEBIAN/prerm", 0o755),
    ("debian/postrm", "DEBIAN/postrm", 0o755),
];
const COMPLETIONS: [(&str, &str); 3] = [
    ("tenure", "usr/share/bash-completion/completions/tenure"),
    ("_tenure", "usr/share/zsh/vendor-completions/_tenure"),
    ("tenure.fish", "usr/share/fish/vendor_completions.d/tenure.fish"),
];
const DOC: &str = "usr/share/doc/tenure";

pub(super) fn build(release: &Release) -> Result<()> {
    if ask(program("dpkg-deb", &release.root).arg("--version")).is_none() {
        println!("left out: dpkg-deb is not installed");
        return Ok(());
    }
    let root = release.stage.join("deb");
    copy(&release.binary(), &root.join("usr/bin/tenure"), 0o755)?;
    for (from, to, mode) in FILES {
        copy(&release.root.join("packaging").join(from), &root.join(to), mode)?;
    }
    for (from, to) in COMPLETIONS {
        copy(&release.stage.join("completions").join(from), &root.join(to), 0o644)?;
    }
    let man = root.join("usr/share/man/man1");
    copy_folder(&release.stage.join("man"), &man)?;
    copy(&release.root.join("README.md"), &root.join(DOC).join("README.md"), 0o644)?;
    copy(&release.root.join("CHANGELOG.md"), &root.join(DOC).join("changelog"), 0o644)?;
    write(&root.join(DOC).join("copyright"), &copyright(&release.root)?, 0o644)?;
    compress(&man)?;
    run(program("gzip", &root).args(["-9n", &format!("{DOC}/changelog")]))?;
    write(&root.join("DEBIAN/conffiles"), "/etc/tenure/tenure.toml\n", 0o644)?;
    let libc = glibc::needed(&release.binary())?.to_string();
    write(&root.join("DEBIAN/control"), &control(&release.version, &libc), 0o644)?;
    let name = format!("tenure_{}_{}.deb", release.version, machine().1);
    let mut dpkg_deb = program("dpkg-deb", &release.root);
    dpkg_deb.env("SOURCE_DATE_EPOCH", &release.seconds);
    dpkg_deb.args(["--root-owner-group", "--build"]).arg(&root).arg(release.out.join(name));
    run(&mut dpkg_deb)
}

fn compress(folder: &Path) -> Result<()> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        pages.push(entry?.path());
    }
    run(program("gzip", folder).arg("-9nq").args(pages))
}

fn control(version: &str, libc: &str) -> String {
    let (_, architecture) = machine();
    format!(
        "Package: tenure\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Tenure contributors <noreply@tenure.invalid>\n\
         Section: net\n\
         Priority: optional\n\
         Depends: adduser, libc6 (>= {libc}), libgcc-s1\n\
         Description: task broker for work that takes minutes to days\n \
         Clients submit tasks, workers run them, and the broker keeps a durable record\n \
         of both. Each task is leased to one live worker. If the worker dies, the broker\n \
         notices within seconds, tells the client, and requeues, pauses or fails the\n \
         task. Redis, gRPC, ZeroMQ and MessagePack clients connect without changes.\n"
    )
}

fn copyright(root: &Path) -> Result<String> {
    let mit = fs::read_to_string(root.join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    Ok(format!(
        "Tenure is licensed under the MIT licence or the Apache licence 2.0, at your option.\n\
         The text of the latter is in /usr/share/common-licenses/Apache-2.0.\n\n{mit}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_has_no_empty_line() {
        let text = control("0.2.0", "2.34");
        assert!(text.lines().all(|line| !line.trim().is_empty()), "{text}");
        assert!(text.contains("\n of both."), "{text}");
    }
}

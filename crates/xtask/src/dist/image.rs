//! The container image: a folder for `docker build` or `podman build`, with nothing in it but the broker.
//!
//! The image starts from scratch: the binary, the libraries that it is linked with, one user, and a data directory.
//! There is no shell and no package manager in it, and building it needs no network.

use std::path::Path;

use anyhow::{Context, Result};

use super::Release;
use super::files::{copy, write};
use crate::process::{ask, program};

pub(super) fn prepare(release: &Release) -> Result<()> {
    let name = format!("tenure-{}-image", release.version);
    let folder = release.stage.join(&name);
    let root = folder.join("root");
    let packaging = release.root.join("packaging").join("container");
    copy(&packaging.join("Containerfile"), &folder.join("Containerfile"), 0o644)?;
    copy(&release.binary(), &root.join("usr/bin/tenure"), 0o755)?;
    let linked = ask(program("ldd", &release.root).arg(release.binary())).context("ldd has failed")?;
    for library in libraries(&linked) {
        let path = Path::new(library);
        copy(path, &root.join(path.strip_prefix("/").unwrap_or(path)), 0o755)?;
    }
    write(&root.join("etc/passwd"), "tenure:x:10001:10001::/var/lib/tenure:/nonexistent\n", 0o644)?;
    write(&root.join("etc/group"), "tenure:x:10001:\n", 0o644)?;
    write(&root.join("etc/nsswitch.conf"), "hosts: files dns\n", 0o644)?;
    for document in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&release.root.join(document), &root.join("usr/share/doc/tenure").join(document), 0o644)?;
    }
    write(&folder.join("data/.keep"), "", 0o600)?;
    release.pack(&folder, &name)
}

/// The paths in what `ldd` says: `libc.so.6 => /lib/libc.so.6 (0x…)`, and the loader without an arrow.
fn libraries(linked: &str) -> Vec<&str> {
    let from_path = linked.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    from_path.map(|path| path.split(" (").next().unwrap_or(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_names_by_path() {
        let said =
            "\tlinux-vdso.so.1 (0x0)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x1)\n\t/lib64/ld-linux.so.2 (0x2)";
        assert_eq!(libraries(said), ["/lib/x/libc.so.6", "/lib64/ld-linux.so.2"]);
    }
}

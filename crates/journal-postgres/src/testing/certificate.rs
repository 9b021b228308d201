//! A certificate for servers of a test.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A certificate that is its own authority, for 127.0.0.1.
#[derive(Debug)]
pub(super) struct TestCertificate {
    authority: PathBuf,
    key: PathBuf,
    _dir: TempDir,
}

impl TestCertificate {
    pub(super) fn new() -> TestCertificate {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let dir = tempfile::tempdir().expect("a directory");
        let (authority, key) = (dir.path().join("server.crt"), dir.path().join("server.key"));
        fs::write(&authority, made.cert.pem()).expect("a file");
        fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        TestCertificate { authority, key, _dir: dir }
    }

    pub(super) fn authority(&self) -> &Path {
        &self.authority
    }

    /// Gives it to a server, whose standbys copy it with everything else.
    pub(super) fn install(&self, data: &Path, owner: Option<(u32, u32)>) {
        for (from, name) in [(&self.authority, "server.crt"), (&self.key, "server.key")] {
            let file = data.join(name);
            fs::copy(from, &file).expect("a file of the server");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a file of the server");
            if let Some((user, group)) = owner {
                chown(&file, Some(user), Some(group)).expect("the file changes its owner");
            }
        }
        super::append(&data.join("postgresql.conf"), "ssl = on\n");
    }
}

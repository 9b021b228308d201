//! Looking after files: backup, restore, verify, repair, dump, and the doctor.

use crate::support::{Broker, program, run};

#[test]
fn a_backup_is_made_while_the_broker_runs_and_brought_back() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(&dir.path().join("data"), &[]);
    let task = broker.submit(&["-q", "q", "precious"]);
    assert!(broker.tenure(&["backup", "monday", "-o", "json"]).json()["bytes"].as_u64().unwrap() > 0);
    broker.tenure(&["backup", "monday"]).fails(76, "not empty");
    for outside in ["/tmp/monday", "../monday", "monday/../../lock"] {
        broker.tenure(&["backup", outside]).fails(76, "backup_dir");
    }
    let backup = dir.path().join("data/backups/monday");
    let backup = backup.to_str().unwrap();
    assert!(run(program(&["restore", backup, "--check"])).ok().contains("is whole"));
    let back = dir.path().join("back");
    let back_dir = back.to_str().unwrap();
    run(program(&["restore", backup, "--data-dir", back_dir])).ok();
    run(program(&["restore", backup, "--data-dir", back_dir])).fails(65, "is not empty");
    run(program(&["restore", "/nowhere", "--data-dir", back_dir])).fails(65, "/nowhere");
    let again = Broker::start_in(&back, &[]);
    assert_eq!(again.tenure(&["show", "--body", &task]).ok(), "precious");
}

#[test]
fn the_journal_is_verified_dumped_and_repaired_when_it_is_not_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let data_dir = data.to_str().unwrap();
    let broker = Broker::start_in(&data, &[]);
    let pid = broker.child.id().to_string();
    for n in 0..50 {
        broker.submit(&["-q", "q", &format!("body number {n}")]);
    }
    run(program(&["journal", "verify", "--data-dir", data_dir])).fails(71, &pid);
    // A sudden end, so that the journal is what counts.
    broker.signal("-KILL");
    broker.ended();
    let verified = run(program(&["journal", "verify", "--data-dir", data_dir, "-o", "json"])).json();
    assert_eq!((verified["sound"].as_bool(), verified["tasks"].as_u64()), (Some(true), Some(50)));
    assert!(run(program(&["journal", "verify", "--data-dir", data_dir])).ok().contains("no damage found"));
    assert!(run(program(&["journal", "dump", "--data-dir", data_dir])).ok().contains("submitted"));
    damage(&data);
    run(program(&["journal", "verify", "--data-dir", data_dir])).fails_with_out(78, "damaged");
    let err = run(crate::support::serve(&data, &[])).fails(71, "journal verify");
    assert!(err.contains("is damaged at byte"), "{err}");
    run(program(&["journal", "repair", "--data-dir", data_dir])).fails(64, "--yes");
    run(program(&["journal", "repair", "--data-dir", data_dir, "--yes"])).ok();
    let broker = Broker::start_in(&data, &[]);
    let left = broker.tenure(&["stats", "-o", "json"]).json()["by_state"]["ready"].as_u64().unwrap();
    assert!((1..50).contains(&left), "{left} tasks are left");
}

#[test]
fn a_journal_on_a_read_only_directory_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let broker = Broker::start_in(&data, &[]);
    broker.submit(&["-q", "q", "precious"]);
    broker.signal("-KILL");
    broker.ended();
    let tree = Tree::of(&data);
    tree.set_modes(0o400, 0o500);
    let said = run(program(&["journal", "verify", "--data-dir", data.to_str().unwrap(), "-o", "json"]));
    tree.set_modes(0o600, 0o700);
    let verified = said.json();
    assert_eq!((verified["sound"].as_bool(), verified["tasks"].as_u64()), (Some(true), Some(1)));
    // Root may write in spite of the modes, and must not.
    assert_eq!(Tree::of(&data), tree);
}

/// The files and directories below one, with what a writer changes.
#[derive(Debug, PartialEq)]
struct Tree(std::collections::BTreeMap<std::path::PathBuf, (std::time::SystemTime, Option<Vec<u8>>)>);

impl Tree {
    fn of(root: &std::path::Path) -> Tree {
        let mut tree = Tree(Default::default());
        let mut left = vec![root.to_owned()];
        while let Some(path) = left.pop() {
            let about = path.metadata().unwrap();
            let bytes = about.is_file().then(|| std::fs::read(&path).unwrap());
            if about.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            tree.0.insert(path, (about.modified().unwrap(), bytes));
        }
        tree
    }

    fn set_modes(&self, of_file: u32, of_directory: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        for (path, (_, bytes)) in &self.0 {
            let mode = if bytes.is_some() { of_file } else { of_directory };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Flips one bit in the middle of what was written.
fn damage(data: &std::path::Path) {
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file());
    files.retain(|file| std::fs::read(file).unwrap().windows(14).any(|bytes| bytes == b"body number 25"));
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let at = bytes.windows(14).position(|bytes| bytes == b"body number 25").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&files[0], bytes).unwrap();
}

#[test]
fn a_directory_that_is_not_there_is_not_made_by_looking() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for verb in ["verify", "repair", "dump"] {
        run(program(&["journal", verb, "--data-dir", missing.to_str().unwrap()]))
            .fails(65, "there is no directory");
    }
    assert!(!missing.exists());
}

#[test]
fn the_doctor_finds_a_healthy_broker_and_a_missing_one() {
    let broker = Broker::start();
    let doctor = |args: &[&str]| {
        let mut command = broker.command(&["doctor"]);
        command.args(args).envs(crate::support::NATIVE_ONLY).arg("--data-dir").arg(&broker.dir);
        run(command)
    };
    let text = doctor(&[]).ok();
    for part in
        ["data directory", &broker.child.id().to_string(), "disk sync", "disk space", "open files", "reached"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let said = doctor(&["--broker", "127.0.0.1:1", "--connect-timeout", "200ms", "-o", "json"]);
    assert_eq!(said.code, 78, "{said:?}");
    let findings: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let bad: Vec<&serde_json::Value> =
        findings.as_array().unwrap().iter().filter(|finding| finding["verdict"] == "bad").collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(bad[0]["advice"].as_str().unwrap().contains("tenure serve"));
}

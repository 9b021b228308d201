//! Commands that the guard does not know: their worker died between starting and announcing them.
//!
//! Every command has a mark of its worker's run in its environment, which the kernel shows. The pipe between worker
//! and guard closes only when the last forked process has become a command, so none is missed.

use std::collections::BTreeSet;
use std::path::Path;

use super::group::Group;
use super::process_stat::ProcessStat;

/// The variable that holds the mark.
pub(crate) const MARK: &str = "TENURE_WORKER_RUN";

/// The groups of all processes of this session that carry the mark. A command that started its own session is meant to
/// live on.
pub(crate) fn find(mark: &str) -> BTreeSet<Group> {
    let wanted = format!("{MARK}={mark}");
    let own = ProcessStat::of(Path::new("/proc/self"));
    let mut groups = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(place) = ProcessStat::of(&path) else { continue };
        let is_ours =
            own.as_ref().is_some_and(|own| own.session == place.session && own.group != place.group);
        if is_ours && carries(&path, wanted.as_bytes()) {
            groups.extend(Group::led_by(place.group));
        }
    }
    groups
}

fn carries(process: &Path, wanted: &[u8]) -> bool {
    let environment = std::fs::read(process.join("environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_command_is_found_by_the_mark_it_carries() {
        let mark = format!("test-{}", std::process::id());
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("300").env(MARK, &mark).process_group(0).spawn().unwrap();
        let group = Group::led_by(child.id()).unwrap();
        // The kernel shows the environment of a new program a moment after the program has started.
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut found = find(&mark);
        while found.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            found = find(&mark);
        }
        let others = find("absent");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((found, others), ([group].into(), BTreeSet::new()));
    }
}

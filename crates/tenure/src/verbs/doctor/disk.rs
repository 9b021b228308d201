//! Checks the data directory: whether it is writable, its free space, and its sync latency.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Finding;
use crate::units::{show_duration, show_size};

/// Below this the broker refuses new tasks before long.
const FREE_LOW: u64 = 1 << 30;
/// Below this it refuses them at once.
const FREE_NONE: u64 = 128 << 20;
/// How often a sync is tried, and how long all tries may take together.
const SYNCS: usize = 30;
const SYNCS_WITHIN: Duration = Duration::from_secs(3);
/// A sync that takes longer than this is felt.
const SYNC_SLOW: Duration = Duration::from_millis(20);

pub(crate) fn check(dir: &Path, holder: Option<&str>) -> Vec<Finding> {
    let shown = dir.display().to_string();
    let mut findings = Vec::new();
    let place = match nearest(dir) {
        Some(place) if dir.is_dir() => {
            findings.push(match holder {
                Some(pid) => Finding::good("data directory", format!("{shown}, in use by process {pid}")),
                None => Finding::good("data directory", format!("{shown}, free")),
            });
            place
        }
        Some(place) => {
            findings.push(Finding::good("data directory", format!("{shown}, will be made")));
            place
        }
        None => {
            findings.push(Finding::bad(
                "data directory",
                format!("{shown} cannot be made"),
                "choose another with --data-dir",
            ));
            return findings;
        }
    };
    findings.push(free(&place));
    findings.push(match sync_time(&place) {
        Ok(time) if time <= SYNC_SLOW => Finding::good("disk sync", format!("{} each", micros(time))),
        Ok(time) => Finding::fair(
            "disk sync",
            format!("{} each: every acknowledgement waits that long", micros(time)),
            "use a faster disk, or submit many tasks in one request",
        ),
        Err(error) => Finding::bad(
            "disk sync",
            format!("{} cannot be written: {error}", place.display()),
            "fix its permissions, or choose another with --data-dir",
        ),
    });
    findings
}

/// The directory itself, or the nearest one above it that exists.
fn nearest(dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    let found = dir.ancestors().find(|place| place.exists())?.to_owned();
    found.is_dir().then(|| if found == dir { dir.clone() } else { found })
}

fn free(place: &Path) -> Finding {
    match rustix::fs::statvfs(place) {
        Err(error) => Finding::fair("disk space", format!("unknown: {error}"), "check with df"),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let says = format!("{} free", show_size(free));
            match free {
                0..FREE_NONE => Finding::bad("disk space", says, "make room: new tasks are refused"),
                FREE_NONE..FREE_LOW => {
                    Finding::fair("disk space", says, "make room before new tasks are refused")
                }
                _ => Finding::good("disk space", says),
            }
        }
    }
}

/// The middle of a few small appends with a sync after each, as the journal does them.
fn sync_time(place: &Path) -> std::io::Result<Duration> {
    let path = place.join(format!(".tenure-doctor-{}", std::process::id()));
    let result = (|| {
        let mut file = File::create_new(&path)?;
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.len() < SYNCS && begun.elapsed() < SYNCS_WITHIN {
            let one = Instant::now();
            file.write_all(&[7; 4096])?;
            file.sync_data()?;
            times.push(one.elapsed());
        }
        times.sort();
        Ok(times[times.len() / 2])
    })();
    let _ = std::fs::remove_file(&path);
    result
}

fn micros(time: Duration) -> String {
    if time < Duration::from_millis(1) { format!("{} µs", time.as_micros()) } else { show_duration(time) }
}

//! The limits of the machine: the disk's share of every figure, measured in the same run.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{self, BODY_BYTES, PRODUCERS, WINDOW};
use crate::exit::Failure;

/// How long appending is measured.
const APPENDING: Duration = Duration::from_secs(1);
/// How many pairs of syncs are measured.
const PAIRS: usize = 200;
/// The approximate cost of a task's record on disk, without its body.
const RECORD_BYTES: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    /// Tasks per second, if all that is unanswered at any time is one append and one sync.
    pub(crate) appends_per_second: f64,
    /// The median of two small appends with a sync each, in seconds.
    pub(crate) two_syncs: f64,
}

pub(crate) fn measure(directory: &Path) -> Result<Ceiling, Failure> {
    let file = File::create(directory.join("ceiling"))?;
    let ceiling = Ceiling { appends_per_second: appends_per_second(&file)?, two_syncs: two_syncs(&file)? };
    std::fs::remove_file(directory.join("ceiling"))?;
    Ok(ceiling)
}

fn appends_per_second(mut file: &File) -> Result<f64, Failure> {
    let tasks = PRODUCERS * WINDOW;
    let batch = vec![b'x'; tasks * (BODY_BYTES + RECORD_BYTES)];
    let begun = Instant::now();
    let mut appended = 0;
    while begun.elapsed() < APPENDING {
        file.write_all(&batch)?;
        file.sync_data()?;
        appended += tasks;
    }
    Ok(appended as f64 / begun.elapsed().as_secs_f64())
}

fn two_syncs(mut file: &File) -> Result<f64, Failure> {
    let record = vec![b'x'; BODY_BYTES + RECORD_BYTES];
    let mut times = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let begun = Instant::now();
        for _ in 0..2 {
            file.write_all(&record)?;
            file.sync_data()?;
        }
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(load::percentile(&times, 50.0))
}

//! CPU and memory of this process, sent with every heartbeat for people to read. Reading them costs two small files;
//! on systems without these files nothing is sent.

use std::time::Instant;

use tenure_wire::worker::WorkerStats;

/// Kernel clock ticks per second, the same on every Linux that programs see.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    /// The time and the CPU time of the last reading.
    last: Option<(Instant, u64)>,
    memory_total: Option<u64>,
}

impl ProcessStats {
    pub(crate) fn read(&mut self, now: Instant) -> Option<WorkerStats> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        if self.memory_total.is_none() {
            let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
            self.memory_total = kilobytes(&info, "MemTotal:");
        }
        Some(WorkerStats {
            cpu_percent: ticks(&stat).and_then(|ticks| self.percent(now, ticks)),
            memory_used: kilobytes(&status, "VmRSS:"),
            memory_total: self.memory_total,
            ..WorkerStats::default()
        })
    }

    /// Percent of one CPU since the last reading.
    fn percent(&mut self, now: Instant, ticks: u64) -> Option<f32> {
        let (then, before) = self.last.replace((now, ticks))?;
        let seconds = now.duration_since(then).as_secs_f64();
        let used = ticks.saturating_sub(before) as f64 / TICKS_PER_SECOND;
        (seconds > 0.0).then(|| (used / seconds * 100.0) as f32)
    }
}

/// CPU time in user and kernel mode. The process name before it may contain blanks and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// A line of the form `name   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn processor_time_is_a_share_since_the_last_time() {
        let stat = "4711 (a (name) 1) S 1 4711 4711 0 -1 4194560 500 0 0 0 250 50 7 7 20 0 1 0 100 8192 30";
        assert_eq!(ticks(stat), Some(300));
        let (mut process_stats, start) = (ProcessStats::default(), Instant::now());
        assert_eq!(process_stats.percent(start, 300), None);
        assert_eq!(process_stats.percent(start + Duration::from_secs(5), 400), Some(20.0));
        assert_eq!(process_stats.percent(start + Duration::from_secs(5), 500), None, "no time has passed");
    }

    #[test]
    fn memory_is_reported_in_bytes() {
        let status = "VmPeak:\t  900 kB\nVmRSS:\t     512 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(512 << 10));
        assert_eq!(kilobytes(status, "MemTotal:"), None);
        assert_eq!(kilobytes("VmRSS: many kB", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_stats() {
        let stats = ProcessStats::default().read(Instant::now()).expect("Linux tells");
        assert!(stats.memory_used > Some(100 << 10) && stats.memory_used < stats.memory_total, "{stats:?}");
    }
}

//! The cpus, the memory and the NVIDIA gpus of this machine, as far as this process may use them.

use std::process::{Command, Stdio};

use tenure_client::{CPUS, GPUS, MEM, Quantity};

/// The resources found. What cannot be found out is left out.
pub(crate) fn resources() -> Vec<(&'static str, Quantity)> {
    let mut found = Vec::new();
    if let Ok(cpus) = std::thread::available_parallelism() {
        found.push((CPUS, Quantity::whole(cpus.get() as u64)));
    }
    if let Some(bytes) = memory() {
        found.push((MEM, Quantity::whole(bytes)));
    }
    let gpus = visible_gpus().map_or_else(nvidia_gpus, |visible| visible.len());
    if gpus > 0 {
        found.push((GPUS, Quantity::whole(gpus as u64)));
    }
    found
}

/// The gpus that the worker itself was given, by the names under which programs find them.
pub(crate) fn visible_gpus() -> Option<Vec<String>> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok()?;
    Some(listed(&visible))
}

pub(crate) fn listed(names: &str) -> Vec<String> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The cpus on which this process may run.
pub(crate) fn allowed_cpus() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    ranges(allowed.unwrap_or_default().trim())
}

/// `0-2,5` is 0, 1, 2 and 5.
fn ranges(text: &str) -> Vec<String> {
    let one = |range: &str| -> Option<Vec<String>> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        Some((first..=last).map(|cpu| cpu.to_string()).collect())
    };
    text.split(',').filter_map(one).flatten().collect()
}

/// The memory of the machine, or of the control group if that is less.
fn memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some((kilobytes * 1024).min(limit.unwrap_or(u64::MAX)))
}

fn nvidia_gpus() -> usize {
    if let Ok(entries) = std::fs::read_dir("/proc/driver/nvidia/gpus") {
        return entries.count();
    }
    let listed = Command::new("nvidia-smi").arg("-L").stderr(Stdio::null()).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else { return 0 };
    String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.starts_with("GPU ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!(ranges("0-2,5"), ["0", "1", "2", "5"]);
        assert_eq!(ranges(""), Vec::<String>::new());
        assert_eq!(listed("2, 3,"), ["2", "3"]);
    }

    #[test]
    fn a_machine_has_at_least_one_cpu() {
        assert!(resources().iter().any(|(name, quantity)| *name == CPUS && quantity.0 >= 1_000));
    }
}

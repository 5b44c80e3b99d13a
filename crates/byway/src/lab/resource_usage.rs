//! CPU time and memory of a process.

use std::path::PathBuf;

use byway_units::{Bytes, Duration};
use rustix::param::clock_ticks_per_second;

/// CPU time and memory that a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceUsage {
    /// CPU time in user and kernel mode, in steps of 10 ms.
    pub(super) cpu: Duration,
    /// Peak memory of the process in bytes.
    pub(super) peak_memory: Bytes,
}

impl ResourceUsage {
    /// Returns the resources that a process has used so far; `None` if it has ended.
    pub(super) fn of(process: u32) -> Option<Self> {
        let file =
            |name: &str| std::fs::read_to_string(PathBuf::from(format!("/proc/{process}/{name}"))).ok();
        Some(Self { cpu: cpu(&file("stat")?)?, peak_memory: peak_memory(&file("status")?)? })
    }
}

/// Parses the CPU time in the file `stat` (proc(5)): the sum of fields 14 and 15. Field 2 is a name
/// in brackets that may contain any character.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()? + fields.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

/// Parses the peak memory in the file `status`: the line `VmHWM`, in units of 1,024 bytes.
fn peak_memory(status: &str) -> Option<Bytes> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let units: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(units * 1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 9 0 0 0 150 50 0 0 20 0 3 0 99 0 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(200_000 / clock_ticks_per_second())));
        assert_eq!(peak_memory("Name:\tx\nVmHWM:\t   16 kB\nVmRSS:\t 8 kB\n"), Some(Bytes::new(16_384)));
        assert_eq!((cpu("7 (a) S 1"), peak_memory("Name:\tx\n")), (None, None));
    }

    #[test]
    fn of_this_process_there_is_some_memory() {
        let cost = ResourceUsage::of(std::process::id()).expect("it runs");
        assert!(cost.peak_memory > Bytes::new(100_000));
        assert_eq!(ResourceUsage::of(u32::MAX), None);
    }
}

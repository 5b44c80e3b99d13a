//! Count of the packets that the system drops from the device's queue before the agent reads them.

use super::TunForwarder;

/// File with the statistics of the devices in this thread's network namespace.
const DEVICE_STATISTICS: &str = "/proc/thread-self/net/dev";

/// Index of the column of packets dropped while sending, among the columns behind the device's name
/// (`proc_net(5)`).
const TRANSMIT_DROPS: usize = 11;

impl TunForwarder {
    /// Returns the number of packets that the system dropped because the TUN device's queue was
    /// full.
    pub(in crate::agent) fn dropped_in_queue(&self) -> u64 {
        dropped_in_queue(&self.settings.device).unwrap_or_default()
    }
}

/// Returns the number of packets that the system dropped in a device's queue since the device was
/// created; `None` without such a device.
fn dropped_in_queue(device: &str) -> Option<u64> {
    #![allow(clippy::disallowed_methods, reason = "the system's statistics are a file")]
    parse_drops(&std::fs::read_to_string(DEVICE_STATISTICS).ok()?, device)
}

fn parse_drops(statistics: &str, device: &str) -> Option<u64> {
    let lines = statistics.lines().filter_map(|line| line.split_once(':'));
    let (_, columns) = lines.into_iter().find(|(name, _)| name.trim() == device)?;
    columns.split_ascii_whitespace().nth(TRANSMIT_DROPS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_sending_of_the_device_of_this_name() {
        let statistics = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             \x20   lo:  100 1 0 2 0 0 0 0 100 1 0 3 0 0 0 0\n\
             byway0: 500 5 0 6 0 0 0 0 700 7 0 786 0 0 0 0\n";
        assert_eq!(parse_drops(statistics, "byway0"), Some(786));
        assert_eq!(parse_drops(statistics, "byway"), None);
        assert_eq!(parse_drops("byway0: 1 2", "byway0"), None);
        assert_eq!(dropped_in_queue("lo").map(|_| ()), Some(()), "the kernel's file is as long as that");
    }
}

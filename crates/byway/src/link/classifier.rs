//! Packet classifier in the kernel: an eBPF program, from `classifier.c`, and its maps of flows and
//! packet statistics.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use aya::maps::{Array, Map, MapData, MapError};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader, Pod};
use byway_sched::{Class, FLOW_EXPIRY, FLOW_SLOTS, Marking, estimated_flows};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use rustix::time::{ClockId, clock_gettime};

use crate::exit::Failure;

/// Object file of the eBPF program: `classifier.c` as `scripts/classifier.sh` compiles it.
const OBJECT: &[u8] = include_bytes!("classifier.o");

/// Name of the eBPF program in the object file.
const PROGRAM: &str = "byway_link";

/// Slots in each row of the map of flows, as in `classifier.c`. One system call reads a row.
const ROW_SLOTS: usize = 2_000;
const CLASS_ROWS: usize = 36;
const _: () = assert!(ROW_SLOTS * CLASS_ROWS == FLOW_SLOTS);

/// Time of the latest packet of each slot's flows, in milliseconds modulo 65,536; 0 for never, or
/// long ago.
type Row = [u16; ROW_SLOTS];

/// Statistics of a class's packets, as the eBPF program counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PacketStats {
    /// Number of packets that the kernel had joined from several (GSO), since the program was
    /// loaded.
    pub(super) gso_packets: u64,
    /// Longest packet of the class since the latest read, in bytes; 0 without packets.
    pub(super) max_packet_bytes: u32,
}

/// eBPF program in the kernel, and its maps. An attached filter keeps both alive after this value
/// is dropped.
pub(super) struct Classifier {
    program: Ebpf,
    stats: Array<MapData, [u64; 2]>,
    flows: Array<MapData, Row>,
}

impl Classifier {
    /// Loads the eBPF program into the kernel, with the DSCPs of low-delay packets, the class
    /// numbers, and a secret for the hash of flows.
    ///
    /// # Errors
    /// If the kernel refuses the program, mostly because a capability is missing.
    pub(super) fn load(marking: Marking, classes: [u32; 2], secret: &[u8; 16]) -> Result<Self, Failure> {
        let mut program =
            EbpfLoader::new().load(OBJECT).map_err(|error| ebpf_failure(&error, of_loading(&error)))?;
        let key = u128::from_le_bytes(*secret);
        let values = [
            low_word(key),
            low_word(key >> 64),
            marking.low_delay_dscps(),
            u64::from(marking.is_literal()),
            u64::from(classes[0]),
            u64::from(classes[1]),
        ];
        let mut settings: Array<_, [u64; 6]> = map(&mut program, "SETTINGS")?;
        settings.set(0, values, 0).map_err(|error| ebpf_failure(&error, of_map(&error)))?;
        let stats = map(&mut program, "SEEN")?;
        let flows = map(&mut program, "FLOWS")?;
        let classifier: &mut SchedClassifier = program
            .program_mut(PROGRAM)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| Failure::machine("eBPF program without classifier: build Byway again"))?;
        classifier.load().map_err(|error| ebpf_failure(&error, of_program(&error)))?;
        Ok(Self { program, stats, flows })
    }

    /// Calls `run` with the file descriptor of the eBPF program, and returns its result.
    ///
    /// # Errors
    /// If the program has no descriptor, which cannot happen.
    pub(super) fn with_descriptor<T>(&self, run: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T, Failure> {
        let program: Option<&SchedClassifier> =
            self.program.program(PROGRAM).and_then(|program| program.try_into().ok());
        let descriptor = program.and_then(|program| program.fd().ok());
        descriptor
            .map(|descriptor| run(descriptor.as_fd()))
            .ok_or_else(|| Failure::machine("eBPF program without classifier: build Byway again"))
    }

    /// Returns the approximate number of flows of each class that had a packet within a second,
    /// high rate first. Clears old slots. The caller calls it at least every 30 s, because times
    /// repeat after about a minute.
    ///
    /// # Errors
    /// If the maps are not readable.
    pub(super) fn flows(&mut self) -> Result<[u32; 2], Failure> {
        Ok([self.flows_of(Class::HighRate)?, self.flows_of(Class::LowDelay)?])
    }

    fn flows_of(&mut self, class: Class) -> Result<u32, Failure> {
        let first = class as usize * CLASS_ROWS;
        let mut active = 0;
        for number in first..first + CLASS_ROWS {
            let number = u32::try_from(number).expect("there are 72 rows");
            let failed = |error: MapError| ebpf_failure(&error, of_map(&error));
            let mut row = self.flows.get(&number, 0).map_err(failed)?;
            let found = scan_row(&mut row, milliseconds());
            // A packet between these two calls is lost to the count. The flow's next packet sets
            // the slot again.
            if found.has_forgotten {
                self.flows.set(number, row, 0).map_err(failed)?;
            }
            active += found.active;
        }
        Ok(estimated_flows(active, FLOW_SLOTS))
    }

    /// Returns the packet statistics of both classes, high rate first. Resets the length of the
    /// longest packet, and no other count.
    ///
    /// # Errors
    /// If the maps are not readable.
    pub(super) fn read_stats(&mut self) -> Result<[PacketStats; 2], Failure> {
        let mut found = [PacketStats::default(); 2];
        for (class, stats) in (0..).zip(&mut found) {
            let failed = |error: MapError| ebpf_failure(&error, of_map(&error));
            let [gso_packets, longest] = self.stats.get(&class, 0).map_err(failed)?;
            // The reset loses packets between these two calls. If packets are joined, the next ones
            // show it, too.
            if longest > 0 {
                self.stats.set(class, [gso_packets, 0], 0).map_err(failed)?;
            }
            *stats =
                PacketStats { gso_packets, max_packet_bytes: u32::try_from(longest).unwrap_or(u32::MAX) };
        }
        Ok(found)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
const fn low_word(wide: u128) -> u64 {
    wide as u64
}

fn map<T: Pod>(program: &mut Ebpf, name: &str) -> Result<Array<MapData, T>, Failure>
where
    Array<MapData, T>: TryFrom<Map, Error = MapError>,
{
    let map = program.take_map(name);
    let map = map.ok_or_else(|| Failure::machine("eBPF program without maps: build Byway again"))?;
    map.try_into().map_err(|error| ebpf_failure(&error, of_map(&error)))
}

/// Returns the system's monotonic time in milliseconds modulo 65,536, as the eBPF program stores
/// it. It is never 0, which means no packet.
fn milliseconds() -> u16 {
    let now = clock_gettime(ClockId::Monotonic);
    let millis = i128::from(now.tv_sec) * 1_000 + i128::from(now.tv_nsec) / 1_000_000;
    u16::try_from(millis & i128::from(u16::MAX)).expect("it has 16 bits") | 1
}

/// Result of the scan of a row of the map of flows.
struct RowScan {
    /// Number of slots with a packet within a second.
    active: usize,
    /// True if the row had slots with older packets, which the scan has cleared.
    has_forgotten: bool,
}

fn scan_row(row: &mut Row, now: u16) -> RowScan {
    let mut found = RowScan { active: 0, has_forgotten: false };
    for at in row.iter_mut().filter(|at| **at != 0) {
        if is_active(*at, now) {
            found.active += 1;
        } else {
            (*at, found.has_forgotten) = (0, true);
        }
    }
    found
}

/// True if the packet at the time `at` is no older than a second. Both times are in milliseconds
/// modulo 65,536.
const fn is_active(at: u16, now: u16) -> bool {
    let expiry = FLOW_EXPIRY.as_millis().cast_signed();
    // The kernel may set times after `now` was read; they lie in the future.
    let age = now.wrapping_sub(at).cast_signed() as i64;
    age <= expiry && age >= -expiry
}

fn of_loading(error: &EbpfError) -> Option<&io::Error> {
    match error {
        EbpfError::MapError(error) => of_map(error),
        EbpfError::ProgramError(error) => of_program(error),
        _ => None,
    }
}

fn of_map(error: &MapError) -> Option<&io::Error> {
    match error {
        MapError::CreateError { io_error, .. } => Some(io_error),
        MapError::SyscallError(error) => Some(&error.io_error),
        _ => None,
    }
}

fn of_program(error: &ProgramError) -> Option<&io::Error> {
    match error {
        ProgramError::LoadError { io_error, .. } => Some(io_error),
        ProgramError::SyscallError(error) => Some(&error.io_error),
        _ => None,
    }
}

fn ebpf_failure(error: &dyn Display, system: Option<&io::Error>) -> Failure {
    // The kernel returns EACCES for a program that its verifier rejects.
    if system.and_then(io::Error::raw_os_error) == Some(Errno::PERM.raw_os_error()) {
        return Failure::machine(format!(
            "loading eBPF programs needs {}: be root, or set AmbientCapabilities=CAP_NET_ADMIN \
             CAP_BPF with systemd",
            missing_capabilities()
        ));
    }
    tracing::debug!(%error, "kernel refused the eBPF program");
    let error = system.map_or_else(|| error.to_string(), ToString::to_string);
    Failure::machine(format!(
        "cannot load the eBPF program: {error}; byway link needs eBPF, Linux 5.8 or newer \
         (--log-level debug shows the verifier's log)"
    ))
}

/// Returns the names of the capabilities that this process lacks to load eBPF programs. Names both
/// if it cannot read its own.
fn missing_capabilities() -> &'static str {
    let Ok(own) = capabilities(None).map(|sets| sets.effective) else {
        return "CAP_NET_ADMIN and CAP_BPF";
    };
    let (net, bpf) = (own.contains(CapabilitySet::NET_ADMIN), own.contains(CapabilitySet::BPF));
    match (net, bpf) {
        (true, false) => "CAP_BPF",
        (false, true) => "CAP_NET_ADMIN",
        _ => "CAP_NET_ADMIN and CAP_BPF",
    }
}

#[cfg(test)]
mod tests;

//! Packet classifier in the kernel: an eBPF program, from `classifier.c`, and its maps of flows and
//! packet statistics.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd};

use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader, Pod};
use byway_sched::{Class, FLOW_EXPIRY, FLOW_SLOTS, FlowTuple, Marking, estimated_flows};
use byway_units::Duration;
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

/// Number of words of the program's settings, and the index of the one that is 1 once a flow was
/// registered.
const SETTINGS_WORDS: usize = 7;
const HAS_REGISTERED: usize = 6;

/// Header fields of a registered flow, as `classifier.c` has them: both addresses, both ports, the
/// protocol, and 1 for IPv6.
type RegisteredFlow = [u8; 40];

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
    settings: Array<MapData, [u64; SETTINGS_WORDS]>,
    /// Values of the settings.
    values: [u64; SETTINGS_WORDS],
    /// End of the lease of each registered flow, in nanoseconds of the monotonic clock.
    registered: HashMap<MapData, RegisteredFlow, u64>,
    accepts_registrations: bool,
    stats: Array<MapData, [u64; 2]>,
    flows: Array<MapData, Row>,
}

impl Classifier {
    /// Loads the eBPF program into the kernel, with the DSCPs of low-delay packets, the class
    /// numbers, and a secret for the hash of flows. If it `accepts_registrations`, single flows may
    /// be low-delay, too, and the map of them takes 2 MB of the kernel's memory.
    ///
    /// # Errors
    /// If the kernel refuses the program, mostly because a capability is missing.
    pub(super) fn load(
        marking: Marking,
        classes: [u32; 2],
        secret: &[u8; 16],
        accepts_registrations: bool,
    ) -> Result<Self, Failure> {
        let mut loader = EbpfLoader::new();
        if !accepts_registrations {
            loader.map_max_entries("REGISTERED", 1);
        }
        let mut program = loader.load(OBJECT).map_err(|error| ebpf_failure(&error, of_loading(&error)))?;
        let key = u128::from_le_bytes(*secret);
        let values = [
            low_word(key),
            low_word(key >> 64),
            marking.low_delay_dscps(),
            u64::from(marking.is_literal()),
            u64::from(classes[0]),
            u64::from(classes[1]),
            0,
        ];
        let mut settings: Array<_, [u64; SETTINGS_WORDS]> = map(&mut program, "SETTINGS")?;
        settings.set(0, values, 0).map_err(|error| map_failure(&error))?;
        let registered: HashMap<_, RegisteredFlow, u64> =
            remove_map(&mut program, "REGISTERED")?.try_into().map_err(|error| map_failure(&error))?;
        let stats = map(&mut program, "SEEN")?;
        let flows = map(&mut program, "FLOWS")?;
        let classifier: &mut SchedClassifier = program
            .program_mut(PROGRAM)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| Failure::machine("eBPF program without classifier: build Byway again"))?;
        classifier.load().map_err(|error| ebpf_failure(&error, of_program(&error)))?;
        Ok(Self { program, settings, values, registered, accepts_registrations, stats, flows })
    }

    /// True if flows may be registered.
    pub(super) const fn accepts_registrations(&self) -> bool {
        self.accepts_registrations
    }

    /// Registers a flow for the time of a lease, or renews it: whatever its DSCP, the flow is in
    /// the low-delay class. If there are too many, the kernel forgets one that has not sent for
    /// long. A lease of no time ends the registration, and leaves its place to another flow.
    ///
    /// # Errors
    /// If the maps are not writable.
    pub(super) fn register(&mut self, flow: &FlowTuple, lease: Duration) -> Result<(), Failure> {
        if lease == Duration::ZERO {
            let removed = self.registered.remove(&registered_flow(flow));
            // The kernel may have forgotten the flow.
            return removed
                .or_else(|error| if is_absent(&error) { Ok(()) } else { Err(map_failure(&error)) });
        }
        let end = monotonic_nanos().saturating_add(lease.as_nanos());
        self.registered.insert(registered_flow(flow), end, 0).map_err(|error| map_failure(&error))?;
        if self.values[HAS_REGISTERED] == 0 {
            self.values[HAS_REGISTERED] = 1;
            self.settings.set(0, self.values, 0).map_err(|error| map_failure(&error))?;
        }
        Ok(())
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
            let mut row = self.flows.get(&number, 0).map_err(|error| map_failure(&error))?;
            let found = scan_row(&mut row, milliseconds());
            // A packet between these two calls is lost to the count. The flow's next packet sets
            // the slot again.
            if found.has_forgotten {
                self.flows.set(number, row, 0).map_err(|error| map_failure(&error))?;
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
            let [gso_packets, longest] = self.stats.get(&class, 0).map_err(|error| map_failure(&error))?;
            // The reset loses packets between these two calls. If packets are joined, the next ones
            // show it, too.
            if longest > 0 {
                self.stats.set(class, [gso_packets, 0], 0).map_err(|error| map_failure(&error))?;
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
    remove_map(program, name)?.try_into().map_err(|error| map_failure(&error))
}

fn remove_map(program: &mut Ebpf, name: &str) -> Result<Map, Failure> {
    let map = program.take_map(name);
    map.ok_or_else(|| Failure::machine("eBPF program without maps: build Byway again"))
}

/// Returns the key of a flow in the map of registered flows.
fn registered_flow(flow: &FlowTuple) -> RegisteredFlow {
    let mut fields = [0; 40];
    let (source, destination, is_ipv6) = match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            (source.octets().to_vec(), destination.octets().to_vec(), 0)
        }
        (source, destination) => (v6_octets(source), v6_octets(destination), 1),
    };
    let [source_port, destination_port] = flow.ports.map(u16::to_be_bytes);
    let addresses = [source, destination].concat();
    fields[..addresses.len()].copy_from_slice(&addresses);
    fields[32..34].copy_from_slice(&source_port);
    fields[34..36].copy_from_slice(&destination_port);
    fields[36..38].copy_from_slice(&[flow.protocol, is_ipv6]);
    fields
}

fn v6_octets(address: IpAddr) -> Vec<u8> {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    address.octets().to_vec()
}

/// Returns the system's monotonic time in nanoseconds, as the eBPF program reads it.
fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
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

/// True if a map did not have the key.
fn is_absent(error: &MapError) -> bool {
    of_map(error).is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn map_failure(error: &MapError) -> Failure {
    ebpf_failure(error, of_map(error))
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

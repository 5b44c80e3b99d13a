//! What the kernel does with each packet: a program for its virtual machine, in `classifier.c`, and what it notes.

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

/// `classifier.c` as `scripts/classifier.sh` compiles it.
const OBJECT: &[u8] = include_bytes!("classifier.o");

/// The name of the program in it.
const PROGRAM: &str = "byway_link";

/// Rows of slots, as in `classifier.c`: a row is what one system call reads.
const ROW_SLOTS: usize = 2_000;
const CLASS_ROWS: usize = 36;
const _: () = assert!(ROW_SLOTS * CLASS_ROWS == FLOW_SLOTS);

/// When flows were last seen, in milliseconds modulo 65,536; 0: never, or long ago.
type Row = [u16; ROW_SLOTS];

/// What is noted of the packets of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Packets that were joined from several, since the program was loaded.
    pub(super) joined: u64,
    /// The longest one since this was read last, in bytes; 0: there was none.
    pub(super) longest: u32,
}

/// The program in the kernel. A filter that it is attached to keeps it and its notes there when this is gone.
pub(super) struct Classifier {
    program: Ebpf,
    seen: Array<MapData, [u64; 2]>,
    flows: Array<MapData, Row>,
}

impl Classifier {
    /// Gives the program to the kernel: which packets are of low delay, by which number each class is found, and a secret for the hash of flows.
    ///
    /// # Errors
    /// If the kernel does not take it: mostly, as a capability is missing.
    pub(super) fn load(marking: Marking, classes: [u32; 2], secret: &[u8; 16]) -> Result<Self, Failure> {
        let mut program =
            EbpfLoader::new().load(OBJECT).map_err(|error| refused(&error, of_loading(&error)))?;
        let key = u128::from_le_bytes(*secret);
        let words = [
            low_word(key),
            low_word(key >> 64),
            marking.low_delay_dscps(),
            u64::from(marking.is_literal()),
            u64::from(classes[0]),
            u64::from(classes[1]),
        ];
        let mut settings: Array<_, [u64; 6]> = map(&mut program, "SETTINGS")?;
        settings.set(0, words, 0).map_err(|error| refused(&error, of_map(&error)))?;
        let seen = map(&mut program, "SEEN")?;
        let flows = map(&mut program, "FLOWS")?;
        let classifier: &mut SchedClassifier =
            program.program_mut(PROGRAM).and_then(|program| program.try_into().ok()).ok_or_else(|| {
                Failure::machine("the program for the kernel has no classifier: build Byway again")
            })?;
        classifier.load().map_err(|error| refused(&error, of_program(&error)))?;
        Ok(Self { program, seen, flows })
    }

    /// Runs something with the program's descriptor.
    ///
    /// # Errors
    /// If there is none, which cannot be.
    pub(super) fn with_descriptor<T>(&self, run: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T, Failure> {
        let program: Option<&SchedClassifier> =
            self.program.program(PROGRAM).and_then(|program| program.try_into().ok());
        let descriptor = program.and_then(|program| program.fd().ok());
        descriptor.map(|descriptor| run(descriptor.as_fd())).ok_or_else(|| Failure::machine("no program"))
    }

    /// About how many flows of each class had packets within a second. Call at least every half a minute: it forgets those that had none, and times
    /// come again after a minute.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(super) fn flows(&mut self) -> Result<[u32; 2], Failure> {
        Ok([self.flows_of(Class::HighRate)?, self.flows_of(Class::LowDelay)?])
    }

    fn flows_of(&mut self, class: Class) -> Result<u32, Failure> {
        let begin = class as usize * CLASS_ROWS;
        let mut active = 0;
        for number in begin..begin + CLASS_ROWS {
            let number = u32::try_from(number).expect("there are 72 rows");
            let failed = |error: MapError| refused(&error, of_map(&error));
            let mut row = self.flows.get(&number, 0).map_err(failed)?;
            let found = look(&mut row, milliseconds());
            // What is noted between these two calls is lost: a flow's next packet tells of it again.
            if found.has_forgotten {
                self.flows.set(number, row, 0).map_err(failed)?;
            }
            active += found.active;
        }
        Ok(estimated_flows(active, FLOW_SLOTS))
    }

    /// What has been noted of packets; their lengths are noted anew from now on.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(super) fn take_seen(&mut self) -> Result<[Seen; 2], Failure> {
        let mut found = [Seen::default(); 2];
        for (place, seen) in (0..).zip(&mut found) {
            let failed = |error: MapError| refused(&error, of_map(&error));
            let [joined, longest] = self.seen.get(&place, 0).map_err(failed)?;
            // What is counted between these two calls is lost: packets that are joined are told of by the next ones.
            if longest > 0 {
                self.seen.set(place, [joined, 0], 0).map_err(failed)?;
            }
            *seen = Seen { joined, longest: u32::try_from(longest).unwrap_or(u32::MAX) };
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
    let map =
        map.ok_or_else(|| Failure::machine("the program for the kernel has no maps: build Byway again"))?;
    map.try_into().map_err(|error| refused(&error, of_map(&error)))
}

/// The time by which the program notes packets: never zero, as that stands for no packet.
fn milliseconds() -> u16 {
    let now = clock_gettime(ClockId::Monotonic);
    let millis = i128::from(now.tv_sec) * 1_000 + i128::from(now.tv_nsec) / 1_000_000;
    u16::try_from(millis & i128::from(u16::MAX)).expect("it has 16 bits") | 1
}

/// What is in a row.
struct Found {
    /// Slots that were touched within a second.
    active: usize,
    /// Whether it had others, which are forgotten now.
    has_forgotten: bool,
}

fn look(row: &mut Row, now: u16) -> Found {
    let mut found = Found { active: 0, has_forgotten: false };
    for at in row.iter_mut().filter(|at| **at != 0) {
        if is_active(*at, now) {
            found.active += 1;
        } else {
            (*at, found.has_forgotten) = (0, true);
        }
    }
    found
}

/// Whether a slot that was touched was so within a second.
const fn is_active(at: u16, now: u16) -> bool {
    let expiry = FLOW_EXPIRY.as_millis().cast_signed();
    // What the kernel notes after `now` was asked for is in the future.
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

fn refused(error: &dyn Display, system: Option<&io::Error>) -> Failure {
    // Of a program that it does not trust, the kernel says EACCES.
    if system.and_then(io::Error::raw_os_error) == Some(Errno::PERM.raw_os_error()) {
        return Failure::machine(format!(
            "programs for packets take {}: be root, or with systemd AmbientCapabilities=CAP_NET_ADMIN CAP_BPF",
            missing()
        ));
    }
    tracing::debug!(%error, "the kernel takes no program for packets");
    let error = system.map_or_else(|| error.to_string(), ToString::to_string);
    Failure::machine(format!(
        "the kernel takes no program for packets: {error} (byway link needs eBPF, Linux 5.8 or newer; --log-level debug says more)"
    ))
}

/// Which capabilities this process lacks, as far as it can know.
fn missing() -> &'static str {
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

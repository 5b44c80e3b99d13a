//! All limits of scenarios, with their reasons.

use byway_units::{Bytes, Duration};

/// Most machines: an agent with a session takes some 20 kilobytes, and all together less than a
/// gigabyte.
pub const NODES_MAX: usize = 20_000;

/// Most links of all tables, in one direction or both: each direction has loss processes and
/// counters, a kilobyte.
pub const LINKS_MAX: usize = 200_000;

/// Most flows: flow numbers between two agents have 16 bits, and each flow takes some kilobytes.
pub const FLOWS_MAX: usize = 50_000;

/// Most steps, each machine's counted: more frequent events are load, not faults.
pub const STEPS_MAX: usize = 100_000;

/// Longest delay, jitter, detour and budget: no application waits for longer than a minute.
pub const DELAY_MAX: Duration = byway_sim::limits::MEASURED_DELAY_MAX;

/// Smallest queue of a bottleneck: it includes the packet in transmission, and longer packets never
/// pass. The longest Ethernet packet passes.
pub const QUEUE_MIN: Bytes = Bytes::new(1_500);

/// Longest IP packet in a packet scheduler, which its delay bounds assume; longer ones are dropped.
/// It is the longest Ethernet packet, and simulated applications and machines of a lab send no
/// longer ones.
pub const SCHEDULED_PACKET_MAX: Bytes = QUEUE_MIN;

/// Shortest mean time between two outages: a day then has 86,400 of them on each link.
pub const OUTAGES_EVERY_MIN: Duration = Duration::from_secs(1);

/// The longest scenario: the recovery of a day's traffic is as good as that of a year's.
pub const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Shortest time between two packets of a flow: a gigabit a second in the longest packets has 12
/// us.
pub const INTERVAL_MIN: Duration = Duration::from_micros(1);

/// Most packets of one frame: a key frame of 4K video has some hundreds.
pub const FRAME_PACKETS_MAX: u32 = 1_000;

/// Largest frame of a recorded video, in bytes: the most packets, each of the largest size.
pub const FRAME_BYTES_MAX: u32 = FRAME_PACKETS_MAX * DATAGRAM_BYTES_MAX;

/// Most frames of a recorded video: nine hours of 30 frames a second.
pub const FRAMES_MAX: usize = 1_000_000;

/// Shortest datagram: it begins with its number and its flow.
pub const DATAGRAM_BYTES_MIN: u32 = 16;

/// Longest datagram: one that an agent sends unfragmented, because a loss must be that of one
/// packet.
pub const DATAGRAM_BYTES_MAX: u32 = 1_354;

const _: () = assert!(FLOWS_MAX <= u16::MAX as usize, "two agents may have all flows between them");

/// Most datagrams of all applications in the list of a network, with their outcomes: 300 MB.
pub const NETWORK_DATAGRAMS_MAX: usize = 5_000_000;

/// Longest name of a machine or a command, in bytes: it is part of file names.
pub const NAME_BYTES_MAX: usize = 100;

/// Most commands: each has processes of its own, and a lab has as many machines.
pub const COMMANDS_MAX: usize = 200;

/// Most arguments, files and variables of a command, each: larger inputs belong into a script
/// beside the scenario.
pub const COMMAND_PARTS_MAX: usize = 1_000;

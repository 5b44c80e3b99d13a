//! Every limit of scenarios, with its reason.

use byway_units::{Bytes, Duration};

/// Most machines: an agent with a session takes some 20 kilobytes, so that all take less than a gigabyte.
pub const NODES_MAX: usize = 20_000;

/// Most tables' links, of one direction or both: each direction has loss processes and counters, a kilobyte.
pub const LINKS_MAX: usize = 200_000;

/// Most flows: 16 bits number those between two agents, and each takes some kilobytes.
pub const FLOWS_MAX: usize = 50_000;

/// Most steps, each machine's counted: what happens more often is no fault but a load.
pub const STEPS_MAX: usize = 100_000;

/// Longest delay, jitter, detour and budget: beyond a minute, nobody waits.
pub const DELAY_MAX: Duration = byway_sim::limits::MEASURED_DELAY_MAX;

/// Shortest queue before a bottleneck: it holds the packet that is being sent, and what is longer than it never passes. A packet of
/// the longest kind that Ethernet carries does.
pub const QUEUE_MIN: Bytes = Bytes::new(1_500);

/// Longest IP packet in a queue that tells packets apart, by which its promises are made; longer ones are dropped. It is the longest that
/// Ethernet carries, and all that simulated applications and machines of a lab send.
pub const SCHEDULED_PACKET_MAX: Bytes = QUEUE_MIN;

/// Shortest mean time between two outages: a day has 86,400 of them then, for each link.
pub const OUTAGES_EVERY_MIN: Duration = Duration::from_secs(1);

/// The longest scenario: the recovery of a day's traffic is as good as that of a year's.
pub const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Shortest time between two packets of a flow: a gigabit a second in the longest packets has 12 us.
pub const INTERVAL_MIN: Duration = Duration::from_micros(1);

/// Most packets of one frame: a key frame of 4K video has some hundreds.
pub const FRAME_PACKETS_MAX: u32 = 1_000;

/// Largest frame of a recorded video, in bytes: so many packets, each as long as can be.
pub const FRAME_BYTES_MAX: u32 = FRAME_PACKETS_MAX * DATAGRAM_BYTES_MAX;

/// Most frames of a recorded video: nine hours of 30 frames a second.
pub const FRAMES_MAX: usize = 1_000_000;

/// Shortest datagram: it begins with its number and its flow.
pub const DATAGRAM_BYTES_MIN: u32 = 16;

/// Longest datagram: one that an agent sends in one piece, so that what is lost is one packet.
pub const DATAGRAM_BYTES_MAX: u32 = 1_354;

const _: () = assert!(FLOWS_MAX <= u16::MAX as usize, "two agents may have all flows between them");

/// Most datagrams of all applications that a network lists, and what becomes of each: 300 MB.
pub const NETWORK_DATAGRAMS_MAX: usize = 5_000_000;

/// Longest name of a machine or a command, in bytes: files are called by it.
pub const NAME_BYTES_MAX: usize = 100;

/// Most commands: each has processes of its own, and a lab has as many machines.
pub const COMMANDS_MAX: usize = 200;

/// Most arguments, files and variables of a command, each: what takes more is for a script beside the scenario.
pub const COMMAND_PARTS_MAX: usize = 1_000;

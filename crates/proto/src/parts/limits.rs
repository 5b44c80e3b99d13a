//! Every limit of the parts, with its reason.

use byway_code::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Most source packets in one batch: what the coder and the wire format can name.
pub const BATCH_PACKETS_MAX: usize = SOURCE_PACKETS_MAX;

/// Most repair packets of one batch: what the coder makes.
pub const BATCH_REPAIRS_MAX: usize = REPAIR_PACKETS_MAX;

/// Most queues of one placement: one bit each in a flow's word.
///
/// A burst longer than this closes its own oldest queues. Key frames of 40 packets fit; with 32 queues they
/// close one batch in eight early.
pub const PLACEMENT_QUEUES_MAX: usize = 64;

/// Most flows of one placement: its table has 8 bytes for each, so 8 MiB at most.
pub const PLACEMENT_FLOWS_MAX: usize = 1 << 20;

/// Most timers of one table: four for each of a million flows, 100 MB.
pub const TIMERS_MAX: usize = 1 << 22;

/// The first block of a packet log: five packets of full size, or 40 of voice.
pub const LOG_BLOCK_BYTES_MIN: usize = 8 << 10;

/// The largest block of a packet log: no packet makes anybody allocate more, and the longest datagram fits.
pub const LOG_BLOCK_BYTES_MAX: usize = 64 << 10;

/// Within so many numbers below the highest, 8,192, a flow's duplicates are told apart: as in the replay window
/// of sessions.
pub const NUMBER_WINDOW: u64 = NUMBER_WINDOW_WORDS as u64 * 64;

/// The window as words of one bit for each number.
pub const NUMBER_WINDOW_WORDS: usize = 128;

/// Most numbers of a flow that are held to be missing: ten seconds of a hundred packets each, longer than any
/// repair is of use.
pub const MISSING_MAX: usize = 1_024;

/// Most ranges in one request, as the wire format has it.
pub const ASK_RANGES_MAX: usize = 32;

// What is missing lies within the window.
const _: () = assert!(NUMBER_WINDOW == 8_192 && MISSING_MAX as u64 <= NUMBER_WINDOW);

/// Most packets of a flow that are held back behind a gap: a quarter of a round trip of 200 ms at 5,000 packets
/// a second.
pub const HELD_PACKETS_MAX: usize = 256;

/// Most ranges that are given up ahead of the gap in front: more gaps than that time out.
pub const HELD_SKIPS_MAX: usize = 32;

/// A flow whose first number is below this has begun just now: what it passed over is missing. Of one that has been
/// under way for longer, nobody knows since when it is listened to.
pub const FIRST_NUMBERS: u64 = 64;

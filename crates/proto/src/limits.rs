//! Every limit of this crate, with its reason.

mod beginnings;
mod handshakes;
mod memory;
mod pairs;
mod relay_delivery;
mod sizes;
mod work;

use byway_units::Duration;

pub use beginnings::*;
pub use handshakes::*;
pub use memory::*;
pub use pairs::*;
pub use relay_delivery::*;
pub use sizes::*;
pub use work::*;

/// Most packets of one flow that the egress relay knows where to find: 2 s of a flow of 1,000 packets/s.
pub const COVERED_PACKETS_MAX: usize = 2_048;

/// Most missing packets of one flow that are worked on: an outage of one second at 1,000 packets/s.
pub const MISSING_PACKETS_MAX: usize = 1_024;

/// Most repairs of one packet for one receiver: the first, and two more if repairs are lost. An access line that loses
/// 30 % loses two of them in a row of one packet in eleven. More would make relays amplifiers.
pub const REPAIRS_PER_PACKET_MAX: u8 = 3;

/// How far from the highest number a relay knows a NACK may reach: what it remembers of packets before that, and as many
/// that it may not have heard of yet. A NACK that names more is cut to this, so that asking for everything costs little.
pub const NACK_REACH: u64 = COVERED_PACKETS_MAX as u64;

/// How many packets before the newest an open-ended NACK brings back at once: older ones are past every deadline
/// that an interactive flow has.
pub const OPEN_END_BACKLOG_MAX: u64 = 256;

/// How long after an open-ended NACK some of what it covers may be in flight: longer than most bursts of losses, and short enough
/// for outages.
pub const IN_FLIGHT_FOR: Duration = Duration::from_millis(80);

/// Packets that open-ended NACKs cover and that may be in flight, over all flows: a burst of losses of a hundred flows of 100
/// packets/s. Beyond, they are repaired at once.
pub const IN_FLIGHT_MAX: usize = 4_096;

/// After how long without another copy a receiver is told how far its flow has come, at least: what packets that were sent together
/// are apart after two segments with jitter.
pub const TAIL_PAUSE_MIN: Duration = Duration::from_millis(8);

/// And at most: a receiver notices by itself that a flow with steadier pauses has stopped.
pub const TAIL_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Most in-stream blocks of one flow that are kept: with blocks of 5, 80 packets.
pub const BLOCKS_MAX: usize = 16;

/// Most repair packets of a block or batch that are kept; twice the default of 2 leaves room for bad times.
pub const BLOCK_REPAIRS_MAX: usize = 4;
/// See [`BLOCK_REPAIRS_MAX`].
pub const BATCH_REPAIRS_MAX: usize = 4;

/// The chance, of 65,536, that so many of those who were asked answer late that a round has to wait for them, beyond which the packet is
/// fetched from the ingress relay at once: a repair in eight would be late. It costs relays one packet for each that is lost, where
/// another repair packet would cost one for each batch.
pub const LATE_ROUNDS_MAX: u32 = (1 << 16) / 8;

/// Most batches of one ingress relay that are kept: half a second at 130,000 source packets/s in batches of 8.
pub const BATCHES_MAX: usize = 8_192;

/// Most cooperative rounds under way: a second of an outage that darkens ten flows of 100 packets/s takes 1,000.
pub const ROUNDS_MAX: usize = 4_096;

/// Memory of ended rounds that is kept for new ones: a loss in a few flows at a time allocates nothing.
pub const SPARE_ROUNDS_MAX: usize = 16;

/// How long repair packets and copies are kept: past every latency budget of an interactive flow.
pub const REPAIR_RETENTION: Duration = Duration::from_secs(2);

/// How much more than its rate a flow's repairs may be at once: the outage that was noticed late is repaired fast.
pub const REPAIR_BURST: Duration = Duration::from_secs(2);

/// How often expired requests and rounds are looked for while there are any.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(20);

/// After how long without a packet a flow gives its memory back.
pub const FLOW_REST: Duration = Duration::from_secs(10);

const _: () = assert!(ROUNDS_MAX <= u16::MAX as usize + 1);
const _: () = assert!(BATCH_REPAIRS_MAX <= byway_code::REPAIR_PACKETS_MAX);
const _: () = assert!(BLOCK_REPAIRS_MAX <= byway_code::REPAIR_PACKETS_MAX);

/// How many times the bytes that came from a new address may go to it before it proved itself (RFC 9000,
/// section 8).
pub const AMPLIFICATION_MAX: usize = 3;

/// How often a new address is challenged before it is given up: three challenges outlast the loss of two.
pub const CHALLENGES_MAX: u8 = 3;

/// How often a peer in use is probed, so that a dead relay shows in time to move within 600 ms.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// How much sooner a probe may leave to go behind a packet, instead of in front of the next. Whoever sends 50 packets a second
/// or more has every probe behind one.
pub const PROBE_AHEAD: Duration = Duration::from_millis(20);

/// The time between probes while one is unanswered: a burst of losses on the way seldom takes all of them.
pub const FAST_PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Probes that may stay unanswered: with 10 % loss in both directions, the one after these is too once in 4,000 times.
pub const UNANSWERED_PROBES_MAX: u8 = 4;

/// Round trips after which the deviation has settled: a sixteenth of what it began with is left.
pub const SETTLING_ROUND_TRIPS: u8 = 5;

/// The round trip before one is measured (that of RFC 9002, section 6.2.2, is 333 ms; relays are near).
pub const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(100);

/// After how long an epoch in use is followed by another (the figure of `WireGuard`): little is lost with one key.
pub const REKEY_AFTER: Duration = Duration::from_secs(120);

/// How much later the responder begins the next epoch itself, if the initiator has not.
pub const REKEY_GRACE: Duration = Duration::from_secs(10);

/// After how many packets an epoch is followed by another: far below where AES-GCM's bounds begin to wear
/// (`2^64` blocks), and more than two minutes bring.
pub const REKEY_PACKETS: u64 = 1 << 40;

/// How long an epoch's keys seal: a minute to complete the next handshake, on whatever path works.
pub const EPOCH_SEALS_FOR: Duration = Duration::from_secs(180);

/// How many packets an epoch's keys seal, whatever their age.
pub const EPOCH_PACKETS_MAX: u64 = 1 << 48;

/// How long an epoch's keys open: what was sealed last may wait in a cache for a minute.
pub const EPOCH_OPENS_FOR: Duration = Duration::from_secs(240);

/// How long an initiation waits for its response the first time; longer than most round trips.
pub const HANDSHAKE_RETRY: Duration = Duration::from_millis(250);

/// And at most: a peer that restarts is met within a second.
pub const HANDSHAKE_RETRY_MAX: Duration = Duration::from_secs(1);

/// How often one initiation is sent to a relay; after 2.75 s a new one follows.
pub const HANDSHAKE_TRIES: u8 = 4;

/// How long a handshake of ours goes before one of the peer's that crosses it, if ours is the smaller key. Longer,
/// and a path open in one direction only would never get a session.
pub const GLARE_GRACE: Duration = Duration::from_secs(1);

/// How long a session counts as in use after its last packet of data.
pub const IN_USE_FOR: Duration = Duration::from_secs(1);

/// How often an idle session to a relay is kept alive through NATs (RFC 4787 asks for mappings of at least two
/// minutes; those found in the wild last 30 s), and often enough that a phone wakes up less than four times a minute.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(25);

/// Most plaintext bytes of a packet of messages: with header and tag it fits in the least MTU that IPv6 allows.
pub const MESSAGES_BYTES_MAX: usize = 1_180;

/// What a relay passes on for one agent to others, and at once: handshakes, probes, and a report a second on each of a
/// thousand flows. No grant speaks of it, and whoever wants more has flows for that.
pub const RELAYED_RATE: byway_units::Rate = byway_units::Rate::from_megabits_per_second(1);
/// See [`RELAYED_RATE`].
pub const RELAYED_BURST: byway_units::Bytes = byway_units::Bytes::new(64 << 10);

/// How long an answered handshake keeps out those with older stamps: longer than it takes to confirm one.
pub const ANSWER_GUARDED_FOR: Duration = Duration::from_secs(10);

/// The bytes of a path challenge or response: type, length and token.
pub const PATH_MESSAGE_BYTES: usize = 3 + 8;

/// The bytes of a packet that carries one: header, message and tag.
pub const CHALLENGE_BYTES: usize = 9 + PATH_MESSAGE_BYTES + 16;

/// Longest round trip that a peer's claim is taken for.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// How long a copy that others overtook is waited for before it is asked for again.
pub const COPY_REORDERING: Duration = Duration::from_millis(6);

/// Requests for a copy: radio links that lose 30 % lose a third of the requests' answers, too.
pub const COPY_ASKS_MAX: u8 = 3;

/// Most copies of one flow that are asked for again at the same time.
pub const COPIES_ASKED_MAX: usize = 16;

/// How long an ingress relay keeps what it carried on: two round trips of the longest ways between relays, in which
/// an egress relay asks for what it missed twice.
pub const CARRIED_RETENTION: Duration = Duration::from_secs(1);

/// How long copies of coded flows can be fetched: across an ocean twice, and what it takes to notice a loss.
pub const CODED_RETENTION: Duration = Duration::from_millis(500);

/// How far back what was carried of one flow is found: a second of 1,000 packets.
pub const CARRIED_REACH: usize = 1_024;

/// How often a carried copy is asked for again, and sent again over one way on: once, and once more if that was lost.
pub const CARRIED_ASKS_MAX: u8 = 2;

/// Most carried copies that one gap stands for: a burst that takes a second of 256 packets/s. What a longer outage
/// took is past its time, or not the fault of the way between relays.
pub const CARRIED_GAP_MAX: u64 = 256;

/// Most carried copies that a gap stands for in a coded flow, of which only outages are carried: a burst on the way between
/// relays. A longer gap lies between two outages.
pub const CODED_GAP_MAX: u64 = 32;

/// Most gaps in carried copies that are watched: 1 % of 100,000 packets/s over a round trip of a second.
pub const CARRIED_GAPS_MAX: usize = 1_024;

/// How long an in-stream block waits to be full: 5 packets of a call that sends 50 a second.
pub const BLOCK_WAIT: Duration = Duration::from_millis(120);

/// How long a packet waits at most for its cross-stream batch; see the study in `parts::placement`.
pub const BATCH_WAIT: Duration = Duration::from_millis(45);

/// Most coding groups of one relay: the open batches of one take up to half a mebibyte.
pub const GROUPS_MAX: usize = 128;

/// Most batch shapes of the flows that a controller lets be coded together: the usual one, those for better and worse times,
/// and one to spare. So nobody fills the table with shapes.
pub const GROUP_SHAPES_MAX: usize = 4;

/// Most flows of the ingress half: twice as many as there are aliases towards another relay. By default, the memory of a
/// shard has room for 25,000.
pub const INGRESS_FLOWS_MAX: usize = 1 << 17;

const _: () = assert!(INGRESS_FLOWS_MAX <= PLACEMENT_FLOWS_MAX);

/// Most flows of the egress half, for the same reason.
pub const EGRESS_FLOWS_MAX: usize = 1 << 17;

/// Flows of which an egress relay remembers that their receivers answered falsely: enough that nobody is forgotten who
/// comes back at once, few enough to be looked through.
pub const BARRED_MAX: usize = 256;

/// How many batches of one group are open at the same time; see the study in `parts::placement`.
pub const CODING_QUEUES: u8 = 64;

/// What repair bytes may cost, in percent of r: small batches cost more than full ones, up to this much.
pub const OVERHEAD_PERCENT: u16 = 115;

/// The bytes of repair packets that a group may spend ahead, at least: a few batches of full-size packets.
pub const OVERHEAD_RESERVE: u64 = 20_000;

/// And what its flows earn in this time, at their registered rates: three frames of video.
pub const RESERVE_TIME: Duration = Duration::from_millis(125);

/// How much more than its rate a flow may copy at once: a video frame, and what a paused sender catches up with.
pub const COPY_BURST: Duration = Duration::from_millis(500);

/// How long the ingress half remembers a flow that sends nothing.
pub const COPY_RETENTION: Duration = Duration::from_secs(10);

/// Most egress relays of one flow: a group's receivers are spread over a few regions.
pub const EGRESS_PORTS_MAX: usize = 4;

/// Most ingress relays of one flow with a receiver: one for each path that stands by.
pub const FEEDERS_MAX: usize = 4;

/// Room for the plaintext of one packet: what fits in the largest UDP payload that Byway sends.
pub const DATAGRAM_ROOM: usize = CODED_BYTES_MAX + 512;

/// Where the coded bytes of an envelope begin.
pub const CODED_START: usize = 16;

/// Most sessions of one relay shard: at 4.8 kB each with their keys, 79 MB. Its memory has room for as many by default.
pub const SESSIONS_MAX: usize = 16_384;

/// After how long without a registered flow a session is given up for newcomers, should there be no room: registering
/// takes a round trip, or a second where packets are lost.
pub const SESSION_UNUSED_AFTER: Duration = Duration::from_secs(10);

/// After how long in which nothing came a session with flows is: agents keep theirs alive every 25 s, and two such
/// packets may be lost.
pub const SESSION_SILENT_AFTER: Duration = Duration::from_secs(80);

/// How often sessions are looked through for such: it takes a millisecond or two.
pub const SHED_INTERVAL: Duration = Duration::from_millis(100);

/// Grants of a stranger's initiation that are looked at: each costs a signature, a sixth of the handshake.
pub const HANDSHAKE_GRANTS_MAX: usize = 4;

/// Forged grants after which a session ends: an honest agent shows none, but for a key of the controller that changed.
pub const FORGED_GRANTS_MAX: u8 = 8;

/// How often aliases are announced until they are known: two round trips of most relay pairs.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(250);

/// How often the time doubles after which a sender is told again that its packets get no further: up to 8 s, for one
/// that is gone itself.
pub const TELL_DOUBLINGS_MAX: u8 = 5;

/// How long another relay is probed after it was back, although senders may not use it yet: twice as long as they take
/// to return. Unwatched, one that comes and goes would look well to them.
pub const DOUBTED_FOR: Duration = Duration::from_secs(15);

/// How many aliases one message announces; with 18 bytes each it fits in any packet.
pub const ALIASES_PER_MESSAGE: usize = 64;

/// Longest time for which a receiver may claim to have a use for a repair: what the repair could be kept for.
pub const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Most source packets of a batch: what the coder and the wire format can name.
pub const BATCH_PACKETS_MAX: usize = byway_code::SOURCE_PACKETS_MAX;

/// Most ranges of a message.
pub const RANGES_MAX: usize = byway_wire::limits::RANGES_MAX;

/// What a receiver gives for others unless it is told otherwise: as much as its own flow for 30 s, and 5 % of it on
/// average.
pub const CONSENT: byway_wire::messages::Consent =
    byway_wire::messages::Consent { burst_percent: 100, average_per_mille: 50, seconds: 30 };

/// How long the fastest packet of the direct path stands for its delay; RFC 6817 keeps minutes, mobile paths change
/// in seconds.
pub const BASE_WINDOW: Duration = Duration::from_secs(30);

/// One original may be sent again for so many that are sent: access lines lose less than one packet in a hundred, and a relay that
/// asks for all copies shall not have the direct path carry all packets twice.
pub const PACKETS_PER_ORIGINAL_AGAIN: u64 = 16;

/// Most originals that are sent again at once: a burst of losses of an access line.
pub const ORIGINALS_AGAIN_MAX: u8 = 16;

/// How many copies of one flow can be asked for again: a second of 256 packets.
pub const RESEND_REACH: usize = 256;

/// How many packets of one flow a receiver keeps: two seconds of 512 packets/s.
pub const KEPT_REACH: usize = 1_024;

/// What an agent keeps of packets that it sent, and that it received, in bytes each.
pub const AGENT_LOG_BYTES: u64 = 4 << 20;

/// How long an agent keeps packets: one to two round trips of the longest paths.
pub const KEPT_FOR: Duration = Duration::from_millis(1_000);

/// How long a flow's registration waits for its answer at first; twice as long most times.
pub const REGISTER_RETRY: Duration = Duration::from_millis(250);
/// See [`REGISTER_RETRY`].
pub const REGISTER_RETRY_MAX: Duration = Duration::from_secs(8);

/// The same for a flow whose packets get no further than its ingress relay, which says so itself when they do: should
/// that be lost, the flow is back in time all the same.
pub const UNREACHABLE_RETRY_MAX: Duration = Duration::from_secs(2);

/// Most offers of one agent to another that stand, at up to 500 bytes each: as many as a relay takes flows of one agent.
pub const OFFERS_PER_PEER_MAX: usize = FLOWS_PER_SESSION_MAX;

/// How long it takes at first until somebody who has not heard that a flow ended is told again; twice as long each time.
pub const UNREGISTER_RETRY: Duration = Duration::from_millis(250);

/// How often somebody is told so who does not answer: within eight seconds. Then the other side is not there.
pub const UNREGISTER_TRIES: u32 = 6;

/// Most ends of flows of which one session waits to hear, at some 100 bytes each: all flows of a busy proxy at a relay that is
/// away.
pub const CLOSINGS_MAX: usize = FLOWS_PER_SESSION_MAX;

/// How often an agent that leaves says so: with 10 % loss, one in a thousand peers hears none of it.
pub const CLOSE_TRIES: u8 = 3;

/// How long it waits in between: longer than most bursts of losses.
pub const CLOSE_RETRY: Duration = Duration::from_millis(100);

/// A flow changes its path at most so often while the one in use works.
pub const PATH_CHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// A better path is taken once it has worked for so long: one that comes and goes each second is not.
pub const PATH_STEADY_FOR: Duration = Duration::from_secs(2);

/// A gap is a loss once a packet so much higher has arrived: paths that hold an order lose nothing by asking at once.
pub const REORDERING_PACKETS: u64 = 3;
/// Or once so much time has passed.
pub const REORDERING_TIME: Duration = Duration::from_millis(3);

/// How long a packet that came on one of two ways is looked for on the other one: they are hardly further apart.
pub const SECOND_WAY_WITHIN: Duration = Duration::from_millis(500);

/// How often a packet is asked for: as often as it may be repaired, and twice more, as requests are lost too.
pub const ASKS_MAX: u8 = 5;

/// Most egress relays of one flow that are asked for repairs: the one in use and those that stand by.
pub const PATHS_ASKED_MAX: usize = 4;

/// How often a relay is asked to register a flow before the next path is tried: three times in 750 ms, longer than
/// any handshake that succeeds at once.
pub const REGISTER_TRIES: u32 = 3;

/// How many values of the high 32 bits of a flow's numbers are tried by a receiver that joins late: those of ten months
/// of 10,000 packets/s. Each costs two packets.
pub const HIGH_BITS_TRIED: u8 = 64;

/// Pieces of one flow that wait for the other half.
pub const PIECES_MAX: usize = 16;

/// Requests of others that wait for a packet of one flow.
pub const REQUESTS_MAX: usize = 256;

/// Blocks of one flow that wait for another packet.
pub const RECEIVER_BLOCKS_MAX: usize = 4;

/// The highest alias that an agent takes from a relay.
pub const ALIASES_MAX: usize = 8_192;

/// Envelopes follow one another at this rate at least.
pub const COPY_RATE_MIN: byway_units::Rate = byway_units::Rate::from_megabits_per_second(10);

/// And at so many times the rate of what is copied: enough to be done before the next frame.
pub const COPY_RATE_FACTOR: u64 = 8;

/// So many bytes of them at once: two packets, so that originals of the same burst go before.
pub const COPY_DEPTH: u64 = 3_000;

/// Most envelopes that wait for one relay; the oldest are worth least.
pub const WAITING_COPIES_MAX: usize = 512;

/// How often a receiver reports a flow in use to its sender.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How soon it reports losses: a sender that waits for them begins to copy within a few packets.
pub const REPORT_AFTER_LOSS: Duration = Duration::from_millis(50);

/// Notices that a receiver sends of one silence, because any of its messages may be lost.
pub const SILENCE_NOTICES: u8 = 3;
/// Interval between notices: the second one reports a silence of at least [`DARK_AFTER`], also of
/// packets 10 ms apart.
pub const SILENCE_REPEAT: Duration = Duration::from_millis(80);

/// How long nothing has to have come before copies take the place of originals on an uplink that does not carry both.
pub const DARK_AFTER: Duration = Duration::from_millis(100);

/// How much longer than packets take to follow one another a silence has to last, beside an eighth of a round trip: what
/// packets are delayed by one another on the way is no outage.
pub const SILENCE_MARGIN: Duration = Duration::from_millis(10);

/// One in so many packets goes by a dark path where the uplink does not carry both it and its copy: an eighth more than the
/// copies take, and at 50 packets a second, the path's return shows within 160 ms.
pub const ORIGINALS_IN_DARK: u64 = 8;

/// Packets by the direct path, none of them lost, after which a flow that waits for losses stops
/// its first copies.
pub const DIRECT_AT_FIRST: u32 = 3;

/// How long copies go on after the last loss on a path that was clean.
pub const STANDBY_FOR: Duration = Duration::from_secs(30);

/// Most addresses at which an agent says it may be reached, and that are tried at the same time.
pub const CANDIDATES_MAX: usize = byway_wire::limits::CANDIDATES_MAX;

/// How long it takes until a peer may name another address, beyond as many as it can have: without a bound, it could
/// have challenges sent to whom it likes, ten bytes for each of its own.
pub const CANDIDATE_INTERVAL: Duration = Duration::from_millis(500);

/// How long a direct path that was open may be closed before relays deliver: most outages are over sooner, and repairs
/// bridge them.
pub const CLOSED_AFTER: Duration = Duration::from_secs(10);

/// And one that never was: a flow's first packets wait for it, and a latency budget is seldom more than three times
/// this.
pub const NEVER_OPEN_AFTER: Duration = Duration::from_millis(100);

/// How long coded flows go without relays that deliver, of whose packets repairs restored nearly all meanwhile: for that, two reports in use come in.
pub const BRIDGED_FOR: Duration = Duration::from_secs(2);

/// Nearly all: but one of so many, as with [`SHORTFALL_INVERSE`].
pub const BRIDGED_INVERSE: u64 = 16;

/// How often an ingress relay is told that a path is dark.
pub const OUTAGE_INTERVAL: Duration = Duration::from_millis(250);

/// How long an ingress relay believes it: three times untold, and the path is taken to deliver again.
pub const OUTAGE_BELIEVED_FOR: Duration = Duration::from_secs(1);

/// How long the packets of a dark path are carried: relays deliver soon after [`CLOSED_AFTER`], where they may.
pub const OUTAGE_CARRIED_FOR: Duration = Duration::from_secs(15);

/// And how long after its beginning the next outage is: what receivers claim costs a quarter of a flow's bytes at most.
pub const OUTAGE_PERIOD: Duration = Duration::from_secs(60);

/// Others' packets are relied on to restore those of a dark path, unless they do not suffice for one in so many: as bursts of 1 % on each
/// of ten paths leave one packet in a hundred without, that takes more than usual losses.
pub const SHORTFALL_INVERSE: u32 = 16;

/// And for at least so many: a burst of another flow says nothing. A flow of 100 packets/s shows as many in less than [`OUTAGE_AFTER`].
pub const SHORT_PACKETS_MIN: u16 = 8;

/// A packet that another flow loses together with one of the dark path, and that would have been restored without, counts as so many: the
/// dark path takes from the others what they pay for.
pub const SHORT_PACKETS_OF_OTHERS: u16 = 4;

/// Of so many packets at most: what was more than some seconds ago says little.
pub const SHORTFALL_WINDOW: u16 = 256;

/// Random bytes in a grease packet, as docs/wire.md has it.
pub const GREASE_BYTES_MIN: usize = 8;
/// See [`GREASE_BYTES_MIN`].
pub const GREASE_BYTES_MAX: usize = 32;

/// Rounds that are tried again, together with others, whenever something arrives.
pub const STUCK_ROUNDS_MAX: usize = 32;

/// Batches that are solved together: a burst of twelve packets.
pub const WIDENED_BATCHES_MAX: usize = 12;

/// In-stream blocks that are solved together with them: three for each of four flows.
pub const WIDENED_BLOCKS_MAX: usize = 12;

/// How long an open-ended NACK has to be in force before it counts as an outage: longer than most bursts, in which
/// in-stream blocks still help.
pub const OUTAGE_AFTER: Duration = Duration::from_millis(200);

/// So many flows of a batch that lost their last packets make it likely that the batch fails alone: with two repair
/// packets, the third loss is one too many.
pub const SUSPECTS_MIN: usize = 2;

/// Most repair packets that a placement buys for one batch: what the coder makes.
pub const BOUGHT_REPAIRS_MAX: usize = byway_code::REPAIR_PACKETS_MAX;

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

// What is missing lies within the window.
const _: () = assert!(NUMBER_WINDOW == 8_192 && MISSING_MAX as u64 <= NUMBER_WINDOW);

/// Most packets of a flow that are held back behind a gap: a quarter of a round trip of 200 ms at 5,000 packets
/// a second.
pub const HELD_PACKETS_MAX: usize = 256;

/// Most bytes of a flow that are held back behind a gap: a quarter of a round trip of 200 ms at 40 Mbit/s.
pub const HELD_BYTES_MAX: byway_units::Bytes = byway_units::Bytes::new(256 << 10);

/// Most ranges that are given up ahead of the gap in front: more gaps than that time out.
pub const HELD_SKIPS_MAX: usize = 32;

/// A flow whose first number is below this has begun just now: what it passed over is missing. Of one that has been
/// under way for longer, nobody knows since when it is listened to.
pub const FIRST_NUMBERS: u64 = 64;

/// Longest IP packet that a relay sends on an Ethernet path: longer ones, which are sent in fragments, count as this much.
pub const UPLINK_PACKET: byway_units::Bytes = byway_units::Bytes::new(PACKET_BYTES_MAX as u64 + 48);

/// What a relay sends at once where packets take less: a quarter of what is heard as jitter at the least (a millisecond), and at a gigabit per
/// second twenty of the longest packets, which go with one system call.
pub const UPLINK_QUANTUM: Duration = Duration::from_micros(250);

/// What of its rate an uplink makes up for when it is looked at late: timers of a busy machine come as late as this. More at once would be a
/// burst where the next link is as slow.
pub const UPLINK_CREDIT: Duration = Duration::from_millis(1);

/// Bytes of a piece of memory for packets that wait for the uplink: twenty of the longest.
pub const UPLINK_BLOCK_BYTES: usize = 32 << 10;

/// Up to this latency budget a flow is of low delay, unless it is told otherwise: what nobody notices in a conversation, from mouth to ear (ITU-T
/// G.114). The usual budget of a flow is more.
pub const LOW_DELAY_BUDGET: Duration = Duration::from_millis(150);

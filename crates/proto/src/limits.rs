//! Limits of this crate, each with its reason.

mod coding_waits;
mod flow_setup;
mod handshakes;
mod memory;
mod outages;
mod pairs;
mod redundancy;
mod relay_delivery;
mod repairs;
mod routes;
mod sizes;
mod transit;
mod uplinks;
mod work;

use byway_units::Duration;

pub use coding_waits::*;
pub use flow_setup::*;
pub use handshakes::*;
pub use memory::*;
pub use outages::*;
pub use pairs::*;
pub use redundancy::*;
pub use relay_delivery::*;
pub use repairs::*;
pub use routes::*;
pub use sizes::*;
pub use transit::*;
pub use uplinks::*;
pub use work::*;

/// Interval at which an egress relay removes expired requests and decode attempts, while it has
/// any.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(20);

/// Time without packets after which an agent or an egress relay releases the packet state of a
/// flow.
pub const FLOW_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

const _: () = assert!(DECODE_ATTEMPTS_MAX <= u16::MAX as usize + 1);
const _: () = assert!(BATCH_REPAIRS_MAX <= byway_code::REPAIR_PACKETS_MAX);
const _: () = assert!(BLOCK_REPAIRS_MAX <= byway_code::REPAIR_PACKETS_MAX);

/// Most bytes that a node sends to a new address before validation, as a multiple of the bytes
/// received from it (RFC 9000, section 8).
pub const AMPLIFICATION_MAX: usize = 3;

/// Path challenges that a node sends to a new address before it gives up: one of three arrives even
/// if two are lost.
pub const CHALLENGES_MAX: u8 = 3;

/// Interval of probes to a peer in use. A dead relay is detected early enough to change the path
/// within 600 ms.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// Time by which a probe may be sent early, right behind another packet, so it delays no later
/// packet. At 50 packets a second or more, every probe follows a packet.
pub const PROBE_AHEAD: Duration = Duration::from_millis(20);

/// Interval of probes while one of them is unanswered: a burst of losses on the path seldom hits
/// all of them.
pub const FAST_PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Unanswered probes after which a peer counts as dead, if one more is lost. With 10 % loss in both
/// directions, that happens by chance once in 4,000 times.
pub const UNANSWERED_PROBES_MAX: u8 = 4;

/// Measurements after which the estimated deviation of a round trip has settled: a sixteenth of its
/// initial value remains.
pub const SETTLING_ROUND_TRIPS: u8 = 5;

/// Round trip that a node assumes before the first measurement. Relays are near, so it is less than
/// the 333 ms of RFC 9002, section 6.2.2.
pub const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(100);

/// Age at which a new handshake replaces the epoch of a session in use, so little is lost with one
/// key. `WireGuard` has the same value.
pub const REKEY_AFTER: Duration = Duration::from_secs(120);

/// Time after [`REKEY_AFTER`] at which the responder begins the next epoch, if the initiator has
/// not.
pub const REKEY_GRACE: Duration = Duration::from_secs(10);

/// Packets after which a new handshake replaces an epoch. They are far below the bounds of AES-GCM
/// (`2^64` blocks), and last for more than two minutes.
pub const REKEY_PACKETS: u64 = 1 << 40;

/// Age until which an epoch's keys seal packets. After [`REKEY_AFTER`], a minute remains for the
/// next handshake, which is enough on any path that works.
pub const EPOCH_SEALS_FOR: Duration = Duration::from_secs(180);

/// Most packets that one epoch's keys seal, at any age.
pub const EPOCH_PACKETS_MAX: u64 = 1 << 48;

/// Age until which an epoch's keys open packets: the last sealed packet may be in a relay's cache
/// for a minute.
pub const EPOCH_OPENS_FOR: Duration = Duration::from_secs(240);

/// First timeout of a handshake's initiation; longer than most round trips.
pub const HANDSHAKE_RETRY: Duration = Duration::from_millis(250);

/// Longest timeout of a handshake's initiation: a session with a peer that restarts is back within
/// a second.
pub const HANDSHAKE_RETRY_MAX: Duration = Duration::from_secs(1);

/// Transmissions of one initiation to a relay. After them, within 2.75 s, the node creates a new
/// initiation.
pub const HANDSHAKE_TRIES: u8 = 4;

/// Time for which the node with the smaller key prefers its own handshake to a crossing one of the
/// peer. With a longer time, a path open in one direction only would never get a session.
pub const GLARE_GRACE: Duration = Duration::from_secs(1);

/// Time after its last data packet for which a session counts as in use, and is probed.
pub const IN_USE_FOR: Duration = Duration::from_secs(1);

/// Time for which a session is probed after its application last needed to know that the peer is
/// alive: a few reports of a receiver may be lost.
pub const WATCHED_FOR: Duration = Duration::from_millis(3_500);

/// Interval of probes to a peer that is watched, but not in use. With its answers, a relay takes
/// less than 75 bytes a second.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(1_500);

/// Interval of keepalives in an idle session with a relay, which keep NAT mappings. RFC 4787
/// demands mappings of at least two minutes; real ones last 30 s. A phone wakes up less than four
/// times a minute for them.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(25);

/// Most plaintext bytes of a packet of messages: with header and tag, the packet fits the minimum
/// MTU of IPv6.
pub const MESSAGES_BYTES_MAX: usize = 1_180;

/// Rate at which a relay forwards handshakes, probes and reports of one agent to other agents,
/// without a grant. A thousand flows with a report a second fit. More packets are dropped.
pub const RELAYED_RATE: byway_units::Rate = byway_units::Rate::from_megabits_per_second(1);
/// Burst size of [`RELAYED_RATE`].
pub const RELAYED_BURST: byway_units::Bytes = byway_units::Bytes::new(64 << 10);

/// Time for which an answered initiation excludes those of the same peer with older timestamps. It
/// is longer than the peer takes to confirm the handshake.
pub const ANSWER_GUARDED_FOR: Duration = Duration::from_secs(10);

/// Bytes of a path challenge or response: type, length and token.
pub const PATH_MESSAGE_BYTES: usize = 3 + 8;

/// Bytes of a packet with a path challenge: header, message and tag.
pub const CHALLENGE_BYTES: usize = 9 + PATH_MESSAGE_BYTES + 16;

/// Longest round trip that a node accepts from a peer's probe; a longer one is cut to this.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// Time for which a relay waits for an overtaken copy before it requests the copy, and for a
/// batch's other repair packets after the first one.
pub const COPY_REORDERING: Duration = Duration::from_millis(6);

/// Most requests of an ingress relay for one copy. Radio links that lose 30 % of the packets also
/// lose a third of the answers.
pub const COPY_NACKS_MAX: u8 = 3;

/// Most missing copies of one flow that an ingress relay requests at the same time.
pub const NACKED_COPIES_MAX: usize = 16;

/// Time for which an ingress relay stores forwarded copies: two round trips of the longest paths
/// between relays. An egress relay can request a missing copy twice in this time.
pub const RELAYED_COPY_RETENTION: Duration = Duration::from_secs(1);

/// Age up to which an egress relay can fetch a coded flow's copy from the ingress relay: an ocean
/// crossed twice, and the detection of a loss.
pub const CODED_RETENTION: Duration = Duration::from_millis(500);

/// Most ingress relays from which an egress relay fetches the copies of a pulled flow. Only the one
/// in use has them.
pub const PULLED_SOURCES_MAX: usize = 4;

/// Longest time for which an egress relay waits for the end of a silence before it fetches copies
/// of a pulled flow. Bursts of losses are shorter, and the packets after them show which were lost.
pub const PULL_WAIT_MAX: Duration = Duration::from_millis(60);

/// First copies of a pulled flow that its ingress relay forwards, after each idle time. They reach
/// the egress relay within 160 ms at 50 packets/s, so an outage from the first packet on is
/// detected.
pub const PULLED_FIRST_COPIES: u8 = 8;

/// Latest copies of one flow that an ingress relay can locate: a second of 1,000 packets.
pub const RELAYED_COPY_REACH: usize = 1_024;

/// Most requests of an egress relay for one forwarded copy, and most retransmissions to it: a first
/// one, and another if that is lost.
pub const RELAYED_COPY_NACKS_MAX: u8 = 2;

/// Most forwarded copies of one gap that an egress relay requests: a burst of one second at 256
/// packets/s. Earlier ones are too old, or were not lost between the relays.
pub const RELAYED_COPY_GAP_MAX: u64 = 256;

/// Longest gap in forwarded copies of a coded flow that an egress relay requests. Relays forward
/// such copies in outages only, so a longer gap lies between two outages.
pub const CODED_GAP_MAX: u64 = 32;

/// Most gaps in forwarded copies that an egress relay tracks. One flow may have a fifth of them:
/// 1 % of 80,000 packets/s over a round trip of a second.
pub const RELAYED_COPY_GAPS_MAX: usize = 4_096;

/// Most coding groups of one relay: the open batches of one group need up to half a mebibyte.
pub const GROUPS_MAX: usize = 128;

/// Most batch shapes (code rates) among a coding group's flows: the usual one, those for lower and
/// higher loss, and one in reserve. So no tenant fills the table with shapes.
pub const GROUP_SHAPES_MAX: usize = 4;

/// Most flows in a relay's ingress half: twice as many as there are aliases towards another relay.
/// By default, a shard has memory for 25,000.
pub const INGRESS_FLOWS_MAX: usize = 1 << 17;

const _: () = assert!(INGRESS_FLOWS_MAX <= BATCHER_FLOWS_MAX);

/// Most flows in a relay's egress half, as many as in its ingress half.
pub const EGRESS_FLOWS_MAX: usize = 1 << 17;

/// Flows whose quarantined receivers an egress relay remembers. A receiver that registers again
/// soon is still known, and a scan is short.
pub const QUARANTINED_MAX: usize = 256;

/// Batches of one coding group that may be open at the same time; see the study in
/// `parts::batcher`.
pub const CODING_QUEUES: u8 = 64;

/// Highest cost of a group's repair bytes, in percent of its configured share r. Small batches cost
/// more than full ones, up to this value.
pub const OVERHEAD_PERCENT: u16 = 115;

/// Least bytes of repair packets that a coding group may spend in advance: a few batches of
/// full-size packets.
pub const OVERHEAD_RESERVE: u64 = 20_000;

/// Time in which a coding group's flows earn its reserve at their registered rates, unless
/// [`OVERHEAD_RESERVE`] is more: three frames of video.
pub const RESERVE_TIME: Duration = Duration::from_millis(125);

/// Burst size of a flow's copy policer, as time at the flow's rate: a video frame, and the backlog
/// of a sender after a pause.
pub const COPY_BURST: Duration = Duration::from_millis(500);

/// Time without copies after which the ingress half releases the packet state of a flow.
pub const COPY_RETENTION: Duration = Duration::from_secs(10);

/// Most egress relays to which one flow is registered at an ingress relay: a group's receivers are
/// in a few regions.
pub const EGRESS_RELAYS_MAX: usize = 4;

/// Most ingress relays from which an egress relay accepts one flow: one for each of its paths.
pub const INGRESS_RELAYS_MAX: usize = 4;

/// Buffer for the plaintext of one packet: the largest UDP payload that Byway sends fits.
pub const DATAGRAM_CAPACITY: usize = CODED_BYTES_MAX + 512;

/// Offset of the coded bytes in an envelope, in bytes.
pub const CODED_START: usize = 16;

/// Most sessions of one relay shard: at 4.8 kB each with their keys, 79 MB. By default, a shard has
/// memory for as many.
pub const SESSIONS_MAX: usize = 16_384;

/// Time without a registered flow after which a relay may end a session for a new one, if its table
/// is full. A registration takes a round trip, or a second if packets are lost.
pub const SESSION_UNUSED_AFTER: Duration = Duration::from_secs(10);

/// Time without a received packet after which a relay may end a session that has flows for a new
/// one. Agents send keepalives every 25 s, and two of them may be lost.
pub const SESSION_SILENT_AFTER: Duration = Duration::from_secs(80);

/// Shortest interval of a relay's scans for sessions that may end for new ones: a scan takes a
/// millisecond or two.
pub const SHED_INTERVAL: Duration = Duration::from_millis(100);

/// Most grants in a stranger's initiation that a relay verifies: each costs a signature check, a
/// sixth of the handshake.
pub const HANDSHAKE_GRANTS_MAX: usize = 4;

/// Forged grants after which a relay ends an agent's session. An honest agent shows none, except
/// after a change of the controller's key.
pub const FORGED_GRANTS_MAX: u8 = 8;

/// First interval at which an ingress relay repeats an unacknowledged alias advertisement to an
/// egress relay: two round trips of most relay pairs. Each later interval is twice as long.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(250);

/// Most doublings of [`ANNOUNCE_INTERVAL`], also for notices to a sender that its flow is
/// unreachable. The interval grows to 8 s, because the other side may have stopped.
pub const UNREACHABLE_NOTICE_DOUBLINGS_MAX: u8 = 5;

/// Time for which a relay still probes another relay that recovered, although senders may not use
/// that one yet. It is twice as long as senders need to return. Without probes, an unstable relay
/// would look stable to them.
pub const DOUBTED_FOR: Duration = Duration::from_secs(15);

/// Most aliases in one advertisement between relays; with 18 bytes each it fits any packet.
pub const ALIASES_PER_MESSAGE: usize = 64;

/// Longest repair lifetime that a receiver may claim: the time for which relays store repair
/// packets.
pub const REPAIR_LIFETIME_MAX: Duration = Duration::from_secs(2);

/// Most source packets of a batch: the limit of the coder and of the wire format.
pub const BATCH_PACKETS_MAX: usize = byway_code::SOURCE_PACKETS_MAX;

/// Most ranges of sequence numbers in one message, such as a NACK.
pub const RANGES_MAX: usize = byway_wire::limits::RANGES_MAX;

/// Default consent of a receiver to send its flow's packets to relays for repairs of other flows.
/// It allows the bytes of 30 s of its flow at once, and 25 % of the flow's rate on average.
///
/// A batch of eight packets whose flows lose 4 % needs the others of one in four. Coding is for
/// calls, whose receivers send about as much themselves.
pub const CONSENT: byway_wire::messages::Consent =
    byway_wire::messages::Consent { burst_percent: 100, average_per_mille: 250, seconds: 30 };

/// Window of a receiver's filter for the least one-way delay (base delay). RFC 6817 has minutes,
/// but mobile paths change in seconds.
pub const BASE_WINDOW: Duration = Duration::from_secs(30);

/// New source packets of a flow for each one that its sender may send again. Access links lose less
/// than one packet in a hundred. A relay that requests all copies must not double the traffic of
/// the direct path.
pub const PACKETS_PER_SOURCE_RESEND: u64 = 16;

/// Most source packets of a flow that its sender sends again in a burst: a burst of losses on an
/// access link.
pub const SOURCE_RESENDS_MAX: u8 = 16;

/// Latest packets of one flow that a relay or the receiver can request again from the sender: a
/// second of 256 packets.
pub const RESEND_REACH: usize = 256;

/// Most times that a sender sends one packet again at its receiver's requests: once, and twice more
/// if that is lost.
pub const RESENDS_PER_PACKET_MAX: u8 = 3;

/// Latest packets of one flow that a receiver can locate in its buffer: two seconds of 512
/// packets/s.
pub const COOPERATION_BUFFER_REACH: usize = 1_024;

/// Size in bytes of each of an agent's two packet buffers: one for sent and one for received
/// packets.
pub const AGENT_BUFFER_BYTES: u64 = 4 << 20;

/// Retention of packets in an agent's buffers: one to two round trips of the longest paths.
pub const AGENT_BUFFER_RETENTION: Duration = Duration::from_millis(1_000);

/// Timeout of a flow's first registration request to a relay. It doubles twice, and again after
/// [`REGISTER_STEADY_TRIES`] requests.
pub const REGISTER_RETRY: Duration = Duration::from_millis(250);
/// Longest timeout of a registration request, see [`REGISTER_RETRY`].
pub const REGISTER_RETRY_MAX: Duration = Duration::from_secs(8);

/// Longest interval of registration requests for a flow that its ingress relay cannot forward. The
/// relay notifies the agent when it can; if that notice is lost, the flow still returns in time.
pub const UNREACHABLE_RETRY_MAX: Duration = Duration::from_secs(2);

/// Most offers in force from one agent to another, at up to 500 bytes each: a relay accepts as many
/// flows of one agent.
pub const OFFERS_PER_PEER_MAX: usize = FLOWS_PER_SESSION_MAX;

/// Timeout of the first unregister message for a flow; each later one is twice as long.
pub const UNREGISTER_RETRY: Duration = Duration::from_millis(250);

/// Transmissions of an unregister message without an answer, within eight seconds. The agent then
/// waits until the other side is reachable again.
pub const UNREGISTER_TRIES: u32 = 6;

/// Most unregister messages that wait for one node's answer, at about 100 bytes each: all flows of
/// a busy proxy at a relay that is unreachable.
pub const TEARDOWNS_MAX: usize = FLOWS_PER_SESSION_MAX;

/// Transmissions of its close message by an agent that leaves: with 10 % loss, one in a thousand
/// peers receives none.
pub const CLOSE_TRIES: u8 = 3;

/// Interval between close messages: longer than most bursts of losses.
pub const CLOSE_RETRY: Duration = Duration::from_millis(100);

/// Shortest interval between changes of a flow's relay path while the one in use works.
pub const PATH_CHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// Time for which a better relay path has to work before a flow uses it, so a path that fails every
/// second is not chosen.
pub const PATH_STEADY_FOR: Duration = Duration::from_secs(2);

/// Number of later packets that show that a missing one is lost. On paths that preserve order, such
/// an immediate NACK is never spurious.
pub const REORDERING_PACKETS: u64 = 3;
/// Least time after which a receiver takes a gap for a loss.
pub const REORDERING_TIME: Duration = Duration::from_millis(3);

/// Longest time for which a receiver waits for a packet's second copy to measure the path skew:
/// paths hardly differ by more.
pub const SECOND_PATH_WITHIN: Duration = Duration::from_millis(500);

/// Most NACKs of a receiver for one packet: one for each repair that a relay may send, and two more
/// because NACKs are lost too.
pub const NACKS_PER_PACKET_MAX: u8 = 5;

/// Most near relays of one flow that are probed for it. Flows have a few paths.
pub const NEAR_RELAYS_MAX: usize = 16;
const _: () = assert!(NACKED_RELAYS_MAX <= NEAR_RELAYS_MAX);

/// Most egress relays of one flow that receive its NACKs: that of the path in use, and those in
/// reserve.
pub const NACKED_RELAYS_MAX: usize = 4;

/// Registration requests without an answer before a flow uses its next path. Three take 750 ms,
/// longer than a handshake without losses.
pub const REGISTER_TRIES: u32 = 3;

/// Values for the high 32 bits of a flow's sequence numbers that a receiver tries if it joins late.
/// They cover ten months of 10,000 packets/s. Each costs two packets.
pub const HIGH_BITS_TRIED: u8 = 64;

/// Most fragments of one flow that wait for the other half of their datagram; beyond that, the
/// oldest is dropped.
pub const PENDING_FRAGMENTS_MAX: usize = 16;

/// Most cooperative requests that wait at a receiver for missing packets of one flow; beyond that,
/// the oldest is dropped.
pub const REQUESTS_MAX: usize = 256;

/// Most in-stream blocks of one flow that wait at a receiver for another packet; beyond that, the
/// oldest is dropped.
pub const RECEIVER_BLOCKS_MAX: usize = 4;

/// Number of aliases that an agent accepts from a relay: they are below this.
pub const ALIASES_MAX: usize = 8_192;

/// Least rate at which an agent paces envelopes to a relay.
pub const COPY_RATE_MIN: byway_units::Rate = byway_units::Rate::from_megabits_per_second(10);

/// Pacing rate of an agent's envelopes, as a multiple of the rate of the copied flows: copies of a
/// video frame leave before the next frame.
pub const COPY_RATE_FACTOR: u64 = 8;

/// Burst size of an agent's paced envelopes in bytes: two packets, so source packets of the same
/// burst leave first.
pub const COPY_DEPTH: u64 = 3_000;

/// Most envelopes that wait at an agent for the pacer of one relay; further ones are not sent.
pub const PENDING_COPIES_MAX: usize = 512;

/// Interval of a receiver's reports to the sender about a flow in use.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of the first reports: the sender selects the service by them, and the second one has
/// delays that relays measure after the first one.
pub const REPORT_AT_FIRST: Duration = Duration::from_millis(550);

/// Time after a flow's first packet in which reports have that interval.
pub const REPORTS_SOON_FOR: Duration = Duration::from_millis(1_100);

/// Delay of a receiver's report after a loss: the sender reacts within a few packets.
pub const REPORT_AFTER_LOSS: Duration = Duration::from_millis(50);

/// Least packets that the direct path has to deliver before a flow with retransmission ends the
/// copies of its first packets. It also has to deliver more than relays.
pub const DIRECT_AT_FIRST: u32 = 3;

/// Time after the latest reported loss or silence for which a flow behind a narrow uplink copies,
/// and a flow with retransmission may be in an outage.
pub const COPIES_AFTER_LOSS: Duration = Duration::from_secs(30);

/// Most candidate addresses that an agent names to a peer, and that the peer tries at the same
/// time.
pub const CANDIDATES_MAX: usize = byway_wire::limits::CANDIDATES_MAX;

/// Interval at which a peer may name one more address than [`CANDIDATES_MAX`]. Without this limit,
/// it could direct challenges to arbitrary addresses, ten bytes for each byte of its own.
pub const CANDIDATE_INTERVAL: Duration = Duration::from_millis(500);

/// Time without a direct path, which was open before, after which relays deliver a flow's packets.
/// Most outages end sooner, and repairs bridge them.
pub const CLOSED_AFTER: Duration = Duration::from_secs(10);

/// Time without a direct path, which was never open, after which relays deliver a flow's packets.
/// The first packets wait for it, and a latency budget is seldom more than three times this.
pub const NEVER_OPEN_AFTER: Duration = Duration::from_millis(100);

/// Interval at which a sender without a direct path reviews whether repairs still restore its coded
/// flows. A flow in use has two reports in this time.
pub const BRIDGED_FOR: Duration = Duration::from_secs(2);

/// Inverse of the highest share of lost packets that may stay unrestored in a flow that repairs
/// bridge, as with [`DECODE_FAILURE_INVERSE`].
pub const BRIDGED_INVERSE: u64 = 16;

/// Inverse of the decode failure rate above which an egress relay does not rely on cooperative
/// recovery in an outage. Bursts of 1 % on each of ten paths leave one packet in a hundred
/// undecodable, so this is more than usual losses.
pub const DECODE_FAILURE_INVERSE: u32 = 16;

/// Least decode failures before their rate counts, because a burst of another flow proves nothing.
/// A flow of 100 packets/s has as many in less than [`OUTAGE_AFTER`].
pub const UNDECODED_PACKETS_MIN: u16 = 8;

/// Decode failures that one lost packet of another flow counts as, if it would have been restored
/// without the outage. The flow in the outage uses repair packets that belong to all flows.
pub const UNDECODED_WEIGHT_OF_OTHERS: u16 = 4;

/// Most packets that the decode failure rate counts, because losses from some seconds ago prove
/// little.
pub const DECODE_FAILURE_WINDOW: u16 = 256;

/// Least random bytes in a grease packet or message, which every node ignores; see docs/wire.md.
pub const GREASE_BYTES_MIN: usize = 8;
/// Most random bytes in a grease packet, see [`GREASE_BYTES_MIN`].
pub const GREASE_BYTES_MAX: usize = 32;

/// Most undecodable attempts that an egress relay tries again, jointly, whenever a packet arrives.
pub const UNDECODABLE_ATTEMPTS_MAX: usize = 32;

/// Most batches in a joint decode attempt: a burst of twelve packets.
pub const JOINT_DECODE_BATCHES_MAX: usize = 12;

/// Most in-stream blocks in a joint decode attempt: three for each of four flows.
pub const JOINT_DECODE_BLOCKS_MAX: usize = 12;

/// Number of a new batch's flows that lost their last packets, from which on a relay requests the
/// batch's other packets at once. With two repair packets, a third loss makes the batch undecodable
/// alone.
pub const SUSPECTS_MIN: usize = 2;

/// Most repair packets that a relay makes for one batch: the limit of the coder.
pub const BUDGETED_REPAIRS_MAX: usize = byway_code::REPAIR_PACKETS_MAX;

/// Most queues of one batcher: one bit each in a flow's word.
///
/// A flow whose burst is longer than this closes its own oldest queues. Key frames of 40 packets
/// fit; with 32 queues they close one batch in eight early.
pub const BATCHER_QUEUES_MAX: usize = 64;

/// Most flows of one batcher: its table has 8 bytes for each, so 8 MiB at most.
pub const BATCHER_FLOWS_MAX: usize = 1 << 20;

/// Most timers of one table: four for each of a million flows, 100 MB.
pub const TIMERS_MAX: usize = 1 << 22;

/// Bytes of the first chunk of a packet buffer: five packets of full size, or 40 of voice.
pub const BUFFER_CHUNK_BYTES_MIN: usize = 8 << 10;

/// Bytes of the largest chunk of a packet buffer. No packet causes a larger allocation, and the
/// longest datagram fits.
pub const BUFFER_CHUNK_BYTES_MAX: usize = 64 << 10;

/// Number of sequence numbers below the highest in which a flow detects duplicates: 8,192, as in
/// the replay window of sessions.
pub const NUMBER_WINDOW: u64 = NUMBER_WINDOW_WORDS as u64 * 64;

/// Number of 64-bit words of [`NUMBER_WINDOW`], with one bit for each sequence number.
pub const NUMBER_WINDOW_WORDS: usize = 128;

/// Most missing sequence numbers of a flow that a receiver tracks: ten seconds of a hundred packets
/// each, longer than any repair lifetime.
pub const MISSING_MAX: usize = 1_024;

// All missing numbers lie within the window.
const _: () = assert!(NUMBER_WINDOW == 8_192 && MISSING_MAX as u64 <= NUMBER_WINDOW);

/// Most packets of an ordered flow that its receiver buffers behind a gap: a quarter of a round
/// trip of 200 ms at 5,000 packets a second.
pub const HELD_PACKETS_MAX: usize = 256;

/// Most bytes of an ordered flow that its receiver buffers behind a gap: a quarter of a round trip
/// of 200 ms at 40 Mbit/s.
pub const HELD_BYTES_MAX: byway_units::Bytes = byway_units::Bytes::new(256 << 10);

/// Most abandoned ranges behind the first gap that a resequencer remembers. Packets behind further
/// ranges wait for their timeout.
pub const HELD_SKIPS_MAX: usize = 32;

/// First sequence number at which a receiver or relay takes a flow for one that it joins late.
/// Below it, the flow is new, and earlier numbers are missing.
pub const FIRST_NUMBERS: u64 = 64;

/// Length of the longest IP packet that a relay sends on an Ethernet path. Longer packets, which
/// are fragmented, count as this much.
pub const UPLINK_PACKET: byway_units::Bytes = byway_units::Bytes::new(PACKET_BYTES_MAX as u64 + 48);

// No epoch opens packets for as long as a label stays unused.
const _: () = assert!(TRANSIT_LABEL_IDLE.as_nanos() > EPOCH_OPENS_FOR.as_nanos());

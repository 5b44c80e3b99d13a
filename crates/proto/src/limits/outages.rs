//! Limits of silences and outages of direct paths.

use byway_units::Duration;

/// Time after a change of a flow's service for which its receiver also requests packets by the
/// rules of the former service. Registrations with relays take a round trip, or a few if messages
/// are lost.
pub const SERVICE_OVERLAP: Duration = Duration::from_secs(2);

/// Transmissions of a service change without an answer, after which it is taken back.
pub const SERVICE_CHANGE_TRIES: u8 = 6;
/// Time after which a service change is repeated if there is no answer. It doubles each time.
pub const SERVICE_CHANGE_RETRY: Duration = Duration::from_millis(200);
/// Number of times that the interval between repetitions doubles, to 51 s. Only a change that takes
/// another one back is repeated so often.
pub const SERVICE_CHANGE_BACKOFF_MAX: u8 = 8;

/// Shortest time between two changes of a flow's service that its receiver adopts. Each costs a
/// registration with every egress relay.
pub const SERVICE_CHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// Notices that a receiver sends of one silence. Any of its messages may be lost, and the sender
/// ignores those that arrive while its uplink has a queue. So they go on for ten seconds.
pub const SILENCE_NOTICES: u8 = 9;
/// Notices of one silence after which the interval between them doubles each time.
pub const SILENCE_NOTICES_SOON: u8 = 3;
/// Interval between the first notices of one silence. Even for packets 10 ms apart, the second
/// notice reports a silence of at least [`COPIES_ONLY_AFTER`].
pub const SILENCE_REPEAT: Duration = Duration::from_millis(80);

/// Shortest time between two selections of a flow's service. Receivers report each second, and more
/// often after losses.
pub const SELECTION_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which the sender of a flow asks the ingress relay for its delay to the egress relay,
/// and for the activity of the flow's coding group.
pub const DELAY_ASK_INTERVAL: Duration = byway_plan::ACTIVITY_REPORT_INTERVAL;
/// Interval of the first requests while the delay is unknown: relays have just met.
pub const DELAY_ASK_RETRY: Duration = Duration::from_millis(400);
/// Number of these requests. Relays of earlier versions do not know the delay.
pub const DELAY_ASK_TRIES: u8 = 10;
/// Time after a change of the flow's service until it asks once more: the answer also has the
/// number of coded flows, which may have changed as well.
pub const DELAY_ASK_AFTER_CHANGE: Duration = Duration::from_secs(5);

/// Notices of one silence that a receiver sends to a sender that retransmits. Of the first ones,
/// [`RESENDING_NOTICES_SOON`], the last report more than [`COPIES_ONLY_AFTER`], even if two are
/// lost. The others come later and later, over ten seconds, in case the first ones are all lost. If
/// the application only pauses, they are of no use, so they are few.
pub const RESENDING_NOTICES: u8 = 13;
/// Notices of one silence after which the interval between them doubles each time.
pub const RESENDING_NOTICES_SOON: u8 = 6;
/// Notices of one silence of which the last one reports [`COPIES_ONLY_AFTER`] or more, even at the
/// shortest interval.
pub const RESENDING_NOTICES_OF_OUTAGE: u8 = 3;
/// Shortest interval between the first notices of a silence to a sender that retransmits. Each
/// names more packets as lost, so it is short.
pub const RESENDING_NOTICE_INTERVAL: Duration = Duration::from_millis(40);
/// Longest such interval. Any of these notices may be lost, and then the next one counts.
pub const RESENDING_NOTICE_INTERVAL_MAX: Duration = Duration::from_millis(120);

/// Shortest silence after which a sender that retransmits sends all packets through relays. The
/// latency budget has to suffice for repairs of what notices request, and the uplink for packets
/// twice. Relays carry these notices. In a second, they cost about as much as the needless packets
/// at an outage's end.
pub const CARRIED_AFTER: Duration = Duration::from_secs(1);

/// Shortest silence after which a sender sends copies instead of source packets, if its uplink
/// cannot sustain both, or if it otherwise copies nothing.
pub const COPIES_ONLY_AFTER: Duration = Duration::from_millis(100);

/// Longest estimated wait for a narrow uplink with which a sender sends lost packets again: more
/// would leave new packets too little of the uplink's buffer.
pub const RESEND_BACKLOG_MAX: Duration = Duration::from_millis(60);

/// Time by which a silence has to exceed the packet interval, plus an eighth of a round trip, to
/// count as an outage: queueing delays are none.
pub const SILENCE_MARGIN: Duration = Duration::from_millis(10);

/// Time after a packet that relays forwarded without a NACK for which a receiver takes its flow for
/// one in an outage, whose packets relays store. Flows with few packets may have longer intervals,
/// and then request losses from the sender alone.
pub const CARRIED_FOR: Duration = Duration::from_millis(500);

/// Interval, in packets, of the source packets that a sender sends on a path in an outage, if it
/// leaves the others to relays. They add an eighth to the copies' load. At 50 packets a second, the
/// path's return is detected within 160 ms.
pub const SOURCE_PACKETS_IN_OUTAGE: u64 = 8;

/// Longest interval between source packets that a sender sends on a path in an outage: flows of few
/// packets detect the path's return as soon.
pub const SOURCE_INTERVAL_IN_OUTAGE: Duration = Duration::from_millis(200);

/// Time after the end of an open-ended NACK in which a receiver answers a confirm of packets that
/// have arrived with the ACK again: the relay may not have it. Later, a confirm only shows a pause
/// of the copies.
pub const ACK_REPEATED_FOR: Duration = Duration::from_secs(10);

/// Interval at which an egress relay notifies the ingress relay of a flow's outage.
pub const OUTAGE_INTERVAL: Duration = Duration::from_millis(250);

/// Time for which an ingress relay believes an egress relay's notice of an outage. If three in a
/// row are missing, the path counts as delivering again.
pub const OUTAGE_BELIEVED_FOR: Duration = Duration::from_secs(1);

/// Longest time for which an ingress relay forwards all copies in an outage. Relays deliver soon
/// after [`CLOSED_AFTER`](super::CLOSED_AFTER), if they may.
pub const OUTAGE_FORWARDING_MAX: Duration = Duration::from_secs(15);

/// Longest part of a pause between two packets that counts as time of forwarding in an outage:
/// longer than the intervals of any flow that sends steadily.
pub const FORWARDING_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Shortest time between the beginnings of two outages of a flow in which an ingress relay forwards
/// its copies. So false claims of receivers cost a quarter of a steady flow's bytes at most.
pub const OUTAGE_PERIOD: Duration = Duration::from_secs(60);

/// Time for which an open-ended NACK has to be in force before a relay takes it for an outage. It
/// is longer than most bursts, in which in-stream blocks still help.
pub const OUTAGE_AFTER: Duration = Duration::from_millis(200);

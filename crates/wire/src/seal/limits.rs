//! Every limit of sealing, with its reason.

use byway_units::Duration;

/// Longest packet of a handshake in bytes: what one UDP datagram carries over IPv4.
pub const HANDSHAKE_BYTES_MAX: usize = 65_507;

/// Most responses that are looked at for one initiation.
///
/// Looking at one costs two key agreements, and whoever sees the initiation can send any number. A few forged
/// ones must not keep the true one out.
pub const RESPONSES_MAX: u8 = 8;

/// How long new cookies are made with one secret; they are accepted for as long again.
///
/// Longer than the seconds in which an initiator asks again, short enough that collected cookies are soon
/// worth nothing.
pub const COOKIE_SECRET_LIFE: Duration = Duration::from_secs(120);

/// How far behind the highest number of a session a packet may arrive.
///
/// At 10 Gbit/s in packets of 1,250 bytes this is 8 ms of reordering, at 100 Mbit/s 0.8 s. Its bitmap is 1 KiB.
pub const REPLAY_WINDOW: u64 = 8_192;

//! Limits of the proxy, each with its reason.

use byway_units::Duration;

/// How often idle mappings are looked for.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Silence of a target after which a mapping to an address that its name no longer has is closed: a target that moves is found
/// within this and the time between two lookups, and one that is still there loses nothing.
pub(super) const TARGET_SILENT_FOR: Duration = Duration::from_secs(5);

/// Interval between two lookups of the names of targets: whether they answer, only their applications know.
pub(super) const TARGETS_LOOKED_UP_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// Memory of the datagrams that wait for one peer's consent: a video call of 4 Mbit/s sends as much within
/// [`PENDING_FOR`]. A burst of 1,000 datagrams of 200 bytes takes half of it.
pub(super) const PENDING_BYTES_PER_PEER_MAX: usize = 512 << 10;

/// The same for all peers: eight of them at their limit.
pub(super) const PENDING_BYTES_MAX: usize = 4 << 20;

/// How long they wait at least, whatever the latency budget: the first datagram of a handshake is worth a second.
pub(super) const PENDING_FOR: Duration = Duration::from_secs(1);

/// After how long a refused mapping is offered again when the application goes on sending.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The same where the peer has no mapping left: one makes room within a second if nobody answers it, and within ten if
/// nobody uses it.
pub(super) const FULL_FOR: Duration = Duration::from_secs(1);

/// How often is looked whether there is something to tell the controller or to ask it for.
pub(super) const TELL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(3);

/// How soon a peer that was not to be had is asked for again, and how late, as it goes on: the controller takes 30 requests a
/// minute, and reports have to have room among them.
pub(super) const ABSENT_RETRY: [std::time::Duration; 2] =
    [std::time::Duration::from_secs(3), std::time::Duration::from_secs(60)];

/// After how long the controller is told again what it should know: it may have lost it.
pub(super) const TOLD_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(300);

/// A round trip that differs from the reported one by no more than this part of it is no news: half of what the controller
/// takes for nearer.
pub(super) const NEWS_DIVISOR: u64 = 20;

/// Nor is one that differs by so little.
pub(super) const NEWS_MICROSECONDS: u64 = 250;

//! Limits of the proxy, each with its reason.

use byway_units::Duration;

/// Interval between two sweeps, which close idle mappings and drop stale datagrams.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Silence of a target after which its mapping is closed, if the target's name no longer resolves
/// to that address. A target that still answers is not affected.
pub(super) const TARGET_SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two lookups of targets' DNS names. It is fixed, because the agent cannot tell
/// whether a target answers its application.
pub(super) const TARGET_LOOKUP_INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// Memory of the datagrams that wait for one peer's consent, in bytes. A video call of 4 Mbit/s
/// sends that much within [`PENDING_LIFETIME_MIN`]. A burst of 1,000 datagrams of 200 bytes takes
/// half of it.
pub(super) const PENDING_BYTES_PER_PEER_MAX: usize = 512 << 10;

/// Memory of the datagrams that wait for consent, of all peers together, in bytes. It suffices for
/// eight peers at their own limit.
pub(super) const PENDING_BYTES_MAX: usize = 4 << 20;

/// Shortest time for which a datagram waits for the peer's consent, regardless of the latency
/// budget. The first datagram of an application's handshake is of use for a second.
pub(super) const PENDING_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// Interval after which the agent offers a mapping again that the peer refused, if the application
/// continues to send.
pub(super) const REFUSAL_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Interval after which the agent offers a mapping again to a peer that had none left. A mapping
/// there becomes evictable within a second if it is unanswered, and within ten seconds if it is
/// unused.
pub(super) const FULL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two checks whether the agent has a report or a request for its controller.
pub(super) const REPORT_INTERVAL: std::time::Duration = std::time::Duration::from_secs(3);

/// Shortest and longest interval between two requests to the controller for pairings with absent
/// peers. The controller accepts 30 requests a minute, and reports count among them.
pub(super) const ABSENT_PEER_RETRY: [std::time::Duration; 2] =
    [std::time::Duration::from_secs(3), std::time::Duration::from_secs(60)];

/// Interval after which the agent repeats an unchanged report, because the controller may have lost
/// it.
pub(super) const REPORT_REFRESH_INTERVAL: std::time::Duration = std::time::Duration::from_secs(300);

/// Divisor of a reported round trip: a change of at most this part is not reported. It is half of
/// the difference that the controller considers.
pub(super) const RTT_CHANGE_DIVISOR: u64 = 20;

/// Change of a round trip that is never reported, in microseconds, even if [`RTT_CHANGE_DIVISOR`]
/// would permit it.
pub(super) const RTT_CHANGE_MICROSECONDS: u64 = 250;

//! TCP as a workload: what flows through a simulated network besides the protocol that is tested there.
//!
//! Web fetches, bulk transfers and thousands of flows on a link, as state machines without I/O. [`Segment`]s travel as bytes in
//! simulated datagrams, or through a tunnel, which needs to know nothing about them.
//!
//! # Where to start
//! - [`Connection`]: one end of a connection; its doc has the order of calls.
//! - [`Fetch`], [`Serve`], [`Bulk`], [`Sink`]: what connections are used for.
//! - [`TcpHost`]: a host of the world with many connections.
//! - [`Settings`], and [`limits`] with the reasons of the defaults.
//!
//! # What is built
//! The handshake and the close (RFC 9293) with windows of scaled size and timestamps (RFC 7323); slow start and congestion
//! avoidance behind [`CongestionControl`], as [`NewReno`] (RFC 5681, counted in bytes as in RFC 3465), [`Cubic`] (RFC 9438) and
//! [`Fractional`], whose segments are paced;
//! the initial window of ten (RFC 6928); recovery by selective acknowledgments, with limited transmit and rescue (RFC 2018,
//! 6675, 3042); the retransmission timer (RFC 6298); ECN (RFC 3168); delayed acknowledgments (RFC 1122).
//!
//! # What is not
//! Payload is counted, not kept: its bytes follow from its place in the stream, and [`Segment::decode`] checks them. The receive
//! window never closes, so there is no probing of closed windows. Nagle's algorithm is off. A peer
//! that is not there does not answer with RST, and a side that only receives never asks whether the other is still there. There is no tail loss probe (RFC 8985): a lost last segment waits for the timer,
//! as in the measurements that this TCP is to repeat. Nor are there `HyStart++` (RFC 9406), detection of needless retransmissions
//! (RFC 3522, 2883), or protection against sequence numbers that wrap within a segment's lifetime (RFC 7323, 5).

mod application;
mod congestion;
mod connection;
#[cfg(test)]
mod conversations;
mod encoding;
mod handshake;
mod host;
pub mod limits;
mod outgoing;
mod pattern;
mod receiver;
mod round_trip;
mod scoreboard;
mod segment;
mod sender;
mod sequence;
mod settings;
mod spans;
mod statistics;
mod transfer;

pub use application::{Application, Bulk, Fetch, Serve, Sink, Task};
pub use congestion::{Algorithm, CongestionControl, Cubic, Fractional, NewReno, Progress};
pub use connection::{Connection, Event, Input, Reason};
pub use encoding::SegmentError;
pub use host::{ConnectionId, TcpHost};
pub use segment::{Flags, Options, Ports, SackBlock, SackBlocks, Segment, Timestamps};
pub use sequence::{Extent, Position, SequenceNumber};
pub use settings::Settings;
pub use statistics::Statistics;

//! TCP as a workload: background traffic of a simulated network beside the protocol under test.
//!
//! Web fetches, bulk transfers and thousands of flows on a link, as state machines without I/O.
//! [`Segment`]s travel as bytes in simulated datagrams, or through a tunnel, which does not
//! interpret them.
//!
//! # Where to start
//! - [`Connection`]: one end of a connection; its doc has the order of calls.
//! - [`Fetch`], [`FetchServer`], [`BulkSender`], [`Sink`]: applications on connections.
//! - [`TcpHost`]: a host of the world with many connections.
//! - [`Settings`], and [`limits`] with the reasons of the defaults.
//!
//! # Implemented
//! - The handshake and the close (RFC 9293), with window scaling and timestamps (RFC 7323).
//! - Slow start and congestion avoidance behind [`CongestionControl`]: [`NewReno`] (RFC 5681,
//!   counted in bytes as in RFC 3465), [`Cubic`] (RFC 9438) and [`Fractional`], whose segments are
//!   paced.
//! - The initial window of ten segments (RFC 6928).
//! - Recovery by selective acknowledgments, with limited transmit and rescue (RFC 2018, 6675,
//!   3042).
//! - The retransmission timer (RFC 6298), ECN (RFC 3168) and delayed acknowledgments (RFC 1122).
//!
//! # Not implemented
//! - Payload is counted, not stored: its bytes follow from its position in the stream, and
//!   [`Segment::decode`] checks them.
//! - The receive window never closes, therefore there are no zero-window probes. Nagle's algorithm
//!   is off.
//! - An absent peer does not answer with RST, and a side that only receives sends no keepalives.
//! - There is no tail loss probe (RFC 8985): a lost last segment waits for the retransmission
//!   timer, as in the published measurements that this TCP reproduces.
//! - There is no `HyStart++` (RFC 9406), no detection of spurious retransmissions (RFC 3522, 2883),
//!   and no protection against sequence numbers that wrap within a segment's lifetime (RFC 7323,
//!   5).

mod application;
mod congestion;
mod connection;
#[cfg(test)]
mod connection_tests;
mod encoding;
mod handshake;
mod host;
pub mod limits;
mod payload_pattern;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod send_stream;
mod sender;
mod sequence;
mod settings;
mod spans;
mod statistics;
mod transfer;

pub use application::{Application, BulkSender, Fetch, FetchServer, Sink, TcpApplication};
pub use congestion::{AckSample, Algorithm, CongestionControl, Cubic, Fractional, NewReno};
pub use connection::{Connection, Event, Input, TimerKind};
pub use encoding::SegmentError;
pub use host::{ConnectionId, TcpHost};
pub use segment::{Flags, Options, Ports, SackBlock, SackBlocks, Segment, Timestamps};
pub use sequence::{Extent, Position, SequenceNumber};
pub use settings::Settings;
pub use statistics::Statistics;

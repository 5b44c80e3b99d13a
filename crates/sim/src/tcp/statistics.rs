//! Statistics of a TCP connection.

use byway_units::Bytes;

/// Counters of a TCP connection until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent, of all kinds.
    pub segments_sent: u64,
    /// Segments sent with payload or a FIN for the first time.
    pub first_transmissions: u64,
    /// Segments sent with retransmitted payload or FIN.
    pub retransmitted: u64,
    /// SYNs and SYN-ACKs retransmitted after a timeout.
    pub handshake_timeouts: u64,
    /// Expiries of the retransmission timer after the handshake.
    pub timeouts: u64,
    /// Starts of fast recovery.
    pub recoveries: u64,
    /// Window reductions because of congestion marks.
    pub marked_windows: u64,
    /// Segments of this connection received, of all kinds.
    pub segments_received: u64,
    /// Payload written by the application and acknowledged by the peer.
    pub bytes_acknowledged: Bytes,
    /// Payload that arrived in order.
    pub bytes_received: Bytes,
}

impl Statistics {
    /// Adds the statistics of another connection.
    pub fn add(&mut self, other: &Self) {
        self.segments_sent += other.segments_sent;
        self.first_transmissions += other.first_transmissions;
        self.retransmitted += other.retransmitted;
        self.handshake_timeouts += other.handshake_timeouts;
        self.timeouts += other.timeouts;
        self.recoveries += other.recoveries;
        self.marked_windows += other.marked_windows;
        self.segments_received += other.segments_received;
        self.bytes_acknowledged += other.bytes_acknowledged;
        self.bytes_received += other.bytes_received;
    }
}

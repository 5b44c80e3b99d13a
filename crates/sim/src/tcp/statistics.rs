//! What a connection counts.

use byway_units::Bytes;

/// What happened to a connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent, of all kinds.
    pub segments_sent: u64,
    /// Segments sent that carried payload or a FIN for the first time.
    pub originals_sent: u64,
    /// Segments sent that carried payload or a FIN again.
    pub retransmitted: u64,
    /// SYNs and SYN-ACKs sent again because no answer came in time.
    pub handshake_timeouts: u64,
    /// How often the retransmission timer expired after the handshake.
    pub timeouts: u64,
    /// How often fast recovery began.
    pub recoveries: u64,
    /// How often the window was reduced because of marks.
    pub marked_windows: u64,
    /// Segments received, of all kinds, that were this connection's.
    pub segments_received: u64,
    /// Payload written by the application and acknowledged by the peer.
    pub bytes_acknowledged: Bytes,
    /// Payload that arrived in order.
    pub bytes_received: Bytes,
}

impl Statistics {
    /// Counts what happened to another connection, too.
    pub fn add(&mut self, other: &Self) {
        self.segments_sent += other.segments_sent;
        self.originals_sent += other.originals_sent;
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

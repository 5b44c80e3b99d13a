//! Reasons of deadlines.

/// Reason of a deadline at which a driver has to call its state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Handshake, probe, challenge, or end of an epoch.
    Session,
    /// Repetition of a flow's registration request, or review of its path.
    Registration,
    /// Close of a batch or block, or a relay's request for a copy.
    Coding,
    /// Overdue packet, or a NACK that is due.
    Loss,
    /// Pending copy or other envelope, which is paced behind source packets, or a probe train.
    Pacing,
    /// Packet in the queue of a relay's uplink.
    Uplink,
    /// Receiver report.
    Report,
    /// Transmission of an offer of flows.
    Offer,
    /// Transmission of an unregister or close message.
    Closing,
    /// Sweep of a relay's expired state.
    Sweep,
}

//! What a deadline is for.

/// Why a state machine wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A handshake, a probe, a challenge, or the end of an epoch.
    Session,
    /// A registration to be repeated.
    Registration,
    /// A batch or block to be closed, or a copy to be asked for.
    Coding,
    /// A packet that should have come.
    Loss,
    /// Something to be sent behind the originals.
    Pacing,
    /// A packet that waits for the uplink.
    Uplink,
    /// A report to be given.
    Report,
    /// An offer to be said (again).
    Offer,
    /// The end of a flow or of sessions, to be told (again).
    Closing,
    /// Something that nobody can use any more.
    Sweep,
}

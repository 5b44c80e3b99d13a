//! What went through a role's sockets, and what did not.

/// What went through a role's sockets, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounters {
    /// Datagrams received.
    pub received: u64,
    /// Their payloads in bytes.
    pub received_bytes: u64,
    /// System calls that received at least one datagram.
    pub receive_batches: u64,
    /// System calls that failed to receive.
    pub receive_errors: u64,
    /// Datagrams given to the kernel.
    pub sent: u64,
    /// Their payloads in bytes.
    pub sent_bytes: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Those of them that sent several datagrams (GSO).
    pub gso_calls: u64,
    /// Times that an answer could not leave from the address that was asked, as the machine no longer has it: the system chose
    /// another.
    pub sources_gone: u64,
    /// Datagrams of [`Urgency::Original`](byway_proto::Urgency) dropped because the kernel took no more for too long.
    pub dropped_originals: u64,
    /// The same of [`Urgency::Scavenger`](byway_proto::Urgency), which go first.
    pub dropped_scavengers: u64,
    /// Datagrams for a family of addresses that the socket does not have, for port 0, or longer than UDP carries.
    pub dropped_unsendable: u64,
    /// Datagrams that the kernel refused: no route, a firewall, too long for the interface.
    pub dropped_refused: u64,
    /// Datagrams for a socket that is closed, or was closed before they were sent.
    pub dropped_closed: u64,
    /// Packets that the system did not take from the device: it is down, or they are no IP packets.
    pub dropped_by_device: u64,
    /// Datagrams that the kernel dropped on arrival because the role was too slow for its receive buffers.
    pub dropped_by_kernel: u64,
}

/// Datagrams that the kernel took at the sockets of [`Io::open`](crate::Io::open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applications {
    /// Their number.
    pub datagrams: u64,
    /// Their payloads in bytes.
    pub bytes: u64,
}

impl IoCounters {
    /// All of them, with their names.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Self {
            received,
            received_bytes,
            receive_batches,
            receive_errors,
            sent,
            sent_bytes,
            send_calls,
            gso_calls,
            sources_gone,
            dropped_originals,
            dropped_scavengers,
            dropped_unsendable,
            dropped_refused,
            dropped_closed,
            dropped_by_device,
            dropped_by_kernel,
        } = *self;
        [
            ("received", received),
            ("received_bytes", received_bytes),
            ("receive_batches", receive_batches),
            ("receive_errors", receive_errors),
            ("sent", sent),
            ("sent_bytes", sent_bytes),
            ("send_calls", send_calls),
            ("gso_calls", gso_calls),
            ("sources_gone", sources_gone),
            ("dropped_originals", dropped_originals),
            ("dropped_scavengers", dropped_scavengers),
            ("dropped_unsendable", dropped_unsendable),
            ("dropped_refused", dropped_refused),
            ("dropped_closed", dropped_closed),
            ("dropped_by_device", dropped_by_device),
            ("dropped_by_kernel", dropped_by_kernel),
        ]
        .into_iter()
    }
}

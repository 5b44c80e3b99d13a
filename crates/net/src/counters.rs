//! Counters of a role's sockets.

/// Counters of a role's sockets: received, sent and dropped datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounters {
    /// Datagrams received by the role's sockets.
    pub received: u64,
    /// Payload bytes of the received datagrams.
    pub received_bytes: u64,
    /// System calls by which the role received at least one datagram.
    pub receive_batches: u64,
    /// System calls by which the role could not receive.
    pub receive_errors: u64,
    /// Datagrams to send that the kernel accepted.
    pub sent: u64,
    /// Payload bytes of the sent datagrams.
    pub sent_bytes: u64,
    /// System calls by which the role sent datagrams.
    pub send_calls: u64,
    /// System calls by which the role sent several datagrams at once (GSO).
    pub gso_calls: u64,
    /// Datagrams that could not leave from the address that their peer used, because the machine no
    /// longer has it. The system chose another.
    pub sources_unavailable: u64,
    /// Datagrams of [`Priority::Source`](byway_proto::Priority) that the role dropped, because the
    /// kernel accepted no more for too long.
    pub dropped_source_packets: u64,
    /// Datagrams of [`Priority::Scavenger`](byway_proto::Priority) that the role dropped, because
    /// the kernel accepted no more for too long. They are dropped before source packets.
    pub dropped_scavengers: u64,
    /// Datagrams that could not be sent: the role has no socket of the address family, the port is
    /// 0, or they are longer than UDP allows.
    pub dropped_unsendable: u64,
    /// Datagrams that the kernel refused to send: no route, a firewall, too long for the interface.
    pub dropped_refused: u64,
    /// Datagrams for a socket that was closed, before or after they were queued.
    pub dropped_closed: u64,
    /// IP packets that the system did not accept from the role's device: it is down, or they are
    /// invalid.
    pub dropped_by_device: u64,
    /// Datagrams that the kernel dropped on arrival because the role was too slow for its receive
    /// buffers.
    pub dropped_by_kernel: u64,
}

/// Datagrams that the kernel accepted at the sockets that the role opened by
/// [`Io::open`](crate::Io::open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplicationCounters {
    /// Number of datagrams that the kernel accepted at these sockets.
    pub datagrams: u64,
    /// Payload bytes of the datagrams that the kernel accepted at these sockets.
    pub bytes: u64,
}

impl IoCounters {
    /// Returns the name and value of each counter.
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
            sources_unavailable,
            dropped_source_packets,
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
            ("sources_unavailable", sources_unavailable),
            ("dropped_source_packets", dropped_source_packets),
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

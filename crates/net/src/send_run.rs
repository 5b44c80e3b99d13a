//! Sending of one run of datagrams, and its errors.

use byway_proto::LocalAddresses;
use rustix::io::Errno;

use crate::counters::IoCounters;
use crate::limits::{ERRORS_PER_TURN, QUOTED_BYTES_MAX, TOO_BIG_MAX};
use crate::poller::Poller;
use crate::role::PacketTooBig;
use crate::send_queue::{Run, SendOutcome};
use crate::socket::{Refusal, UdpSocket};
use crate::socket_id::SocketId;
use crate::socket_options::QueuedError;

/// Reads a socket's queued errors; returns true if there were any. While one is queued, the next
/// call on the socket fails with it, whatever the call is.
pub(crate) fn drain_error_queue(socket: &UdpSocket, too_big: &mut Vec<PacketTooBig>) -> bool {
    let mut quoted = [0; QUOTED_BYTES_MAX];
    let mut count = 0;
    while count < ERRORS_PER_TURN
        && let Some(error) = socket.next_error(&mut quoted)
    {
        count += 1;
        if let QueuedError { to: Some(to), mtu: Some(mtu), quoted_bytes } = error
            && too_big.len() < TOO_BIG_MAX
        {
            let headers = if to.is_ipv4() { IPV4_AND_UDP_BYTES } else { IPV6_AND_UDP_BYTES };
            let payload_bytes_max = usize::try_from(mtu).unwrap_or(usize::MAX).saturating_sub(headers);
            let quoted = quoted[..quoted_bytes.min(QUOTED_BYTES_MAX)].to_vec();
            too_big.push(PacketTooBig { to, quoted, payload_bytes_max });
        }
    }
    count > 0
}

/// Lengths in bytes of the headers before a UDP payload.
const IPV4_AND_UDP_BYTES: usize = 20 + 8;
const IPV6_AND_UDP_BYTES: usize = 40 + 8;

/// Counters and lists that sending a run updates.
pub(crate) struct SendContext<'a> {
    pub(crate) counters: &'a mut IoCounters,
    pub(crate) too_big: &'a mut Vec<PacketTooBig>,
    /// True if the run may leave by another uplink.
    pub(crate) has_other_uplink: bool,
}

/// Error of a run that the system refuses to send by its uplink, but maybe not by the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UplinkRefusal;

impl SendContext<'_> {
    /// Records that the next datagram of a run exceeds the MTU of the interface.
    fn add_too_big(&mut self, run: &Run) {
        self.counters.dropped_refused += 1;
        if self.too_big.len() < TOO_BIG_MAX {
            let bytes = run.next(1);
            let quoted = bytes[..bytes.len().min(QUOTED_BYTES_MAX)].to_vec();
            let payload_bytes_max = bytes.len().saturating_sub(1);
            self.too_big.push(PacketTooBig { to: run.to, quoted, payload_bytes_max });
        }
    }
}

/// Most repetitions of a call on a socket with queued ICMP errors. Anybody can send such errors, so
/// they do not make the agent leave an uplink.
const RETRIES_MAX: u8 = 3;

/// Sends a run of datagrams: in one call if the socket accepts that, otherwise one at a time.
///
/// # Errors
/// If the system refuses the uplink of the socket, and there is another one. The rest of the run is
/// not sent.
pub(crate) fn send_run(
    run: &mut Run,
    (id, socket): (SocketId, &mut UdpSocket),
    locals: &mut LocalAddresses,
    poller: &Poller,
    outcome: &mut SendContext<'_>,
) -> Result<SendOutcome, UplinkRefusal> {
    if socket.is_full() {
        return Ok(SendOutcome::WouldBlock);
    }
    let (mut refused, mut source) = (None, locals.source(run.from));
    let mut retries = 0;
    while run.segments() > 0 {
        let segments_max = if refused.is_some() { 1 } else { socket.segments_max(run.segment_bytes) };
        let segments = run.segments().min(segments_max);
        let bytes = run.next(segments);
        match socket.send(run.to, source, run.traffic_class, bytes, run.segment_bytes) {
            Ok(()) => {
                if source.is_none() && locals.source(run.from).is_some() {
                    locals.note_removed(run.from);
                    outcome.counters.sources_unavailable += 1;
                }
                if refused.take().is_some() {
                    socket.on_gso_refused(run.segment_bytes);
                }
                socket.record_refused(None);
                retries = 0;
                let counters = &mut *outcome.counters;
                counters.send_calls += 1;
                counters.gso_calls += u64::from(segments > 1);
                counters.sent += segments as u64;
                counters.sent_bytes += bytes.len() as u64;
                run.advance(segments);
            }
            Err(Refusal::Full) => {
                socket.set_full(poller.watch(socket, id, true).is_ok());
                return Ok(SendOutcome::WouldBlock);
            }
            Err(Refusal::Never(errno)) if source.is_some() && may_be_about_source(errno) => source = None,
            // The error may be an ICMP error of another packet, so the call is repeated.
            Err(Refusal::Never(_)) if retries < RETRIES_MAX && drain_error_queue(socket, outcome.too_big) => {
                retries += 1;
            }
            // The error may be due to GSO, so the first datagram is sent alone.
            Err(Refusal::Never(errno)) if segments > 1 && may_be_about_gso(errno) => refused = Some(errno),
            // Later, shorter datagrams may fit.
            Err(Refusal::Never(Errno::MSGSIZE)) => {
                socket.record_refused(Some((run.to, Errno::MSGSIZE)));
                outcome.add_too_big(run);
                run.advance(1);
            }
            // After so many ICMP errors, this one may be about another packet too.
            Err(Refusal::Never(errno))
                if outcome.has_other_uplink && is_about_uplink(errno) && retries < RETRIES_MAX =>
            {
                return Err(UplinkRefusal);
            }
            Err(Refusal::Never(errno)) => {
                socket.record_refused(Some((run.to, errno)));
                tracing::debug!(to = %run.to, %errno, datagrams = run.segments(), "kernel refused to send");
                outcome.counters.dropped_refused += run.segments() as u64;
                run.advance(run.segments());
            }
        }
    }
    Ok(SendOutcome::Complete)
}

/// True for errors of a source address that the machine no longer has, or that has no route.
const fn may_be_about_source(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NODEV
    )
}

/// True for errors of a device that is down, was removed, or has no route or no address.
const fn is_about_uplink(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NETDOWN | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NODEV | Errno::ADDRNOTAVAIL
    )
}

/// True for errors of GSO: no support in hardware, segments too long for the interface, or options
/// that exclude it.
fn may_be_about_gso(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

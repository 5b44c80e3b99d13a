//! Input and output of a role.

use std::io;
use std::net::{IpAddr, SocketAddr};

use byway_proto::{LocalAddress, LocalAddresses, Transmit};
use byway_units::Time;
use byway_wire::TrafficClass;
use byway_wire::limits::DATAGRAM_BYTES_MAX;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::bind::OverlaySockets;
use crate::clock::Clock;
use crate::counters::{ApplicationCounters, IoCounters};
use crate::device::{Device, of_device};
use crate::limits::{
    APPLICATION_BUFFER_BYTES, DROPS_INTERVAL, ERRORS_PER_TURN, QUOTED_BYTES_MAX, TOO_BIG_MAX,
};
use crate::poller::Poller;
use crate::queues::{PacketKey, PacketMessage, PacketQueues, QueueCounters, Verdict};
use crate::receive_buffers::ReceiveBuffers;
use crate::reserve::is_in_reserve;
use crate::role::{PacketTooBig, SocketId};
use crate::routes::RouteCache;
use crate::send_queue::{Datagram, DropCounts, Run, SendOutcome, SendQueue};
use crate::socket::{Refusal, Sharing, UdpSocket};
use crate::socket_options::{self, QueuedError};
use crate::sockets::{Sockets, role_socket_id};
use crate::steering::shard_byte;

/// Input and output of a role's thread: time, datagrams, sockets, and packets of a device.
#[derive(Debug)]
pub struct Io {
    clock: Clock,
    now: Time,
    pub(crate) poller: Poller,
    sockets: Sockets,
    /// Firewall mark of the packets of all sockets; `None` for none.
    mark: Option<u32>,
    locals: LocalAddresses,
    /// Cache of source addresses, for nodes that move.
    routes: Option<RouteCache>,
    device: Option<Device>,
    queues: Option<PacketQueues>,
    send_queue: SendQueue,
    counters: IoCounters,
    applications: ApplicationCounters,
    /// Packets that exceeded a path MTU, of which the role is notified next.
    too_big: Vec<PacketTooBig>,
    /// Time of the next reading of the kernel's drop counters.
    next_drops: Time,
}

impl Io {
    pub(crate) fn new(overlay: OverlaySockets, clock: Clock) -> io::Result<Self> {
        let poller = Poller::new(clock)?;
        let mark = overlay.mark();
        let routes = overlay.roams().then(RouteCache::new);
        let sockets = overlay.into_sockets();
        for (id, socket) in sockets.overlay() {
            poller.add(socket, id)?;
        }
        Ok(Self {
            clock,
            now: clock.now(),
            poller,
            sockets,
            mark,
            locals: LocalAddresses::default(),
            routes,
            device: None,
            queues: None,
            send_queue: SendQueue::new(),
            counters: IoCounters::default(),
            applications: ApplicationCounters::default(),
            too_big: Vec::new(),
            next_drops: Time::START,
        })
    }

    /// Returns the time of the present input, as of its arrival.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Queues a datagram. It is sent at the end of the present batch, or earlier if much is queued:
    /// source packets before scavengers. Datagrams that cannot be sent are counted.
    ///
    /// Datagrams of one priority to one destination are sent in order.
    #[inline]
    pub fn send(&mut self, socket: SocketId, transmit: &Transmit<'_>) {
        self.send_as(socket, transmit, transmit.ecn.into());
    }

    /// Sends a datagram like [`send`](Self::send), with this traffic class instead of the ECN field
    /// of `transmit`.
    #[inline]
    pub fn send_as(&mut self, socket: SocketId, transmit: &Transmit<'_>, traffic_class: TrafficClass) {
        let to = unmapped(transmit.to);
        let Some(slot) = self.sockets.slot_towards(socket, &to) else {
            return self.count_unsendable(socket);
        };
        if to.port() == 0 || transmit.bytes.len() > DATAGRAM_BYTES_MAX {
            return self.count_unsendable(socket);
        }
        let Some((_, sending)) = self.sockets.at(slot) else {
            return self.count_unsendable(socket);
        };
        let shard = if socket == SocketId::OVERLAY { shard_byte(transmit.bytes) } else { 0 };
        let datagram = Datagram {
            socket: slot,
            to,
            from: transmit.from,
            shard,
            traffic_class,
            priority: transmit.priority,
            bytes: transmit.bytes,
            segments_max: sending.segments_max(transmit.bytes.len()),
        };
        if !self.send_queue.add(&datagram) {
            self.flush_and_add(&datagram);
        }
    }

    #[cold]
    fn flush_and_add(&mut self, datagram: &Datagram<'_>) {
        self.flush();
        assert!(self.send_queue.add(datagram), "a flush empties the queue by half");
    }

    #[cold]
    fn count_unsendable(&mut self, socket: SocketId) {
        let is_open = socket == SocketId::OVERLAY || self.sockets.get(socket).is_some();
        let counter =
            if is_open { &mut self.counters.dropped_unsendable } else { &mut self.counters.dropped_closed };
        *counter += 1;
    }

    /// Opens a socket for applications. It receives datagrams only from its own address family.
    ///
    /// # Errors
    /// If the kernel refuses, or the socket would use a reserved file descriptor. If the limit of
    /// file descriptors is the reason, the error names it.
    pub fn open(&mut self, bind: SocketAddr) -> io::Result<SocketId> {
        let socket = UdpSocket::bind(unmapped(bind), Sharing::Alone, APPLICATION_BUFFER_BYTES);
        let socket = socket.map_err(|error| explained(&error, bind))?;
        if is_in_reserve(&socket) {
            return Err(explained(&Errno::MFILE.into(), bind));
        }
        if let Some(mark) = self.mark {
            socket_options::mark(&socket, mark)?;
        }
        let (id, socket) = self.sockets.insert(socket);
        let added = self.poller.add(socket, id);
        if added.is_err() {
            self.sockets.remove(id);
        }
        added.map(|()| id)
    }

    /// Returns the bound address of a socket; `None` if it is closed. For [`SocketId::OVERLAY`],
    /// that of the first socket.
    #[must_use]
    pub fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        if socket == SocketId::OVERLAY {
            return self.overlay_addresses().next();
        }
        self.sockets.get(socket).map(UdpSocket::local)
    }

    /// Returns the bound addresses of the overlay's sockets, IPv4 first.
    pub fn overlay_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.overlay().map(|(_, socket)| socket.local())
    }

    /// Closes a socket of [`open`](Self::open), unless it is closed. Its queued datagrams are sent
    /// before, as far as the kernel accepts them.
    ///
    /// # Panics
    /// If it is [`SocketId::OVERLAY`].
    pub fn close(&mut self, socket: SocketId) {
        assert!(socket != SocketId::OVERLAY, "the overlay's sockets live as long as the thread");
        if self.sockets.get(socket).is_none() {
            return;
        }
        self.flush();
        self.counters.dropped_closed += self.send_queue.discard_socket(socket.slot);
        // Closing it also removes it from epoll.
        self.sockets.remove(socket);
    }

    /// Sets the firewall mark of all sockets' packets; 0 for none.
    ///
    /// # Errors
    /// If the process lacks `CAP_NET_ADMIN`. Then all marks stay as they were.
    pub fn mark(&mut self, mark: u32) -> io::Result<()> {
        let before = self.mark.replace(mark).unwrap_or_default();
        let marked = self.sockets.iter().try_for_each(|socket| socket_options::mark(socket, mark));
        if marked.is_err() {
            self.mark = (before != 0).then_some(before);
            // Sockets that accepted the new mark accept the old one, too.
            self.sockets.iter().for_each(|socket| drop(socket_options::mark(socket, before)));
        }
        marked
    }

    /// Adds a device: its packets are passed to
    /// [`Role::on_device_packet`](crate::Role::on_device_packet) from now on. A device error ends
    /// the thread.
    ///
    /// # Errors
    /// If the kernel does not let the thread wait for it.
    pub fn open_device(&mut self, device: Device) -> io::Result<()> {
        self.poller.add_device(&device)?;
        self.device = Some(device);
        Ok(())
    }

    /// Adds packet queues: their packets are passed to
    /// [`Role::on_queued_packet`](crate::Role::on_queued_packet) from now on. An error of the
    /// queues ends the thread.
    ///
    /// # Errors
    /// If the kernel does not let the thread wait for them.
    pub fn open_queues(&mut self, queues: PacketQueues) -> io::Result<()> {
        self.poller.add_queues(&queues)?;
        self.queues = Some(queues);
        Ok(())
    }

    /// Removes and returns the device. Dropping it removes the system's device and its routes.
    pub fn close_device(&mut self) -> Option<Device> {
        self.device.take()
    }

    /// Removes and returns the packet queues, if there are any.
    pub fn close_queues(&mut self) -> Option<PacketQueues> {
        self.queues.take()
    }

    /// Sets the queue numbers, in place of the present ones. Queues in both sets lose no packet.
    ///
    /// # Errors
    /// If a queue cannot be bound or waited for. Then all are unchanged.
    pub fn rebind_queues(&mut self, queues: &[u16]) -> io::Result<()> {
        match &mut self.queues {
            Some(bound) => bound.rebind(queues).map_err(io::Error::other),
            None if queues.is_empty() => Ok(()),
            None => self.open_queues(PacketQueues::bind(queues).map_err(io::Error::other)?),
        }
    }

    /// Returns the counters of the packet queues; `None` without queues.
    #[must_use]
    pub fn queue_counters(&self) -> Option<QueueCounters> {
        self.queues.as_ref().map(|queues| queues.counters)
    }

    /// Sends an IP packet to the system at once, as if received at the device; returns true if the
    /// system accepted it. Rejected packets are counted.
    pub fn send_to_device(&mut self, packet: &[u8]) -> bool {
        let is_accepted = self.device.as_ref().is_some_and(|device| device.send(packet).is_ok());
        self.counters.dropped_by_device += u64::from(!is_accepted);
        is_accepted
    }

    /// Receives the next packet of the device, and returns its length in bytes; `None` if none
    /// waits.
    pub(crate) fn receive_from_device(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(device) = &self.device else {
            return Ok(None);
        };
        match device.receive(packet) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(of_device(error)),
        }
    }

    /// Receives the next packet of the packet queues; `None` if none waits. The packet waits for
    /// its verdict.
    pub(crate) fn receive_queued(&mut self, message: &mut [u8]) -> io::Result<Option<PacketMessage>> {
        self.queues.as_mut().map_or(Ok(None), |queues| queues.receive(message))
    }

    /// Queues the verdict on a packet, for [`send_verdicts`](Self::send_verdicts).
    pub(crate) fn queue_verdict(&mut self, key: PacketKey, verdict: Verdict) {
        if let Some(queues) = &mut self.queues {
            queues.queue_verdict(key, verdict);
        }
    }

    /// Sends the queued verdicts to the kernel.
    pub(crate) fn send_verdicts(&mut self) -> io::Result<()> {
        self.queues.as_mut().map_or(Ok(()), PacketQueues::send_verdicts)
    }

    /// Returns the counters of all of the role's sockets.
    #[must_use]
    pub const fn counters(&self) -> &IoCounters {
        &self.counters
    }

    /// Returns the counters of datagrams sent by the sockets of [`open`](Self::open).
    #[must_use]
    pub const fn applications(&self) -> &ApplicationCounters {
        &self.applications
    }

    /// Returns the kernel's error for the last datagram of a socket, if it was refused and was sent
    /// to this address.
    #[must_use]
    pub fn refusal(&self, socket: SocketId, to: SocketAddr) -> Option<io::Error> {
        let (refused, errno) = self.sockets.get(socket)?.last_refusal()?;
        (refused == to).then(|| errno.into())
    }

    /// Reads the clock, before the next input.
    pub(crate) fn update_now(&mut self) {
        self.now = self.clock.now();
    }

    pub(crate) fn is_open(&self, socket: SocketId) -> bool {
        self.sockets.get(socket).is_some()
    }

    /// Receives a batch of datagrams from a socket; returns the number of rows, 0 without any.
    pub(crate) fn receive(&mut self, id: SocketId, buffers: &mut ReceiveBuffers) -> usize {
        let Some(socket) = self.sockets.get(id) else {
            return 0;
        };
        match buffers.receive(socket, role_socket_id(id) != SocketId::OVERLAY) {
            Ok(rows) => {
                self.counters.receive_batches += 1;
                rows
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                tracing::debug!(socket = %socket.local(), %error, "cannot receive from a socket");
                self.counters.receive_errors += 1;
                0
            }
        }
    }

    /// Returns the local address for answers to a datagram; unspecified if the system should choose
    /// it.
    #[inline]
    pub(crate) fn answering_address(
        &mut self,
        socket: SocketId,
        from: SocketAddr,
        to: Option<IpAddr>,
    ) -> LocalAddress {
        let is_wildcard = self.sockets.get(socket).is_some_and(UdpSocket::is_wildcard);
        let Some(to) = to.filter(|_| is_wildcard) else {
            return LocalAddress::ANY;
        };
        let is_overlay = role_socket_id(socket) == SocketId::OVERLAY;
        let (mark, now) = (self.mark, self.now);
        let routes = self.routes.as_mut().filter(|_| is_overlay);
        if routes.is_some_and(|routes| routes.prefers_source(to, from, mark, now)) {
            return LocalAddress::ANY;
        }
        self.locals.number(to)
    }

    pub(crate) const fn count_received(&mut self, bytes: usize) {
        self.counters.received += 1;
        self.counters.received_bytes += bytes as u64;
    }

    pub(crate) const fn count_closed(&mut self) {
        self.counters.dropped_closed += 1;
    }

    /// Handles a socket whose kernel buffer has free space again: the next flush sends from it.
    pub(crate) fn on_writable(&mut self, id: SocketId) -> io::Result<()> {
        match self.sockets.at(id.slot) {
            Some((found, socket)) if found == id && socket.is_full() => {
                socket.set_full(false);
                self.poller.watch(socket, id, false)
            }
            _ => Ok(()),
        }
    }

    /// Sends the queued datagrams, as many as the kernel accepts.
    pub(crate) fn flush(&mut self) {
        if self.send_queue.is_empty() {
            return;
        }
        let Self { poller, sockets, locals, send_queue, counters, applications, too_big, .. } = self;
        let DropCounts { source_packets, scavengers } = send_queue.flush(|run| {
            let Some((id, socket)) = sockets.at(run.socket) else {
                unreachable!("datagrams of a closed socket are discarded");
            };
            let (sent, sent_bytes) = (counters.sent, counters.sent_bytes);
            let mut outcome = SendContext { counters, too_big };
            let is_sent = send_run(run, (id, socket), locals, poller, &mut outcome);
            if role_socket_id(id) != SocketId::OVERLAY {
                applications.datagrams += counters.sent - sent;
                applications.bytes += counters.sent_bytes - sent_bytes;
            }
            is_sent
        });
        self.counters.dropped_source_packets += source_packets;
        self.counters.dropped_scavengers += scavengers;
    }

    /// Reads the errors that the kernel has queued for a socket, about packets that were too long.
    pub(crate) fn drain_errors(&mut self, id: SocketId) {
        if let Some((found, socket)) = self.sockets.at(id.slot)
            && found == id
        {
            drain_error_queue(socket, &mut self.too_big);
        }
    }

    /// Removes and returns a packet that exceeded a path MTU, of which the role should know.
    pub(crate) fn next_too_big(&mut self) -> Option<PacketTooBig> {
        self.too_big.pop()
    }

    /// Adds the kernel's drop counters to the role's, at intervals of a second.
    pub(crate) fn count_drops(&mut self) {
        if self.now < self.next_drops {
            return;
        }
        self.next_drops = self.now + DROPS_INTERVAL;
        let dropped: u64 = self.sockets.overlay_mut().map(|socket| u64::from(socket.newly_dropped())).sum();
        self.counters.dropped_by_kernel += dropped;
        if let Some(queues) = &mut self.queues {
            queues.count_overruns();
        }
    }
}

/// Reads a socket's queued errors; returns true if there were any. While one is queued, the next
/// call on the socket fails with it, whatever the call is.
fn drain_error_queue(socket: &UdpSocket, too_big: &mut Vec<PacketTooBig>) -> bool {
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
struct SendContext<'a> {
    counters: &'a mut IoCounters,
    too_big: &'a mut Vec<PacketTooBig>,
}

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

/// Sends a run of datagrams: in one call if the socket accepts that, otherwise one at a time.
fn send_run(
    run: &mut Run,
    (id, socket): (SocketId, &mut UdpSocket),
    locals: &mut LocalAddresses,
    poller: &Poller,
    outcome: &mut SendContext<'_>,
) -> SendOutcome {
    if socket.is_full() {
        return SendOutcome::WouldBlock;
    }
    let (mut refused, mut source) = (None, locals.source(run.from));
    let mut has_tried_again = false;
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
                let counters = &mut *outcome.counters;
                counters.send_calls += 1;
                counters.gso_calls += u64::from(segments > 1);
                counters.sent += segments as u64;
                counters.sent_bytes += bytes.len() as u64;
                run.advance(segments);
            }
            Err(Refusal::Full) => {
                socket.set_full(poller.watch(socket, id, true).is_ok());
                return SendOutcome::WouldBlock;
            }
            Err(Refusal::Never(errno)) if source.is_some() && may_be_about_source(errno) => source = None,
            // The error may be an ICMP error of another packet, so the call is repeated once.
            Err(Refusal::Never(_)) if !has_tried_again && drain_error_queue(socket, outcome.too_big) => {
                has_tried_again = true;
            }
            // The error may be due to GSO, so the first datagram is sent alone.
            Err(Refusal::Never(errno)) if segments > 1 && may_be_about_gso(errno) => refused = Some(errno),
            // Later, shorter datagrams may fit.
            Err(Refusal::Never(Errno::MSGSIZE)) => {
                socket.record_refused(Some((run.to, Errno::MSGSIZE)));
                outcome.add_too_big(run);
                run.advance(1);
            }
            Err(Refusal::Never(errno)) => {
                socket.record_refused(Some((run.to, errno)));
                tracing::debug!(to = %run.to, %errno, datagrams = run.segments(), "kernel refused to send");
                outcome.counters.dropped_refused += run.segments() as u64;
                run.advance(run.segments());
            }
        }
    }
    SendOutcome::Complete
}

/// True for errors of a source address that the machine no longer has, or that has no route.
const fn may_be_about_source(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NODEV
    )
}

/// True for errors of GSO: no support in hardware, segments too long for the interface, or options
/// that exclude it.
fn may_be_about_gso(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

/// Returns an IPv4-mapped IPv6 address as IPv4, and others unchanged.
#[inline]
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Returns an error of opening a socket with its address, and the remedy if there is one.
fn explained(error: &io::Error, bind: SocketAddr) -> io::Error {
    let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => match getrlimit(Resource::Nofile).current {
            Some(limit) => format!("; the process may open {limit} files: raise LimitNOFILE or ulimit -n"),
            None => String::new(),
        },
        Some(Errno::NFILE) => "; the system has too many open files: raise fs.file-max".to_owned(),
        _ => String::new(),
    };
    io::Error::new(error.kind(), format!("cannot open a socket at {bind}: {error}{remedy}"))
}

#[cfg(test)]
mod tests;

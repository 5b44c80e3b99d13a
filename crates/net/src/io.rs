//! Input and output of a role.

use std::io;
use std::net::{IpAddr, SocketAddr};

use byway_proto::{LocalAddress, LocalAddresses, Transmit, Uplink};
use byway_units::Time;
use byway_wire::TrafficClass;
use byway_wire::limits::DATAGRAM_BYTES_MAX;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::bind::OverlaySockets;
use crate::clock::Clock;
use crate::counters::{ApplicationCounters, IoCounters};
use crate::device::{Device, of_device};
use crate::limits::{APPLICATION_BUFFER_BYTES, DROPS_INTERVAL, UPLINK_REFUSALS_MAX};
use crate::poller::Poller;
use crate::queues::{PacketKey, PacketMessage, PacketQueues, QueueCounters, Verdict};
use crate::receive_buffers::ReceiveBuffers;
use crate::reserve::is_in_reserve;
use crate::role::PacketTooBig;
use crate::routes::RouteCache;
use crate::send_queue::{Datagram, DropCounts, Run, SendOutcome, SendQueue};
use crate::send_run::{SendContext, drain_error_queue, send_run};
use crate::socket::{Sharing, UdpSocket};
use crate::socket_id::SocketId;
use crate::socket_options;
use crate::sockets::{Sockets, other_uplink_slot, role_socket_id, uplink_of};
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
    /// Uplinks by which the system refused to send to an address, of which the role is notified
    /// next.
    refused: Vec<(Uplink, SocketAddr)>,
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
        let routes = overlay.roams().then(|| RouteCache::new(overlay.devices()));
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
            refused: Vec::new(),
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
        let Some(slot) = self.sockets.slot_towards(socket, &to, transmit.from.uplink()) else {
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
        let uplink = uplink_of(socket);
        let Some(to) = to.filter(|_| is_wildcard) else {
            return LocalAddress::any_at(uplink);
        };
        let is_overlay = role_socket_id(socket) == SocketId::OVERLAY;
        let (mark, now) = (self.mark, self.now);
        let routes = self.routes.as_mut().filter(|_| is_overlay);
        if routes.is_some_and(|routes| routes.prefers_source(to, (from, uplink), mark, now)) {
            return LocalAddress::any_at(uplink);
        }
        self.locals.number(to).at(uplink)
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
        let Self { poller, sockets, locals, send_queue, counters, applications, too_big, refused, .. } = self;
        let DropCounts { source_packets, scavengers } = send_queue.flush(|run| {
            let other = other_uplink_slot(run.socket).filter(|slot| sockets.at(*slot).is_some());
            let Some((id, socket)) = sockets.at(run.socket) else {
                unreachable!("datagrams of a closed socket are discarded");
            };
            let (sent, sent_bytes) = (counters.sent, counters.sent_bytes);
            let mut outcome = SendContext { counters, too_big, has_other_uplink: other.is_some() };
            let is_sent = if let Ok(is_sent) = send_run(run, (id, socket), locals, poller, &mut outcome) {
                is_sent
            } else {
                note_refusal(refused, (uplink_of(id), run.to));
                send_by_other_uplink(run, other, sockets, locals, (poller, &mut outcome))
            };
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

    /// Removes and returns an uplink by which the system refused to send to an address.
    pub(crate) fn next_refused(&mut self) -> Option<(Uplink, SocketAddr)> {
        self.refused.pop()
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

/// Records a refusal for the role, once for each address and uplink.
fn note_refusal(refused: &mut Vec<(Uplink, SocketAddr)>, refusal: (Uplink, SocketAddr)) {
    if refused.len() < UPLINK_REFUSALS_MAX && !refused.contains(&refusal) {
        refused.push(refusal);
    }
}

/// Sends a run that the system refuses by one uplink with the socket `slot` of the other one, from
/// the address that the system chooses there.
fn send_by_other_uplink(
    run: &mut Run,
    slot: Option<u32>,
    sockets: &mut Sockets,
    locals: &mut LocalAddresses,
    (poller, outcome): (&Poller, &mut SendContext<'_>),
) -> SendOutcome {
    let Some((id, socket)) = slot.and_then(|slot| sockets.at(slot)) else {
        return SendOutcome::Complete;
    };
    run.change_socket(id.slot, LocalAddress::any_at(uplink_of(id)));
    outcome.has_other_uplink = false;
    send_run(run, (id, socket), locals, poller, outcome).unwrap_or(SendOutcome::Complete)
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

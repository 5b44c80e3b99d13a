//! What a role may do with the world.

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
use crate::counters::{Applications, IoCounters};
use crate::device::{Device, of_device};
use crate::limits::{
    APPLICATION_BUFFER_BYTES, DROPS_INTERVAL, ERRORS_PER_TURN, QUOTED_BYTES_MAX, TOO_LONG_MAX,
};
use crate::outgoing::{Datagram, Dropped, Outgoing, Run, Sent};
use crate::poller::Poller;
use crate::queues::{Found, Key, PacketQueues, QueueCounters, Verdict};
use crate::receive_buffers::ReceiveBuffers;
use crate::reserve::is_in_reserve;
use crate::role::{SocketId, TooLong};
use crate::routes::Routes;
use crate::socket::{Refusal, Sharing, UdpSocket};
use crate::socket_options::{self, QueuedError};
use crate::sockets::{Sockets, roles_name};
use crate::steering::shard_byte;

/// What a role may do with the world: tell the time, send, open and close sockets, give packets to a device.
#[derive(Debug)]
pub struct Io {
    clock: Clock,
    now: Time,
    pub(crate) poller: Poller,
    sockets: Sockets,
    /// What marks the packets of all sockets.
    mark: Option<u32>,
    locals: LocalAddresses,
    /// Of nodes that move.
    routes: Option<Routes>,
    device: Option<Device>,
    queues: Option<PacketQueues>,
    outgoing: Outgoing,
    counters: IoCounters,
    applications: Applications,
    /// Packets that were too long, of which the role is to be told.
    too_long: Vec<TooLong>,
    /// When the kernel is asked next what it dropped.
    next_drops: Time,
}

impl Io {
    pub(crate) fn new(overlay: OverlaySockets, clock: Clock) -> io::Result<Self> {
        let poller = Poller::new(clock)?;
        let mark = overlay.mark();
        let routes = overlay.roams().then(Routes::new);
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
            outgoing: Outgoing::new(),
            counters: IoCounters::default(),
            applications: Applications::default(),
            too_long: Vec::new(),
            next_drops: Time::START,
        })
    }

    /// The time of the input that is being handled.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Sends a datagram at the end of the batch that is being handled, or before if much is to be sent: originals
    /// before scavengers. What cannot be sent is counted.
    ///
    /// Datagrams of one urgency to one destination go out in the order in which they were given.
    #[inline]
    pub fn send(&mut self, socket: SocketId, transmit: &Transmit<'_>) {
        self.send_as(socket, transmit, transmit.ecn.into());
    }

    /// Sends a datagram like [`send`](Self::send), with this traffic class instead of the ECN field of `transmit`.
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
            urgency: transmit.urgency,
            bytes: transmit.bytes,
            segments_max: sending.segments_max(transmit.bytes.len()),
        };
        if !self.outgoing.add(&datagram) {
            self.flush_and_add(&datagram);
        }
    }

    #[cold]
    fn flush_and_add(&mut self, datagram: &Datagram<'_>) {
        self.flush();
        assert!(self.outgoing.add(datagram), "a flush makes room");
    }

    #[cold]
    fn count_unsendable(&mut self, socket: SocketId) {
        let is_open = socket == SocketId::OVERLAY || self.sockets.get(socket).is_some();
        let counter =
            if is_open { &mut self.counters.dropped_unsendable } else { &mut self.counters.dropped_closed };
        *counter += 1;
    }

    /// Opens a socket for applications. Datagrams come to it only from its own family of addresses.
    ///
    /// # Errors
    /// If the kernel refuses, or the socket would take a descriptor that is kept in reserve. Where the limit of descriptors is
    /// the reason, the error names it.
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

    /// Where a socket is bound; `None` if it is closed. Of the overlay's sockets the first.
    #[must_use]
    pub fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        if socket == SocketId::OVERLAY {
            return self.overlay_addresses().next();
        }
        self.sockets.get(socket).map(UdpSocket::local)
    }

    /// Where the overlay's sockets are bound, IPv4 first.
    pub fn overlay_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.overlay().map(|(_, socket)| socket.local())
    }

    /// Closes a socket of [`open`](Self::open), if it is open. What it has to send is sent, unless the kernel takes
    /// no more.
    ///
    /// # Panics
    /// If it is [`SocketId::OVERLAY`].
    pub fn close(&mut self, socket: SocketId) {
        assert!(socket != SocketId::OVERLAY, "the overlay's sockets live as long as the thread");
        if self.sockets.get(socket).is_none() {
            return;
        }
        self.flush();
        self.counters.dropped_closed += self.outgoing.forget(socket.slot);
        // Closing it also ends the poller's watch.
        self.sockets.remove(socket);
    }

    /// Marks the packets of all sockets from now on; 0: with nothing.
    ///
    /// # Errors
    /// If the process may not: it takes `CAP_NET_ADMIN`. Then all are as they were.
    pub fn mark(&mut self, mark: u32) -> io::Result<()> {
        let before = self.mark.replace(mark).unwrap_or_default();
        let marked = self.sockets.iter().try_for_each(|socket| socket_options::mark(socket, mark));
        if marked.is_err() {
            self.mark = (before != 0).then_some(before);
            // Those that took the new one take the old one, too.
            self.sockets.iter().for_each(|socket| drop(socket_options::mark(socket, before)));
        }
        marked
    }

    /// Takes a device: its packets come to [`Role::packet`](crate::Role::packet) from now on. A device that fails ends the thread.
    ///
    /// # Errors
    /// If the kernel does not let the thread wait for it.
    pub fn open_device(&mut self, device: Device) -> io::Result<()> {
        self.poller.add_device(&device)?;
        self.device = Some(device);
        Ok(())
    }

    /// Takes queues: their packets come to [`Role::queued`](crate::Role::queued) from now on. Queues that fail end the thread.
    ///
    /// # Errors
    /// If the kernel does not let the thread wait for them.
    pub fn open_queues(&mut self, queues: PacketQueues) -> io::Result<()> {
        self.poller.add_queues(&queues)?;
        self.queues = Some(queues);
        Ok(())
    }

    /// Gives the device back, if there is one. Dropping it ends the system's device.
    pub fn close_device(&mut self) -> Option<Device> {
        self.device.take()
    }

    /// Gives the queues back, if there are any.
    pub fn close_queues(&mut self) -> Option<PacketQueues> {
        self.queues.take()
    }

    /// Takes packets of these queues from now on, and of no others. Queues that stay lose nothing.
    ///
    /// # Errors
    /// If one cannot be had, or not be waited for. Then all are as they were.
    pub fn change_queues(&mut self, queues: &[u16]) -> io::Result<()> {
        match &mut self.queues {
            Some(bound) => bound.change(queues).map_err(io::Error::other),
            None if queues.is_empty() => Ok(()),
            None => self.open_queues(PacketQueues::bind(queues).map_err(io::Error::other)?),
        }
    }

    /// What became of the packets of queues so far; `None` without queues.
    #[must_use]
    pub fn queue_counters(&self) -> Option<QueueCounters> {
        self.queues.as_ref().map(|queues| queues.counters)
    }

    /// Gives the system an IP packet as if it had come by the device, at once; whether it was taken. What is not is counted.
    pub fn give_packet(&mut self, packet: &[u8]) -> bool {
        let is_taken = self.device.as_ref().is_some_and(|device| device.send(packet).is_ok());
        self.counters.dropped_by_device += u64::from(!is_taken);
        is_taken
    }

    /// The length of the next packet of the device, if there is one.
    pub(crate) fn take_packet(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(device) = &self.device else {
            return Ok(None);
        };
        match device.receive(packet) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(of_device(error)),
        }
    }

    /// The next packet of a queue, if there is one: it waits for its verdict.
    pub(crate) fn take_queued(&mut self, message: &mut [u8]) -> io::Result<Option<Found>> {
        self.queues.as_mut().map_or(Ok(None), |queues| queues.receive(message))
    }

    /// Notes what becomes of a packet of a queue.
    pub(crate) fn decide(&mut self, key: Key, verdict: Verdict) {
        if let Some(queues) = &mut self.queues {
            queues.decide(key, verdict);
        }
    }

    /// Tells the kernel what is noted.
    pub(crate) fn tell_verdicts(&mut self) -> io::Result<()> {
        self.queues.as_mut().map_or(Ok(()), PacketQueues::tell)
    }

    /// What went through the role's sockets so far.
    #[must_use]
    pub const fn counters(&self) -> &IoCounters {
        &self.counters
    }

    /// Returns what the kernel took at the sockets of [`open`](Self::open).
    #[must_use]
    pub const fn applications(&self) -> &Applications {
        &self.applications
    }

    /// Returns why the kernel refused the last datagram of a socket, if it did, and that was to this address.
    #[must_use]
    pub fn refusal(&self, socket: SocketId, to: SocketAddr) -> Option<io::Error> {
        let (refused, errno) = self.sockets.get(socket)?.refused()?;
        (refused == to).then(|| errno.into())
    }

    /// Reads the clock.
    pub(crate) fn update_now(&mut self) {
        self.now = self.clock.now();
    }

    pub(crate) fn is_open(&self, socket: SocketId) -> bool {
        self.sockets.get(socket).is_some()
    }

    /// Receives a batch; how many rows.
    pub(crate) fn receive(&mut self, id: SocketId, buffers: &mut ReceiveBuffers) -> usize {
        let Some(socket) = self.sockets.get(id) else {
            return 0;
        };
        match buffers.receive(socket, roles_name(id) != SocketId::OVERLAY) {
            Ok(rows) => {
                self.counters.receive_batches += 1;
                rows
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                tracing::debug!(socket = %socket.local(), %error, "a socket cannot receive");
                self.counters.receive_errors += 1;
                0
            }
        }
    }

    /// Returns the local address that answers to a datagram leave from.
    #[inline]
    pub(crate) fn asked_at(
        &mut self,
        socket: SocketId,
        from: SocketAddr,
        to: Option<IpAddr>,
    ) -> LocalAddress {
        let is_wildcard = self.sockets.get(socket).is_some_and(UdpSocket::is_wildcard);
        let Some(to) = to.filter(|_| is_wildcard) else {
            return LocalAddress::ANY;
        };
        let is_overlay = roles_name(socket) == SocketId::OVERLAY;
        let (mark, now) = (self.mark, self.now);
        let routes = self.routes.as_mut().filter(|_| is_overlay);
        if routes.is_some_and(|routes| routes.lead_from(to, from, mark, now)) {
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

    /// A socket takes more again.
    pub(crate) fn writable(&mut self, id: SocketId) -> io::Result<()> {
        match self.sockets.at(id.slot) {
            Some((found, socket)) if found == id && socket.is_full() => {
                socket.set_full(false);
                self.poller.watch(socket, id, false)
            }
            _ => Ok(()),
        }
    }

    /// Gives the kernel all that it takes.
    pub(crate) fn flush(&mut self) {
        if self.outgoing.is_empty() {
            return;
        }
        let Self { poller, sockets, locals, outgoing, counters, applications, too_long, .. } = self;
        let Dropped { originals, scavengers } = outgoing.flush(|run| {
            let Some((id, socket)) = sockets.at(run.socket) else {
                unreachable!("what a socket has to send goes when it is closed");
            };
            let (sent, sent_bytes) = (counters.sent, counters.sent_bytes);
            let mut outcome = Outcome { counters, too_long };
            let is_sent = send_run(run, (id, socket), locals, poller, &mut outcome);
            if roles_name(id) != SocketId::OVERLAY {
                applications.datagrams += counters.sent - sent;
                applications.bytes += counters.sent_bytes - sent_bytes;
            }
            is_sent
        });
        self.counters.dropped_originals += originals;
        self.counters.dropped_scavengers += scavengers;
    }

    /// Takes what the kernel has queued about packets of a socket.
    pub(crate) fn take_errors(&mut self, id: SocketId) {
        if let Some((found, socket)) = self.sockets.at(id.slot)
            && found == id
        {
            take_errors(socket, &mut self.too_long);
        }
    }

    /// The next packet that was too long, of which the role is to be told.
    pub(crate) fn next_too_long(&mut self) -> Option<TooLong> {
        self.too_long.pop()
    }

    /// Asks the kernel now and then what it dropped.
    pub(crate) fn count_drops(&mut self) {
        if self.now < self.next_drops {
            return;
        }
        self.next_drops = self.now + DROPS_INTERVAL;
        let dropped: u64 = self.sockets.overlay_mut().map(|socket| u64::from(socket.newly_dropped())).sum();
        self.counters.dropped_by_kernel += dropped;
        if let Some(queues) = &mut self.queues {
            queues.count_unseen();
        }
    }
}

/// Takes the errors that the kernel has queued; true if there were any. As long as some wait, the next call about the
/// socket fails with them, whatever it is about.
fn take_errors(socket: &UdpSocket, too_long: &mut Vec<TooLong>) -> bool {
    let mut quoted = [0; QUOTED_BYTES_MAX];
    let mut count = 0;
    while count < ERRORS_PER_TURN
        && let Some(error) = socket.next_error(&mut quoted)
    {
        count += 1;
        if let QueuedError { to: Some(to), mtu: Some(mtu), quoted_bytes } = error
            && too_long.len() < TOO_LONG_MAX
        {
            let headers = if to.is_ipv4() { IPV4_AND_UDP_BYTES } else { IPV6_AND_UDP_BYTES };
            let payload_bytes_max = usize::try_from(mtu).unwrap_or(usize::MAX).saturating_sub(headers);
            let quoted = quoted[..quoted_bytes.min(QUOTED_BYTES_MAX)].to_vec();
            too_long.push(TooLong { to, quoted, payload_bytes_max });
        }
    }
    count > 0
}

/// Headers beside a UDP payload.
const IPV4_AND_UDP_BYTES: usize = 20 + 8;
const IPV6_AND_UDP_BYTES: usize = 40 + 8;

/// What becomes of runs.
struct Outcome<'a> {
    counters: &'a mut IoCounters,
    too_long: &'a mut Vec<TooLong>,
}

impl Outcome<'_> {
    /// Notes that the next datagram of a run is too long for the interface.
    fn add_too_long(&mut self, run: &Run) {
        self.counters.dropped_refused += 1;
        if self.too_long.len() < TOO_LONG_MAX {
            let bytes = run.next(1);
            let quoted = bytes[..bytes.len().min(QUOTED_BYTES_MAX)].to_vec();
            let payload_bytes_max = bytes.len().saturating_sub(1);
            self.too_long.push(TooLong { to: run.to, quoted, payload_bytes_max });
        }
    }
}

/// Sends a run: at once if the socket takes that, one by one if not.
fn send_run(
    run: &mut Run,
    (id, socket): (SocketId, &mut UdpSocket),
    locals: &mut LocalAddresses,
    poller: &Poller,
    outcome: &mut Outcome<'_>,
) -> Sent {
    if socket.is_full() {
        return Sent::Kept;
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
                    locals.note_gone(run.from);
                    outcome.counters.sources_gone += 1;
                }
                if refused.take().is_some() {
                    socket.learn_refusal(run.segment_bytes);
                }
                socket.note_refused(None);
                let counters = &mut *outcome.counters;
                counters.send_calls += 1;
                counters.gso_calls += u64::from(segments > 1);
                counters.sent += segments as u64;
                counters.sent_bytes += bytes.len() as u64;
                run.advance(segments);
            }
            Err(Refusal::Full) => {
                socket.set_full(poller.watch(socket, id, true).is_ok());
                return Sent::Kept;
            }
            Err(Refusal::Never(errno)) if source.is_some() && may_be_about_source(errno) => source = None,
            // Perhaps it is what ICMP said of another packet: the next try will show.
            Err(Refusal::Never(_)) if !has_tried_again && take_errors(socket, outcome.too_long) => {
                has_tried_again = true;
            }
            // Perhaps only because they are several: the first alone will show.
            Err(Refusal::Never(errno)) if segments > 1 && may_be_about_gso(errno) => refused = Some(errno),
            // Shorter ones behind it may not be too long.
            Err(Refusal::Never(Errno::MSGSIZE)) => {
                socket.note_refused(Some((run.to, Errno::MSGSIZE)));
                outcome.add_too_long(run);
                run.advance(1);
            }
            Err(Refusal::Never(errno)) => {
                socket.note_refused(Some((run.to, errno)));
                tracing::debug!(to = %run.to, %errno, datagrams = run.segments(), "the kernel refuses to send");
                outcome.counters.dropped_refused += run.segments() as u64;
                run.advance(run.segments());
            }
        }
    }
    Sent::All
}

/// An address that the machine no longer has, or that no route leads from.
const fn may_be_about_source(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NODEV
    )
}

/// Hardware that cannot, segments too long for the interface, or options that exclude it.
fn may_be_about_gso(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

/// An IPv4 address that is mapped into IPv6 as what it is.
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

/// The error with the place, and the remedy where there is one.
fn explained(error: &io::Error, bind: SocketAddr) -> io::Error {
    let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => match getrlimit(Resource::Nofile).current {
            Some(limit) => format!(": the process may open {limit} files: raise LimitNOFILE or ulimit -n"),
            None => String::new(),
        },
        Some(Errno::NFILE) => ": the system has too many open files: raise fs.file-max".to_owned(),
        _ => String::new(),
    };
    io::Error::new(error.kind(), format!("cannot open a socket at {bind}: {error}{remedy}"))
}

#[cfg(test)]
mod tests;

//! Event loop of a role's thread.

use std::io;
use std::sync::mpsc::Receiver;

use crate::io::Io;
use crate::limits::{CONTROLS_PER_TURN, PACKET_BYTES_MAX, PACKETS_PER_TURN};
use crate::poller::Readiness;
use crate::queues::{PacketMessage, QueuedPacket, Verdict};
use crate::receive_buffers::ReceiveBuffers;
use crate::role::{Arrival, Role};
use crate::socket_id::SocketId;
use crate::sockets::role_socket_id;

/// Driver of one role: the role with the sockets, buffers and controls of its thread.
pub(crate) struct Driver<R: Role> {
    role: R,
    io: Io,
    buffers: ReceiveBuffers,
    /// Buffer for an IP packet of the device or of a packet queue; empty until the first.
    packet: Vec<u8>,
    controls: Receiver<R::Control>,
    /// True if a wake-up may have announced controls that are not handled yet.
    has_pending_controls: bool,
}

impl<R: Role> Driver<R> {
    pub(crate) fn new(role: R, io: Io, controls: Receiver<R::Control>) -> Self {
        Self {
            role,
            io,
            buffers: ReceiveBuffers::new(),
            packet: Vec::new(),
            controls,
            has_pending_controls: false,
        }
    }

    /// Runs turns until the role is finished, or waiting fails.
    pub(crate) fn run(mut self) -> io::Result<()> {
        self.start();
        while !self.role.is_finished() {
            self.turn()?;
        }
        Ok(())
    }

    pub(crate) fn start(&mut self) {
        self.io.update_now();
        self.role.start(&mut self.io);
        self.flush();
    }

    /// Runs one turn: waits for events, handles them, and sends. It receives one batch from each of
    /// a few sockets, checks the deadline after each, and handles a few controls.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        self.io.poller.wait(self.role.deadline(), self.has_pending_controls)?;
        let mut index = 0;
        while let Some(ready) = self.io.poller.ready(index) {
            index += 1;
            match ready {
                Readiness::Expired => {}
                Readiness::Woken => self.has_pending_controls = true,
                Readiness::Device => {
                    self.receive_device_packets()?;
                    self.handle_deadline();
                    self.flush();
                }
                Readiness::Queues => {
                    self.receive_queued_packets()?;
                    self.handle_deadline();
                    self.flush();
                }
                Readiness::Socket { socket, readable, has_errors, writable } => {
                    if has_errors {
                        self.io.drain_errors(socket);
                    }
                    if writable {
                        self.io.on_writable(socket)?;
                    }
                    if readable {
                        self.receive(socket);
                    }
                    self.handle_deadline();
                    self.flush();
                }
            }
        }
        self.handle_deadline();
        self.handle_controls();
        self.flush();
        self.io.count_drops();
        Ok(())
    }

    /// Sends the queued datagrams, and notifies the role of packets that exceeded a path MTU, and
    /// of uplinks that the system refuses.
    fn flush(&mut self) {
        self.io.flush();
        let mut has_notified = false;
        while let Some(packet) = self.io.next_too_big() {
            self.role.on_packet_too_big(&packet, &mut self.io);
            has_notified = true;
        }
        while let Some((uplink, to)) = self.io.next_refused() {
            self.role.on_uplink_refused(uplink, to, &mut self.io);
            has_notified = true;
        }
        if has_notified {
            self.io.flush();
        }
    }

    fn receive(&mut self, socket: SocketId) {
        let id = role_socket_id(socket);
        for index in 0..self.io.receive(socket, &mut self.buffers) {
            self.io.update_now();
            let mut row = self.buffers.row(index);
            let (from, traffic_class) = (row.from, row.traffic_class);
            let to = self.io.answering_address(socket, from, row.to);
            for bytes in row.datagrams() {
                if !self.io.is_open(socket) {
                    self.io.count_closed();
                    continue;
                }
                self.io.count_received(bytes.len());
                let arrival = Arrival { socket: id, from, to, traffic_class, bytes };
                self.role.on_datagram(arrival, &mut self.io);
            }
        }
    }

    fn receive_device_packets(&mut self) -> io::Result<()> {
        self.packet.resize(PACKET_BYTES_MAX, 0);
        for _ in 0..PACKETS_PER_TURN {
            let Some(length) = self.io.receive_from_device(&mut self.packet)? else {
                return Ok(());
            };
            self.io.update_now();
            self.role.on_device_packet(&mut self.packet[..length], &mut self.io);
        }
        Ok(())
    }

    /// Receives packets of the packet queues, and returns a verdict on each to the kernel. Those
    /// that are too long are accepted without the role.
    fn receive_queued_packets(&mut self) -> io::Result<()> {
        self.packet.resize(PACKET_BYTES_MAX, 0);
        for _ in 0..PACKETS_PER_TURN {
            let Some(PacketMessage { key, mark, input_ifindex, output_ifindex, payload }) =
                self.io.receive_queued(&mut self.packet)?
            else {
                break;
            };
            self.io.update_now();
            let verdict = match payload {
                Some(payload) => {
                    let packet = &mut self.packet[payload];
                    self.role.on_queued_packet(
                        QueuedPacket { queue: key.queue, mark, input_ifindex, output_ifindex, packet },
                        &mut self.io,
                    )
                }
                None => Verdict::Accepted,
            };
            self.io.queue_verdict(key, verdict);
        }
        self.io.send_verdicts()
    }

    fn handle_deadline(&mut self) {
        self.io.update_now();
        if self.role.deadline().is_some_and(|deadline| deadline <= self.io.now()) {
            self.role.on_deadline(&mut self.io);
        }
    }

    fn handle_controls(&mut self) {
        if !self.has_pending_controls {
            return;
        }
        for _ in 0..CONTROLS_PER_TURN {
            let Ok(control) = self.controls.try_recv() else {
                self.has_pending_controls = false;
                return;
            };
            self.role.on_control(control, &mut self.io);
        }
    }
}

#[cfg(test)]
mod tests;

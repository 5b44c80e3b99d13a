//! What a role's thread does.

use std::io;
use std::sync::mpsc::Receiver;

use crate::io::Io;
use crate::limits::{CONTROLS_PER_TURN, PACKET_BYTES_MAX, PACKETS_PER_TURN};
use crate::poller::Ready;
use crate::queues::{Found, Queued, Verdict};
use crate::receive_buffers::ReceiveBuffers;
use crate::role::{Arrival, Role, SocketId};
use crate::sockets::roles_name;

/// A role with everything that its thread needs.
pub(crate) struct Driver<R: Role> {
    role: R,
    io: Io,
    buffers: ReceiveBuffers,
    /// Where a packet of the device lies, or a message about one of a queue; empty until there is one.
    packet: Vec<u8>,
    controls: Receiver<R::Control>,
    /// Whether controls may wait that the bell has been heard for.
    controls_wait: bool,
}

impl<R: Role> Driver<R> {
    pub(crate) fn new(role: R, io: Io, controls: Receiver<R::Control>) -> Self {
        Self { role, io, buffers: ReceiveBuffers::new(), packet: Vec::new(), controls, controls_wait: false }
    }

    /// Drives the role until it is finished.
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

    /// Waits, and handles what has come: one batch of each of a few sockets, the deadline after each, a few controls.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        self.io.poller.wait(self.role.deadline(), self.controls_wait)?;
        let mut index = 0;
        while let Some(ready) = self.io.poller.ready(index) {
            index += 1;
            match ready {
                Ready::Expired => {}
                Ready::Rung => self.controls_wait = true,
                Ready::Device => {
                    self.take_packets()?;
                    self.wake();
                    self.flush();
                }
                Ready::Queues => {
                    self.take_queued()?;
                    self.wake();
                    self.flush();
                }
                Ready::Socket { socket, readable, has_errors, writable } => {
                    if has_errors {
                        self.io.take_errors(socket);
                    }
                    if writable {
                        self.io.writable(socket)?;
                    }
                    if readable {
                        self.receive(socket);
                    }
                    self.wake();
                    self.flush();
                }
            }
        }
        self.wake();
        self.handle_controls();
        self.flush();
        self.io.count_drops();
        Ok(())
    }

    /// Gives the kernel what there is to send, and tells the role of packets that were too long.
    fn flush(&mut self) {
        self.io.flush();
        let mut has_told = false;
        while let Some(packet) = self.io.next_too_long() {
            self.role.too_long(&packet, &mut self.io);
            has_told = true;
        }
        if has_told {
            self.io.flush();
        }
    }

    fn receive(&mut self, socket: SocketId) {
        let name = roles_name(socket);
        for index in 0..self.io.receive(socket, &mut self.buffers) {
            self.io.update_now();
            let mut row = self.buffers.row(index);
            let (from, traffic_class) = (row.from, row.traffic_class);
            let to = self.io.asked_at(socket, from, row.to);
            for bytes in row.datagrams() {
                if !self.io.is_open(socket) {
                    self.io.count_closed();
                    continue;
                }
                self.io.count_received(bytes.len());
                let arrival = Arrival { socket: name, from, to, traffic_class, bytes };
                self.role.received(arrival, &mut self.io);
            }
        }
    }

    fn take_packets(&mut self) -> io::Result<()> {
        self.packet.resize(PACKET_BYTES_MAX, 0);
        for _ in 0..PACKETS_PER_TURN {
            let Some(length) = self.io.take_packet(&mut self.packet)? else {
                return Ok(());
            };
            self.io.update_now();
            self.role.packet(&mut self.packet[..length], &mut self.io);
        }
        Ok(())
    }

    /// Each packet has its verdict, whether or not the role is asked.
    fn take_queued(&mut self) -> io::Result<()> {
        self.packet.resize(PACKET_BYTES_MAX, 0);
        for _ in 0..PACKETS_PER_TURN {
            let Some(Found { key, mark, came_by, leaves_by, payload }) =
                self.io.take_queued(&mut self.packet)?
            else {
                break;
            };
            self.io.update_now();
            let verdict = match payload {
                Some(payload) => {
                    let packet = &mut self.packet[payload];
                    self.role
                        .queued(Queued { queue: key.queue, mark, came_by, leaves_by, packet }, &mut self.io)
                }
                None => Verdict::Accepted,
            };
            self.io.decide(key, verdict);
        }
        self.io.tell_verdicts()
    }

    fn wake(&mut self) {
        self.io.update_now();
        if self.role.deadline().is_some_and(|deadline| deadline <= self.io.now()) {
            self.role.woken(&mut self.io);
        }
    }

    fn handle_controls(&mut self) {
        if !self.controls_wait {
            return;
        }
        for _ in 0..CONTROLS_PER_TURN {
            let Ok(control) = self.controls.try_recv() else {
                self.controls_wait = false;
                return;
            };
            self.role.controlled(control, &mut self.io);
        }
    }
}

#[cfg(test)]
mod tests;

//! Driver of Byway's state machines on real sockets.
//!
//! A [`Role`] is a state machine with sockets. [`spawn`] starts a thread for it, which waits for
//! datagrams, deadlines and [`Handle::control`]. The thread passes each event to the role with an
//! [`Io`], through which the role sends.
//!
//! ```
//! use byway_net::{Arrival, Clock, Io, OverlaySockets, Role, spawn};
//! use byway_proto::{Priority, Transmit};
//! use byway_units::Time;
//!
//! /// Echoes datagrams, and ends at the first control.
//! struct Echo {
//!     is_finished: bool,
//! }
//!
//! impl Role for Echo {
//!     type Control = ();
//!
//!     fn start(&mut self, _: &mut Io) {}
//!
//!     fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
//!         let Arrival { socket, from, to, traffic_class, bytes } = arrival;
//!         let ecn = traffic_class.ecn();
//!         let answer = Transmit { to: from, from: to, ecn, priority: Priority::Source, bytes };
//!         io.send(socket, &answer);
//!     }
//!
//!     fn on_deadline(&mut self, _: &mut Io) {}
//!
//!     fn on_control(&mut self, (): (), _: &mut Io) {
//!         self.is_finished = true;
//!     }
//!
//!     fn deadline(&self) -> Option<Time> {
//!         None
//!     }
//!
//!     fn is_finished(&self) -> bool {
//!         self.is_finished
//!     }
//! }
//!
//! let sockets = OverlaySockets::bind(&["127.0.0.1:0".parse()?])?;
//! let echo = spawn("echo", sockets, Echo { is_finished: false }, Clock::start())?;
//! echo.control(())?;
//! echo.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Turns of a thread
//! In each turn, a thread
//! 1. waits for events;
//! 2. receives one batch from each of a few ready sockets, and checks the deadline after each;
//! 3. handles a few controls;
//! 4. sends.
//!
//! A batch is the result of one system call: up to 16 rows of up to 64 datagrams that the kernel
//! has joined (GRO). Datagrams that a batch causes are sent after it, source packets before
//! scavengers. Datagrams of equal length to one destination take one system call (GSO). No packet
//! causes an allocation.
//!
//! A role may have a [`Device`] besides its sockets, from which it receives the IP packets of
//! applications that are not aware of it. It may also have [`PacketQueues`], into which firewall
//! rules put such packets. [`TrafficControl`] is independent of these: it configures the queues of
//! a device for outgoing packets.
//!
//! # Machines with several addresses
//! A datagram to a wildcard socket is answered from the address that it was sent to:
//! [`Arrival::to`] is that address, and [`Transmit::from`](byway_proto::Transmit::from) sends from
//! it. If the machine no longer has the address, the system chooses one. The overlay's sockets of a
//! node that moves ([`OverlaySockets::roaming`]) use only addresses that the system would not
//! choose anyway.
//!
//! # Machines with two uplinks
//! [`OverlaySockets::bind_to_devices`] binds a socket of each family to each of two devices.
//! The role names the uplink of a datagram in [`Transmit::from`](byway_proto::Transmit::from), and
//! learns that of a received one from [`Arrival::to`]. If the system refuses a datagram because a
//! device is down or has no route, the thread sends it by the other uplink and notifies the role.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `bind` | sockets of the overlay |
//! | `clock` | clock of the process |
//! | `control_messages` | control messages of `sendmsg` and `recvmsg` |
//! | `counters` | counters of a role's sockets |
//! | `device` | network device (TUN) of a role |
//! | `driver` | event loop of a role's thread |
//! | `handle` | handle of a role's thread |
//! | `io` | input and output of a role |
//! | `limits` | constants |
//! | `link` | queues of a network device (rtnetlink) |
//! | `loopback` | loopback addresses for tests |
//! | `marked_datagrams` | datagrams with a traffic class |
//! | `poller` | epoll, a timer and a waker |
//! | `queues` | packet queues of the firewall (NFQUEUE) |
//! | `receive_buffers` | buffers of one receive batch |
//! | `reserve` | reserved file descriptors |
//! | `role` | the interface of a role |
//! | `routes` | source addresses that the system prefers |
//! | `send_queue` | queue of outgoing datagrams |
//! | `send_run` | sending of one run of datagrams |
//! | `socket` | one UDP socket |
//! | `socket_id` | identifiers of sockets |
//! | `socket_options` | socket options without a safe call in a library |
//! | `sockets` | sockets of one role |
//! | `steering` | steering of packets to shards |
//!
//! # What this crate leaves to others
//! Packet formats and protocol (`byway-proto`), settings, files and TCP (the program). Path MTU
//! discovery is the role's task: datagrams longer than the path MTU are fragmented, unless the role
//! disables that and discovers the MTU itself ([`OverlaySockets::without_fragments`]).
//!
//! Start with [`Role`], then [`Io`], then [`OverlaySockets`].

#[cfg(fuzzing)]
compile_error!("no ciphers in a fuzzing build: build byway-net without `--cfg fuzzing`");

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("byway-net needs epoll, timerfd and eventfd: build it for Linux");

mod bind;
mod clock;
mod control_messages;
mod counters;
mod device;
mod driver;
mod handle;
mod io;
mod limits;
mod link;
#[cfg(test)]
mod loopback;
mod marked_datagrams;
mod poller;
mod queues;
mod receive_buffers;
mod reserve;
mod role;
mod routes;
mod send_queue;
mod send_run;
mod socket;
mod socket_id;
mod socket_options;
mod sockets;
mod steering;

pub use bind::{BindError, OverlaySockets, bind_shards, is_family_unsupported};
pub use clock::Clock;
pub use counters::{ApplicationCounters, IoCounters};
pub use device::{Device, DeviceSettings};
pub use handle::{ControlError, Controls, Handle, ThreadError, spawn};
pub use io::Io;
pub use link::{ClassCounters, Filter, HtbClass, LinkDevice, LinkError, Qdisc, TrafficControl};
pub use queues::{PacketQueues, QueueCounters, QueueError, QueuedPacket, Verdict};
pub use role::{Arrival, PacketTooBig, Role};
pub use socket_id::SocketId;

//! Byway's state machines on real sockets: the one driver beside the simulator.
//!
//! A [`Role`] is a state machine with sockets. [`spawn`] gives it a thread, which waits for datagrams, deadlines and
//! [`Handle::control`], and hands each to the role with an [`Io`], through which the role sends.
//!
//! ```
//! use byway_net::{Arrival, Clock, Io, OverlaySockets, Role, spawn};
//! use byway_proto::{Transmit, Urgency};
//! use byway_units::Time;
//!
//! /// Sends everything back, and ends when it is told to.
//! struct Echo {
//!     is_finished: bool,
//! }
//!
//! impl Role for Echo {
//!     type Control = ();
//!
//!     fn start(&mut self, _: &mut Io) {}
//!
//!     fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
//!         let Arrival { socket, from, to, traffic_class, bytes } = arrival;
//!         let ecn = traffic_class.ecn();
//!         io.send(socket, &Transmit { to: from, from: to, ecn, urgency: Urgency::Original, bytes });
//!     }
//!
//!     fn woken(&mut self, _: &mut Io) {}
//!
//!     fn controlled(&mut self, (): (), _: &mut Io) {
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
//! # How a thread spends its time
//! In turns: it waits; takes one batch from each of a few sockets that have something, and looks at the deadline after each;
//! handles a few controls; and sends. A batch is what one system call receives: up to 16 rows of up to 64 datagrams that the
//! kernel has joined (GRO). What a batch causes to be sent leaves when it has been handled, originals before scavengers,
//! datagrams of one length to one destination with one system call (GSO). Nothing is allocated for a packet.
//!
//! A role may have a [`Device`] beside its sockets, from which it takes the IP packets of applications that know nothing of it, and
//! [`PacketQueues`] into which rules of the firewall put such packets. [`TrafficControl`] stands apart: it changes what packets wait in that
//! leave by a device.
//!
//! # What is left to others
//! What packets mean (`byway-proto`), settings, files and TCP (the program). A path's MTU is not found out here: datagrams
//! that are too long for it are fragmented, unless the role asks for none and finds it out itself
//! ([`OverlaySockets::without_fragments`]).
//!
//! # Machines with several addresses
//! What comes to a socket on all addresses is answered from the one that it came to: [`Arrival::to`] names it, and
//! [`Transmit::from`](byway_proto::Transmit::from) sends from it. An address that the machine no longer has is left out at once,
//! and the system chooses. The overlay's sockets of a node that moves ([`OverlaySockets::roaming`]) name only addresses that
//! the system would not choose anyway.
//!
//! Start with [`Role`], then [`Io`], then [`OverlaySockets`].

#[cfg(fuzzing)]
compile_error!("a fuzzing build has no ciphers: build byway-net without `--cfg fuzzing`");

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("byway-net waits with epoll, timerfd and eventfd: it is for Linux");

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
mod outgoing;
mod poller;
mod queues;
mod receive_buffers;
mod reserve;
mod role;
mod routes;
mod socket;
mod socket_options;
mod sockets;
mod steering;

pub use bind::{BindError, OverlaySockets, bind_shards, is_family_unsupported};
pub use clock::Clock;
pub use counters::{Applications, IoCounters};
pub use device::{Device, DeviceSettings};
pub use handle::{ControlError, Controls, EndError, Handle, spawn};
pub use io::Io;
pub use link::{ClassCounters, ClassShape, Filter, LinkDevice, LinkError, Qdisc, TrafficControl};
pub use queues::{PacketQueues, QueueCounters, QueueError, Queued, Verdict};
pub use role::{Arrival, Role, SocketId, TooLong};

//! Deterministic network simulator in virtual time, for testing sans-I/O state machines.
//!
//! The world owns links, time and addresses; a [`Scenario`] owns applications and faults; a
//! [`Host`] is the state machine under test. The world makes no protocol decisions: it transmits
//! datagrams, wakes hosts at their deadlines, and writes the log from which checkers judge a run.
//!
//! ```
//! use core::net::SocketAddr;
//!
//! use byway_sim::{Datagram, Ecn, Host, Link, Marks, NodeId, Scenario, Seed, Transmit, World};
//! use byway_units::{Duration, Time};
//!
//! /// Sends the datagrams of its application to its peer, and stores received ones.
//! struct Talker {
//!     peer: SocketAddr,
//!     to_send: Vec<Vec<u8>>,
//!     sending: Vec<u8>,
//!     heard: Vec<(Time, Vec<u8>)>,
//! }
//!
//! impl Host for Talker {
//!     fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
//!         self.heard.push((now, datagram.payload.to_vec()));
//!     }
//!
//!     fn wake(&mut self, _now: Time) {}
//!
//!     fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
//!         self.sending = self.to_send.pop()?;
//!         Some(Transmit {
//!             source: None,
//!             destination: self.peer,
//!             marks: Marks::default(),
//!             ecn: Ecn::NotCapable,
//!             payload: &self.sending,
//!         })
//!     }
//!
//!     fn deadline(&self) -> Option<Time> {
//!         None
//!     }
//! }
//!
//! /// One host sends a greeting after 3 ms.
//! struct Hello {
//!     speaker: NodeId,
//! }
//!
//! impl Scenario for Hello {
//!     type Host = Talker;
//!     type Event = &'static str;
//!     type Observer = ();
//!
//!     fn event(&mut self, words: &'static str, world: &mut World<Self>) {
//!         world.input(self.speaker, |host, _now| host.to_send.push(words.into()));
//!     }
//! }
//!
//! let addresses = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7)));
//! let mut world = World::new(Seed::new(1), ());
//! let talker = |peer| Talker { peer, to_send: vec![], sending: vec![], heard: vec![] };
//! let one = world.add(talker(addresses[1]), addresses[0]);
//! let other = world.add(talker(addresses[0]), addresses[1]);
//! world.connect_both(one, other, &Link { delay: Duration::from_millis(20), ..Link::default() });
//!
//! world.schedule_in(Duration::from_millis(3), "hello");
//! world.run_for(Duration::from_secs(1), &mut Hello { speaker: one });
//! let arrival = Time::START + Duration::from_millis(23);
//! assert_eq!(world.host(other).heard, [(arrival, b"hello".to_vec())]);
//! ```
//!
//! # Where to start
//! - [`Host`]: the interface of a state machine.
//! - [`World`]: construction and run of a network of hosts; [`Scenario`]: its driver; [`Script`]: a
//!   driver for short tests.
//! - [`Link`]: all impairments of packets, by its fields.
//! - [`checkers`]: invariants of every run.
//! - [`tcp`]: background traffic, as a workload.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | [`checkers`] | invariants of every run: deliveries, repairs, byte budgets, work of an input |
//! | `event_queue` | future events in the order of time |
//! | `events` | dispatch of events to hosts, and draining |
//! | `faults` | stopped, frozen and restarted nodes, and address changes |
//! | `flow_hasher` | hashes of flows and sources for packet schedulers |
//! | `hash` | digest of bytes |
//! | `hash_table` | hash table with open addressing |
//! | `host` | interface of a state machine, and its datagrams |
//! | [`limits`] | all limits of this crate, with their reasons |
//! | `link` | links: bottleneck, scheduler, delay, loss, outages, damage |
//! | `log` | log of every packet: counters, digest, observer |
//! | `marks` | DSCP and flow label of a packet |
//! | `network` | addresses, routes, links, and the packets on them |
//! | `node` | nodes: hosts with addresses and a condition |
//! | [`overlay`] | agents and relays as hosts, and set-ups of them |
//! | `pool` | packets in flight, in reused buffers |
//! | `random` | random numbers by seed and purpose |
//! | `script` | scenario of closures |
//! | `slab` | table that reuses its slots |
//! | [`tcp`] | TCP hosts and applications |
//! | `world` | the world and its scenario |
//!
//! # Randomness
//! One [`Seed`] determines everything. Each random process has a seed of its own, derived from that
//! of the world, from the link and from its purpose. Draws at an instant depend on that instant
//! only. Therefore an additional packet changes nothing for others, on its link or elsewhere. Only
//! packets of one link in the same nanosecond share their draws, in order. Variants that are
//! compared on one seed have the same losses.
//!
//! # Out of scope
//! Protocol decisions (hosts), clocks and sockets (drivers), experiments and their reports.
#![no_std]

extern crate alloc;

pub mod checkers;
pub mod limits;

mod event_queue;
mod events;
mod faults;
mod flow_hasher;
mod hash;
mod hash_table;
mod host;
mod link;
mod log;
mod marks;
mod network;
mod node;
pub mod overlay;
mod pool;
mod random;
mod script;
mod slab;
pub mod tcp;
mod world;

pub use byway_proto::conventions::ip_bytes;
pub use byway_wire::Ecn;
pub use flow_hasher::FlowHasher;
pub use host::{Datagram, Host, Transmit};
pub use link::{
    ArrivingPacket, Bottleneck, BottleneckError, BottleneckUsage, CapacityTrace, CapacityTraceError,
    ChannelState, ClassCounters, DelayTrace, DelayTraceError, DequeuedPacket, GilbertElliott,
    GilbertElliottError, Jitter, Link, LinkState, Loss, LossTrace, LossTraceError, PacketCopy, PacketOutcome,
    QueueDiscipline, Reordering, SchedulerSettings, Span,
};
pub use log::{LinkCounters, LossReason, Losses, NodeChange, Observer, Record, Step, Transcript};
pub use marks::Marks;
pub use network::ConservationError;
pub use node::{Condition, Freeze, NodeId};
pub use random::{Random, Seed};
pub use script::{Action, Script};
pub use world::{Scenario, World};

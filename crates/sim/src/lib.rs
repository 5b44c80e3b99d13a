//! A deterministic world in virtual time, for testing sans-I/O state machines.
//!
//! The world owns links, time and addresses; a [`Scenario`] owns applications and faults; a [`Host`] is what is
//! tested. The world takes no decision of any protocol: it carries datagrams, wakes hosts at their deadlines,
//! and keeps the log by which everything is judged.
//!
//! ```
//! use core::net::SocketAddr;
//!
//! use byway_sim::{Datagram, Ecn, Host, Link, Marks, NodeId, Scenario, Seed, Transmit, World};
//! use byway_units::{Duration, Time};
//!
//! /// Sends what its application gives it to its peer, and keeps what comes.
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
//! /// One says hello after 3 ms.
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
//! assert_eq!(world.host(other).heard, [(Time::START + Duration::from_millis(23), b"hello".to_vec())]);
//! ```
//!
//! # Where to start
//! - [`Host`]: what a state machine must offer.
//! - [`World`]: how hosts are put together and moved; [`Scenario`]: who moves them; [`Script`]: for short tests.
//! - [`Link`]: what can happen to a packet, by its fields.
//! - [`checkers`]: what must hold in every run, whatever the hosts do.
//! - [`tcp`]: what else flows through a network, as a workload.
//!
//! # Chance
//! One [`Seed`] gives everything. Each random process has a seed of its own, derived from that of the world,
//! from the link and from its purpose, and draws at an instant depend on that instant only. So one more packet
//! changes nothing for others, on its link or elsewhere (only packets of one link in the same nanosecond share
//! their draws out in order), and what is compared on one seed met the same losses.
//!
//! # What this crate leaves to others
//! Decisions of protocols (hosts), clocks and sockets (drivers), experiments and their reports.
#![no_std]

extern crate alloc;

pub mod checkers;
pub mod limits;

mod events;
mod faults;
mod flows;
mod hash;
mod host;
mod link;
mod log;
mod marks;
mod network;
mod node;
pub mod overlay;
mod pool;
mod queue;
mod random;
mod script;
mod slab;
mod table;
pub mod tcp;
mod world;

pub use byway_proto::conventions::ip_bytes;
pub use byway_wire::Ecn;
pub use flows::Flows;
pub use host::{Datagram, Host, Transmit};
pub use link::{
    Bottleneck, BottleneckError, BottleneckUse, ClassUse, Coming, Fate, GilbertElliott, GilbertElliottError,
    Jitter, Link, LinkState, Loss, MeasuredDelays, MeasuredDelaysError, Passage, Queueing, Recorded,
    RecordedCapacity, RecordedCapacityError, RecordedError, Reordering, Scheduling, Sent, Span, Stay,
};
pub use log::{LinkCounters, LossReason, Losses, NodeChange, Observer, Record, Step, Transcript};
pub use marks::Marks;
pub use network::ConservationError;
pub use node::{Condition, Hang, NodeId};
pub use random::{Random, Seed};
pub use script::{Action, Script};
pub use world::{Scenario, World};

//! Byway as a library: an agent inside the application, which marks packets, states latency budgets and sees true loss.
//!
//! # One input, then drain
//! A [`Client`] touches no socket, no clock and no randomness, and starts no thread. After each input, take what it wants done
//! until there is nothing more, then ask for its deadline:
//!
//! ```
//! use byway_client::{Client, Identity, Network, NetworkAgent, NetworkPair, NetworkRelay, Output, Registration};
//! use byway_units::{Duration, Time};
//! use byway_wire::seal::StaticSecret;
//!
//! let secret = |byte| StaticSecret::from_bytes([byte; 32]);
//! let agent = |name: &str, number: u32| NetworkAgent {
//!     name: name.into(),
//!     number,
//!     key: secret(number as u8).public_key(),
//!     addresses: vec![([192, 0, 2, number as u8], 4600).into()],
//!     relays: vec!["east".into()],
//! };
//! let network = Network {
//!     relays: vec![NetworkRelay {
//!         name: "east".into(),
//!         number: 1,
//!         key: secret(9).public_key(),
//!         addresses: vec!["198.51.100.1:4600".parse()?],
//!         shards: 1,
//!     }],
//!     agents: vec![agent("alice", 1), agent("bob", 2)],
//!     pairs: vec![NetworkPair { agents: ["alice".into(), "bob".into()], group: 1 }],
//! };
//! let seed = [7; 32]; // of the operating system, in earnest
//! let mut alice = Client::new(Identity::new("alice", secret(1), seed, 1), &network, Time::START)?;
//!
//! let wanted = Registration { latency_budget: Some(Duration::from_millis(150)), ..Registration::default() };
//! let registered = alice.register("bob", "call", &wanted, Time::START)?;
//! println!("{}", registered.chosen); // caching, as round trips to the peer and the relay are not measured yet: ...
//!
//! while let Some(output) = alice.poll() {
//!     match output {
//!         Output::Transmit(transmit) => println!("{} bytes to {}", transmit.bytes.len(), transmit.to),
//!         Output::Delivered { datagram, .. } => println!("{} bytes for the application", datagram.len()),
//!         Output::Event(event) => println!("{event:?}"),
//!     }
//! }
//! assert!(alice.deadline().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! [`Client`] and what it takes ([`Network`], [`Identity`], [`Registration`]) and gives ([`Output`], [`Event`],
//! [`FlowReport`]). With the feature `sockets`, on by default, `Driver` has a UDP socket and a clock, and is called by the
//! application; it is for Unix.
//!
//! # What is left to others
//! Files: a [`Network`] is plain values. Controllers: networks are static. The proxy for applications that know nothing of
//! Byway: the program `byway agent`.
#![no_std]

#[cfg(fuzzing)]
compile_error!("a fuzzing build has no ciphers: build byway-client without `--cfg fuzzing`");

extern crate alloc;
#[cfg(feature = "sockets")]
extern crate std;

mod choice;
mod client;
#[cfg(feature = "sockets")]
mod clock;
#[cfg(feature = "sockets")]
mod driver;
mod flow_pair;
pub mod limits;
mod network;
mod output;
mod registration;
mod report;
#[cfg(feature = "sockets")]
mod socket;

pub use byway_proto::agent::{Delivery, Duplication, OfferRefusal, ReceiveStatistics, Reported, Traffic};
pub use byway_proto::conventions::Segments;
pub use byway_proto::{CodingRates, LocalAddress, Transmit, Urgency};
pub use byway_wire::{Ecn, Service};
pub use client::{Client, ExposeError, Identity, SendError};
pub use flow_pair::FlowPair;
pub use network::{Network, NetworkAgent, NetworkError, NetworkPair, NetworkRelay};
pub use output::{Event, Output};
pub use registration::{Choice, Chosen, Reason, RegisterError, Registered, Registration};
pub use report::{FlowReport, SentReport, mean_repair_time};
#[cfg(feature = "sockets")]
pub use {
    clock::Clock,
    driver::{Driver, Received},
};

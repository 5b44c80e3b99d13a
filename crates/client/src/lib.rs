//! Byway as a library: an agent inside the application.
//!
//! The application can mark packets, set latency budgets and measure the true loss of the direct
//! path.
//!
//! # One input, then drain
//! A [`Client`] uses no socket, no clock and no randomness, and starts no thread. After each input,
//! poll its outputs until there are none, then ask for its deadline:
//!
//! ```
//! use byway_client::{
//!     Client, Identity, Network, NetworkAgent, NetworkPair, NetworkRelay, Output, Registration,
//! };
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
//! let seed = [7; 32]; // an application uses the operating system's randomness
//! let mut alice = Client::new(Identity::new("alice", secret(1), seed, 1), &network, Time::START)?;
//!
//! let latency_budget = Duration::from_millis(150);
//! let wanted = Registration { latency_budget, ..Registration::default() };
//! let flow = alice.register("bob", "call", &wanted, Time::START)?;
//! assert!(alice.report(flow).is_some_and(|report| report.sent.is_none()));
//!
//! while let Some(output) = alice.poll() {
//!     match output {
//!         Output::Transmit(transmit) => {
//!             println!("{} bytes to {}", transmit.bytes.len(), transmit.to)
//!         }
//!         Output::Delivered { datagram, .. } => {
//!             println!("{} bytes for the application", datagram.len())
//!         }
//!         Output::Event(event) => println!("{event:?}"),
//!     }
//! }
//! assert!(alice.deadline().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! [`Client`], its inputs ([`Network`], [`Identity`], [`Registration`]) and its outputs
//! ([`Output`], [`Event`], [`FlowReport`]). With the feature `sockets`, on by default, `Driver`
//! adds a UDP socket and a clock. The application calls it; it needs Unix.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `client` | the client: inputs, outputs and state |
//! | `clock` | the clock of drivers |
//! | `driver` | a client with a UDP socket and a clock |
//! | `flow_pair` | pairs of flows |
//! | [`limits`] | limits, with reasons |
//! | `network` | the static network, and one agent's view of it |
//! | `output` | outputs and events |
//! | `registration` | registrations of flows |
//! | `report` | delivery statistics |
//! | `socket` | the UDP socket of a driver |
//!
//! # What other components do
//! - Files: a [`Network`] is plain values, which the application reads.
//! - Controllers: networks are static.
//! - Applications without support for Byway: the program `byway agent` is a proxy for them.
#![no_std]

#[cfg(fuzzing)]
compile_error!("no ciphers in a fuzzing build: build byway-client without `--cfg fuzzing`");

extern crate alloc;
#[cfg(feature = "sockets")]
extern crate std;

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

pub use byway_plan::{Reason, Selection};
pub use byway_proto::agent::{
    Delivery, Duplication, OfferRefusal, ReceiveStatistics, RedundancyMode, ReportedTotals, Traffic,
};
pub use byway_proto::conventions::Segments;
pub use byway_proto::{CodingRates, LocalAddress, Priority, Transmit};
pub use byway_wire::{Ecn, Service};
pub use client::{Client, ExposeError, Identity, SendError};
pub use flow_pair::FlowPair;
pub use network::{Network, NetworkAgent, NetworkError, NetworkPair, NetworkRelay};
pub use output::{Event, Output};
pub use registration::{RegisterError, Registration, ServiceSelector};
pub use report::{FlowReport, SentReport, mean_repair_time};
#[cfg(feature = "sockets")]
pub use {
    clock::Clock,
    driver::{Driver, DriverOutput},
};

//! Congestion controllers for the QUIC libraries noq and quinn, from network state. **After a
//! pause, quinn 0.11 sends up to ten packets at once, whatever its controller says.** At 5 Mbit/s,
//! these take 24 ms. Use noq where you can: it obeys pacing rate and burst size.
//!
//! A connection whose links report their queues and rates sends at its whole share, and about one
//! packet of it waits. Without such reports, it is an ordinary connection with a delay-based
//! window. [`byway_state`] has the algorithm, and `docs/quic.md` is the guide.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::time::Instant;
//!
//! use byway_quic::{Factory, channel};
//! use byway_state::{LinkEntry, LinkId, LinkState, NetworkId, PathEntry};
//! use byway_units::{Bytes, Duration, Rate};
//!
//! // A link of 5 Mbit/s and 50 ms without a queue.
//! let (interval, rate) = (Duration::from_millis(50), Rate::from_megabits_per_second(5));
//! let entry = LinkEntry::new(interval, rate * interval, Bytes::ZERO, rate, interval)?;
//! let link = LinkId::new(NetworkId::new(1), 7);
//! let state = LinkState::new(link, entry, Duration::ZERO)?;
//!
//! let (mut publisher, subscription) = channel();
//! publisher.publish_forward(PathEntry::new(1, vec![state])?, Instant::now());
//!
//! let local: SocketAddr = "192.0.2.1:4433".parse()?;
//! let peer: SocketAddr = "198.51.100.7:50112".parse()?;
//! let factory = Factory::for_path(subscription, local, peer);
//! let controller = factory.controller(Instant::now(), 1_452);
//! // 1.1 times 5 Mbit/s, of which 1,452 of 1,480 bytes are QUIC's.
//! assert_eq!(controller.pacing_rate(), 674_493);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! - A [`Feed`] has the entries of paths, and a [`channel`] for each path.
//! - A [`Factory`] makes the controllers of one connection. With the feature `noq`,
//!   `Factory::configure_noq` sets them for noq 1. With the feature `quinn`,
//!   `Factory::configure_quinn` sets them for quinn 0.11.
//! - A [`PathController`] adapts [`byway_state::CongestionControl`] to QUIC, for these libraries
//!   and others.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `acks` | packets of one acknowledgment |
//! | `clock` | conversion of instants |
//! | `controller` | congestion control of one path |
//! | `factory` | factory of the controllers of a connection |
//! | `feed` | sources of network state |
//! | `limits` | constants |
//! | `noq_controller` | controllers of noq |
//! | `quinn_controller` | controllers of quinn |
//! | `route` | endpoints of a controller's packets |
//! | `subscription` | channel from a feed to controllers |
//! | `test_clock`, `test_entries` | instants and entries of tests |
//!
//! # What this crate leaves to others
//! Requests for network state, and QUIC itself.

mod acks;
mod clock;
mod controller;
mod factory;
mod feed;
mod limits;
#[cfg(feature = "noq")]
mod noq_controller;
#[cfg(feature = "quinn")]
mod quinn_controller;
mod route;
mod subscription;
#[cfg(test)]
mod test_clock;
#[cfg(test)]
mod test_entries;

pub use acks::AckedPacket;
pub use controller::PathController;
pub use factory::Factory;
pub use feed::Feed;
#[cfg(feature = "noq")]
pub use noq_controller::NoqController;
#[cfg(feature = "quinn")]
pub use quinn_controller::QuinnController;
pub use subscription::{Publisher, Subscription, channel};

/// Guide, whose examples are compiled.
#[cfg(all(doctest, feature = "noq", feature = "quinn"))]
#[doc = include_str!("../../../docs/quic.md")]
struct Guide;

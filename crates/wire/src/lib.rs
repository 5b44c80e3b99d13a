//! Byway's packets: what agents and relays say to each other, byte by byte.
//!
//! The format is described in `docs/wire.md`; this crate reads, writes and seals it. A datagram is told apart, checked
//! once and left where it is: views show its parts, and it is opened in place. A message is a small value that can
//! only hold what is legal; lists and payloads stay in the packet. Nothing is allocated save in handshakes, and no bytes
//! from outside panic.
//!
//! ```
//! use byway_wire::messages::{Nack, Probe};
//! use byway_wire::packets::{MESSAGE_OVERHEAD, MessageHeader};
//! use byway_wire::seal::{EpochKeys, Portable, Provider, Suite};
//! use byway_wire::{
//!     Alias, Counter, Message, Messages, Microseconds, Packet, RangeSet, SequenceNumber, SessionIndex, Timestamp,
//!     Writer,
//! };
//!
//! // A receiver misses three packets.
//! let mut missing = RangeSet::new();
//! for number in [7, 8, 12] {
//!     assert!(missing.insert(SequenceNumber::new(number)));
//! }
//! let nack = Nack {
//!     alias: Alias::new(3).expect("3 is not 0"),
//!     open_from_low: None,
//!     noticed_by_timer: false,
//!     answers_confirm: false,
//!     patience: Microseconds::new(40_000),
//!     ranges: missing.ranges(),
//! };
//!
//! // Both sides have the keys of an epoch; a handshake has made them.
//! let key = |byte| Portable.key(Suite::ChaCha20Poly1305, &[byte; 32]);
//! let (receiver, relay) = (EpochKeys::new(key(1), key(2)), EpochKeys::new(key(2), key(1)));
//!
//! // The receiver seals a NACK and a probe in one packet: header, messages, and room for the tag.
//! let mut datagram = [0; 200];
//! let (header, rest) = datagram.split_first_chunk_mut().expect("the buffer is long enough");
//! MessageHeader { receiver: SessionIndex::new(0x2A), counter_low: Counter::FIRST.low() }.emit(header);
//! let mut writer = Writer::new(rest);
//! nack.emit(&mut writer)?;
//! Probe { number: 1, sent: Timestamp::new(5), round_trip: Microseconds::new(80_000) }.emit(&mut writer)?;
//! let length = writer.length() + MESSAGE_OVERHEAD;
//! receiver.seal_message(Counter::FIRST, &mut datagram[..length]);
//!
//! // The relay tells what it is, opens it and reads it.
//! let Packet::Message(packet) = Packet::parse(&mut datagram[..length])? else {
//!     panic!("it is a message packet");
//! };
//! assert_eq!(packet.header().receiver, SessionIndex::new(0x2A));
//! let counter = Counter::nearest(packet.header().counter_low, Counter::FIRST);
//! let mut messages = Messages::new(relay.open_message(counter, packet)?);
//! assert_eq!(messages.next(), Some(Ok(Message::Nack(nack))));
//! assert!(matches!(messages.next(), Some(Ok(Message::Probe(Probe { number: 1, .. })))));
//! assert_eq!(messages.next(), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! - [`Packet`] tells datagrams apart. The views it gives, one per kind, and their headers are in [`packets`].
//! - [`Messages`] reads the plaintext of a packet, message by message; [`Message`] is any of them, and [`messages`]
//!   has each by itself.
//! - [`seal`] has handshakes, and the keys that seal packets and open them.
//! - [`Writer`] takes messages until a packet is full. A repair's head goes in front of a payload that lies in its
//!   place already: [`InStreamHead::emit_in_front`](messages::InStreamHead::emit_in_front).
//!
//! # The rest
//! - [`CodedBytes`] and [`Plaintext`]: the outside and the inside of a sealed source packet, whichever way it came.
//! - [`InitiationPayload`], [`ResponsePayload`], [`Capabilities`]: what handshakes carry.
//! - [`Grant`] and [`Credential`]: what is signed, by a [`seal::SigningKey`].
//! - [`RangeSet`] gathers sequence numbers for a message; [`Ranges`] is what the receiver sees.
//! - [`SequenceNumber`] and [`Counter`] come back from the 32 bits that packets carry; other identifiers and
//!   quantities of the wire: [`FlowKey`], [`Alias`], [`SessionIndex`], [`Epoch`], [`Microseconds`], [`Timestamp`].
//! - [`limits`]: every limit, with its reason.
//! - [`ip`]: what is read of IP packets where those are what Byway carries.
//!
//! # What this crate leaves to others
//! When to say what, and how long keys live (the state machines); addresses, sockets and randomness (the drivers);
//! what repair packets are made of (the coder).
#![no_std]

extern crate alloc;

mod address;
mod capabilities;
mod coded;
mod codes;
mod credential;
mod ecn;
mod error;
mod grant;
mod ids;
pub mod ip;
pub mod limits;
mod list;
mod low;
pub mod messages;
pub mod packets;
mod payloads;
mod plaintext;
mod quantities;
mod ranges;
mod reader;
mod repair;
mod resent;
pub mod seal;
mod service;
mod traffic_class;
mod writer;

pub use address::Address;
pub use capabilities::Capabilities;
pub use coded::{CODED_OVERHEAD, CodedBytes, Flags, Piece, Sealed, associated_data};
pub use credential::{Credential, Member};
pub use ecn::Ecn;
pub use error::{Full, ParseError};
pub use grant::{Grant, GrantedRelay};
pub use ids::{Alias, Boot, CodingGroupId, Epoch, FlowKey, GroupId, Receiver, SessionIndex, Shard, TenantId};
pub use limits::SIGNATURE_BYTES;
pub use list::List;
pub use low::{Counter, SequenceNumber};
pub use messages::{Message, Messages};
pub use packets::Packet;
pub use payloads::{InitiationPayload, ResponsePayload};
pub use plaintext::{Plaintext, Uncopied};
pub use quantities::{KilobitsPerSecond, Microseconds, Timestamp};
pub use ranges::{RangeSet, Ranges, SequenceRange};
pub use repair::{BlockShape, LengthSymbol, Place};
pub use resent::Resent;
pub use service::{Service, Services};
pub use traffic_class::TrafficClass;
pub use writer::Writer;

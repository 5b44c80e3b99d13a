//! Wire format of the packets between agents and relays: parsing, encoding and sealing.
//!
//! `docs/wire.md` describes the format. A view checks a datagram once and gives access to its parts
//! without copying it; sealed packets are opened in place. A message is a small value that can only
//! have legal contents; its lists and payloads are borrowed from the packet. Only handshakes
//! allocate, and no received bytes cause a panic.
//!
//! ```
//! use byway_wire::messages::{Nack, Probe};
//! use byway_wire::packets::{MESSAGE_OVERHEAD, MessageHeader};
//! use byway_wire::seal::{EpochKeys, PortableProvider, Provider, Suite};
//! use byway_wire::{
//!     Alias, Counter, Message, Messages, Microseconds, Packet, RangeSet, SequenceNumber,
//!     SessionIndex, Timestamp, Writer,
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
//!     queue_grows: false,
//!     repair_lifetime: Microseconds::new(40_000),
//!     ranges: missing.ranges(),
//! };
//!
//! // Both sides have the keys of an epoch, from a handshake.
//! let key = |byte| PortableProvider.key(Suite::ChaCha20Poly1305, &[byte; 32]);
//! let (receiver, relay) = (EpochKeys::new(key(1), key(2)), EpochKeys::new(key(2), key(1)));
//!
//! // The receiver seals a NACK and a probe in one packet: header, messages, space for the tag.
//! let mut datagram = [0; 200];
//! let (header, rest) = datagram.split_first_chunk_mut().expect("the buffer is long enough");
//! let index = SessionIndex::new(0x2A);
//! MessageHeader { receiver: index, counter_low: Counter::FIRST.low() }.emit(header);
//! let mut writer = Writer::new(rest);
//! nack.emit(&mut writer)?;
//! let round_trip = Microseconds::new(80_000);
//! Probe { number: 1, sent: Timestamp::new(5), round_trip }.emit(&mut writer)?;
//! let length = writer.length() + MESSAGE_OVERHEAD;
//! receiver.seal_message(Counter::FIRST, &mut datagram[..length]);
//!
//! // The relay dispatches on the kind, opens the packet and reads it.
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
//! - [`Packet`] dispatches datagrams by kind. [`packets`] has a view and a header for each kind.
//! - [`Messages`] reads the plaintext of a packet, message by message. [`Message`] is any of them;
//!   [`messages`] has the types of all messages.
//! - [`seal`] has handshakes, and the keys that seal and open packets.
//! - [`Writer`] appends messages until a packet is full. The head of a repair message is written
//!   directly before an existing payload:
//!   [`InStreamHead::emit_in_front`](messages::InStreamHead::emit_in_front).
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `address` | IP addresses and ports in messages |
//! | `capabilities` | optional features of a session |
//! | `coded` | coded bytes, over which repair packets are computed, and the flags of a source packet |
//! | `codes` | enumerations encoded as one byte |
//! | `credential` | signed statements about the owner of a key |
//! | `ecn` | ECN fields, and their rules for tunnels |
//! | `error` | errors of parsing and writing |
//! | `grant` | signed permissions for flows to use relays |
//! | `ids` | flow keys, aliases, session indices and other identifiers |
//! | [`ip`] | IP, TCP and UDP headers of captured packets; ICMP errors |
//! | [`limits`] | limits and sizes, with reasons |
//! | `list` | lists of records of equal length |
//! | `low` | sequence numbers and counters, whose low 32 bits are sent |
//! | [`messages`] | messages between nodes |
//! | [`packets`] | packet kinds: views and headers |
//! | `payloads` | Noise payloads of handshake packets |
//! | `plaintext` | plaintext of source packets |
//! | `quantities` | microseconds, kbit/s and timestamps on the wire |
//! | `ranges` | ranges of sequence numbers |
//! | `reader` | parser of fields |
//! | `repair` | common fields of repair messages |
//! | `resent_fragment` | part of a datagram that is sent again |
//! | [`seal`] | cryptography: handshakes, sealing, signatures, replay protection |
//! | `service` | services of relays, and sets of them in grants |
//! | `traffic_class` | DSCP and ECN field of an IP header |
//! | `writer` | writer of messages into packets |
//!
//! # What other crates do
//! - The state machines decide which messages are sent, and the lifetime of keys.
//! - Drivers have addresses, sockets and randomness.
//! - The coder computes the contents of repair packets.
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
mod resent_fragment;
pub mod seal;
mod service;
mod traffic_class;
mod writer;

pub use address::{Address, IPV4_NETWORK_BITS, IPV6_NETWORK_BITS};
pub use capabilities::Capabilities;
pub use coded::{CODED_OVERHEAD, CodedBytes, Flags, Fragment, SealedBytes, associated_data};
pub use credential::{Credential, Member};
pub use ecn::Ecn;
pub use error::{MessageFullError, ParseError};
pub use grant::{Grant, GrantedRelay};
pub use ids::{
    Alias, CodingGroupId, Epoch, FlowKey, GroupId, Incarnation, Receiver, SessionIndex, Shard, TenantId,
    TransitLabel,
};
pub use limits::SIGNATURE_BYTES;
pub use list::List;
pub use low::{Counter, SequenceNumber};
pub use messages::{Message, Messages};
pub use packets::Packet;
pub use payloads::{InitiationPayload, ResponsePayload};
pub use plaintext::{Plaintext, UnprotectedMask};
pub use quantities::{KilobitsPerSecond, Microseconds, Timestamp};
pub use ranges::{RangeSet, Ranges, SequenceRange};
pub use repair::{BlockShape, LengthSymbol, RepairIndex};
pub use resent_fragment::ResentFragment;
pub use service::{Service, Services};
pub use traffic_class::TrafficClass;
pub use writer::Writer;

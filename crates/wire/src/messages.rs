//! The messages, one file each, and rows of them.
//!
//! Every message has `parse`, which takes a body, and `emit`, which appends it to a [`Writer`]. Lists and payloads
//! stay where they are; nothing is allocated.

mod ack;
mod aliases;
mod aliases_known;
mod candidates;
mod close;
mod confirm;
mod cooperative_request;
mod copy_nack;
mod cross_stream_repair;
mod early_packet;
mod in_stream_repair;
mod lost;
mod nack;
mod offer;
mod offered;
mod outage;
mod path_challenge;
mod path_response;
mod probe;
mod probe_reply;
mod register;
mod registered;
mod relayed;
mod relayed_on;
mod report;
mod silence;
mod unknown;
mod unregister;
mod unregistered;

pub use ack::Ack;
pub use aliases::{AliasAnnouncement, AliasAnnouncements, Aliases};
pub use aliases_known::{AliasKnowledge, AliasKnowledges, AliasesKnown};
pub use candidates::{ADDRESSES_BYTES_MAX, Addresses, Candidates};
pub use close::{Close, CloseReason};
pub use confirm::Confirm;
pub use cooperative_request::CooperativeRequest;
pub use copy_nack::CopyNack;
pub use cross_stream_repair::{Cover, CrossStreamHead, CrossStreamRepair, Digest, Entries, Entry};
pub use early_packet::EarlyPacket;
pub use in_stream_repair::{InStreamHead, InStreamRepair, Mask};
pub use lost::Lost;
pub use nack::Nack;
pub use offer::{Offer, Subject, Terms, TermsOptions};
pub use offered::{OfferRefusal, Offered};
pub use outage::Outage;
pub use path_challenge::PathChallenge;
pub use path_response::PathResponse;
pub use probe::Probe;
pub use probe_reply::ProbeReply;
pub use register::{Consent, FlowOptions, FlowRole, Register};
pub use registered::{Refusal, Registered};
pub use relayed::Relayed;
pub use relayed_on::RelayedOn;
pub use report::{DelayPercentiles, RepairCounters, Report};
pub use silence::Silence;
pub use unknown::Unknown;
pub use unregister::Unregister;
pub use unregistered::Unregistered;

use crate::error::{Full, ParseError};
use crate::reader::Reader;
use crate::writer::{MESSAGE_HEADER_BYTES, Writer};

impl<'a> From<Unknown<'a>> for Message<'a> {
    fn from(unknown: Unknown<'a>) -> Self {
        Self::Unknown(unknown)
    }
}

macro_rules! messages {
    ($($(#[$doc:meta])+ $name:ident($message:ty),)+) => {
        /// Any message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message<'a> {
            $($(#[$doc])+ $name($message),)+
            /// One of a type that this version does not know.
            Unknown(Unknown<'a>),
        }

        impl<'a> Message<'a> {
            /// Reads the body of a message of this type.
            ///
            /// # Errors
            /// If a field is cut off or illegal. A type that is unknown is none.
            pub fn parse(message_type: u8, body: &'a [u8]) -> Result<Self, ParseError> {
                match message_type {
                    $(<$message>::TYPE => <$message>::parse(body).map(Self::$name),)+
                    _ => Ok(Self::Unknown(Unknown::of_foreign_type(message_type, body))),
                }
            }

            /// The message's type, as it stands on the wire.
            #[must_use]
            pub const fn message_type(&self) -> u8 {
                match self {
                    $(Self::$name(_) => <$message>::TYPE,)+
                    Self::Unknown(unknown) => unknown.message_type(),
                }
            }

            /// Appends the message.
            ///
            /// # Errors
            /// If it does not fit.
            pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
                match self {
                    $(Self::$name(message) => message.emit(writer),)+
                    Self::Unknown(unknown) => unknown.emit(writer),
                }
            }

            /// Whether there is a message of this type.
            const fn is_known(message_type: u8) -> bool {
                matches!(message_type, $(<$message>::TYPE)|+)
            }
        }

        $(impl<'a> From<$message> for Message<'a> {
            fn from(message: $message) -> Self {
                Self::$name(message)
            }
        })+
    };
}

messages! {
    /// Agent to relay: take part in this flow.
    Register(Register<'a>),
    /// Relay to agent: whether it does.
    Registered(Registered),
    /// Ingress to egress relay: what stands for flows.
    Aliases(Aliases<'a>),
    /// Egress to ingress relay: which of these are in order.
    AliasesKnown(AliasesKnown<'a>),
    /// Agent to relay, or to the agent at the other end: the flow has ended.
    Unregister(Unregister),
    /// The answer to that.
    Unregistered(Unregistered),
    /// Agent to agent: let us exchange this flow.
    Offer(Offer<'a>),
    /// The answer to that.
    Offered(Offered),
    /// Agent to agent: a packet that goes with its flow's offer.
    EarlyPacket(EarlyPacket<'a>),
    /// A repair packet for packets of one flow.
    InStreamRepair(InStreamRepair<'a>),
    /// Relay to relay: a repair packet for packets of several flows.
    CrossStreamRepair(CrossStreamRepair<'a>),
    /// Receiver to egress relay: packets that the direct path lost.
    Nack(Nack<'a>),
    /// Ingress relay to sender: copies that did not arrive.
    CopyNack(CopyNack<'a>),
    /// Receiver to egress relay: the direct path delivers again.
    Ack(Ack),
    /// Egress relay to a cooperating receiver: send packets of your own flow.
    CooperativeRequest(CooperativeRequest<'a>),
    /// Cooperating receiver to egress relay: it does not have them.
    Lost(Lost<'a>),
    /// Egress relay to receiver: still missing?
    Confirm(Confirm<'a>),
    /// Receiver to sender: how the flow fares.
    Report(Report),
    /// Egress to ingress relay: a direct path is dark.
    Outage(Outage),
    /// Receiver to sender: nothing comes any more.
    Silence(Silence),
    /// How long is the way?
    Probe(Probe),
    /// The answer to a probe.
    ProbeReply(ProbeReply),
    /// Are you at this address?
    PathChallenge(PathChallenge),
    /// The answer to a path challenge.
    PathResponse(PathResponse),
    /// A packet for another agent, or from one.
    Relayed(Relayed<'a>),
    /// Addresses at which an agent may be reached.
    Candidates(Candidates<'a>),
    /// The session ends.
    Close(Close),
    /// Relay to relay: a packet of an agent for another agent.
    RelayedOn(RelayedOn<'a>),
}

/// The messages in a plaintext, in order.
///
/// A message whose body does not parse is an error, and the next one follows. A message that is cut off is an
/// error, and the last: nothing tells where another would begin.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// The messages in this plaintext.
    #[must_use]
    pub const fn new(plaintext: &'a [u8]) -> Self {
        Self { rest: plaintext }
    }

    /// The next message, unless it is cut off, and what follows it.
    fn split(&self) -> Result<(u8, &'a [u8], &'a [u8]), ParseError> {
        let mut reader = Reader::new("message", self.rest);
        let &[message_type, l0, l1] = reader.array::<MESSAGE_HEADER_BYTES>("type and length")?;
        let body = reader.bytes("body", u16::from_be_bytes([l0, l1]).into())?;
        Ok((message_type, body, reader.rest()))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.split().map(|(message_type, body, rest)| {
            self.rest = rest;
            Message::parse(message_type, body)
        });
        Some(message.unwrap_or_else(|error| {
            self.rest = &[];
            Err(error)
        }))
    }
}

impl core::iter::FusedIterator for Messages<'_> {}

//! Messages, one file each, and sequences of messages.
//!
//! Every message has `parse`, which reads a body, and `emit`, which appends it to a [`Writer`].
//! Lists and payloads are borrowed from the packet, without allocation.

mod ack;
mod aliases;
mod aliases_reply;
mod candidates;
mod close;
mod confirm;
mod cooperative_refusal;
mod cooperative_request;
mod copy_nack;
mod cross_stream_repair;
mod early_packet;
mod in_stream_repair;
mod inter_relay_packet;
mod loss_report;
mod nack;
mod offer;
mod offer_reply;
mod outage;
mod path_challenge;
mod path_response;
mod probe;
mod probe_reply;
mod register;
mod register_reply;
mod relayed_packet;
mod report;
mod service_change;
mod service_change_reply;
mod silence;
mod source_ack;
mod source_nack;
mod transit_reply;
mod transit_request;
mod unknown;
mod unregister;
mod unregister_reply;

pub use ack::Ack;
pub use aliases::{AliasAnnouncement, AliasAnnouncements, Aliases};
pub use aliases_reply::{AliasStatus, AliasStatuses, AliasesReply, NetworkTag, NetworkTags};
pub use candidates::{ADDRESSES_BYTES_MAX, Addresses, Candidates};
pub use close::{Close, CloseReason};
pub use confirm::Confirm;
pub use cooperative_refusal::CooperativeRefusal;
pub use cooperative_request::CooperativeRequest;
pub use copy_nack::CopyNack;
pub use cross_stream_repair::{Cover, CrossStreamHead, CrossStreamRepair, Digest, Entries, Entry};
pub use early_packet::EarlyPacket;
pub use in_stream_repair::{InStreamHead, InStreamRepair, Mask};
pub use inter_relay_packet::InterRelayPacket;
pub use loss_report::{FlowLosses, FlowsLosses, LOSS_CLASSES, LossReport};
pub use nack::Nack;
pub use offer::{LatencyLimits, Offer, OfferedLatency, Subject, Terms, TermsOptions};
pub use offer_reply::{OfferRefusal, OfferReply};
pub use outage::Outage;
pub use path_challenge::PathChallenge;
pub use path_response::PathResponse;
pub use probe::Probe;
pub use probe_reply::ProbeReply;
pub use register::{Consent, FlowOptions, FlowRole, Register};
pub use register_reply::{GroupActivity, Refusal, RegisterReply};
pub use relayed_packet::RelayedPacket;
pub use report::{
    DelayPercentiles, RELAYS_REPORTED_MAX, RelativeDelay, RelayRoundTrip, RepairCounters, Report,
    ReportedDelays,
};
pub use service_change::ServiceChange;
pub use service_change_reply::ServiceChangeReply;
pub use silence::Silence;
pub use source_ack::SourceAck;
pub use source_nack::SourceNack;
pub use transit_reply::{RelayDelay, RelayDelayList, TransitReply};
pub use transit_request::{TransitRequest, TransitTarget};
pub use unknown::UnknownMessage;
pub use unregister::Unregister;
pub use unregister_reply::UnregisterReply;

use crate::error::{MessageFullError, ParseError};
use crate::reader::Reader;
use crate::writer::{MESSAGE_HEADER_BYTES, Writer};

impl<'a> From<UnknownMessage<'a>> for Message<'a> {
    fn from(unknown: UnknownMessage<'a>) -> Self {
        Self::Unknown(unknown)
    }
}

macro_rules! messages {
    ($($(#[$doc:meta])+ $name:ident($message:ty),)+) => {
        /// Any message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message<'a> {
            $($(#[$doc])+ $name($message),)+
            /// A message of a type that this version does not define.
            Unknown(UnknownMessage<'a>),
        }

        impl<'a> Message<'a> {
            /// Reads the body of a message with this type number. An unknown type is not an error.
            ///
            /// # Errors
            /// If a field is cut off or illegal.
            pub fn parse(message_type: u8, body: &'a [u8]) -> Result<Self, ParseError> {
                match message_type {
                    $(<$message>::TYPE => <$message>::parse(body).map(Self::$name),)+
                    _ => Ok(Self::Unknown(UnknownMessage::of_foreign_type(message_type, body))),
                }
            }

            /// Returns the type number of the message on the wire.
            #[must_use]
            pub const fn message_type(&self) -> u8 {
                match self {
                    $(Self::$name(_) => <$message>::TYPE,)+
                    Self::Unknown(unknown) => unknown.message_type(),
                }
            }

            /// Appends the message to those of a packet.
            ///
            /// # Errors
            /// If the packet has too few bytes left; then no byte is written.
            pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
                match self {
                    $(Self::$name(message) => message.emit(writer),)+
                    Self::Unknown(unknown) => unknown.emit(writer),
                }
            }

            /// True if this version defines a message with this type number.
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
    /// Agent to relay: registers a flow.
    Register(Register<'a>),
    /// Relay to agent: accepts or refuses a registration.
    RegisterReply(RegisterReply),
    /// Ingress to egress relay: announces the aliases of flows.
    Aliases(Aliases<'a>),
    /// Egress to ingress relay: answers the announcement of aliases.
    AliasesReply(AliasesReply<'a>),
    /// Agent to relay or to the other agent: ends a flow.
    Unregister(Unregister),
    /// Relay or other agent to agent: the end of the flow is recorded (answer to unregister).
    UnregisterReply(UnregisterReply),
    /// Agent to agent: offers a pair of flows.
    Offer(Offer<'a>),
    /// Agent to agent: accepts or refuses an offered pair of flows.
    OfferReply(OfferReply),
    /// Agent to agent: contains a packet of a flow whose offer has no answer yet.
    EarlyPacket(EarlyPacket<'a>),
    /// Relay or sender to receiver or relay: contains a repair packet for packets of one flow.
    InStreamRepair(InStreamRepair<'a>),
    /// Relay to relay: contains a repair packet for packets of several flows.
    CrossStreamRepair(CrossStreamRepair<'a>),
    /// Receiver to egress relay: requests packets that the direct path lost.
    Nack(Nack<'a>),
    /// Ingress relay to sender, or egress to ingress relay: requests copies that did not arrive.
    CopyNack(CopyNack<'a>),
    /// Receiver to egress relay: reports that the direct path delivers again.
    Ack(Ack),
    /// Egress relay to a cooperating receiver: requests packets of its own flow.
    CooperativeRequest(CooperativeRequest<'a>),
    /// Cooperating receiver to egress relay: does not have the requested packets.
    CooperativeRefusal(CooperativeRefusal<'a>),
    /// Egress relay to receiver: asks if packets are still missing.
    Confirm(Confirm<'a>),
    /// Receiver to sender: reports losses and delays of a flow.
    Report(Report),
    /// Egress relay or sender to ingress relay: reports an outage of a direct path.
    Outage(Outage),
    /// Receiver to sender: reports that no more packets arrive.
    Silence(Silence),
    /// Receiver to sender: requests packets that the direct path lost.
    SourceNack(SourceNack<'a>),
    /// Receiver to sender: reports that the direct path delivers again.
    SourceAck(SourceAck),
    /// Sender to receiver: changes the service of a flow.
    ServiceChange(ServiceChange),
    /// Receiver to sender: the new service of the flow is in force at the receiver.
    ServiceChangeReply(ServiceChangeReply),
    /// Egress to ingress relay: reports losses of coded flows.
    LossReport(LossReport<'a>),
    /// Either side of a session: measures the round-trip time.
    Probe(Probe),
    /// Answers a probe.
    ProbeReply(ProbeReply),
    /// Either side of a session: validates a path to an address of the peer.
    PathChallenge(PathChallenge),
    /// Answers a path challenge.
    PathResponse(PathResponse),
    /// Agent to relay or back: contains a packet for another agent, or from one.
    RelayedPacket(RelayedPacket<'a>),
    /// Agent to agent: announces candidate addresses.
    Candidates(Candidates<'a>),
    /// Either side of a session: ends the session.
    Close(Close),
    /// Relay to relay: contains a packet of an agent for another agent.
    InterRelayPacket(InterRelayPacket<'a>),
    /// Relay to relay: asks for the delays to other relays, and for a label.
    TransitRequest(TransitRequest),
    /// Relay to relay: answers a transit request.
    TransitReply(TransitReply<'a>),
}

/// Iterator over the messages in the plaintext of a message packet, in order.
///
/// A message whose body does not parse yields an error, and iteration continues. A truncated
/// message yields an error and ends the iteration, because the next message's position is unknown.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Returns an iterator over the messages in this plaintext.
    #[must_use]
    pub const fn new(plaintext: &'a [u8]) -> Self {
        Self { rest: plaintext }
    }

    /// Splits off the next message; returns its type number, its body and the remaining bytes.
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

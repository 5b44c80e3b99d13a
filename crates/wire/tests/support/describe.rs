//! Descriptions of packets and messages, in the format of the published test vectors.

use std::fmt::{Debug, Display, Write};

use byway_units::AgentId;
use byway_wire::messages::{
    Aliases, AliasesReply, CrossStreamRepair, EarlyPacket, InStreamRepair, LossReport, Nack, Offer,
    OfferReply, ProbeReply, Register, RegisterReply, Report, Terms, TransitReply, TransitTarget,
};
use byway_wire::packets::{
    CookiePacket, Envelope, InitiationPacket, Kind, ResponsePacket, SourcePacket, TransitPacket,
};
use byway_wire::{
    Address, BlockShape, Credential, Flags, FlowKey, Grant, GrantedRelay, Member, Message, Microseconds,
    Packet, Ranges, Receiver, TransitLabel,
};

/// `FieldList` of the form `name value`.
#[derive(Debug, Default)]
pub(crate) struct FieldList(pub(crate) Vec<String>);

impl FieldList {
    pub(crate) fn add(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.0.push(format!("{name} {value}"));
        self
    }

    pub(crate) fn revision(&mut self, revision: Option<u8>) -> &mut Self {
        self.add("revision", revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string()))
    }

    pub(crate) fn hex(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        let mut hex = String::from(if bytes.is_empty() { "-" } else { "" });
        for byte in bytes {
            write!(hex, "{byte:02x}").expect("strings grow");
        }
        self.add(name, hex)
    }

    /// Writes an enumeration value: `NoGrant` as `no-grant`.
    pub(crate) fn word(&mut self, name: &str, value: impl Debug) -> &mut Self {
        let mut word = String::new();
        for letter in format!("{value:?}").chars() {
            if letter.is_uppercase() && !word.is_empty() {
                word.push('-');
            }
            word.extend(letter.to_lowercase());
        }
        self.add(name, word)
    }

    fn yes(&mut self, name: &str, value: bool) -> &mut Self {
        self.add(name, if value { "yes" } else { "no" })
    }

    pub(crate) fn flags(&mut self, flags: Flags) -> &mut Self {
        self.add("flags", flags.to_wire());
        self.add("epoch-low-bits", flags.epoch_low_bits()).word("fragment", flags.fragment())
    }

    fn flow_key(&mut self, key: &FlowKey) -> &mut Self {
        let (sender, flow) = (key.sender().number(), key.flow().number());
        self.add("flow-key", format!("{sender} {} {flow}", receiver(key.receiver())))
    }

    fn shape(&mut self, name: &str, shape: Option<BlockShape>) -> &mut Self {
        let shown = shape.map(|shape| format!("{} {}", shape.source_packets(), shape.repair_packets()));
        self.add(name, shown.as_deref().unwrap_or("-"))
    }

    fn far_relay(&mut self, relay: Option<GrantedRelay>) -> &mut Self {
        let shown = relay.map(|relay| format!("{} {}", relay.relay.number(), relay.shard.number()));
        self.add("far-relay", shown.as_deref().unwrap_or("-"))
    }

    fn transit_target(&mut self, target: Option<TransitTarget>) -> &mut Self {
        self.far_relay(target.map(|target| target.relay));
        self.add("index", target.map_or(0, |target| target.index.number()))
    }

    fn address(&mut self, address: Address) -> &mut Self {
        self.add("address", format!("{} {}", address.ip, address.port))
    }

    fn ranges(&mut self, ranges: Ranges<'_>) {
        for range in ranges.iter() {
            self.add("range", format!("{} {}", range.first_low(), range.length()));
        }
    }
}

fn receiver(receiver: Receiver) -> String {
    match receiver {
        Receiver::Agent(agent) => format!("agent {}", agent.number()),
        Receiver::Group(group) => format!("group {}", group.number()),
    }
}

/// Returns the vectors' name of a packet, and its fields.
pub(crate) fn packet(packet: Packet<'_>) -> (&'static str, FieldList) {
    match packet {
        Packet::Initiation(packet) => ("initiation", initiation(packet)),
        Packet::Response(packet) => ("response", response(packet)),
        Packet::Cookie(packet) => ("cookie", cookie(packet)),
        Packet::Source(packet) => ("source", source(&packet)),
        Packet::Envelope(packet) => ("envelope", envelope(&packet)),
        Packet::Message(packet) => {
            let mut lines = FieldList::default();
            lines.add("receiver", packet.header().receiver.number());
            lines.add("counter-low", packet.header().counter_low).hex("sealed", packet.sealed());
            ("message", lines)
        }
        Packet::Transit(packet) => transit(&packet),
    }
}

fn transit(packet: &TransitPacket<&mut [u8]>) -> (&'static str, FieldList) {
    let mut lines = FieldList::default();
    match packet.index().transit_label() {
        Some((label, check)) => lines.add("label", label.number()).hex("check", &check),
        None => lines.add("receiver", packet.index().number()),
    };
    lines.add("counter-low", packet.counter_low()).hex("tag", packet.tag());
    (if packet.kind() == Kind::TransitMessage { "transit-message" } else { "transit-envelope" }, lines)
}

fn source(packet: &SourcePacket<&mut [u8]>) -> FieldList {
    let (mut lines, header) = (FieldList::default(), *packet.header());
    lines.add("receiver", header.receiver.number()).add("flow", header.flow.number());
    lines.add("sequence-low", header.sequence_low).flags(header.flags);
    lines.hex("sealed", &packet.coded().into_bytes()[1..]);
    lines
}

fn envelope(packet: &Envelope<&mut [u8]>) -> FieldList {
    let (mut lines, header) = (FieldList::default(), packet.header());
    lines.word("role", header.role).add("receiver", header.receiver.number());
    lines.add("counter-low", header.counter_low).add("alias", header.alias.number());
    lines.add("sequence-low", header.sequence_low).hex("coded", packet.coded());
    lines.hex("tag", packet.authenticated().1);
    lines
}

fn initiation(packet: InitiationPacket<&[u8]>) -> FieldList {
    let (mut lines, header) = (FieldList::default(), *packet.header());
    let suite = format!("{:?}", header.suite).replace("Aes256Gcm", "aes-256-gcm");
    lines.word("purpose", header.purpose);
    lines.add("suite", suite.replace("ChaCha20Poly1305", "chacha20-poly1305"));
    lines.add("shard", header.shard.number()).add("capabilities", header.capabilities.bits());
    lines.add("sender", header.sender.number());
    let (keys, sealed_payload) = packet.noise_message().split_at(80);
    lines.hex("ephemeral", &keys[..32]).hex("sealed-static", &keys[32..]);
    lines.hex("sealed-payload", sealed_payload);
    lines.hex("mac1", packet.mac1()).hex("mac2", packet.mac2());
    lines
}

fn response(packet: ResponsePacket<&[u8]>) -> FieldList {
    let mut lines = FieldList::default();
    lines.add("receiver", packet.header().receiver.number());
    let (ephemeral, sealed_payload) = packet.noise_message().split_at(32);
    lines.hex("ephemeral", ephemeral).hex("sealed-payload", sealed_payload);
    lines
}

fn cookie(packet: CookiePacket<&[u8]>) -> FieldList {
    let (mut lines, header) = (FieldList::default(), *packet.header());
    lines.add("receiver", header.receiver.number()).hex("salt", &header.salt);
    let (cookie, tag) = packet.sealed();
    lines.hex("cookie", cookie).hex("tag", tag);
    lines
}

pub(crate) fn grant(grant: &Grant) -> FieldList {
    let mut lines = FieldList::default();
    lines.add("services", grant.services.bits()).add("sharing", u8::from(grant.sharing));
    lines.add("ingress-shard", grant.ingress.shard.number());
    lines.add("egress-shard", grant.egress.shard.number());
    lines.add("first-flow", grant.first_flow.number()).add("last-flow", grant.last_flow.number());
    lines.add("sender", grant.sender.number()).add("receiver", receiver(grant.receiver));
    lines.add("ingress-relay", grant.ingress.relay.number());
    lines.add("egress-relay", grant.egress.relay.number());
    lines.add("coding-group", grant.coding_group.number()).add("tenant", grant.tenant.number());
    lines.add("rate", grant.rate.count()).add("not-after", grant.not_after_unix_seconds);
    lines.hex("sender-key", &grant.sender_key).hex("receiver-key", &grant.receiver_key);
    lines.hex("signature", &grant.signature);
    lines
}

pub(crate) fn credential(credential: &Credential) -> FieldList {
    let (role, number) = match credential.member {
        Member::Agent(agent) => ("agent", agent.number()),
        Member::Relay(relay) => ("relay", relay.number()),
    };
    let mut lines = FieldList::default();
    lines.add("role", role).add("number", number).add("not-after", credential.not_after_unix_seconds);
    lines.hex("key", &credential.key).hex("signature", &credential.signature);
    lines
}

/// Returns the vectors' name of a message, and its fields.
pub(crate) fn message(message: &Message<'_>) -> (&'static str, FieldList) {
    let mut lines = FieldList::default();
    let name = match message {
        Message::Register(message) => register(message, &mut lines),
        Message::RegisterReply(message) => registered(message, &mut lines),
        Message::Aliases(message) => aliases(message, &mut lines),
        Message::AliasesReply(message) => aliases_known(message, &mut lines),
        Message::Unregister(message) => {
            lines.flow_key(&message.flow_key).word("role", message.role).far_relay(message.far_relay);
            "unregister"
        }
        Message::UnregisterReply(message) => {
            lines.flow_key(&message.flow_key).word("role", message.role).far_relay(message.far_relay);
            "unregister-reply"
        }
        Message::Offer(message) => offer(message, &mut lines),
        Message::OfferReply(message) => offered(*message, &mut lines),
        Message::EarlyPacket(message) => early_packet(message, &mut lines),
        Message::InStreamRepair(message) => in_stream_repair(message, &mut lines),
        Message::CrossStreamRepair(message) => cross_stream_repair(message, &mut lines),
        Message::Nack(message) => nack(message, &mut lines),
        Message::CopyNack(message) => {
            lines.add("alias", message.alias.number()).ranges(message.ranges);
            "copy-nack"
        }
        Message::Ack(message) => {
            lines.add("alias", message.alias.number()).add("from-low", message.from_low);
            "ack"
        }
        Message::CooperativeRequest(message) => {
            lines
                .add("alias", message.alias.number())
                .add("repair-lifetime", message.repair_lifetime.count());
            lines.ranges(message.ranges);
            "cooperative-request"
        }
        Message::CooperativeRefusal(message) => {
            lines.add("alias", message.alias.number()).ranges(message.ranges);
            "cooperative-refusal"
        }
        Message::Confirm(message) => {
            lines.add("alias", message.alias.number()).ranges(message.ranges);
            "confirm"
        }
        Message::Report(message) => report(message, &mut lines),
        Message::Silence(message) => {
            lines.flow_key(&message.flow_key).add("from-low", message.from_low);
            lines.add("elapsed", message.elapsed.count()).add("direct", message.direct);
            "silence"
        }
        Message::SourceNack(message) => {
            lines.flow_key(&message.flow_key).ranges(message.ranges);
            "source-nack"
        }
        Message::SourceAck(message) => {
            lines.flow_key(&message.flow_key).add("from-low", message.from_low);
            "source-ack"
        }
        Message::ServiceChange(message) => {
            lines.flow_key(&message.flow_key).add("number", message.number).word("service", message.service);
            "service-change"
        }
        Message::ServiceChangeReply(message) => {
            lines.flow_key(&message.flow_key).add("number", message.number);
            "service-change-reply"
        }
        other => message_of_paths(other, &mut lines),
    };
    (name, lines)
}

fn message_of_paths(message: &Message<'_>, lines: &mut FieldList) -> &'static str {
    match message {
        Message::LossReport(message) => loss_report(message, lines),
        Message::Probe(message) => {
            lines.add("number", message.number).add("sent", message.sent.micros());
            lines.add("round-trip", message.round_trip.count());
            "probe"
        }
        Message::ProbeReply(message) => probe_reply(message, lines),
        Message::PathChallenge(message) => {
            lines.hex("token", &message.token);
            "path-challenge"
        }
        Message::PathResponse(message) => {
            lines.hex("token", &message.token);
            "path-response"
        }
        Message::RelayedPacket(message) => {
            lines.add("agent", AgentId::number(message.agent())).hex("packet", message.packet());
            "relayed-packet"
        }
        Message::InterRelayPacket(message) => {
            lines.add("from", AgentId::number(message.from())).add("to", AgentId::number(message.to()));
            lines.hex("packet", message.packet());
            "inter-relay-packet"
        }
        Message::Candidates(message) => {
            for address in message.addresses.iter() {
                lines.address(address);
            }
            "candidates"
        }
        Message::Close(message) => {
            lines.word("reason", message.reason);
            "close"
        }
        Message::TransitRequest(message) => {
            lines.transit_target(message.target);
            "transit-request"
        }
        Message::TransitReply(message) => transit_reply(message, lines),
        Message::Unknown(message) => {
            lines.add("type", message.message_type()).hex("body", message.body());
            "unknown"
        }
        other => panic!("not described: {other:?}"),
    }
}

fn register(message: &Register<'_>, lines: &mut FieldList) -> &'static str {
    let (options, consent) = (message.options, message.consent);
    lines.flow_key(&message.flow_key).word("role", message.role).word("service", message.service);
    lines.shape("in-stream", message.in_stream).shape("batch", message.batch);
    lines.yes("relay-side-duplication", options.relay_side_duplication);
    lines.yes("sender-makes-repairs", options.sender_makes_repairs);
    lines.yes("coded-with-other-tenants", options.coded_with_other_tenants);
    lines.yes("selective", options.selective).yes("adaptive-redundancy", options.adaptive_redundancy);
    lines.add("rate", message.rate.count()).add("budget", message.budget.count());
    let shown = format!("{} {} {}", consent.burst_percent, consent.average_per_mille, consent.seconds);
    lines.add("consent", shown).far_relay(Some(message.far_relay)).hex("grant", message.grant);
    lines.revision(message.revision);
    "register"
}

fn registered(message: &RegisterReply, lines: &mut FieldList) -> &'static str {
    lines.flow_key(&message.flow_key).word("role", message.role).far_relay(Some(message.far_relay));
    match message.outcome {
        Ok(alias) => lines.add("status", "accepted").add("alias", alias.number()),
        Err(refusal) => lines.word("status", refusal).add("alias", "-"),
    };
    lines.revision(message.revision);
    lines.add("far-round-trip", message.far_round_trip.map_or(0, Microseconds::count));
    let activity = message.group_activity.map(|activity| (activity.coded, activity.cached));
    lines.add(
        "group-activity",
        activity.map_or("-".to_owned(), |(coded, cached)| format!("{coded} {cached}")),
    );
    "register-reply"
}

fn offer(message: &Offer<'_>, lines: &mut FieldList) -> &'static str {
    lines.add("flow", message.flow.number());
    terms(&message.forth, lines);
    terms(&message.back, lines);
    lines.hex("subject", message.subject.bytes());
    for limits in [message.latency.forth, message.latency.back].into_iter().flatten() {
        lines.add("acceptable", limits.acceptable.count()).add("gain", limits.gain.count());
    }
    "offer"
}

fn terms(terms: &Terms, lines: &mut FieldList) {
    let options = terms.options;
    lines.word("service", terms.service).shape("in-stream", terms.in_stream).shape("batch", terms.batch);
    lines.yes("congestion-controlled", options.congestion_controlled);
    lines.yes("relay-side-duplication", options.relay_side_duplication);
    lines.yes("sender-makes-repairs", options.sender_makes_repairs).yes("selective", options.selective);
    lines.yes("coded-with-other-tenants", options.coded_with_other_tenants);
    lines.yes("mixture", options.mixture).yes("automatic-service", options.automatic_service);
    lines.add("rate", terms.rate.count()).add("budget", terms.budget.count());
}

fn offered(message: OfferReply, lines: &mut FieldList) -> &'static str {
    lines.add("flow", message.flow.number());
    match message.outcome {
        Ok(()) => lines.add("status", "accepted"),
        Err(refusal) => lines.word("status", refusal),
    };
    "offer-reply"
}

fn early_packet(message: &EarlyPacket<'_>, lines: &mut FieldList) -> &'static str {
    let EarlyPacket { flow, sequence, fragment, waited, plaintext } = message;
    lines.add("flow", flow.number()).add("sequence", sequence.number());
    lines.word("fragment", fragment).add("waited", waited.count());
    lines.add("sent", plaintext.sent.micros()).add("ecn", plaintext.traffic_class.ecn().bits());
    lines.add("unprotected", plaintext.unprotected.bits());
    plaintext.dscp().iter().for_each(|dscp| _ = lines.add("dscp", *dscp));
    lines.hex("datagram", plaintext.datagram);
    "early-packet"
}

fn aliases(message: &Aliases<'_>, lines: &mut FieldList) -> &'static str {
    for flow in message.flows.iter() {
        lines.add("alias", flow.alias.number()).flow_key(&flow.flow_key);
        lines.word("service", flow.service).yes("selective", flow.selective);
        lines.yes("adaptive-redundancy", flow.adaptive_redundancy).add("rate", flow.rate.count());
    }
    "aliases"
}

fn aliases_known(message: &AliasesReply<'_>, lines: &mut FieldList) -> &'static str {
    for known in message.aliases.iter() {
        lines.add("alias", known.alias.number()).add("known", u8::from(known.has_receiver));
    }
    for network in message.networks.iter() {
        lines.add("network", network.number());
    }
    "aliases-reply"
}

fn in_stream_repair(message: &InStreamRepair<'_>, lines: &mut FieldList) -> &'static str {
    let head = &message.head;
    lines.add("alias", head.alias.number()).add("first-low", head.first_low);
    lines.add("mask", head.mask.bits());
    lines.add("repair-index", format!("{} {}", head.repair_index.index(), head.repair_index.count()));
    lines.hex("length-symbol", &head.length_symbol).hex("payload", message.payload);
    "in-stream-repair"
}

fn cross_stream_repair(message: &CrossStreamRepair<'_>, lines: &mut FieldList) -> &'static str {
    let head = &message.head;
    lines.add("batch", head.batch.number());
    lines.add("repair-index", format!("{} {}", head.repair_index.index(), head.repair_index.count()));
    lines.hex("length-symbol", &head.length_symbol);
    for entry in head.cover.entries().iter() {
        lines.add("entry", format!("{} {}", entry.alias.number(), entry.sequence_low));
    }
    for digest in head.cover.digests().unwrap_or_default() {
        lines.hex("digest", digest);
    }
    lines.hex("payload", message.payload);
    "cross-stream-repair"
}

fn nack(message: &Nack<'_>, lines: &mut FieldList) -> &'static str {
    lines.add("alias", message.alias.number()).yes("noticed-by-timer", message.noticed_by_timer);
    lines.yes("answers-confirm", message.answers_confirm).yes("queue-grows", message.queue_grows);
    let open_from_low = message.open_from_low.map(|number| number.to_string());
    lines.add("open-from-low", open_from_low.as_deref().unwrap_or("-"));
    lines.add("repair-lifetime", message.repair_lifetime.count()).ranges(message.ranges);
    "nack"
}

fn report(message: &Report, lines: &mut FieldList) -> &'static str {
    let (repaired, delay) = (message.repaired, message.delay);
    lines.flow_key(&message.flow_key).add("highest-low", message.highest_low);
    lines.add("direct", message.direct).add("lost", message.lost);
    lines.add("in-stream", repaired.in_stream).add("cooperative", repaired.cooperative);
    lines.add("cached", repaired.cached).add("forwarded", repaired.forwarded);
    lines.add("late", message.late).add("bursts", message.bursts);
    lines.add("longest-burst", message.longest_burst).add("delay-p50", delay.p50.count());
    lines.add("delay-p95", delay.p95.count()).add("delay-p99", delay.p99.count());
    lines.add("resent", repaired.resent).add("detection", message.detection.count());
    for known in message.relays.iter().flatten() {
        lines.far_relay(Some(known.relay)).add("relay-round-trip", known.round_trip.count());
    }
    lines.add("covered", message.covered);
    if let Some(delay) = message.paths.direct {
        lines.add("direct-least", delay.least).add("direct-p95", delay.p95);
    }
    if let Some(delay) = message.paths.relayed {
        lines.add("relayed-least", delay.least).add("relayed-p95", delay.p95);
    }
    "report"
}

fn loss_report(message: &LossReport<'_>, lines: &mut FieldList) -> &'static str {
    for flow in message.flows.iter() {
        lines.add("alias", flow.alias.number()).yes("open-ended", flow.is_open_ended);
        lines.yes("queue-grows", flow.queue_grows);
        let [one, two, three, more] = flow.losses;
        lines.add("losses", format!("{one} {two} {three} {more}"));
    }
    "loss-report"
}

fn transit_reply(message: &TransitReply<'_>, lines: &mut FieldList) -> &'static str {
    lines.transit_target(message.target).add("label", message.label.map_or(0, TransitLabel::number));
    lines.add("rate", message.rate.count());
    for delay in message.delays.iter() {
        lines.far_relay(Some(delay.relay)).add("relay-round-trip", delay.round_trip.count());
    }
    "transit-reply"
}

fn probe_reply(message: &ProbeReply, lines: &mut FieldList) -> &'static str {
    lines.add("number", message.number).add("sent", message.sent.micros());
    lines.add("received", message.received.micros()).add("envelopes", message.envelopes);
    lines.address(message.address);
    if message.long_packets > 0 || message.transit_packets > 0 {
        lines.add("long-packets", message.long_packets);
    }
    if message.transit_packets > 0 {
        lines.add("transit-packets", message.transit_packets);
    }
    "probe-reply"
}

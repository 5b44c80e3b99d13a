//! The published test vectors, made by the implementation in `docs/wire-crypto-vectors.py`.

mod support;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use byway_units::{FlowId, Time};
use byway_wire::packets::{
    CookiePacket, Envelope, InitiationPacket, MessagePacket, ResponsePacket, SourcePacket,
};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, CookieJar, Initiation, PortableProvider, PreSharedKey, PublicKey, Purpose,
    Random, Responder, Response, SigningKey, SplitKeys, Statement, StaticSecret, Suite, VerifyingKey,
    write_mac2,
};
use byway_wire::{
    Address, Alias, Capabilities, Counter, Credential, Epoch, Grant, Incarnation, SIGNATURE_BYTES,
    SequenceNumber, SessionIndex, Shard,
};
use support::vectors::bytes;

const VECTORS: &str = include_str!("../../../docs/wire-crypto-vectors.txt");

const FLOW: FlowId = FlowId::new(0x0102);
const SEQUENCE_NUMBER: SequenceNumber = SequenceNumber::new(0x1_0000_0002);
const MESSAGE_COUNTER: Counter = Counter::new(0x2_0000_0001);
const ENVELOPE_COUNTER: Counter = Counter::new(0x2_0000_0002);

/// One section of the vectors: its first line, then values by name.
struct Section {
    title: &'static str,
    values: BTreeMap<&'static str, Vec<u8>>,
}

impl Section {
    fn get(&self, name: &str) -> &[u8] {
        self.values.get(name).unwrap_or_else(|| panic!("{}: no {name}", self.title))
    }

    fn array<const BYTES: usize>(&self, name: &str) -> [u8; BYTES] {
        self.get(name).try_into().unwrap_or_else(|_| panic!("{}: {name} has another length", self.title))
    }

    fn secret(&self, name: &str) -> StaticSecret {
        StaticSecret::from_bytes(self.array(name))
    }

    fn byte(&self, name: &str) -> u8 {
        self.array::<1>(name)[0]
    }

    fn suite(&self) -> Suite {
        let suite = Suite::ALL.iter().find(|suite| **suite as u8 == self.byte("suite"));
        *suite.expect("a known suite")
    }

    fn purpose(&self) -> Purpose {
        let purpose = Purpose::ALL.iter().find(|purpose| **purpose as u8 == self.byte("purpose"));
        *purpose.expect("a known purpose")
    }

    fn index(&self, side: &str) -> SessionIndex {
        SessionIndex::new(u32::from_be_bytes(self.array(&format!("{side}-index"))))
    }

    fn capabilities(&self, side: &str) -> Capabilities {
        Capabilities::from_bits(u16::from_be_bytes(self.array(&format!("{side}-capabilities"))))
    }

    fn incarnation(&self, side: &str) -> Incarnation {
        Incarnation::new(u64::from_be_bytes(self.array(&format!("{side}-incarnation"))))
    }

    fn pre_shared(&self) -> PreSharedKey {
        PreSharedKey::from_bytes(self.array("psk"))
    }

    fn initiation(&self, name: &str) -> InitiationPacket<&[u8]> {
        InitiationPacket::parse(self.get(name)).expect("vectors are valid")
    }

    fn response(&self) -> ResponsePacket<&[u8]> {
        ResponsePacket::parse(self.get("response")).expect("vectors are valid")
    }

    /// The address that the cookie is for.
    fn address(&self) -> Address {
        let bytes: [u8; 18] = self.array("cookie-address");
        let (ip, port) = bytes.split_first_chunk::<16>().expect("an IPv6 address");
        let port = u16::from_be_bytes(port.try_into().expect("a port"));
        Address { ip: Ipv6Addr::from(*ip).into(), port }
    }
}

fn sections(kind: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.split_once(' ').expect("a name and a value"), sections.last_mut()) {
            (("handshake" | "signed", _), _) => {
                sections.push(Section { title: line, values: BTreeMap::new() });
            }
            ((name, value), Some(section)) => {
                section.values.insert(name, bytes(value));
            }
            ((name, _), None) => panic!("{name} before the first section"),
        }
    }
    sections.retain(|section| section.title.starts_with(kind));
    sections
}

fn write_initiation(section: &Section) -> (Vec<u8>, AwaitedResponse) {
    let initiation = Initiation {
        purpose: section.purpose(),
        suite: section.suite(),
        shard: Shard::new(section.byte("shard")),
        capabilities: section.capabilities("initiator"),
        index: section.index("initiator"),
        handshake_timestamp: u64::from_be_bytes(section.array("handshake-timestamp")),
        incarnation: section.incarnation("initiator"),
        epoch: Epoch::new(section.byte("epoch")),
        messages: section.get("initiator-messages"),
    };
    let responder = PublicKey::from_bytes(section.array("responder-key"));
    let secret = section.secret("initiator-secret");
    let (pre_shared, seed) = (section.pre_shared(), section.array("initiator-seed"));
    let written = initiation.write(&secret, &responder, &pre_shared, &seed);
    written.expect("vectors are valid")
}

fn accepted(section: &Section) -> (Vec<u8>, SplitKeys) {
    let responder = Responder::new(section.secret("responder-secret"));
    let screened = responder.screen(section.initiation("initiation")).expect("vectors are valid");
    let received = responder.read(&screened, &section.array("responder-seed")).expect("vectors are valid");
    assert_eq!(received.peer.bytes(), section.get("initiator-key"));
    assert_eq!(received.messages, section.get("initiator-messages"));
    let acceptance = Acceptance {
        index: section.index("responder"),
        capabilities: section.capabilities("responder"),
        incarnation: section.incarnation("responder"),
        messages: section.get("responder-messages"),
    };
    received.accept(&acceptance, &section.pre_shared()).expect("vectors are valid")
}

/// Returns the initiator's keys, then the responder's.
fn keys(section: &Section) -> (SplitKeys, SplitKeys) {
    let (_, mut awaited) = write_initiation(section);
    let Response { keys, .. } = awaited.read(section.response()).expect("vectors are valid");
    (keys, accepted(section).1)
}

#[test]
fn handshakes_are_the_published_ones() {
    let handshakes = sections("handshake");
    assert_eq!(handshakes.len(), 2);
    for section in handshakes {
        for side in ["initiator", "responder"] {
            let public = section.secret(&format!("{side}-secret")).public_key();
            assert_eq!(public.bytes(), section.get(&format!("{side}-key")));
        }
        assert_eq!(write_initiation(&section).0, section.get("initiation"), "{}", section.title);
        assert_eq!(accepted(&section).0, section.get("response"), "{}", section.title);
        let (ours, theirs) = keys(&section);
        assert_eq!((ours.send(), ours.receive()), (theirs.receive(), theirs.send()));
        assert_eq!(ours.send().as_slice(), section.get("initiator-to-responder"));
        assert_eq!(ours.receive().as_slice(), section.get("responder-to-initiator"));
    }
}

/// Returns the bytes of the vectors, in this order.
struct ScriptedRandom(Vec<Vec<u8>>);

impl Random for ScriptedRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.remove(0));
    }
}

#[test]
fn cookies_are_the_published_ones() {
    for section in sections("handshake") {
        let (mut packet, awaited) = write_initiation(&section);
        let responder = Responder::new(section.secret("responder-secret"));
        let mut jar = CookieJar::new(PublicKey::from_bytes(section.array("responder-key")));
        let address = section.address();
        let mut random =
            ScriptedRandom(["cookie-secret", "cookie-salt"].map(|name| section.get(name).to_vec()).to_vec());
        let screened = responder.screen(section.initiation("initiation")).expect("vectors are valid");
        let cookie = jar.packet(&screened, address, Time::START, &mut random);
        assert_eq!(cookie.as_slice(), section.get("cookie"));
        let cookie = CookiePacket::parse(section.get("cookie")).expect("vectors are valid");
        write_mac2(&mut packet, &awaited.open_cookie(cookie).expect("vectors are valid"));
        assert_eq!(packet, section.get("initiation-with-cookie"));
        let screened = responder.screen(section.initiation("initiation-with-cookie"));
        assert!(jar.admits(&screened.expect("mac1 has not changed"), address, Time::START));
    }
}

#[test]
fn sealed_packets_are_the_published_ones() {
    for section in sections("handshake") {
        let (ours, _) = keys(&section);
        let sender = ours.epoch_keys(&PortableProvider, section.suite());
        let tag = &[0; 16];

        let published = section.get("source-packet");
        let mut coded = [&published[11..12], section.get("source-plaintext"), tag].concat();
        sender.seal_source(FLOW, SEQUENCE_NUMBER, &mut coded);
        assert_eq!(coded, published[11..]);

        let published = section.get("message-packet");
        let mut packet = [&published[..9], section.get("message-plaintext"), tag].concat();
        sender.seal_message(MESSAGE_COUNTER, &mut packet);
        assert_eq!(packet, published);

        let published = section.get("envelope");
        let mut envelope = [&published[..published.len() - 16], tag].concat();
        sender.tag_envelope(ENVELOPE_COUNTER, &mut envelope);
        assert_eq!(envelope, published);

        let alias = Alias::new(0x0102).expect("it is not 0");
        let digest = ours.send_digests().digest(alias, 0x0304_0506, &[7, 8, 9]);
        assert_eq!(digest, section.get("digest-of-alias-0102-number-03040506-coded-070809"));
    }
}

#[test]
fn published_packets_open() {
    for section in sections("handshake") {
        let receiver = keys(&section).1.epoch_keys(&PortableProvider, section.suite());
        let mut packet = section.get("source-packet").to_vec();
        let source = SourcePacket::parse(packet.as_mut_slice()).expect("vectors are valid");
        assert_eq!((source.header().flow, source.header().sequence_low), (FLOW, SEQUENCE_NUMBER.low()));
        let plaintext = receiver.open_source(FLOW, SEQUENCE_NUMBER, source.into_coded());
        assert_eq!(plaintext.expect("vectors are valid"), section.get("source-plaintext"));

        let mut packet = section.get("message-packet").to_vec();
        let message = MessagePacket::parse(packet.as_mut_slice()).expect("vectors are valid");
        assert_eq!(message.header().counter_low, MESSAGE_COUNTER.low());
        let messages = receiver.open_message(MESSAGE_COUNTER, message).expect("vectors are valid");
        assert_eq!(messages, section.get("message-plaintext"));

        let envelope = Envelope::parse(section.get("envelope")).expect("vectors are valid");
        assert_eq!(envelope.header().counter_low, ENVELOPE_COUNTER.low());
        assert_eq!(receiver.verify_envelope(ENVELOPE_COUNTER, &envelope), Ok(()));
        assert_eq!(envelope.coded(), &section.get("source-packet")[11..]);
    }
}

#[test]
fn signatures_are_the_published_ones() {
    let signed = sections("signed");
    assert_eq!(signed.len(), 3);
    for section in signed {
        let statement = match section.title {
            "signed grant" => Statement::Grant,
            "signed credential" => Statement::Credential,
            "signed map" => Statement::Map,
            other => panic!("not a statement: {other}"),
        };
        let key = SigningKey::from_seed(&section.array("seed"));
        assert_eq!(key.verifying_key().bytes(), section.get("key"));
        let (fields, signature) = (section.get("fields"), section.array("signature"));
        assert_eq!(key.sign(statement, fields), signature);
        let key = VerifyingKey::from_bytes(&section.array("key")).expect("vectors are valid");
        assert_eq!(key.verify(statement, fields, &signature), Ok(()));
        assert_eq!(read_and_fields(statement, &[fields, &signature].concat()), fields);
    }
}

/// Returns the fields of a statement after parsing it.
fn read_and_fields(statement: Statement, bytes: &[u8]) -> Vec<u8> {
    match statement {
        Statement::Grant => Grant::parse(bytes).expect("vectors are valid").fields().to_vec(),
        Statement::Credential => Credential::parse(bytes).expect("vectors are valid").fields().to_vec(),
        // The text of a map, which is not parsed here.
        Statement::Map => bytes[..bytes.len() - SIGNATURE_BYTES].to_vec(),
    }
}

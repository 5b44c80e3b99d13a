//! The published test vectors, made by the implementation in `docs/wire-crypto-vectors.py`.

use std::collections::BTreeMap;

use byway_units::{FlowId, Time};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, CookieJar, Initiation, Portable, PreSharedKey, PublicKey, Purpose, Random,
    Responder, Response, SigningKey, SourceAddress, SplitKeys, Statement, StaticSecret, Suite, VerifyingKey,
    write_mac2,
};

const VECTORS: &str = include_str!("../../../docs/wire-crypto-vectors.txt");

const FLOW: FlowId = FlowId::new(0x0102);
const SEQUENCE_NUMBER: u64 = 0x1_0000_0002;
const MESSAGE_COUNTER: u64 = 0x2_0000_0001;
const ENVELOPE_COUNTER: u64 = 0x2_0000_0002;

/// One section of the vectors: its first line, then name by name.
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

    fn suite(&self) -> Suite {
        Suite::from_number(self.array::<1>("suite")[0]).expect("a known suite")
    }

    fn psk(&self) -> PreSharedKey {
        PreSharedKey::from_bytes(self.array("psk"))
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_start_matches('-').as_bytes().chunks(2);
    let digits = digits.map(|pair| str::from_utf8(pair).expect("vectors are ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("vectors are hexadecimal")).collect()
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

fn written(section: &Section) -> (Vec<u8>, AwaitedResponse) {
    let initiation = Initiation {
        purpose: Purpose::from_number(section.array::<1>("purpose")[0]).expect("a known purpose"),
        suite: section.suite(),
        shard: section.array::<1>("shard")[0],
        capabilities: u16::from_be_bytes(section.array("initiator-capabilities")),
        sender_index: u32::from_be_bytes(section.array("initiator-index")),
        stamp: u64::from_be_bytes(section.array("stamp")),
        boot: u64::from_be_bytes(section.array("initiator-boot")),
        epoch: section.array::<1>("epoch")[0],
        messages: section.get("initiator-messages"),
    };
    let responder = PublicKey::from_bytes(section.array("responder-key"));
    let secret = section.secret("initiator-secret");
    let written = initiation.write(&secret, &responder, &section.psk(), &section.array("initiator-seed"));
    written.expect("vectors are valid")
}

fn accepted(section: &Section) -> (Vec<u8>, SplitKeys) {
    let responder = Responder::new(section.secret("responder-secret"));
    let screened = responder.screen(section.get("initiation")).expect("vectors are valid");
    let received = responder.read(&screened, &section.array("responder-seed")).expect("vectors are valid");
    assert_eq!(received.peer.bytes(), section.get("initiator-key"));
    assert_eq!(received.messages, section.get("initiator-messages"));
    let acceptance = Acceptance {
        index: u32::from_be_bytes(section.array("responder-index")),
        capabilities: u16::from_be_bytes(section.array("responder-capabilities")),
        boot: u64::from_be_bytes(section.array("responder-boot")),
        messages: section.get("responder-messages"),
    };
    received.accept(&acceptance, &section.psk()).expect("vectors are valid")
}

/// The initiator's keys, then the responder's.
fn keys(section: &Section) -> (SplitKeys, SplitKeys) {
    let (_, mut awaited) = written(section);
    let Response { keys, .. } = awaited.read(section.get("response")).expect("vectors are valid");
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
        assert_eq!(written(&section).0, section.get("initiation"), "{}", section.title);
        assert_eq!(accepted(&section).0, section.get("response"), "{}", section.title);
        let (ours, theirs) = keys(&section);
        assert_eq!((ours.send(), ours.receive()), (theirs.receive(), theirs.send()));
        assert_eq!(ours.send().as_slice(), section.get("initiator-to-responder"));
        assert_eq!(ours.receive().as_slice(), section.get("responder-to-initiator"));
    }
}

/// Gives out what the vectors say, in this order.
struct Scripted(Vec<Vec<u8>>);

impl Random for Scripted {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.remove(0));
    }
}

#[test]
fn cookies_are_the_published_ones() {
    for section in sections("handshake") {
        let (mut packet, awaited) = written(&section);
        let responder = Responder::new(section.secret("responder-secret"));
        let mut jar = CookieJar::new(PublicKey::from_bytes(section.array("responder-key")));
        let address = SourceAddress::from_bytes(section.array("cookie-address"));
        let mut random =
            Scripted(["cookie-secret", "cookie-salt"].map(|name| section.get(name).to_vec()).to_vec());
        let screened = responder.screen(section.get("initiation")).expect("vectors are valid");
        let cookie = jar.packet(&screened, &address, Time::START, &mut random);
        assert_eq!(cookie.as_slice(), section.get("cookie"));
        write_mac2(&mut packet, &awaited.open_cookie(&cookie).expect("vectors are valid"));
        assert_eq!(packet, section.get("initiation-with-cookie"));
        let screened = responder.screen(&packet).expect("mac1 has not changed");
        assert!(jar.admits(&screened, &address, Time::START));
    }
}

#[test]
fn sealed_packets_are_the_published_ones() {
    for section in sections("handshake") {
        let (ours, _) = keys(&section);
        let sender = ours.epoch_keys(&Portable, section.suite());
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

        let digest = ours.send_digests().digest(0x0102, 0x0304_0506, &[7, 8, 9]);
        assert_eq!(digest, section.get("digest-of-alias-0102-number-03040506-coded-070809"));
    }
}

#[test]
fn published_packets_open() {
    for section in sections("handshake") {
        let receiver = keys(&section).1.epoch_keys(&Portable, section.suite());
        let mut coded = section.get("source-packet")[11..].to_vec();
        let plaintext = receiver.open_source(FLOW, SEQUENCE_NUMBER, &mut coded).expect("vectors are valid");
        assert_eq!(plaintext, section.get("source-plaintext"));
        let mut packet = section.get("message-packet").to_vec();
        let messages = receiver.open_message(MESSAGE_COUNTER, &mut packet).expect("vectors are valid");
        assert_eq!(messages, section.get("message-plaintext"));
        let envelope = section.get("envelope");
        let inside = receiver.verify_envelope(ENVELOPE_COUNTER, envelope).expect("vectors are valid");
        assert_eq!(inside[16..], section.get("source-packet")[11..]);
    }
}

#[test]
fn signatures_are_the_published_ones() {
    let signed = sections("signed");
    assert_eq!(signed.len(), 2);
    for section in signed {
        let statement = match section.title {
            "signed grant" => Statement::Grant,
            "signed credential" => Statement::Credential,
            other => panic!("not a statement: {other}"),
        };
        let key = SigningKey::from_seed(&section.array("seed"));
        assert_eq!(key.verifying_key().bytes(), section.get("key"));
        let (fields, signature) = (section.get("fields"), section.array("signature"));
        assert_eq!(key.sign(statement, fields), signature);
        let key = VerifyingKey::from_bytes(&section.array("key")).expect("vectors are valid");
        assert_eq!(key.verify(statement, fields, &signature), Ok(()));
    }
}

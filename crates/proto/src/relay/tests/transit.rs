//! Packets between relays through a third one: three relays in a network with delays.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use byway_wire::messages::{TransitRequest, TransitTarget};
use byway_wire::packets::Kind;
use byway_wire::{SessionIndex, TransitLabel};

use super::super::transit::on_transit_request;
use super::super::{RelayCounters, TransitRouteStatus};
use super::*;
use crate::limits::TRANSIT_BURST;
use crate::parts::token_bucket::TokenBucket;
use crate::session::relay_envelope;

/// Indices of the relays: packets go from the first to the second, and the third is between them.
const FROM: usize = 0;
const TO: usize = 1;
const THIRD: usize = 2;

/// Datagram on its path.
#[derive(Clone, Debug)]
struct Flying {
    from: usize,
    to: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// Arrival of an envelope at the second relay.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    sequence: u32,
    delay: Duration,
    by_third: bool,
    ecn: Ecn,
}

/// Three relays, and the paths between them.
struct RelayTriangle {
    relays: Vec<Relay>,
    now: Time,
    /// Datagrams by their arrival, and by their number.
    flying: BTreeMap<(Time, u64), Flying>,
    count: u64,
    /// One-way delays between the first two, the first and the third, the second and the third.
    delays: [Duration; 3],
    loses: Box<dyn FnMut(&Flying) -> bool>,
    /// Times of sending of all envelopes, by their sequence number.
    sent: Vec<Time>,
    arrived: Vec<Arrived>,
    /// Packets for the third relay with a label.
    labelled: Vec<Vec<u8>>,
}

fn relay_number(relay: usize) -> RelayId {
    RelayId::new(u32::try_from(relay + 1).expect("there are three"))
}

fn host(relay: usize) -> u8 {
    u8::try_from(relay + 1).expect("there are three")
}

impl RelayTriangle {
    /// Returns three relays with direct paths of 100 ms, and of 20 ms to the third one.
    fn new(is_offered: bool) -> Self {
        Self::with_third(is_offered, None)
    }

    /// The same; the third relay has these capabilities.
    fn with_third(is_offered: bool, capabilities: Option<Capabilities>) -> Self {
        let new = |relay: usize| {
            let settings = RelaySettings {
                follows_up: true,
                memory: RELAY_MEMORY,
                tenant_limits: TenantLimits::default(),
                number: relay_number(relay),
                shard: Shard::new(0),
                secret: secret(host(relay)),
                suite: Suite::ChaCha20Poly1305,
                started_unix_nanos: 1_000,
                authority: Authority::Static(Vec::new()),
                relays: Vec::new(),
                uplink: None,
                transit: is_offered && relay == THIRD,
            };
            let seed = [host(relay); 32];
            let mut new = Relay::new(settings, Engine::fastest(), &PortableProvider, seed, Time::START);
            if let Some(capabilities) = capabilities.filter(|_| relay == THIRD) {
                new.sessions.set_capabilities(capabilities);
            }
            for other in (0..3).filter(|other| *other != relay) {
                let (number, shard) = (relay_number(other), Shard::new(0));
                let (key, address) = (secret(host(other)).public_key(), address(host(other)));
                new.add_relay(&PeerRelay { number, shard, key, address }, Time::START);
            }
            new
        };
        let mut triangle = Self {
            relays: (0..3).map(new).collect(),
            now: Time::START,
            flying: BTreeMap::new(),
            count: 0,
            delays: [ms(100), ms(20), ms(20)],
            loses: Box::new(|_| false),
            sent: Vec::new(),
            arrived: Vec::new(),
            labelled: Vec::new(),
        };
        (0..3).for_each(|relay| triangle.drain(relay));
        triangle.run(ms(1_000));
        triangle
    }

    fn delay(&self, one: usize, other: usize) -> Duration {
        // The index of the pair: 0 for the first two, otherwise that of the end at the third.
        self.delays[if one + other == FROM + TO { 0 } else { 1 + one.min(other) }]
    }

    fn drain(&mut self, from: usize) {
        while let Some(transmit) = self.relays[from].poll() {
            let Some(to) = (0..3).find(|relay| address(host(*relay)) == transmit.to) else {
                continue;
            };
            let flying = Flying { from, to, ecn: transmit.ecn, bytes: transmit.bytes.to_vec() };
            if from == FROM && matches!(flying.bytes[0], 10 | 11) {
                self.labelled.push(flying.bytes.clone());
            }
            if !(self.loses)(&flying) {
                self.count += 1;
                self.flying.insert((self.now + self.delay(from, to), self.count), flying);
            }
        }
    }

    fn deliver(&mut self, Flying { from, to, ecn, mut bytes }: Flying) {
        let envelope = matches!(bytes[0], 9 | 11).then(|| bytes.clone());
        let before = self.relays[to].counters().aliases_unknown;
        let input =
            RelayInput::Received { from: address(host(from)), to: LocalAddress::ANY, ecn, bytes: &mut bytes };
        self.relays[to].handle(input, self.now);
        // The receiver does not know the alias, so it counts each new envelope.
        let is_new = self.relays[to].counters().aliases_unknown > before;
        if let Some(envelope) = envelope.filter(|_| is_new) {
            let sequence = envelope[12..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            let sequence = sequence.expect("an envelope has a sequence number");
            let delay = self.now.saturating_since(self.sent[sequence as usize]);
            self.arrived.push(Arrived { sequence, delay, by_third: from == THIRD, ecn });
        }
        self.drain(to);
    }

    /// Runs for a time, with all events that are due.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.relays.iter().filter_map(|relay| relay.deadline().map(|(at, _)| at));
            let Some(at) = deadlines.chain(arrival).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if arrival.is_some_and(|at| at <= self.now) {
                let (_, flying) = self.flying.pop_first().expect("one is first");
                self.deliver(flying);
                continue;
            }
            for relay in 0..3 {
                self.relays[relay].handle(RelayInput::Deadline, self.now);
                self.drain(relay);
            }
        }
        self.now = end;
    }

    fn session(&self, relay: usize, with: usize) -> SessionId {
        let peers = &self.relays[relay].peers;
        let peer = peers.find((relay_number(with), Shard::new(0))).expect("it was added");
        peers.session(peer).expect("it is another relay")
    }

    /// Sends an envelope from the first to the second relay.
    fn send(&mut self, ecn: Ecn, bytes: usize) {
        let session = self.session(FROM, TO);
        let sequence_low = u32::try_from(self.sent.len()).expect("few packets");
        self.sent.push(self.now);
        let (role, alias) = (EnvelopeRole::RelayedCopy, Alias::new(1).expect("not zero"));
        let coded = &alloc::vec![7; bytes];
        let contents = EnvelopeContents { role, alias, sequence_low, coded, ecn, owner: None };
        let relay = &mut self.relays[FROM];
        relay.sessions.use_session(session, self.now);
        relay_envelope(&mut relay.sessions, session, &contents, self.now);
        relay.flush(self.now);
        self.drain(FROM);
    }

    /// Sends an envelope each 20 ms for a time.
    fn stream(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.send(Ecn::NotCapable, 100);
            self.run(ms(20));
        }
    }

    /// Sends an envelope each 20 ms until packets use this number of routes. Returns the time,
    /// which is at most `time_max`.
    fn stream_until(&mut self, routes: usize, time_max: Duration) -> Duration {
        let began = self.now;
        while self.routes().len() != routes {
            self.stream(ms(20));
            let elapsed = self.now.saturating_since(began);
            assert!(elapsed <= time_max, "{elapsed}: {:?}", self.routes());
        }
        self.now.saturating_since(began)
    }

    fn routes(&self) -> Vec<TransitRouteStatus> {
        self.relays[FROM].transit_routes()
    }

    /// Returns the sequence numbers that have not arrived. Asserts that none arrived twice.
    fn missing(&self) -> Vec<u32> {
        let mut sequences: Vec<u32> = self.arrived.iter().map(|arrived| arrived.sequence).collect();
        sequences.sort_unstable();
        let all = sequences.len();
        sequences.dedup();
        assert_eq!(sequences.len(), all, "a packet arrived twice");
        let sent = 0..u32::try_from(self.sent.len()).expect("few packets");
        sent.filter(|sequence| sequences.binary_search(sequence).is_err()).collect()
    }

    /// Returns the delay of the packets that arrived latest.
    fn latest_delay(&self) -> Duration {
        self.arrived.last().expect("packets have arrived").delay
    }

    /// A triangle whose packets go through the third relay.
    fn with_route() -> Self {
        let mut triangle = Self::new(true);
        triangle.stream(ms(5_000));
        assert_eq!(triangle.routes().len(), 1);
        assert_eq!(triangle.missing(), triangle.in_flight());
        triangle
    }

    /// Returns the sequence numbers of the packets that may be in flight.
    fn in_flight(&self) -> Vec<u32> {
        let envelopes = self.flying.values().filter(|flying| matches!(flying.bytes[0], 9 | 11));
        let sequence =
            |flying: &Flying| flying.bytes[12..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let mut sequences: Vec<u32> = envelopes.filter_map(sequence).collect();
        sequences.sort_unstable();
        sequences
    }

    fn counters(&self, relay: usize) -> &RelayCounters {
        self.relays[relay].counters()
    }
}

#[test]
fn packets_go_through_a_third_relay_that_gains_and_each_arrives_once() {
    let mut triangle = RelayTriangle::new(true);
    triangle.stream(ms(10_000));
    let [TransitRouteStatus { to, through, delay, direct_delay }] = triangle.routes()[..] else {
        panic!("{:?}", triangle.routes());
    };
    assert_eq!((to.0, through.0), (relay_number(TO), relay_number(THIRD)));
    assert!(delay.max(ms(40)) - delay.min(ms(40)) <= ms(1), "{delay}");
    assert_eq!((direct_delay, triangle.latest_delay()), (ms(100), ms(40)));
    triangle.run(ms(1_000));
    assert_eq!(triangle.missing(), []);
    let first = triangle.arrived.iter().find(|arrived| arrived.by_third).expect("some did");
    let after = triangle.sent[first.sequence as usize].saturating_since(Time::START + ms(1_000));
    assert!(after <= ms(3_000), "{after} after the first packet");
    let (from, to, third) = (triangle.counters(FROM), triangle.counters(TO), triangle.counters(THIRD));
    assert_eq!((from.transit_routes, from.transit_failed), (1, 0));
    assert!(third.transit_passed >= 300 && from.transit_sent >= third.transit_passed, "{third:?}");
    assert_eq!(to.transit_received, third.transit_passed);
    assert_eq!((third.transit_unknown, third.transit_limited, third.transit_refused), (0, 0, 0));
    for relay in [FROM, TO] {
        assert_eq!(triangle.relays[relay].session_counters().moves, 0, "no session has moved");
    }
    let session = triangle.session(TO, FROM);
    let seen = triangle.relays[TO].sessions.get(session).and_then(|session| session.path.address());
    assert_eq!(seen, Some(&address(host(FROM))));
}

#[test]
fn a_third_relay_passes_on_nothing_unless_that_is_configured() {
    let mut triangle = RelayTriangle::new(false);
    triangle.stream(ms(10_000));
    assert_eq!((triangle.routes(), triangle.latest_delay()), (Vec::new(), ms(100)));
    assert!(triangle.labelled.is_empty() && triangle.counters(THIRD).transit_passed == 0);
    // Whoever sends it packets all the same has them dropped, and counted.
    let mut packet = [&[10, 0, 0x81, 0xAB, 0xCD][..], &[0; 40]].concat();
    let from = address(host(FROM));
    let input =
        RelayInput::Received { from, to: LocalAddress::ANY, ecn: Ecn::NotCapable, bytes: &mut packet };
    triangle.relays[THIRD].handle(input, triangle.now);
    assert_eq!(
        (triangle.counters(THIRD).transit_unknown, triangle.relays[THIRD].poll().is_some()),
        (1, false)
    );
}

#[test]
fn a_third_relay_of_an_earlier_version_gets_no_transit_packets() {
    let earlier = Capabilities::DIGESTS.with(Capabilities::LOSS_REPORTS);
    let mut triangle = RelayTriangle::with_third(true, Some(earlier));
    triangle.stream(ms(10_000));
    assert_eq!((triangle.routes(), triangle.latest_delay()), (Vec::new(), ms(100)));
    assert!(triangle.labelled.is_empty() && triangle.counters(THIRD).transit_refused == 0);
}

#[test]
fn a_third_relay_that_gains_too_little_passes_on_probes_alone() {
    let mut triangle = RelayTriangle::new(true);
    triangle.delays = [ms(100), ms(45), ms(46)];
    triangle.stream(ms(20_000));
    assert_eq!((triangle.routes(), triangle.latest_delay()), (Vec::new(), ms(100)));
    // It reported the shorter delays of its start.
    let passed = triangle.counters(THIRD).transit_passed;
    assert!((8..=16).contains(&passed), "{passed}");
}

#[test]
fn a_third_relay_that_dies_is_left_within_two_seconds_and_used_again_after_a_minute() {
    let mut triangle = RelayTriangle::with_route();
    triangle.loses = Box::new(|flying| flying.from == THIRD || flying.to == THIRD);
    triangle.stream_until(0, ms(2_000));
    let left = triangle.now;
    triangle.loses = Box::new(|_| false);
    let waited = triangle.stream_until(1, ms(90_000));
    assert!(waited >= ms(60_000), "{waited}");
    triangle.run(ms(1_000));
    let lost = triangle.missing();
    assert!(lost.iter().all(|sequence| triangle.sent[*sequence as usize] < left + ms(20)), "{lost:?}");
    assert!((1..=100).contains(&lost.len()), "{} packets of at most two seconds", lost.len());
    assert_eq!(triangle.counters(FROM).transit_failed, 1);
}

#[test]
fn a_third_relay_that_becomes_slow_is_left_within_two_seconds_and_nothing_is_lost() {
    let mut triangle = RelayTriangle::with_route();
    triangle.delays[1] = ms(180);
    triangle.stream_until(0, ms(2_000));
    triangle.stream(ms(3_000));
    triangle.run(ms(1_000));
    assert_eq!(triangle.missing(), []);
    assert_eq!(triangle.latest_delay(), ms(100));
}

#[test]
fn a_third_relay_that_passes_on_probes_and_drops_packets_is_left() {
    let mut triangle = RelayTriangle::with_route();
    triangle.loses = Box::new(|flying| flying.from == THIRD && flying.bytes[0] == 11);
    triangle.stream_until(0, ms(2_000));
    assert_eq!(triangle.counters(FROM).transit_failed, 1);
}

#[test]
fn new_keys_of_every_session_lose_no_packet_and_keep_the_route() {
    let mut triangle = RelayTriangle::with_route();
    triangle.stream(ms(150_000));
    assert_eq!(triangle.routes().len(), 1);
    assert_eq!(triangle.latest_delay(), ms(40));
    triangle.run(ms(1_000));
    assert_eq!(triangle.missing(), []);
    let handshakes = triangle.relays.iter().map(|relay| relay.session_counters().handshakes);
    assert!(handshakes.min() >= Some(4), "two sessions of each relay have new keys");
    assert_eq!((triangle.counters(FROM).transit_routes, triangle.counters(THIRD).transit_unknown), (1, 0));
    let slow = triangle.arrived.iter().filter(|arrived| arrived.sequence > 300 && !arrived.by_third).count();
    assert_eq!(slow, 0, "no packet used the direct path meanwhile");
}

#[test]
fn observers_cannot_make_the_third_relay_send() {
    let mut triangle = RelayTriangle::with_route();
    let genuine = triangle.labelled.last().expect("there was one").clone();
    triangle.run(ms(500));
    let passed = triangle.counters(THIRD).transit_passed;
    let mut forged = genuine.clone();
    let end = forged.len() - 1;
    forged[end] ^= 1;
    let mut mislabelled = genuine.clone();
    mislabelled[if genuine[0] == 10 { 2 } else { 3 }] ^= 1;
    for mut bytes in [genuine, forged, mislabelled] {
        let from = address(host(FROM));
        let input =
            RelayInput::Received { from, to: LocalAddress::ANY, ecn: Ecn::NotCapable, bytes: &mut bytes };
        triangle.relays[THIRD].handle(input, triangle.now);
    }
    let third = triangle.counters(THIRD);
    assert_eq!((third.transit_passed, third.transit_unknown), (passed, 3));
}

/// Handles a request of the first relay at the third one. Returns true if that assigns a label.
fn request(triangle: &mut RelayTriangle, relay: usize) -> bool {
    let (source, index) = (triangle.session(THIRD, FROM), SessionIndex::new(7));
    let relay = GrantedRelay { relay: relay_number(relay), shard: Shard::new(0) };
    let target = Some(TransitTarget { relay, index });
    let third = &mut triangle.relays[THIRD];
    let (refused, memory) = (third.counters().transit_refused, third.memory_bytes());
    on_transit_request(third, source, TransitRequest { target }, triangle.now);
    let is_assigned = third.memory_bytes() > memory;
    assert_eq!(third.counters().transit_refused, refused + u64::from(!is_assigned));
    is_assigned
}

#[test]
fn packets_are_passed_on_to_other_relays_alone_and_never_back() {
    let mut triangle = RelayTriangle::new(true);
    assert!(request(&mut triangle, TO));
    assert!(!request(&mut triangle, FROM), "back to the sender");
    assert!(!request(&mut triangle, THIRD), "to the relay itself");
    assert!(!request(&mut triangle, 8), "to an unknown relay");
}

#[test]
fn a_label_behind_a_label_reaches_nobody() {
    let mut triangle = RelayTriangle::with_route();
    let source = triangle.session(THIRD, TO);
    let index = SessionIndex::of_transit(Shard::new(0), TransitLabel::new(1).expect("legal"), [1, 2]);
    let mut body = [0; 64];
    let mut writer = byway_wire::Writer::new(&mut body);
    let relay = GrantedRelay { relay: relay_number(FROM), shard: Shard::new(0) };
    let target = Some(TransitTarget { relay, index });
    Message::TransitRequest(TransitRequest { target }).emit(&mut writer).expect("it fits");
    let now = triangle.now;
    let from = Route::Direct(address(host(TO)).into());
    let unread = triangle.counters(THIRD).messages_unknown;
    triangle.relays[THIRD].on_messages(source, writer.as_bytes(), from, now);
    assert_eq!(triangle.counters(THIRD).messages_unknown, unread + 1, "{unread} before");
    let unknown = triangle.relays[TO].session_counters().unknown_index;
    let mut packet = [&[10, 0, 1, 2, 3][..], &[0; 40]].concat();
    let from = address(host(THIRD));
    let input =
        RelayInput::Received { from, to: LocalAddress::ANY, ecn: Ecn::NotCapable, bytes: &mut packet };
    triangle.relays[TO].handle(input, now);
    assert_eq!(triangle.relays[TO].session_counters().unknown_index, unknown + 1);
    assert!(triangle.relays[TO].poll().is_none());
}

#[test]
fn the_third_relay_limits_the_rate_of_a_source() {
    let mut triangle = RelayTriangle::with_route();
    let (session, now) = (triangle.session(FROM, TO), triangle.now);
    let known = triangle.relays[FROM].sessions.get_mut(session).expect("it is established");
    let route = known.transit.route.as_mut().expect("it is in use");
    let rate = byway_units::Rate::from_megabits_per_second(100_000);
    route.allowance = TokenBucket::of_bytes(rate, byway_units::Bytes::new(1 << 30), now);
    let before = triangle.counters(THIRD).transit_passed_bytes;
    (0..500).for_each(|_| triangle.send(Ecn::NotCapable, 1_376));
    triangle.run(ms(100));
    let third = triangle.counters(THIRD);
    assert!(third.transit_limited >= 100, "{third:?}");
    let passed = third.transit_passed_bytes - before;
    assert!((TRANSIT_BURST.count() * 9 / 10..TRANSIT_BURST.count() + 10_000).contains(&passed), "{passed}");
}

#[test]
fn a_source_beyond_the_announced_rate_uses_the_direct_path_and_loses_nothing() {
    let mut triangle = RelayTriangle::with_route();
    (0..500).for_each(|_| triangle.send(Ecn::NotCapable, 1_376));
    triangle.stream(ms(2_000));
    triangle.run(ms(1_000));
    assert_eq!((triangle.missing(), triangle.routes()), (Vec::new(), Vec::new()));
    assert_eq!((triangle.counters(FROM).transit_failed, triangle.counters(THIRD).transit_limited), (1, 0));
}

#[test]
fn the_third_relay_passes_on_congestion_marks() {
    let mut triangle = RelayTriangle::with_route();
    triangle.arrived.clear();
    triangle.run(ms(200));
    for ecn in [Ecn::Capable0, Ecn::CongestionExperienced] {
        triangle.send(ecn, 100);
        triangle.run(ms(100));
        let latest = triangle.arrived.last().expect("it arrived");
        assert_eq!((latest.by_third, latest.ecn), (true, ecn));
    }
}

#[test]
fn labels_count_as_memory_and_kinds_are_those_of_the_wire_format() {
    let triangle = RelayTriangle::with_route();
    let without = RelayTriangle::new(true);
    assert!(triangle.relays[THIRD].memory_bytes() > without.relays[THIRD].memory_bytes());
    let kinds = [Kind::Envelope, Kind::TransitMessage, Kind::TransitEnvelope].map(Kind::first_byte);
    assert_eq!(kinds, [9, 10, 11]);
}

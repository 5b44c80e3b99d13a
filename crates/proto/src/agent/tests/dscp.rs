//! Tests of the DSCP of an application's datagram, which every path preserves.

use super::*;
use crate::limits::{FRAGMENT_BYTES_BASE, FRAGMENT_BYTES_MAX};

const EF: u8 = 46;
const AF41: u8 = 34;

fn class(dscp: u8) -> TrafficClass {
    TrafficClass::new(dscp, Ecn::NotCapable)
}

/// Returns the lengths of the source packets that were sent.
fn lengths_of_source_packets(network: &TestNetwork) -> Vec<usize> {
    network.sent.iter().filter(|one| one.source_sequence().is_some()).map(|one| one.bytes.len()).collect()
}

#[test]
fn each_datagram_has_its_own_dscp_which_takes_one_byte_unless_it_is_0() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let dscps = [EF, AF41, 0, EF, 63, 0, 1];
    for dscp in dscps {
        network.send_as(&[dscp; 50], class(dscp), false);
        network.run(ms(10));
    }
    network.run(ms(50));
    assert_eq!(network.dscps, dscps);
    assert!(network.got.iter().zip(dscps).all(|(got, dscp)| got.bytes == [dscp; 50]), "{:?}", network.got);
    assert_eq!(lengths_of_source_packets(&network), dscps.map(|dscp| 83 + usize::from(dscp > 0)));
}

#[test]
fn dscp_and_ecn_field_do_not_change_each_other() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    for ecn in [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::CongestionExperienced] {
        network.send_as(b"x", TrafficClass::new(EF, ecn), false);
        network.run(ms(50));
        assert_eq!((network.got.last().map(|got| got.ecn), network.dscps.last()), (Some(ecn), Some(&EF)));
        let source_packet = network.sent.iter().rev().find(|one| one.source_sequence().is_some());
        assert_eq!(source_packet.map(|one| one.ecn), Some(ecn));
    }
}

#[test]
fn a_repaired_or_forwarded_packet_keeps_its_dscp() {
    for role in [EnvelopeRole::CachedRepair, EnvelopeRole::CooperativeRepair, EnvelopeRole::Forwarded] {
        let service = if role == EnvelopeRole::Forwarded { Service::Both } else { Service::Coding };
        let mut network = TestNetwork::new(&settings(service));
        network.lose_source_packets([1]);
        network.stream(1);
        network.send_as(&[1; 50], class(EF), false);
        network.run(ms(15));
        let coded = network.copy(1);
        network.send_envelope_from_relay(role, 1, &coded);
        network.run(ms(15));
        assert_eq!((network.got.last().map(|got| got.bytes[0]), &network.dscps[..]), (Some(1), &[0, EF][..]));
    }
}

#[test]
fn both_pieces_of_a_long_datagram_say_the_dscp() {
    for (lost, dscp) in [(0, EF), (1, EF), (0, 63), (1, 1)] {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        network.lose_source_packets([lost]);
        network.send_as(&[9; 1_500], class(dscp), false);
        network.run(ms(50));
        assert_eq!(network.got, []);
        let coded = network.copy(lost);
        network.send_envelope_from_relay(EnvelopeRole::CachedRepair, lost, &coded);
        network.run(ms(15));
        assert_eq!((&network.got[0].bytes[..], &network.dscps[..]), (&[9; 1_500][..], &[dscp][..]));
    }
}

#[test]
fn no_packet_is_longer_for_its_dscp_than_paths_carry() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    for _ in 0..20 {
        // The agents probe the path MTU in this time.
        network.send(&[7; 1_500]);
        network.run(ms(1_000));
    }
    for (length, dscp, packets) in [
        (FRAGMENT_BYTES_BASE, 0, 1),
        (FRAGMENT_BYTES_BASE - 1, EF, 1),
        (FRAGMENT_BYTES_MAX, 0, 1),
        (FRAGMENT_BYTES_MAX, EF, 2),
        (FRAGMENT_BYTES_MAX - 1, EF, 1),
        (1_500, 63, 2),
    ] {
        network.forget();
        network.send_as(&alloc::vec![7; length], class(dscp), false);
        network.run(ms(50));
        let lengths = lengths_of_source_packets(&network);
        assert_eq!((lengths.len(), network.dscps.last()), (packets, Some(&dscp)), "{length} bytes, {dscp}");
        assert!(lengths.iter().all(|length| *length <= FRAGMENT_BYTES_MAX + 33), "{lengths:?}");
        assert_eq!(network.got[0].bytes.len(), length);
    }
}

#[test]
fn a_datagram_that_waits_for_a_way_keeps_its_dscp() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let sent_at = network.now;
    network.agents[SENDER].send_buffered(network.flow, b"held", class(AF41), false, sent_at, sent_at);
    network.drain(SENDER);
    network.run(ms(50));
    assert_eq!((network.got[0].bytes.as_slice(), &network.dscps[..]), (&b"held"[..], &[AF41][..]));
}

#[test]
fn a_peer_that_knows_nothing_of_dscps_gets_none() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let peer = network.agents[SENDER].senders[network.flow.0 as usize].peer;
    let session = network.agents[SENDER].sessions.get_mut(peer).expect("the peer was added");
    assert!(session.epochs[0].capabilities.contain(Capabilities::DSCPS), "both know");
    session.epochs[0].capabilities = Capabilities::NONE;
    network.send_as(&[7; 50], class(EF), false);
    network.run(ms(50));
    assert_eq!((network.got[0].bytes.len(), &network.dscps[..]), (50, &[0][..]));
}

//! The DSCP of an application's datagram goes with it, whichever way it takes.

use super::*;
use crate::limits::{PIECE_BYTES_BASE, PIECE_BYTES_MAX};

const EF: u8 = 46;
const AF41: u8 = 34;

fn class(dscp: u8) -> TrafficClass {
    TrafficClass::new(dscp, Ecn::NotCapable)
}

/// The bytes of the originals that were sent.
fn lengths_of_originals(hall: &Hall) -> Vec<usize> {
    hall.sent.iter().filter(|one| one.original().is_some()).map(|one| one.bytes.len()).collect()
}

#[test]
fn each_datagram_has_its_own_dscp_which_takes_one_byte_unless_it_is_0() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let dscps = [EF, AF41, 0, EF, 63, 0, 1];
    for dscp in dscps {
        hall.send_as(&[dscp; 50], class(dscp), false);
        hall.run(ms(10));
    }
    hall.run(ms(50));
    assert_eq!(hall.dscps, dscps);
    assert!(hall.got.iter().zip(dscps).all(|(got, dscp)| got.bytes == [dscp; 50]), "{:?}", hall.got);
    assert_eq!(lengths_of_originals(&hall), dscps.map(|dscp| 83 + usize::from(dscp > 0)));
}

#[test]
fn dscp_and_ecn_field_do_not_change_each_other() {
    let mut hall = Hall::new(&settings(Service::Coding));
    for ecn in [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::CongestionExperienced] {
        hall.send_as(b"x", TrafficClass::new(EF, ecn), false);
        hall.run(ms(50));
        assert_eq!((hall.got.last().map(|got| got.ecn), hall.dscps.last()), (Some(ecn), Some(&EF)));
        let original = hall.sent.iter().rev().find(|one| one.original().is_some());
        assert_eq!(original.map(|one| one.ecn), Some(ecn));
    }
}

#[test]
fn a_repaired_or_forwarded_packet_keeps_its_dscp() {
    for role in [EnvelopeRole::CachedRepair, EnvelopeRole::CooperativeRepair, EnvelopeRole::Forwarded] {
        let service = if role == EnvelopeRole::Forwarded { Service::Both } else { Service::Coding };
        let mut hall = Hall::new(&settings(service));
        hall.loses_originals([1]);
        hall.stream(1);
        hall.send_as(&[1; 50], class(EF), false);
        hall.run(ms(15));
        let coded = hall.copy(1);
        hall.gives(role, 1, &coded);
        hall.run(ms(15));
        assert_eq!((hall.got.last().map(|got| got.bytes[0]), &hall.dscps[..]), (Some(1), &[0, EF][..]));
    }
}

#[test]
fn both_pieces_of_a_long_datagram_say_the_dscp() {
    for (lost, dscp) in [(0, EF), (1, EF), (0, 63), (1, 1)] {
        let mut hall = Hall::new(&settings(Service::Coding));
        hall.loses_originals([lost]);
        hall.send_as(&[9; 1_500], class(dscp), false);
        hall.run(ms(50));
        assert_eq!(hall.got, []);
        let coded = hall.copy(lost);
        hall.gives(EnvelopeRole::CachedRepair, lost, &coded);
        hall.run(ms(15));
        assert_eq!((&hall.got[0].bytes[..], &hall.dscps[..]), (&[9; 1_500][..], &[dscp][..]));
    }
}

#[test]
fn no_packet_is_longer_for_its_dscp_than_paths_carry() {
    let mut hall = Hall::new(&settings(Service::Coding));
    for _ in 0..20 {
        // Meanwhile, the agents find out how long packets may be.
        hall.send(&[7; 1_500]);
        hall.run(ms(1_000));
    }
    for (length, dscp, packets) in [
        (PIECE_BYTES_BASE, 0, 1),
        (PIECE_BYTES_BASE - 1, EF, 1),
        (PIECE_BYTES_MAX, 0, 1),
        (PIECE_BYTES_MAX, EF, 2),
        (PIECE_BYTES_MAX - 1, EF, 1),
        (1_500, 63, 2),
    ] {
        hall.forget();
        hall.send_as(&alloc::vec![7; length], class(dscp), false);
        hall.run(ms(50));
        let lengths = lengths_of_originals(&hall);
        assert_eq!((lengths.len(), hall.dscps.last()), (packets, Some(&dscp)), "{length} bytes, {dscp}");
        assert!(lengths.iter().all(|length| *length <= PIECE_BYTES_MAX + 33), "{lengths:?}");
        assert_eq!(hall.got[0].bytes.len(), length);
    }
}

#[test]
fn a_datagram_that_waits_for_a_way_keeps_its_dscp() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let came = hall.now;
    hall.agents[SENDER].send_held(hall.flow, b"held", class(AF41), false, came, came);
    hall.drain(SENDER);
    hall.run(ms(50));
    assert_eq!((hall.got[0].bytes.as_slice(), &hall.dscps[..]), (&b"held"[..], &[AF41][..]));
}

#[test]
fn a_peer_that_knows_nothing_of_dscps_gets_none() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let peer = hall.agents[SENDER].senders[hall.flow.0 as usize].peer;
    let session = hall.agents[SENDER].sessions.get_mut(peer).expect("the peer was added");
    assert!(session.epochs[0].capabilities.contain(Capabilities::DSCPS), "both know");
    session.epochs[0].capabilities = Capabilities::NONE;
    hall.send_as(&[7; 50], class(EF), false);
    hall.run(ms(50));
    assert_eq!((hall.got[0].bytes.len(), &hall.dscps[..]), (50, &[0][..]));
}

#![allow(clippy::disallowed_types, reason = "the peers of these tests are plain sockets")]

use std::iter;
use std::net::UdpSocket as Peer;
use std::sync::mpsc::{Receiver, Sender, channel};

use byway_units::Time;
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole, Kind, MessageHeader};
use byway_wire::{SessionIndex, Shard};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use super::*;
use crate::loopback::{ipv4, ipv6};
use crate::steering::shard_byte;
use crate::{Arrival, Clock, Handle, Io, Role, spawn};

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let sockets = OverlaySockets::bind(&[ipv4()]).unwrap();
    let address = sockets.addresses()[0];
    for error in [OverlaySockets::bind(&[address]).map(drop), bind_shards(&[address], 2).map(drop)]
        .map(Result::unwrap_err)
    {
        assert!(matches!(error, BindError::InUse { address: found } if found == address), "{error}");
        assert!(error.to_string().contains("port in use by another process"), "{error}");
    }
}

#[test]
fn a_second_relay_with_shards_does_not_join_the_first() {
    let first = bind_shards(&[ipv4()], 2).unwrap();
    let address = first[0].addresses()[0];
    let error = bind_shards(&[address], 2).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
}

#[test]
fn what_is_wrong_with_an_address_is_said() {
    let bind = |addresses: &[&str]| {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        OverlaySockets::bind(&addresses).unwrap_err()
    };
    assert!(matches!(bind(&[]), BindError::NoAddress));
    assert!(matches!(bind(&["127.0.0.1:0", "127.0.0.2:0"]), BindError::TwoOfFamily { .. }));
    // TEST-NET-1, RFC 5737: assigned to nobody.
    let error = bind(&["192.0.2.1:0"]);
    assert!(
        matches!(error, BindError::NotAvailable { .. }) && error.to_string().contains("192.0.2.1"),
        "{error}"
    );
    assert!(matches!(bind_shards(&[ipv4()], 0), Err(BindError::NoShards)));
}

#[test]
fn what_the_kernel_says_is_said_with_the_remedy() {
    let address = "[::1]:443".parse().unwrap();
    for (errno, remedy) in [
        (Errno::ADDRINUSE, "ss -ulpn"),
        (Errno::ACCESS, "CAP_NET_BIND_SERVICE"),
        (Errno::ADDRNOTAVAIL, "ip address"),
        (Errno::AFNOSUPPORT, "does not support IPv6; remove the address"),
        (Errno::NOMEM, "annot allocate memory"),
    ] {
        let text = explained(io::Error::from_raw_os_error(errno.raw_os_error()), address).to_string();
        assert!(text.starts_with("cannot bind [::1]:443: ") && text.contains(remedy), "{text}");
    }
}

#[test]
fn a_family_that_is_switched_off_has_not_even_the_address_of_all_interfaces() {
    let not_available = || io::Error::from_raw_os_error(Errno::ADDRNOTAVAIL.raw_os_error());
    for (address, is_of_family) in [("[::]:443", true), ("0.0.0.0:443", true), ("[2001:db8::1]:443", false)] {
        let error = explained(not_available(), address.parse().unwrap());
        assert_eq!(matches!(error, BindError::FamilyUnsupported { .. }), is_of_family, "{error}");
    }
}

#[test]
fn both_families_are_bound_to_the_ports_that_the_kernel_chose() {
    let Some(ipv6) = ipv6() else { return };
    let sockets = OverlaySockets::bind(&[ipv6, ipv4()]).unwrap();
    let [ipv4, ipv6] = sockets.addresses()[..] else { panic!("two") };
    assert!(ipv4.is_ipv4() && ipv6.is_ipv6() && ipv4.port() != 0 && ipv6.port() != 0);
    assert!(sockets.receive_buffer() > Bytes::new(0));
}

#[test]
fn fragments_are_forbidden_to_who_asks_for_none() {
    let addresses: Vec<SocketAddr> = ipv6().into_iter().chain([ipv4()]).collect();
    let discovery = |socket: &UdpSocket| match socket.local() {
        SocketAddr::V4(_) => sockopt::ip_mtu_discover(socket).unwrap().as_raw(),
        SocketAddr::V6(_) => sockopt::ipv6_mtu_discover(socket).unwrap().as_raw(),
    };
    let bound = || OverlaySockets::bind(&addresses).unwrap();
    for (sockets, expected) in [
        (bound(), [Ipv4PathMtuDiscovery::DONT.as_raw(), Ipv6PathMtuDiscovery::DONT.as_raw()]),
        (
            bound().without_fragments().unwrap(),
            [Ipv4PathMtuDiscovery::PROBE.as_raw(), Ipv6PathMtuDiscovery::PROBE.as_raw()],
        ),
    ] {
        for socket in sockets.sockets() {
            assert_eq!(discovery(socket), expected[usize::from(socket.local().is_ipv6())]);
        }
    }
}

/// A shard, and a packet that it received.
type ShardArrival = (u8, Vec<u8>);

/// Role that reports the packets of its shard.
struct ShardObserver {
    shard: u8,
    seen: Sender<ShardArrival>,
    is_finished: bool,
}

impl Role for ShardObserver {
    type Control = ();

    fn start(&mut self, _: &mut Io) {}

    fn on_datagram(&mut self, arrival: Arrival<'_>, _: &mut Io) {
        self.seen.send((self.shard, arrival.bytes.to_vec())).unwrap();
    }

    fn on_deadline(&mut self, _: &mut Io) {}

    fn on_control(&mut self, (): (), _: &mut Io) {
        self.is_finished = true;
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

fn witnesses(sockets: Vec<OverlaySockets>) -> (Vec<Handle<()>>, Receiver<ShardArrival>) {
    let clock = Clock::start();
    let (seen, sightings) = channel();
    let spawn = |(shard, sockets)| {
        let role = ShardObserver { shard, seen: seen.clone(), is_finished: false };
        spawn(&format!("shard-{shard}"), sockets, role, clock).unwrap()
    };
    ((0..).zip(sockets).map(spawn).collect(), sightings)
}

const SHARDS: u8 = 3;

/// Returns a packet of each kind for `shard`, encoded by `byway-wire` where it has an encoder.
fn packets(shard: u8) -> Vec<Vec<u8>> {
    let receiver = SessionIndex::in_shard(Shard::new(shard), 0x00AB_CDEF);
    let mut envelope = vec![0; EnvelopeHeader::BYTES + 40];
    let header = EnvelopeHeader {
        role: EnvelopeRole::Copy,
        receiver,
        counter_low: u32::MAX,
        alias: byway_wire::Alias::new(u16::MAX).unwrap(),
        sequence_low: u32::MAX,
    };
    header.emit(envelope.first_chunk_mut().unwrap());
    let mut message = vec![0; MessageHeader::BYTES + 40];
    MessageHeader { receiver, counter_low: u32::MAX }.emit(message.first_chunk_mut().unwrap());
    let of_kind = |kind: Kind, packet: &[u8]| [&[kind.first_byte()][..], &packet[1..]].concat();
    let source = of_kind(Kind::Source, &message);
    let transit_message = of_kind(Kind::TransitMessage, &message);
    let transit_envelope = of_kind(Kind::TransitEnvelope, &envelope);
    let index = receiver.number().to_be_bytes();
    let handshakes = [Kind::Response, Kind::Cookie].map(|kind| {
        let mut packet = vec![kind.first_byte(), 255, 255, 255];
        packet.extend(index);
        packet
    });
    let initiation = vec![Kind::Initiation.first_byte(), 255, 255, 255, shard, 255, 255, 255, 255];
    let sealed = [envelope, message, source, transit_message, transit_envelope];
    sealed.into_iter().chain([initiation]).chain(handshakes).collect()
}

#[test]
fn each_shard_receives_what_names_it_and_the_first_the_rest() {
    for address in iter::once(ipv4()).chain(ipv6()) {
        let sockets = bind_shards(&[address], SHARDS).unwrap();
        let to = sockets[0].addresses()[0];
        let (handles, sightings) = witnesses(sockets);
        let peer = Peer::bind(address).unwrap();
        let mut expected: Vec<ShardArrival> = Vec::new();
        for shard in 0..=SHARDS {
            let there = if shard < SHARDS { shard } else { 0 };
            expected.extend(packets(shard).into_iter().map(|packet| (there, packet)));
        }
        let strange: [&[u8]; 7] =
            [b"", &[4], &[5, 0, 0, 0], &[7], &[9, 1], &[15, 1, 1, 1, 1], &[0, 1, 1, 1, 1]];
        expected.extend(strange.map(|packet| (0, packet.to_vec())));
        for (_, packet) in &expected {
            peer.send_to(packet, to).unwrap();
        }
        let mut found: Vec<_> = expected.iter().map(|_| sightings.recv().unwrap()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        for handle in handles {
            handle.control(()).unwrap();
            handle.join().unwrap();
        }
    }
}

#[test]
fn a_sender_sees_the_shard_that_the_kernel_sees() {
    for shard in [0, 1, 200] {
        for packet in packets(shard) {
            assert_eq!(shard_byte(&packet), shard, "{packet:?}");
        }
    }
    for strange in [&b""[..], &[4], &[9, 1], &[15, 1, 1, 1, 1]] {
        assert_eq!(shard_byte(strange), 0);
    }
}

#[test]
fn runs_do_not_mix_shards_of_one_relay() {
    let sockets = bind_shards(&[ipv4()], SHARDS).unwrap();
    let to = sockets[0].addresses()[0];
    let (handles, sightings) = witnesses(sockets);
    let mut io = Io::new(OverlaySockets::bind(&[ipv4()]).unwrap(), Clock::start()).unwrap();
    let mut expected = Vec::new();
    for shard in 0..SHARDS {
        for _ in 0..10 {
            let packet = packets(shard).remove(0);
            let transmit = byway_proto::Transmit {
                to,
                from: byway_proto::LocalAddress::ANY,
                ecn: byway_wire::Ecn::NotCapable,
                priority: byway_proto::Priority::Source,
                bytes: &packet,
            };
            io.send(crate::SocketId::OVERLAY, &transmit);
            expected.push((shard, packet));
        }
    }
    io.flush();
    assert_eq!(io.counters().gso_calls, u64::from(SHARDS));
    let mut found: Vec<_> = expected.iter().map(|_| sightings.recv().unwrap()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for handle in handles {
        handle.control(()).unwrap();
        handle.join().unwrap();
    }
}

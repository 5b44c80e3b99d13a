#![allow(clippy::disallowed_types, reason = "the peers of these tests are plain sockets")]

use std::iter;
use std::net::UdpSocket as Peer;
use std::time::Duration as StdDuration;

use byway_proto::{LocalAddress, Priority};
use byway_units::Duration;
use byway_wire::Ecn;

use super::*;
use crate::loopback::{ipv4, ipv6};
use crate::poller::Readiness;
use crate::socket_options::disable_checksums;

/// Timeout for failing tests only: expected events occur at once.
const TIMEOUT: Duration = Duration::from_secs(20);

/// From this first byte on, no kind of packet is defined, so these datagrams address no shard.
const NO_KIND: u8 = 16;

fn io(addresses: &[SocketAddr]) -> Io {
    Io::new(OverlaySockets::bind(addresses).unwrap(), Clock::start()).unwrap()
}

fn peer(address: SocketAddr) -> (Peer, SocketAddr) {
    let peer = Peer::bind(address).unwrap();
    peer.set_read_timeout(Some(StdDuration::from(TIMEOUT))).unwrap();
    let address = peer.local_addr().unwrap();
    (peer, address)
}

fn source_packet(to: SocketAddr, bytes: &[u8]) -> Transmit<'_> {
    Transmit { to, from: LocalAddress::ANY, ecn: Ecn::NotCapable, priority: Priority::Source, bytes }
}

fn receive(peer: &Peer) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let length = peer.recv(&mut bytes).expect("the datagram comes");
    bytes.truncate(length);
    bytes
}

/// Returns the next `count` datagrams that `io` receives on any socket, and the number of rows.
fn arrivals(io: &mut Io, count: usize) -> (Vec<(Ecn, Vec<u8>)>, usize) {
    let (arrivals, rows) = arrivals_as(io, count);
    (arrivals.into_iter().map(|(class, bytes)| (class.ecn(), bytes)).collect(), rows)
}

/// Returns the same with their traffic classes.
fn arrivals_as(io: &mut Io, count: usize) -> (Vec<(TrafficClass, Vec<u8>)>, usize) {
    let mut buffers = ReceiveBuffers::new();
    let (mut arrivals, mut rows) = (Vec::new(), 0);
    let end = io.clock.now() + TIMEOUT;
    while arrivals.len() < count {
        assert!(io.clock.now() < end, "{} of {count} datagrams have come", arrivals.len());
        io.poller.wait(Some(end), false).unwrap();
        let mut index = 0;
        while let Some(ready) = io.poller.ready(index) {
            index += 1;
            if let Readiness::Socket { socket, .. } = ready {
                let received = io.receive(socket, &mut buffers);
                rows += received;
                for index in 0..received {
                    let mut row = buffers.row(index);
                    let class = row.traffic_class;
                    arrivals.extend(row.datagrams().map(|bytes| (class, bytes.to_vec())));
                }
            }
        }
    }
    (arrivals, rows)
}

#[test]
fn datagrams_arrive_in_order_whatever_their_lengths_and_equal_ones_share_a_call() {
    let mut io = io(&[ipv4()]);
    let (peer, to) = peer(ipv4());
    let lengths = [300, 300, 300, 100, 300, 0, 1_400, 1_400, 65_507, 7];
    for (number, length) in (NO_KIND..).zip(lengths) {
        io.send(SocketId::OVERLAY, &source_packet(to, &vec![number; length]));
    }
    io.flush();
    for (number, length) in (NO_KIND..).zip(lengths) {
        assert_eq!(receive(&peer), vec![number; length]);
    }
    let counters = io.counters();
    assert_eq!((counters.sent, counters.sent_bytes), (10, lengths.iter().sum::<usize>() as u64));
    assert_eq!((counters.send_calls, counters.gso_calls), (6, 2));
}

#[test]
fn a_row_that_the_kernel_joins_is_split_into_its_datagrams() {
    let (mut from, mut to) = (io(&[ipv4()]), io(&[ipv4()]));
    let address = to.local_address(SocketId::OVERLAY).unwrap();
    for number in NO_KIND..NO_KIND + 40 {
        from.send(SocketId::OVERLAY, &source_packet(address, &[number; 700]));
    }
    from.send(SocketId::OVERLAY, &source_packet(address, b"end"));
    from.flush();
    let (arrivals, rows) = arrivals(&mut to, 41);
    assert_eq!(from.counters().gso_calls, 1);
    assert_eq!(rows, 1, "the kernel joins what was sent with one call");
    let expected = (NO_KIND..NO_KIND + 40).map(|number| vec![number; 700]).chain([b"end".to_vec()]);
    assert_eq!(
        arrivals.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
}

#[test]
fn shards_get_datagrams_one_by_one_as_the_kernel_would_join_those_of_several() {
    let sockets = crate::bind_shards(&[ipv4()], 2).unwrap();
    let address = sockets[0].addresses()[0];
    let mut shards = sockets.into_iter().map(|sockets| Io::new(sockets, Clock::start()).unwrap());
    let (mut first, _second) = (shards.next().unwrap(), shards.next().unwrap());
    let mut from = io(&[ipv4()]);
    for number in NO_KIND..NO_KIND + 10 {
        from.send(SocketId::OVERLAY, &source_packet(address, &[number; 100]));
    }
    from.flush();
    assert_eq!(from.counters().gso_calls, 1);
    assert_eq!(arrivals(&mut first, 10).1, 10);
}

#[test]
fn ecn_fields_pass_both_ways_over_both_families() {
    for address in iter::once(ipv4()).chain(ipv6()) {
        let (mut from, mut to) = (io(&[address]), io(&[address]));
        let there = to.local_address(SocketId::OVERLAY).unwrap();
        let fields = [0b00, 0b01, 0b10, 0b11].map(Ecn::from_bits);
        for ecn in fields {
            for _ in 0..2 {
                from.send(SocketId::OVERLAY, &Transmit { ecn, ..source_packet(there, b"marked") });
            }
        }
        from.flush();
        let (arrivals, _) = arrivals(&mut to, 8);
        let found: Vec<_> = arrivals.into_iter().map(|(ecn, _)| ecn).collect();
        assert_eq!(found, fields.into_iter().flat_map(|ecn| [ecn, ecn]).collect::<Vec<_>>());
    }
}

#[test]
fn traffic_classes_pass_both_ways_between_application_sockets_over_both_families() {
    for address in iter::once(ipv4()).chain(ipv6()) {
        let (mut from, mut to) = (io(&[ipv4()]), io(&[ipv4()]));
        let (sending, receiving) = (from.open(address).unwrap(), to.open(address).unwrap());
        let there = to.local_address(receiving).unwrap();
        let classes = [0, 0b10, 46 << 2, 34 << 2 | 0b11, 63 << 2].map(TrafficClass::from_bits);
        for class in classes {
            // Two datagrams of equal length are sent with one call; the third is not.
            for bytes in [&b"marked"[..], b"marked", b"another length"] {
                from.send_as(sending, &source_packet(there, bytes), class);
            }
        }
        from.flush();
        let arrivals = arrivals_as(&mut to, 15).0.into_iter();
        let found: Vec<_> = arrivals.map(|(class, bytes)| (class, bytes.len())).collect();
        let expected = classes.into_iter().flat_map(|class| [(class, 6), (class, 6), (class, 14)]);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{address}");
        assert_eq!((from.counters().gso_calls, from.counters().dropped_refused), (5, 0), "{address}");
    }
}

#[test]
fn a_marked_answer_leaves_from_the_address_that_was_asked() {
    let mut io = io(&[ipv4()]);
    let socket = io.open(SocketAddr::from(([0; 4], 0))).unwrap();
    let port = io.local_address(socket).unwrap().port();
    let (peer, to) = peer(ipv4());
    let requested = SocketAddr::from(([127, 0, 0, 77], port));
    let from = io.answering_address(socket, to, Some(requested.ip()));
    io.send_as(socket, &Transmit { from, ..source_packet(to, b"answer") }, TrafficClass::from_bits(46 << 2));
    io.flush();
    assert_eq!(peer.recv_from(&mut [0; 9]).unwrap(), (6, requested));
}

#[test]
fn the_family_of_a_destination_chooses_the_overlay_socket() {
    let families: Vec<_> = iter::once(ipv4()).chain(ipv6()).collect();
    let mut both = io(&families);
    let addresses: Vec<_> = both.overlay_addresses().collect();
    assert!(addresses[0].is_ipv4() && addresses.len() == families.len());
    for (family, own) in families.into_iter().zip(addresses) {
        let (peer, to) = peer(family);
        both.send(SocketId::OVERLAY, &source_packet(to, b"hello"));
        both.flush();
        assert_eq!(peer.recv_from(&mut [0; 9]).unwrap(), (5, own));
    }
    // An IPv4-mapped address counts as IPv4.
    let (peer, to) = peer(ipv4());
    let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), to.port());
    both.send(SocketId::OVERLAY, &source_packet(mapped, b"mapped"));
    both.flush();
    assert_eq!(receive(&peer), b"mapped");
    assert_eq!(both.counters().dropped_unsendable, 0);
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let mut io = io(&[ipv4()]);
    let (_, to) = peer(ipv4());
    io.send(SocketId::OVERLAY, &source_packet("[::1]:9".parse().unwrap(), b"no IPv6 socket"));
    io.send(SocketId::OVERLAY, &source_packet("127.0.0.1:0".parse().unwrap(), b"no port"));
    io.send(SocketId::OVERLAY, &source_packet(to, &vec![0; DATAGRAM_BYTES_MAX + 1]));
    io.flush();
    assert_eq!(io.counters().dropped_unsendable, 3);
    // Broadcast needs an option that is not set.
    for _ in 0..3 {
        io.send(SocketId::OVERLAY, &source_packet("255.255.255.255:9".parse().unwrap(), b"refused"));
    }
    io.flush();
    assert_eq!((io.counters().dropped_refused, io.counters().sent), (3, 0));
    let socket = io.open(ipv4()).unwrap();
    io.send(socket, &source_packet("[::1]:9".parse().unwrap(), b"another family"));
    io.close(socket);
    io.send(socket, &source_packet(to, b"closed"));
    assert_eq!((io.counters().dropped_unsendable, io.counters().dropped_closed), (4, 1));
}

#[test]
fn where_gso_is_refused_datagrams_go_one_by_one_and_keep_their_marks() {
    let (mut from, mut to) = (io(&[ipv4()]), io(&[ipv4()]));
    let address = to.local_address(SocketId::OVERLAY).unwrap();
    disable_checksums(from.sockets.at(0).unwrap().1);
    for round in 0..2 {
        for number in 0..10 {
            let bytes = [NO_KIND + round * 10 + number; 100];
            from.send(SocketId::OVERLAY, &Transmit { ecn: Ecn::Capable0, ..source_packet(address, &bytes) });
        }
        from.flush();
        let (arrivals, _) = arrivals(&mut to, 10);
        let expected = (0..10).map(|number| (Ecn::Capable0, vec![NO_KIND + round * 10 + number; 100]));
        assert_eq!(arrivals, expected.collect::<Vec<_>>());
    }
    let counters = from.counters();
    assert_eq!((counters.sent, counters.send_calls, counters.gso_calls), (20, 20, 0));
    let (_, socket) = from.sockets.at(0).unwrap();
    assert_eq!((socket.segments_max(100), socket.segments_max(99)), (1, 64), "only this length is given up");
}

#[test]
fn a_refused_destination_does_not_cost_the_others_gso() {
    let mut io = io(&[ipv4()]);
    let (_, to) = peer(ipv4());
    let broadcast = "255.255.255.255:9".parse().unwrap();
    for _ in 0..10 {
        io.send(SocketId::OVERLAY, &source_packet(broadcast, b"refused"));
    }
    io.flush();
    for _ in 0..10 {
        io.send(SocketId::OVERLAY, &source_packet(to, b"through"));
    }
    io.flush();
    let counters = io.counters();
    assert_eq!((counters.dropped_refused, counters.sent, counters.gso_calls), (10, 10, 1));
}

#[test]
fn a_row_leaves_from_the_address_that_was_asked_and_from_another_if_that_is_gone() {
    for (requested, expected) in [("127.0.0.9", "127.0.0.9"), ("203.0.113.9", "127.0.0.1")] {
        let mut io = io(&["0.0.0.0:0".parse().unwrap()]);
        let (peer, to) = peer(ipv4());
        let from = io.locals.number(requested.parse().unwrap());
        for number in 0..10 {
            io.send(SocketId::OVERLAY, &Transmit { from, ..source_packet(to, &[number; 100]) });
        }
        io.flush();
        for number in 0..10 {
            let mut bytes = [0; 200];
            let (length, source) = peer.recv_from(&mut bytes).expect("the datagram comes");
            assert_eq!((&bytes[..length], source.ip().to_string().as_str()), (&[number; 100][..], expected));
        }
        let counters = io.counters();
        assert_eq!((counters.sent, counters.gso_calls, counters.dropped_refused), (10, 1, 0), "{requested}");
        assert_eq!(counters.sources_unavailable, u64::from(requested != expected));
        assert_eq!(io.locals.source(from).is_some(), requested == expected, "the next row leaves at once");
    }
}

#[test]
fn a_full_socket_keeps_its_datagrams_until_it_says_that_it_takes_more() {
    let mut io = io(&[ipv4()]);
    let (peer, to) = peer(ipv4());
    let (id, socket) = io.sockets.at(0).unwrap();
    socket.set_full(true);
    io.poller.watch(socket, id, true).unwrap();
    io.send(SocketId::OVERLAY, &source_packet(to, b"patient"));
    io.flush();
    assert_eq!((io.counters().sent, io.send_queue.is_empty()), (0, false));
    io.poller.wait(None, false).unwrap();
    let Some(Readiness::Socket { socket, writable: true, .. }) = io.poller.ready(0) else {
        panic!("the kernel takes more: {:?}", io.poller.ready(0));
    };
    io.on_writable(socket).unwrap();
    io.flush();
    assert_eq!(receive(&peer), b"patient");
    io.poller.wait(None, true).unwrap();
    assert_eq!(io.poller.ready(0), None, "room to send is no longer watched");
}

#[test]
fn a_socket_that_never_takes_more_does_not_grow_the_queue() {
    let mut io = io(&[ipv4()]);
    let (peer, to) = peer(ipv4());
    io.sockets.at(0).unwrap().1.set_full(true);
    let copy = Transmit { priority: Priority::Scavenger, ..source_packet(to, &[1; 1_000]) };
    for _ in 0..2_000 {
        io.send(SocketId::OVERLAY, &copy);
        io.send(SocketId::OVERLAY, &source_packet(to, &[2; 1_000]));
    }
    io.flush();
    let IoCounters { dropped_source_packets: dropped_originals, dropped_scavengers, sent, .. } =
        *io.counters();
    assert_eq!(sent, 0);
    assert!(
        dropped_scavengers > 1_000 && dropped_originals > 1_000,
        "{dropped_scavengers}, {dropped_originals}"
    );
    assert!(dropped_scavengers > dropped_originals);
    // Other sockets are not affected.
    let socket = io.open(ipv4()).unwrap();
    io.send(socket, &source_packet(to, b"through"));
    io.flush();
    assert_eq!(receive(&peer), b"through");
}

#[test]
fn what_the_kernel_drops_because_nobody_receives_is_counted() {
    const SENT: u64 = 20_000;
    let mut io = io(&[ipv4()]);
    let (peer, _) = peer(ipv4());
    let to = io.local_address(SocketId::OVERLAY).unwrap();
    for _ in 0..SENT {
        peer.send_to(b"too many", to).unwrap();
    }
    io.update_now();
    io.count_drops();
    let dropped = io.counters().dropped_by_kernel;
    assert!(dropped > 0 && dropped < SENT, "{dropped} were dropped");
    let queued = usize::try_from(SENT - dropped).unwrap();
    assert_eq!(arrivals(&mut io, queued).0.len(), queued);
}

#[test]
fn a_closed_socket_is_not_mistaken_for_the_one_that_has_its_slot() {
    let mut io = io(&[ipv4()]);
    let (peer, to) = peer(ipv4());
    let first = io.open(ipv4()).unwrap();
    io.send(first, &source_packet(to, b"last words"));
    io.close(first);
    io.close(first);
    let second = io.open(ipv4()).unwrap();
    assert_eq!(first.slot, second.slot);
    assert_ne!(first, second);
    assert_eq!(io.local_address(first), None);
    io.send(first, &source_packet(to, b"from beyond"));
    io.send(second, &source_packet(to, b"alive"));
    io.flush();
    assert_eq!((receive(&peer), receive(&peer)), (b"last words".to_vec(), b"alive".to_vec()));
    assert_eq!(io.counters().dropped_closed, 1);
}

#[test]
fn what_a_full_socket_had_to_send_goes_with_it() {
    let mut io = io(&[ipv4()]);
    let (_, to) = peer(ipv4());
    let socket = io.open(ipv4()).unwrap();
    io.sockets.at(socket.slot).unwrap().1.set_full(true);
    io.send(socket, &source_packet(to, b"stuck"));
    io.close(socket);
    assert!(io.send_queue.is_empty());
    assert_eq!(io.counters().dropped_closed, 1);
}

#[test]
fn too_many_open_files_are_explained() {
    let error = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
    let text = explained(&error, "127.0.0.1:0".parse().unwrap()).to_string();
    assert!(text.contains("127.0.0.1:0") && text.contains("LimitNOFILE"), "{text}");
}

#[test]
fn sending_allocates_nothing_once_buffers_have_grown() {
    let mut io = io(&[ipv4()]);
    let (_peer, to) = peer(ipv4());
    let batch = |io: &mut Io| {
        for length in [500, 500, 500, 200, 1_200, 1_200] {
            io.send(SocketId::OVERLAY, &source_packet(to, &[7; 1_200][..length]));
        }
        io.flush();
    };
    // Buffers are reused in turn, until each has grown.
    for _ in 0..10 {
        batch(&mut io);
    }
    let allocations = allocation_counter::measure(|| {
        for _ in 0..10 {
            batch(&mut io);
        }
    });
    assert_eq!(allocations.count_total, 0);
    assert_eq!(io.counters().sent, 120);
}

//! Runs of the eBPF program in the kernel on single packets, and a check that the object matches
//! its source.

#![allow(clippy::disallowed_methods, reason = "compares files")]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use aya::programs::{TestRun as _, TestRunOptions};
use byway_sched::FlowKey;

use super::*;

const SECRET: [u8; 16] = *b"a secret of tens";
const CLASSES: [u32; 2] = [0x6277_0010, 0x6277_0020];

/// Length of the kernel's `__sk_buff` in bytes, and the offset of the priority in it.
const CONTEXT_BYTES: usize = 192;
const PRIORITY_AT: usize = 32;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;

/// Loads the program; `None` without the right to do so.
fn loaded(marking: Marking) -> Option<Classifier> {
    match Classifier::load(marking, CLASSES, &SECRET, true) {
        Ok(classifier) => Some(classifier),
        Err(failure) if failure.to_string().contains("CAP_") => {
            eprintln!("skipped: {failure}");
            None
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Returns the class of a frame.
fn class_of(classifier: &Classifier, frame: &[u8]) -> Class {
    let program = classifier.program.program(PROGRAM).expect("it is there");
    let program: &SchedClassifier = program.try_into().expect("it is a classifier");
    let mut context = [0; CONTEXT_BYTES];
    // The system's own scheduler may interrupt a run.
    let ran = program.test_run(TestRunOptions {
        data_in: Some(frame),
        ctx_out: Some(&mut context),
        ..TestRunOptions::new()
    });
    let ran = ran.expect("the kernel runs it");
    assert_eq!(ran.return_value.cast_signed(), -1, "other filters have their turn");
    let priority = u32::from_ne_bytes(context[PRIORITY_AT..PRIORITY_AT + 4].try_into().expect("four bytes"));
    let index = CLASSES.iter().position(|class| *class == priority).expect("one of both");
    Class::ALL[index]
}

fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind, packet].concat()
}

/// Builds a frame with a VLAN tag before the packet.
fn tagged(tag: [u8; 2], kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    ethernet(tag, &[&[0, 7][..], &kind, packet].concat())
}

/// Builds a packet of a `PPPoE` session. Its header has version and type, code, session, length,
/// and the protocol of PPP.
fn session(code: u8, protocol: u16, packet: &[u8]) -> Vec<u8> {
    let length = u16::try_from(packet.len() + 2).expect("it is short").to_be_bytes();
    [&[0x11, code, 0, 42][..], &length, &protocol.to_be_bytes(), packet].concat()
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes(), 12_u16.to_be_bytes(), [0; 2]].concat()
}

fn ipv4(traffic_class: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, traffic_class, 0, 0, 0, 0];
    header.extend(fragment.to_be_bytes());
    header.extend([64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.extend(payload);
    header
}

/// Builds an IPv6 packet with extension headers: the number of each, and its length in bytes, a
/// multiple of eight.
fn ipv6(traffic_class: u8, extensions: &[(u8, usize)], payload: &[u8]) -> Vec<u8> {
    let numbers: Vec<u8> = extensions.iter().map(|(number, _)| *number).chain([UDP]).collect();
    let mut packet = vec![0x60 | traffic_class >> 4, traffic_class << 4, 0, 0, 0, 0, numbers[0], 64];
    packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
    for ((number, length), next) in extensions.iter().zip(&numbers[1..]) {
        let unit = if *number == 51 { length / 4 - 2 } else { length / 8 - 1 };
        let mut extension = vec![*next, u8::try_from(unit).expect("it is short")];
        extension.resize(*length, 0);
        packet.extend(extension);
    }
    packet.extend(payload);
    packet
}

fn flows(classifier: &mut Classifier) -> [u32; 2] {
    classifier.flows().expect("the kernel says")
}

#[test]
fn the_dscp_chooses_over_ipv4_and_ipv6_whatever_the_ecn_field_says() {
    let Some(classifier) = loaded(Marking::default()) else { return };
    for byte in 0..=255_u8 {
        let expected = Marking::default().class(byte);
        let found =
            [ethernet(IPV4, &ipv4(byte, 0, &ports(1, 2))), ethernet(IPV6, &ipv6(byte, &[], &ports(1, 2)))]
                .map(|frame| class_of(&classifier, &frame));
        assert_eq!(found, [expected; 2], "{byte:#x}");
    }
}

#[test]
fn the_literal_byte_of_the_paper_is_an_option() {
    let Some(classifier) = loaded(Marking::OF_PAPER) else { return };
    let found: Vec<u8> = (0..=255)
        .filter(|byte| {
            class_of(&classifier, &ethernet(IPV4, &ipv4(*byte, 0, &ports(1, 2)))) == Class::LowDelay
        })
        .collect();
    assert_eq!(found, [0x12]);
}

#[test]
fn tags_of_vlans_hide_nothing() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    let (v4, v6) = (ipv4(45 << 2, 0, &ports(1, 2)), ipv6(45 << 2, &[], &ports(1, 2)));
    let twice = [&[0, 9][..], &[0x81, 0], &[0, 7], &IPV4, &v4].concat();
    let frames = [
        tagged([0x81, 0], IPV4, &v4),
        tagged([0x81, 0], IPV6, &v6),
        tagged([0x88, 0xa8], IPV4, &v4),
        ethernet([0x88, 0xa8], &twice),
    ];
    for frame in frames {
        assert_eq!(class_of(&classifier, &frame), Class::LowDelay, "{frame:02x?}");
    }
    assert_eq!(flows(&mut classifier), [0, 2], "tags are no part of what names a flow");
}

#[test]
fn sessions_of_pppoe_hide_nothing_with_and_without_tags() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    let (v4, v6) = (ipv4(45 << 2, 0, &ports(1, 2)), ipv6(45 << 2, &[], &ports(1, 2)));
    let pppoe = [0x88, 0x64];
    let inside = [session(0, 0x21, &v4), session(0, 0x57, &v6)];
    for session in &inside {
        let twice = [&[0, 9][..], &[0x81, 0], &[0, 7], &pppoe, session].concat();
        for frame in [
            ethernet(pppoe, session),
            tagged([0x81, 0], pppoe, session),
            tagged([0x88, 0xa8], pppoe, session),
            ethernet([0x88, 0xa8], &twice),
        ] {
            assert_eq!(class_of(&classifier, &frame), Class::LowDelay, "{frame:02x?}");
        }
        for length in 1..8 + 20 {
            let cut = tagged([0x81, 0], pppoe, &session[..length]);
            assert_eq!(class_of(&classifier, &cut), Class::HighRate, "{length} bytes of {session:02x?}");
        }
    }
    assert_eq!(flows(&mut classifier), [0, 2], "a session is no part of what names a flow");
    let high_rate = session(0, 0x21, &ipv4(0, 0, &ports(1, 2)));
    assert_eq!(class_of(&classifier, &ethernet(pppoe, &high_rate)), Class::HighRate);
    // LCP, discovery, another version, and the packet of the other protocol.
    for wrong in [
        session(0, 0xc021, &v4),
        session(9, 0x21, &v4),
        [&[0x21][..], &inside[0][1..]].concat(),
        session(0, 0x57, &v4),
    ] {
        assert_eq!(class_of(&classifier, &ethernet(pppoe, &wrong)), Class::HighRate, "{wrong:02x?}");
    }
    assert_eq!(flows(&mut classifier), [1, 2]);
}

#[test]
fn what_cannot_be_read_is_of_high_rate_and_no_flow() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    let whole = [(IPV4, ipv4(45 << 2, 0, &[])), (IPV6, ipv6(45 << 2, &[], &[]))];
    for (kind, packet) in &whole {
        for length in 1..packet.len() {
            // The tag is needed because the kernel does not run the program on a packet that it
            // knows to be truncated.
            let found = class_of(&classifier, &tagged([0x81, 0], *kind, &packet[..length]));
            assert_eq!(found, Class::HighRate, "{length} bytes of {packet:02x?}");
        }
    }
    let arp = ethernet([0x08, 0x06], &[0xb4; 28]);
    let wrong_version = ethernet(IPV4, &ipv6(45 << 2, &[], &ports(1, 2)));
    let cut_tag = ethernet([0x81, 0], &[0, 7, 8]);
    for frame in [arp, wrong_version, cut_tag] {
        assert_eq!(class_of(&classifier, &frame), Class::HighRate, "{frame:02x?}");
    }
    assert_eq!(flows(&mut classifier), [0, 0]);
    // The header alone, without payload, is sufficient.
    for (kind, packet) in &whole {
        assert_eq!(class_of(&classifier, &ethernet(*kind, packet)), Class::LowDelay);
    }
    assert_eq!(flows(&mut classifier), [0, 2]);
}

#[test]
fn flows_are_told_apart_by_ports_also_behind_extension_headers() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    let extensions: [&[(u8, usize)]; 4] =
        [&[], &[(0, 8)], &[(0, 16), (60, 24)], &[(0, 8), (43, 24), (51, 16), (60, 8)]];
    for extensions in extensions {
        for port in 1..=5 {
            class_of(&classifier, &ethernet(IPV6, &ipv6(0, extensions, &ports(port, 9))));
        }
    }
    assert_eq!(flows(&mut classifier), [5, 0], "extensions are no part of what names a flow");
    // Longer header chains than any real packet has count as one flow for each pair of addresses.
    for port in 1..=5 {
        class_of(&classifier, &ethernet(IPV6, &ipv6(0, &[(60, 8); 7], &ports(port, 9))));
    }
    assert_eq!(flows(&mut classifier), [6, 0]);
}

#[test]
fn fragments_are_one_flow_whatever_seems_to_be_their_ports() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    for (port, fragment) in (1..).zip([0x2000, 0x2010, 0x0020, 0x0001]) {
        class_of(&classifier, &ethernet(IPV4, &ipv4(0, fragment, &ports(port, 9))));
        class_of(&classifier, &ethernet(IPV6, &ipv6(0, &[(44, 8)], &ports(port, 9))));
    }
    assert_eq!(flows(&mut classifier), [2, 0], "one of each version");
    // A packet with the Don't Fragment flag is no fragment.
    for port in 1..=3 {
        class_of(&classifier, &ethernet(IPV4, &ipv4(0, 0x4000, &ports(port, 9))));
    }
    assert_eq!(flows(&mut classifier), [5, 0]);
}

#[test]
fn a_flow_has_the_slot_that_byways_own_scheduler_gives_it() {
    let Some(classifier) = loaded(Marking::default()) else { return };
    let key = FlowKey::new(&SECRET);
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let mut expected = Vec::new();
    for port in 1_000..1_020 {
        class_of(&classifier, &ethernet(IPV4, &ipv4(45 << 2, 0, &ports(port, 9))));
        class_of(&classifier, &ethernet(IPV6, &ipv6(45 << 2, &[], &ports(port, 9))));
        for (source, destination) in [(v4(1), v4(2)), (v6(1), v6(2))] {
            let flow = FlowTuple { source, destination, protocol: UDP, ports: [port, 9] };
            expected.push(key.hash(&flow).slot(FLOW_SLOTS));
        }
    }
    expected.sort_unstable();
    let mut found = Vec::new();
    for row in 0..CLASS_ROWS {
        let number = u32::try_from(CLASS_ROWS + row).expect("there are few");
        let slots = classifier.flows.get(&number, 0).expect("the kernel says");
        let touched = slots.iter().enumerate().filter(|(_, at)| **at != 0);
        found.extend(touched.map(|(index, _)| row * ROW_SLOTS + index));
    }
    assert_eq!(found, expected);
}

#[test]
fn a_registered_flow_is_low_delay_without_a_dscp_until_its_lease_ends() {
    let Some(mut classifier) = loaded(Marking::NONE) else { return };
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let frames = |port: u16| {
        [
            ethernet(IPV4, &ipv4(0, 0, &ports(port, 9))),
            ethernet(IPV6, &ipv6(0, &[(0, 8)], &ports(port, 9))),
            tagged([0x81, 0], IPV4, &ipv4(0, 0, &ports(port, 9))),
        ]
    };
    let classes = |classifier: &Classifier, port| frames(port).map(|frame| class_of(classifier, &frame));
    let flow = |source, destination| FlowTuple { source, destination, protocol: UDP, ports: [7, 9] };
    let [v4, v6] = [flow(v4(1), v4(2)), flow(v6(1), v6(2))];
    assert_eq!(classes(&classifier, 7), [Class::HighRate; 3], "nothing is registered");
    classifier.register(&v4, Duration::from_secs(60)).expect("the kernel takes it");
    assert_eq!(classes(&classifier, 7), [Class::LowDelay, Class::HighRate, Class::LowDelay]);
    classifier.register(&v6, Duration::from_secs(60)).expect("the kernel takes it");
    assert_eq!(classes(&classifier, 7), [Class::LowDelay; 3]);
    assert_eq!(classes(&classifier, 8), [Class::HighRate; 3], "another port");
    let fragment = ethernet(IPV4, &ipv4(0, 0x2000, &ports(7, 9)));
    assert_eq!(class_of(&classifier, &fragment), Class::HighRate, "a fragment has no ports");
    // The opposite direction, another protocol, and a lease that has ended.
    let reversed = FlowTuple { source: v4.destination, destination: v4.source, ports: [9, 7], ..v4 };
    for other in [reversed, FlowTuple { protocol: 6, ..v4 }] {
        let mut classifier = loaded(Marking::NONE).expect("it was loaded before");
        classifier.register(&other, Duration::from_secs(60)).expect("the kernel takes it");
        assert_eq!(classes(&classifier, 7), [Class::HighRate; 3], "{other:?}");
    }
    // A registration that ends leaves its place, also when it has ended before.
    let places = |classifier: &Classifier| classifier.registered.keys().count();
    assert_eq!(places(&classifier), 2);
    for _ in 0..2 {
        classifier.register(&v4, Duration::ZERO).expect("the kernel takes it");
        assert_eq!(classes(&classifier, 7), [Class::HighRate, Class::LowDelay, Class::HighRate]);
        assert_eq!(places(&classifier), 1);
    }
}

#[test]
fn the_longest_packet_is_noted_until_it_is_read() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    for length in [100, 900, 200] {
        let payload = [ports(1, 2), vec![0; length]].concat();
        class_of(&classifier, &ethernet(IPV4, &ipv4(45 << 2, 0, &payload)));
    }
    let none = PacketStats::default();
    let longest = PacketStats { gso_packets: 0, max_packet_bytes: 14 + 20 + 8 + 900 };
    assert_eq!(classifier.read_stats().expect("the kernel says"), [none, longest]);
    assert_eq!(classifier.read_stats().expect("the kernel says"), [none, none]);
}

#[test]
fn what_was_touched_within_a_second_is_active() {
    for (at, now, expected) in [
        (1, 1, true),
        (1, 1_001, true),
        (1, 1_003, false),
        (5_001, 5_000, true),
        (u16::MAX, 601, true),
        (u16::MAX, 1_601, false),
        (1, 1 << 15, false),
    ] {
        assert_eq!(is_active(at, now), expected, "{at} at {now}");
    }
}

#[test]
fn flows_that_have_ended_are_forgotten_before_their_time_comes_again() {
    let Some(mut classifier) = loaded(Marking::default()) else { return };
    class_of(&classifier, &ethernet(IPV4, &ipv4(45 << 2, 0, &ports(1, 2))));
    let mut row = [0; ROW_SLOTS];
    // Two seconds old, and half a minute.
    (row[3], row[1_999]) = (milliseconds().wrapping_sub(2_000) | 1, milliseconds().wrapping_sub(30_000) | 1);
    classifier.flows.set(0, row, 0).expect("the kernel takes it");
    assert_eq!(flows(&mut classifier), [0, 1]);
    assert_eq!(classifier.flows.get(&0, 0).expect("the kernel says"), [0; ROW_SLOTS]);
    assert_eq!(flows(&mut classifier), [0, 1], "what goes on is not forgotten");
}

#[test]
fn the_committed_program_is_what_its_source_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_there =
        Command::new("clang-14").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there || !Path::new("/usr/include/linux/bpf.h").exists() {
        eprintln!("skipped: there is no clang-14 (Debian: apt install clang-14 linux-libc-dev)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("classifier.o");
    let compiled = Command::new(root.join("scripts/classifier.sh")).arg(&file).output().expect("it starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let same = fs::read(&file).expect("it was made") == OBJECT;
    assert!(same, "classifier.o is not of classifier.c: run scripts/classifier.sh, and commit both");
}

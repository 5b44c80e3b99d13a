use super::outcomes::{DatagramOutcome, PairTraffic, RepairMethod, datagram_outcomes};
use super::summary::{Traffic, repaired_within, summarise};
use crate::demo::media::{DATAGRAM_BYTES, Score};
use crate::demo::results::{RepairedBy, RunKind};
use crate::demo::wan::{LinkRecord, PacketKind, PacketRecord};

const SENDER: u32 = 2;
const RECEIVER: u32 = 3;
const EGRESS: u32 = 1;
const HELLOS: u32 = 3;
const DIRECT_MS: u64 = 50;

fn packet(
    kind: PacketKind,
    from: u32,
    to: u32,
    sequence: u32,
    sent_ms: u64,
    delivered_ms: Option<u64>,
) -> PacketRecord {
    let payload_bytes = u32::try_from(DATAGRAM_BYTES).expect("a short datagram") + 33;
    let nanos = |ms| ms * 1_000_000;
    PacketRecord {
        from,
        to,
        kind,
        sequence,
        payload_bytes,
        sent_ns: nanos(sent_ms),
        delivered_ns: delivered_ms.map(nanos),
    }
}

/// Makes six datagrams, one every 10 ms, after three hellos. The direct path loses datagrams
/// 1 to 5.
fn direct() -> Vec<PacketRecord> {
    let hello = |number| PacketRecord {
        payload_bytes: 50,
        ..packet(PacketKind::Source, SENDER, RECEIVER, number, 0, Some(50))
    };
    let video = |datagram: u32| {
        let sent = 1_000 + 10 * u64::from(datagram);
        let delivered = (datagram == 0).then_some(sent + DIRECT_MS);
        packet(PacketKind::Source, SENDER, RECEIVER, HELLOS + datagram, sent, delivered)
    };
    (0..HELLOS).map(hello).chain((0..6).map(video)).collect()
}

fn repair(kind: PacketKind, datagram: u32, at_ms: u64) -> PacketRecord {
    packet(kind, EGRESS, RECEIVER, HELLOS + datagram, at_ms - 10, Some(at_ms))
}

fn outcomes(packets: &[PacketRecord], arrived: &[(u32, f64)]) -> Vec<DatagramOutcome> {
    let sent: Vec<_> = (0..6).map(|datagram| 1_000.0 + 10.0 * f64::from(datagram)).collect();
    let pair = PairTraffic {
        sender: SENDER,
        receiver: RECEIVER,
        sent_ms: &sent,
        arrived,
        would_lose: None,
        direct_ms: DIRECT_MS as f64,
    };
    datagram_outcomes(packets, &pair).expect("every datagram has its packet")
}

/// Makes datagrams with one outcome each:
///
/// - 0 arrives directly, twice;
/// - 1 from the cache;
/// - 2 decoded, before a cooperative repair arrives, too;
/// - 3 cooperatively;
/// - 4 late;
/// - 5 never.
fn mixed() -> Vec<DatagramOutcome> {
    let mut packets = direct();
    packets.extend([
        repair(PacketKind::Cached, 1, 1_100),
        repair(PacketKind::Cooperative, 2, 1_200),
        repair(PacketKind::Cooperative, 3, 1_110),
        repair(PacketKind::Cached, 4, 1_299),
    ]);
    // Repair packets are logged in the order of sending, and the evaluation must not depend on it.
    packets.reverse();
    let arrived =
        [(0, 1_050.0), (0, 1_060.0), (1, 1_100.5), (2, 1_103.0), (3, 1_111.0), (4, 1_300.0), (99, 1.0)];
    outcomes(&packets, &arrived)
}

#[test]
fn every_datagram_has_its_fate() {
    let fates = mixed();
    let lost: Vec<_> = fates.iter().map(|fate| fate.is_lost).collect();
    assert_eq!(lost, [false, true, true, true, true, true]);
    let times: Vec<_> = fates.iter().map(DatagramOutcome::repair_ms).collect();
    assert_eq!(times, [None, Some(40.5), Some(33.0), Some(31.0), Some(210.0), None]);
    let methods: Vec<_> = fates.iter().map(|fate| fate.repair_method).collect();
    let expected = [
        None,
        Some(RepairMethod::Cache),
        Some(RepairMethod::InStream),
        Some(RepairMethod::Cooperative),
        Some(RepairMethod::Cache),
        None,
    ];
    assert_eq!(methods, expected);
    assert_eq!(fates[0].duplicates, 1);
}

#[test]
fn sums_add_up() {
    let score = Score { psnr_db: vec![30.0, 40.0], ..Score::default() };
    let run = summarise(RunKind::Coding, &[mixed()], &Traffic::default(), Some(&score), Some(0.0));
    assert_eq!((run.sent, run.lost_direct, run.repaired_in_time, run.late, run.unrepaired), (6, 5, 3, 1, 1));
    assert_eq!(run.lost_direct, run.repaired_in_time + run.late + run.unrepaired);
    assert_eq!(run.repaired_by, RepairedBy { in_stream: 1, cooperative: 1, cache: 1, forward: 0 });
    assert_eq!((run.repair_ms.p50, run.repair_ms.p99), (Some(33.0), Some(210.0)));
    assert_eq!((run.psnr_db.mean, run.psnr_db.p5), (Some(35.0), Some(30.0)));
    assert_eq!((run.duplicates_delivered, run.app_bytes), (1, 6 * 1_316));
}

#[test]
fn shares_are_of_what_was_lost() {
    assert_eq!(repaired_within(&[mixed(), mixed()], 100.0), Some(0.6));
    assert_eq!(repaired_within(&[mixed()], 32.0), Some(0.2));
    assert_eq!(repaired_within(&[], 100.0), None);
}

#[test]
fn where_nothing_is_sent_directly_the_model_says_what_would_be_lost() {
    let copies: Vec<_> = (0..6)
        .map(|datagram| {
            packet(PacketKind::Copy, SENDER, 0, HELLOS + datagram, 1_000 + 10 * u64::from(datagram), None)
        })
        .collect();
    let forwarded =
        [0, 1].map(|datagram| repair(PacketKind::Forwarded, datagram, 1_055 + u64::from(datagram)));
    let packets = [copies, forwarded.into()].concat();
    let sent: Vec<_> = (0..6).map(|datagram| 1_000.0 + 10.0 * f64::from(datagram)).collect();
    let pair = PairTraffic {
        sender: SENDER,
        receiver: RECEIVER,
        sent_ms: &sent,
        arrived: &[(0, 1_056.0), (1, 1_057.0)],
        would_lose: Some(&[false, true, true, false, false, false]),
        direct_ms: 50.0,
    };
    let fates = datagram_outcomes(&packets, &pair).expect("every datagram has its copy");
    assert_eq!(fates.iter().filter(|fate| fate.is_lost).count(), 2);
    assert_eq!((fates[0].repair_method, fates[1].repair_method), (None, Some(RepairMethod::Forward)));
}

/// Makes a pair that sent at these times, in milliseconds.
fn pair<'a>(sent_ms: &'a [f64], arrived: &'a [(u32, f64)]) -> PairTraffic<'a> {
    PairTraffic { sender: SENDER, receiver: RECEIVER, sent_ms, arrived, would_lose: None, direct_ms: 50.0 }
}

#[test]
fn packets_that_went_round_the_emulator_are_noticed() {
    let sent: Vec<_> = (0..20).map(|datagram| 1_000.0 + 10.0 * f64::from(datagram)).collect();
    let error = datagram_outcomes(&direct(), &pair(&sent, &[])).expect_err("most are missing");
    assert!(format!("{error:#}").contains("20 datagrams were sent, but 6 source packets"), "{error:#}");
    let error = datagram_outcomes(&direct(), &pair(&sent[..5], &[])).expect_err("there is one too many");
    assert!(format!("{error:#}").contains("5 datagrams were sent, but 6 source packets"), "{error:#}");
}

/// Makes datagrams sent every 10 ms, some lost by the machine: before the agent, which then assigns
/// no sequence number, or behind it.
fn busy(before_agent: &[u32], behind_agent: &[u32]) -> Vec<DatagramOutcome> {
    let sent: Vec<_> = (0..40).map(|datagram| 1_000.0 + 10.0 * f64::from(datagram)).collect();
    let (mut packets, mut arrived, mut number) = (Vec::new(), Vec::new(), HELLOS);
    for datagram in (0..40).filter(|datagram| !before_agent.contains(datagram)) {
        number += 1;
        let at = 1_000 + 10 * u64::from(datagram) + 1;
        // Every fifth is lost on the network.
        let delivered = (datagram % 5 != 0).then_some(at + DIRECT_MS);
        if !behind_agent.contains(&datagram) {
            packets.push(packet(PacketKind::Source, SENDER, RECEIVER, number, at, delivered));
            arrived.extend(delivered.map(|at| (datagram, at as f64)));
        }
    }
    datagram_outcomes(&packets, &pair(&sent, &arrived)).expect("most have their packets")
}

#[test]
fn what_the_machine_loses_is_known_by_its_place_and_is_no_loss_of_the_network() {
    for (before_agent, behind_agent) in [
        (&[][..], &[][..]),
        (&[7, 8, 23], &[]),
        (&[], &[7, 8, 23]),
        (&[3, 39], &[20]),
        (&[0, 1], &[2]),
        (&[], &[0, 39]),
    ] {
        let fates = busy(before_agent, behind_agent);
        for (datagram, fate) in (0..).zip(&fates) {
            let is_spoiled = before_agent.contains(&datagram) || behind_agent.contains(&datagram);
            let is_lost = datagram % 5 == 0 && !is_spoiled;
            assert_eq!(
                (fate.is_spoiled, fate.is_lost),
                (is_spoiled, is_lost),
                "{datagram} of {before_agent:?} {behind_agent:?}"
            );
        }
        let run = summarise(RunKind::Coding, &[fates], &Traffic::default(), None, None);
        assert_eq!(run.lost_by_machine, (before_agent.len() + behind_agent.len()) as u64);
        assert_eq!(run.unrepaired, run.lost_direct, "what was spoiled is missing from neither");
    }
}

#[test]
fn bytes_are_sorted_by_segment() {
    let link = |from, to, ip_bytes| LinkRecord { from, to, packets: 1, ip_bytes, lost: 0 };
    let links = [
        link(0, 1, 1),
        link(1, 0, 2),
        link(1, 3, 4),
        link(0, 2, 8),
        link(2, 0, 16),
        link(3, 1, 32),
        link(2, 3, 64),
        link(3, 2, 128),
    ];
    let traffic = Traffic::of(&links);
    let expected = Traffic {
        direct: 192,
        senders_to_relays: 16,
        receivers_to_relays: 32,
        between_relays: 3,
        relays_to_agents: 12,
    };
    assert_eq!(traffic, expected);
    assert_eq!((traffic.relay_egress(), traffic.uplink()), (15, 240));
}

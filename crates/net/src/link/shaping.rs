//! What is said of queues: HTB's classes, lengths of bfifo, filters (`pkt_sched.h`, `pkt_cls.h`).

use byway_units::{Bytes, Rate};

use super::message::{
    CREATE, EXCLUSIVE, REPLACE, Request, WITH_ANSWER, attribute, attributes, text, u32_at, u64_at,
};
use super::{ClassCounters, ClassShape, Filter, Qdisc};

/// Types of messages (`RTM_...`).
const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
pub(super) const GET_QDISC: u16 = 38;
const NEW_CLASS: u16 = 40;
pub(super) const GET_CLASS: u16 = 42;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;
pub(super) const GET_FILTER: u16 = 46;

/// Attributes of all of them (`TCA_...`).
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const SIZE_TABLE: u16 = 8;

/// Of statistics (`TCA_STATS_...`).
const STATISTICS_BASIC: u16 = 1;
const STATISTICS_QUEUE: u16 = 3;

/// Of HTB (`TCA_HTB_...`).
const HTB_PARAMETERS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;
/// Bytes of rate per byte of quantum, for classes that say none: what `tc` has, too.
const HTB_RATE_TO_QUANTUM: u32 = 10;
/// Ethernet: HTB then takes lengths as they are.
const LINK_LAYER_ETHERNET: u8 = 1;

/// Of filters by BPF (`TCA_BPF_...`).
const BPF_DESCRIPTOR: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const BPF_DIRECT_ACTION: u32 = 1;

/// Places (`TC_H_...`).
pub(super) const ROOT: u32 = 0xFFFF_FFFF;
pub(super) const CLSACT_PARENT: u32 = 0xFFFF_FFF1;
const CLSACT_HANDLE: u32 = 0xFFFF_0000;
pub(super) const INGRESS: u32 = 0xFFFF_FFF2;
pub(super) const EGRESS: u32 = 0xFFFF_FFF3;

/// Nanoseconds of the kernel's unit of time for queues: fixed since Linux 2.6.31 (`PSCHED_SHIFT`).
const TICK_NANOS: u128 = 64;

/// Any protocol above Ethernet (`ETH_P_ALL`), in network byte order as the message has it.
const ANY_PROTOCOL: u16 = 0x0003_u16.to_be();

/// The header of messages about queues: of a device, with a handle, below a parent.
pub(super) fn header(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index, handle, parent, info].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

const HEADER_BYTES: usize = 20;

/// HTB at the root; what finds no class goes to the one with the minor number `default`.
pub(super) fn new_htb(index: u32, handle: u32, default: u16, replaces: bool) -> Request {
    let flags = WITH_ANSWER | CREATE | if replaces { REPLACE } else { EXCLUSIVE };
    let words = [HTB_VERSION, HTB_RATE_TO_QUANTUM, u32::from(default), 0, 0];
    let init = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Request::new(NEW_QDISC, flags, &header(index, handle, ROOT, 0))
        .with_text(KIND, b"htb")
        .with_nested(OPTIONS, &[(HTB_INIT, init)])
}

/// A class of HTB, new or changed in place.
pub(super) fn class(index: u32, shape: &ClassShape) -> Request {
    let mut parameters = rate(shape.rate);
    parameters.extend(rate(shape.ceiling));
    let quantum = u32::try_from(shape.quantum.count()).unwrap_or(u32::MAX);
    let words = [ticks(shape.burst, shape.rate), ticks(shape.burst, shape.ceiling), quantum, 0, 0];
    parameters.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let mut options = vec![(HTB_PARAMETERS, parameters)];
    for (kind, rate) in [(HTB_RATE64, shape.rate), (HTB_CEIL64, shape.ceiling)] {
        let bytes_per_second = bytes_per_second(rate);
        if bytes_per_second > u64::from(u32::MAX) {
            options.push((kind, bytes_per_second.to_ne_bytes().to_vec()));
        }
    }
    Request::new(NEW_CLASS, WITH_ANSWER | CREATE, &header(index, shape.id, shape.parent, 0))
        .with_text(KIND, b"htb")
        .with_nested(OPTIONS, &options)
}

const fn bytes_per_second(rate: Rate) -> u64 {
    rate.bits_per_second() / 8
}

/// A `tc_ratespec`: the rate in bytes per second, or all ones if another attribute says it.
fn rate(rate: Rate) -> Vec<u8> {
    let rate = u32::try_from(bytes_per_second(rate)).unwrap_or(u32::MAX);
    let mut bytes = vec![0, LINK_LAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    bytes.extend(rate.to_ne_bytes());
    bytes
}

/// How long so many bytes take, in the kernel's unit, rounded up.
fn ticks(bytes: Bytes, rate: Rate) -> u32 {
    let rate = u128::from(bytes_per_second(rate).max(1));
    let ticks = (u128::from(bytes.count()) * 1_000_000_000).div_ceil(rate * TICK_NANOS);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// A queue of so many bytes below a class: new, or only its length changed, so that what waits stays.
pub(super) fn queue(index: u32, class: u32, handle: u32, room: Bytes, is_new: bool) -> Request {
    let flags = WITH_ANSWER | if is_new { CREATE | EXCLUSIVE } else { 0 };
    let limit = u32::try_from(room.count()).unwrap_or(u32::MAX);
    Request::new(NEW_QDISC, flags, &header(index, handle, class, 0))
        .with_text(KIND, b"bfifo")
        .with(OPTIONS, &limit.to_ne_bytes())
}

/// A queue at the root as it was, in place of what is there.
pub(super) fn root_again(index: u32, root: &Qdisc) -> Request {
    let flags = WITH_ANSWER | CREATE | REPLACE;
    let request = Request::new(NEW_QDISC, flags, &header(index, root.handle, ROOT, 0))
        .with_text(KIND, root.kind.as_bytes());
    match &root.options {
        Some(options) => request.with(OPTIONS, options),
        None => request,
    }
}

/// No queue of anybody's making at the root: the kernel has its own again.
pub(super) fn delete_root(index: u32, handle: u32) -> Request {
    Request::new(DELETE_QDISC, WITH_ANSWER, &header(index, handle, ROOT, 0))
}

/// The place for filters.
pub(super) fn new_clsact(index: u32) -> Request {
    let flags = WITH_ANSWER | CREATE | EXCLUSIVE;
    Request::new(NEW_QDISC, flags, &header(index, CLSACT_HANDLE, CLSACT_PARENT, 0)).with_text(KIND, b"clsact")
}

/// No place for filters, and none of those that were there.
pub(super) fn delete_clsact(index: u32) -> Request {
    Request::new(DELETE_QDISC, WITH_ANSWER, &header(index, CLSACT_HANDLE, CLSACT_PARENT, 0))
}

/// A program by which packets pass that leave.
pub(super) fn new_filter(index: u32, filter: &Filter, program: u32) -> Request {
    let flags = WITH_ANSWER | CREATE | EXCLUSIVE;
    let info = u32::from(filter.priority) << 16 | u32::from(ANY_PROTOCOL);
    let mut name = filter.name.clone().into_bytes();
    name.push(0);
    Request::new(NEW_FILTER, flags, &header(index, filter.handle, EGRESS, info))
        .with_text(KIND, b"bpf")
        .with_nested(
            OPTIONS,
            &[
                (BPF_DESCRIPTOR, program.to_ne_bytes().to_vec()),
                (BPF_NAME, name),
                (BPF_FLAGS, BPF_DIRECT_ACTION.to_ne_bytes().to_vec()),
            ],
        )
}

/// Without it.
pub(super) fn delete_filter(index: u32, filter: &Filter) -> Request {
    let info = u32::from(filter.priority) << 16 | u32::from(ANY_PROTOCOL);
    Request::new(DELETE_FILTER, WITH_ANSWER, &header(index, filter.handle, EGRESS, info))
        .with_text(KIND, b"bpf")
}

/// Reads a queue, if it is one of this device.
pub(super) fn qdisc_in(payload: &[u8], index: u32) -> Option<Qdisc> {
    let (handle, parent) = (u32_at(payload, 8)?, u32_at(payload, 12)?);
    if u32_at(payload, 4)? != index {
        return None;
    }
    let inner = payload.get(HEADER_BYTES..)?;
    let options = attribute(inner, OPTIONS).map(<[u8]>::to_vec);
    let has_size_table = attribute(inner, SIZE_TABLE).is_some();
    Some(Qdisc { kind: text(attribute(inner, KIND)?), handle, parent, options, has_size_table })
}

/// Reads the counters of a class.
pub(super) fn class_in(payload: &[u8]) -> Option<ClassCounters> {
    let id = u32_at(payload, 8)?;
    let statistics = attribute(payload.get(HEADER_BYTES..)?, STATISTICS)?;
    let basic = attribute(statistics, STATISTICS_BASIC)?;
    let queue = attribute(statistics, STATISTICS_QUEUE)?;
    Some(ClassCounters {
        id,
        sent: Bytes::new(u64_at(basic, 0)?),
        sent_packets: u32_at(basic, 8)?,
        backlog: Bytes::new(u64::from(u32_at(queue, 4)?)),
        dropped_packets: u32_at(queue, 8)?,
    })
}

/// Reads a filter; those without a handle stand for all of their priority.
pub(super) fn filter_in(payload: &[u8]) -> Option<Filter> {
    let inner = payload.get(HEADER_BYTES..)?;
    let info = u32_at(payload, 16)?;
    let name = attribute(inner, OPTIONS).and_then(|options| {
        attributes(options).find(|(kind, _)| *kind == BPF_NAME).map(|(_, value)| text(value))
    });
    Some(Filter {
        kind: text(attribute(inner, KIND)?),
        priority: u16::try_from(info >> 16).ok()?,
        handle: u32_at(payload, 8)?,
        name: name.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes::new(1_514);

    fn shape(rate: Rate) -> ClassShape {
        ClassShape {
            id: 0x6277_0010,
            parent: 0x6277_0001,
            rate,
            ceiling: Rate::from_megabits_per_second(100),
            burst: MTU + MTU,
            quantum: MTU,
        }
    }

    /// The options of a class, as they go to the kernel.
    fn options(shape: &ClassShape) -> Vec<(u16, Vec<u8>)> {
        let bytes = class(3, shape).numbered(1);
        let options = attribute(&bytes[16 + HEADER_BYTES..], OPTIONS).expect("it has some").to_vec();
        attributes(&options).map(|(kind, value)| (kind, value.to_vec())).collect()
    }

    #[test]
    fn a_class_is_said_as_htb_reads_it() {
        let found = options(&shape(Rate::from_megabits_per_second(40)));
        let [(HTB_PARAMETERS, parameters)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(parameters.len(), 44);
        assert_eq!(parameters[1], LINK_LAYER_ETHERNET);
        let words = |at: usize| u32_at(parameters, at).expect("it is there");
        assert_eq!((words(8), words(20)), (5_000_000, 12_500_000));
        // 3,028 bytes take 605.6 us at 40 Mbit/s, 9,462.5 units of 64 ns; and 242.24 us at 100.
        assert_eq!((words(24), words(28), words(32)), (9_463, 3_785, 1_514));
    }

    #[test]
    fn rates_beyond_32_bits_have_attributes_of_their_own() {
        let fast = Rate::from_megabits_per_second(40_000);
        let found = options(&ClassShape { ceiling: fast, ..shape(Rate::from_megabits_per_second(10)) });
        let kinds: Vec<u16> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [HTB_PARAMETERS, HTB_CEIL64]);
        assert_eq!(u64_at(&found[1].1, 0), Some(5_000_000_000));
        assert_eq!(u32_at(&found[0].1, 20), Some(u32::MAX));
        // The slowest rate does not divide by zero.
        assert_eq!(ticks(MTU, Rate::from_bits_per_second(1)), u32::MAX);
    }

    #[test]
    fn what_is_put_back_is_what_was_read() {
        let header = header(3, 0x8001_0000, ROOT, 2);
        let options = vec![0x10, 0x27, 0, 0];
        let dumped =
            Request::new(NEW_QDISC, 0, &header).with_text(KIND, b"pfifo").with(OPTIONS, &options).numbered(1);
        let qdisc = qdisc_in(&dumped[16..], 3).expect("it is one of the device");
        assert_eq!(qdisc_in(&dumped[16..], 4), None);
        assert_eq!((qdisc.kind.as_str(), qdisc.handle, qdisc.parent), ("pfifo", 0x8001_0000, ROOT));
        let again = root_again(3, &qdisc).numbered(1);
        assert_eq!(qdisc_in(&again[16..], 3), Some(qdisc));
    }

    #[test]
    fn a_filter_is_found_again_by_its_name() {
        let ours = Filter { kind: "bpf".into(), priority: 7, handle: 1, name: "byway-link".into() };
        let bytes = new_filter(3, &ours, 9).numbered(1);
        assert_eq!(filter_in(&bytes[16..]), Some(ours));
    }
}

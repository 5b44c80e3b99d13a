//! Messages about queues: HTB's classes, lengths of bfifo, filters (`pkt_sched.h`, `pkt_cls.h`).

use byway_units::{Bytes, Rate};

use super::message::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Request, attribute, attributes, text, u32_at, u64_at,
};
use super::{ClassCounters, Filter, HtbClass, Qdisc};

/// Types of rtnetlink messages about queues, classes and filters (`RTM_...`).
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
pub(super) const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
pub(super) const RTM_GETTFILTER: u16 = 46;

/// Attributes of messages about queues, classes and filters (`TCA_...`).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STAB: u16 = 8;

/// Attributes of a class's statistics (`TCA_STATS_...`).
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// Attributes of HTB (`TCA_HTB_...`).
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TC_HTB_PROTOVER: u32 = 3;
/// Bytes of rate per byte of quantum, for classes without a quantum: the value of `tc`.
const HTB_RATE2QUANTUM: u32 = 10;
/// Link layer Ethernet: HTB uses the packets' lengths unchanged.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// Attributes of BPF filters (`TCA_BPF_...`).
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// Handles of attachment points (`TC_H_...`).
pub(super) const TC_H_ROOT: u32 = 0xFFFF_FFFF;
pub(super) const TC_H_CLSACT: u32 = 0xFFFF_FFF1;
const CLSACT_HANDLE: u32 = 0xFFFF_0000;
pub(super) const CLSACT_INGRESS: u32 = 0xFFFF_FFF2;
pub(super) const CLSACT_EGRESS: u32 = 0xFFFF_FFF3;

/// Nanoseconds of the kernel's unit of time for queues, fixed since Linux 2.6.31 (`PSCHED_SHIFT`).
const PSCHED_TICK_NANOS: u128 = 64;

/// Protocol number for any protocol above Ethernet (`ETH_P_ALL`), in network byte order as messages
/// have it.
const ETH_P_ALL_BE: u16 = 0x0003_u16.to_be();

/// Returns the header of messages about queues: device, handle and parent.
pub(super) fn header(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index, handle, parent, info].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

const TCMSG_BYTES: usize = 20;

/// Creates a request to install HTB at a device's root. Packets without a class use the class with
/// the minor number `default`.
pub(super) fn new_htb(index: u32, handle: u32, default: u16, replaces: bool) -> Request {
    let flags = NLM_F_ACK | NLM_F_CREATE | if replaces { NLM_F_REPLACE } else { NLM_F_EXCL };
    let words = [TC_HTB_PROTOVER, HTB_RATE2QUANTUM, u32::from(default), 0, 0];
    let init = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Request::new(RTM_NEWQDISC, flags, &header(index, handle, TC_H_ROOT, 0))
        .with_text(TCA_KIND, b"htb")
        .with_nested(TCA_OPTIONS, &[(TCA_HTB_INIT, init)])
}

/// Creates a request to add an HTB class, or to change it in place.
pub(super) fn class(index: u32, shape: &HtbClass) -> Request {
    let mut parameters = rate(shape.rate);
    parameters.extend(rate(shape.ceiling));
    let quantum = u32::try_from(shape.quantum.count()).unwrap_or(u32::MAX);
    let words = [ticks(shape.burst, shape.rate), ticks(shape.burst, shape.ceiling), quantum, 0, 0];
    parameters.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let mut options = vec![(TCA_HTB_PARMS, parameters)];
    for (kind, rate) in [(TCA_HTB_RATE64, shape.rate), (TCA_HTB_CEIL64, shape.ceiling)] {
        let bytes_per_second = bytes_per_second(rate);
        if bytes_per_second > u64::from(u32::MAX) {
            options.push((kind, bytes_per_second.to_ne_bytes().to_vec()));
        }
    }
    Request::new(RTM_NEWTCLASS, NLM_F_ACK | NLM_F_CREATE, &header(index, shape.id, shape.parent, 0))
        .with_text(TCA_KIND, b"htb")
        .with_nested(TCA_OPTIONS, &options)
}

const fn bytes_per_second(rate: Rate) -> u64 {
    rate.bits_per_second() / 8
}

/// Encodes a `tc_ratespec`: the rate in bytes per second, or all ones if it needs 64 bits in
/// another attribute.
fn rate(rate: Rate) -> Vec<u8> {
    let rate = u32::try_from(bytes_per_second(rate)).unwrap_or(u32::MAX);
    let mut bytes = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    bytes.extend(rate.to_ne_bytes());
    bytes
}

/// Returns the time that these bytes take at this rate, in the kernel's unit, rounded up.
fn ticks(bytes: Bytes, rate: Rate) -> u32 {
    let rate = u128::from(bytes_per_second(rate).max(1));
    let ticks = (u128::from(bytes.count()) * 1_000_000_000).div_ceil(rate * PSCHED_TICK_NANOS);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// Creates a request for a queue of `capacity` bytes below a class. If it is not new, only its
/// length changes, and queued packets stay.
pub(super) fn queue(index: u32, class: u32, handle: u32, capacity: Bytes, is_new: bool) -> Request {
    let flags = NLM_F_ACK | if is_new { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    let limit = u32::try_from(capacity.count()).unwrap_or(u32::MAX);
    Request::new(RTM_NEWQDISC, flags, &header(index, handle, class, 0))
        .with_text(TCA_KIND, b"bfifo")
        .with(TCA_OPTIONS, &limit.to_ne_bytes())
}

/// Creates a request to restore a root discipline, in place of the present one.
pub(super) fn restore_root(index: u32, root: &Qdisc) -> Request {
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let request = Request::new(RTM_NEWQDISC, flags, &header(index, root.handle, TC_H_ROOT, 0))
        .with_text(TCA_KIND, root.kind.as_bytes());
    match &root.options {
        Some(options) => request.with(TCA_OPTIONS, options),
        None => request,
    }
}

/// Creates a request to remove a root discipline: the device gets the kernel's default.
pub(super) fn delete_root(index: u32, handle: u32) -> Request {
    Request::new(RTM_DELQDISC, NLM_F_ACK, &header(index, handle, TC_H_ROOT, 0))
}

/// Creates a request to add clsact, the attachment point of filters.
pub(super) fn new_clsact(index: u32) -> Request {
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    Request::new(RTM_NEWQDISC, flags, &header(index, CLSACT_HANDLE, TC_H_CLSACT, 0))
        .with_text(TCA_KIND, b"clsact")
}

/// Creates a request to remove clsact with all filters.
pub(super) fn delete_clsact(index: u32) -> Request {
    Request::new(RTM_DELQDISC, NLM_F_ACK, &header(index, CLSACT_HANDLE, TC_H_CLSACT, 0))
}

/// Creates a request to add a filter of outgoing packets by a BPF program's descriptor.
pub(super) fn new_filter(index: u32, filter: &Filter, program: u32) -> Request {
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let info = u32::from(filter.priority) << 16 | u32::from(ETH_P_ALL_BE);
    let mut name = filter.name.clone().into_bytes();
    name.push(0);
    Request::new(RTM_NEWTFILTER, flags, &header(index, filter.handle, CLSACT_EGRESS, info))
        .with_text(TCA_KIND, b"bpf")
        .with_nested(
            TCA_OPTIONS,
            &[
                (TCA_BPF_FD, program.to_ne_bytes().to_vec()),
                (TCA_BPF_NAME, name),
                (TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes().to_vec()),
            ],
        )
}

/// Creates a request to remove a filter of outgoing packets.
pub(super) fn delete_filter(index: u32, filter: &Filter) -> Request {
    let info = u32::from(filter.priority) << 16 | u32::from(ETH_P_ALL_BE);
    Request::new(RTM_DELTFILTER, NLM_F_ACK, &header(index, filter.handle, CLSACT_EGRESS, info))
        .with_text(TCA_KIND, b"bpf")
}

/// Parses a queueing discipline; `None` if it belongs to another device.
pub(super) fn qdisc_in(payload: &[u8], index: u32) -> Option<Qdisc> {
    let (handle, parent) = (u32_at(payload, 8)?, u32_at(payload, 12)?);
    if u32_at(payload, 4)? != index {
        return None;
    }
    let inner = payload.get(TCMSG_BYTES..)?;
    let options = attribute(inner, TCA_OPTIONS).map(<[u8]>::to_vec);
    let has_size_table = attribute(inner, TCA_STAB).is_some();
    Some(Qdisc { kind: text(attribute(inner, TCA_KIND)?), handle, parent, options, has_size_table })
}

/// Parses the counters of a class; `None` without statistics.
pub(super) fn class_in(payload: &[u8]) -> Option<ClassCounters> {
    let id = u32_at(payload, 8)?;
    let statistics = attribute(payload.get(TCMSG_BYTES..)?, TCA_STATS2)?;
    let basic = attribute(statistics, TCA_STATS_BASIC)?;
    let queue = attribute(statistics, TCA_STATS_QUEUE)?;
    Some(ClassCounters {
        id,
        sent: Bytes::new(u64_at(basic, 0)?),
        sent_packets: u32_at(basic, 8)?,
        backlog: Bytes::new(u64::from(u32_at(queue, 4)?)),
        dropped_packets: u32_at(queue, 8)?,
    })
}

/// Parses a filter; one with handle 0 stands for all filters of its priority.
pub(super) fn filter_in(payload: &[u8]) -> Option<Filter> {
    let inner = payload.get(TCMSG_BYTES..)?;
    let info = u32_at(payload, 16)?;
    let name = attribute(inner, TCA_OPTIONS).and_then(|options| {
        attributes(options).find(|(kind, _)| *kind == TCA_BPF_NAME).map(|(_, value)| text(value))
    });
    Some(Filter {
        kind: text(attribute(inner, TCA_KIND)?),
        priority: u16::try_from(info >> 16).ok()?,
        handle: u32_at(payload, 8)?,
        name: name.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes::new(1_514);

    fn shape(rate: Rate) -> HtbClass {
        HtbClass {
            id: 0x6277_0010,
            parent: 0x6277_0001,
            rate,
            ceiling: Rate::from_megabits_per_second(100),
            burst: MTU + MTU,
            quantum: MTU,
        }
    }

    /// Returns the encoded options of a class.
    fn options(shape: &HtbClass) -> Vec<(u16, Vec<u8>)> {
        let bytes = class(3, shape).numbered(1);
        let options = attribute(&bytes[16 + TCMSG_BYTES..], TCA_OPTIONS).expect("it has some").to_vec();
        attributes(&options).map(|(kind, value)| (kind, value.to_vec())).collect()
    }

    #[test]
    fn a_class_is_said_as_htb_reads_it() {
        let found = options(&shape(Rate::from_megabits_per_second(40)));
        let [(TCA_HTB_PARMS, parameters)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(parameters.len(), 44);
        assert_eq!(parameters[1], TC_LINKLAYER_ETHERNET);
        let words = |at: usize| u32_at(parameters, at).expect("it is there");
        assert_eq!((words(8), words(20)), (5_000_000, 12_500_000));
        // 3,028 bytes take 605.6 us at 40 Mbit/s, 9,462.5 units of 64 ns; and 242.24 us at 100
        // Mbit/s.
        assert_eq!((words(24), words(28), words(32)), (9_463, 3_785, 1_514));
    }

    #[test]
    fn rates_beyond_32_bits_have_attributes_of_their_own() {
        let fast = Rate::from_megabits_per_second(40_000);
        let found = options(&HtbClass { ceiling: fast, ..shape(Rate::from_megabits_per_second(10)) });
        let kinds: Vec<u16> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [TCA_HTB_PARMS, TCA_HTB_CEIL64]);
        assert_eq!(u64_at(&found[1].1, 0), Some(5_000_000_000));
        assert_eq!(u32_at(&found[0].1, 20), Some(u32::MAX));
        // The slowest rate does not divide by zero.
        assert_eq!(ticks(MTU, Rate::from_bits_per_second(1)), u32::MAX);
    }

    #[test]
    fn what_is_put_back_is_what_was_read() {
        let header = header(3, 0x8001_0000, TC_H_ROOT, 2);
        let options = vec![0x10, 0x27, 0, 0];
        let dumped = Request::new(RTM_NEWQDISC, 0, &header)
            .with_text(TCA_KIND, b"pfifo")
            .with(TCA_OPTIONS, &options)
            .numbered(1);
        let qdisc = qdisc_in(&dumped[16..], 3).expect("it is one of the device");
        assert_eq!(qdisc_in(&dumped[16..], 4), None);
        assert_eq!((qdisc.kind.as_str(), qdisc.handle, qdisc.parent), ("pfifo", 0x8001_0000, TC_H_ROOT));
        let again = restore_root(3, &qdisc).numbered(1);
        assert_eq!(qdisc_in(&again[16..], 3), Some(qdisc));
    }

    #[test]
    fn a_filter_is_found_again_by_its_name() {
        let ours = Filter { kind: "bpf".into(), priority: 7, handle: 1, name: "byway-link".into() };
        let bytes = new_filter(3, &ours, 9).numbered(1);
        assert_eq!(filter_in(&bytes[16..]), Some(ours));
    }
}

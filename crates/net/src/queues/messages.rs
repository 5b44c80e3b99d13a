//! Messages of the kernel's packet queues, in both directions (`nfnetlink_queue.h`).

use std::ops::Range;

/// Length in bytes of a netlink header: length, type, flags, sequence number, port (RFC 3549,
/// section 2.3.2).
const NLMSG_HDRLEN: usize = 16;

/// Length in bytes of the header after the netlink header: address family, version, number of the
/// queue.
const NFGENMSG_BYTES: usize = 4;

/// Length in bytes of an attribute's header: its length including the header, and its type, whose
/// two highest bits are flags.
const NLA_HDRLEN: usize = 4;
const NLA_TYPE_MASK: u16 = 0x3FFF;

/// Types of messages: an answer to a request, and those of queues (`NFNL_SUBSYS_QUEUE` is 3).
const NLMSG_ERROR: u16 = 2;
const NFQNL_MSG_PACKET: u16 = 3 << 8;
const NFQNL_MSG_VERDICT: u16 = 3 << 8 | 1;
const NFQNL_MSG_CONFIG: u16 = 3 << 8 | 2;

/// Flags of netlink requests (`NLM_F_...`).
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// Attributes of a packet (`NFQA_...`).
const NFQA_PACKET_HDR: u16 = 1;
const NFQA_MARK: u16 = 3;
const NFQA_IFINDEX_INDEV: u16 = 5;
const NFQA_IFINDEX_OUTDEV: u16 = 6;
const NFQA_PAYLOAD: u16 = 10;
const NFQA_CAP_LEN: u16 = 13;

/// Attribute of a verdict, and its values (`NF_...`).
const NFQA_VERDICT_HDR: u16 = 2;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

/// Attributes of a configuration (`NFQA_CFG_...`), and their values.
const NFQA_CFG_CMD: u16 = 1;
const NFQA_CFG_PARAMS: u16 = 2;
const NFQA_CFG_QUEUE_MAXLEN: u16 = 3;
const NFQA_CFG_MASK: u16 = 4;
const NFQA_CFG_FLAGS: u16 = 5;
const NFQNL_CFG_CMD_BIND: u8 = 1;
const NFQNL_CFG_CMD_UNBIND: u8 = 2;
const NFQNL_COPY_PACKET: u8 = 2;
const NFQA_CFG_F_FAIL_OPEN: u32 = 1;

/// Length of an encoded verdict, in bytes.
pub(super) const VERDICT_BYTES: usize = NLMSG_HDRLEN + NFGENMSG_BYTES + NLA_HDRLEN + 8;

/// Verdict of a role on a queued packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The role has consumed the packet: the system drops its own.
    Consumed,
    /// The packet continues through the system, as without a queue.
    Accepted,
}

/// Key by which a verdict names a queued packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketKey {
    pub(crate) queue: u16,
    /// Number of the packet in its queue, which the kernel has assigned.
    pub(crate) number: u32,
}

/// Kernel's message about a packet in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketMessage {
    pub(crate) key: PacketKey,
    /// Firewall mark of the packet; 0 for none.
    pub(crate) mark: u32,
    /// Interface index of the packet's input device; `None` for packets of this machine.
    pub(crate) input_ifindex: Option<u32>,
    pub(crate) output_ifindex: Option<u32>,
    /// Range of the packet's bytes in the message; `None` if it is longer than the kernel copies.
    pub(crate) payload: Option<Range<usize>>,
}

/// Message of the kernel's packet queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Packet(PacketMessage),
    /// Answer to the request with this sequence number: success, or an error of the system.
    Answer {
        sequence: u32,
        error: i32,
    },
}

/// Parses a message of the kernel's packet queues; `None` if it is of another kind or invalid. The
/// kernel puts one into each datagram.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
    let bytes = &bytes[..length.min(bytes.len())];
    match u16::from_ne_bytes(array(bytes, 4)?) {
        NLMSG_ERROR => {
            let error = i32::from_ne_bytes(array(bytes, NLMSG_HDRLEN)?);
            // The header of the request follows.
            let sequence = u32::from_ne_bytes(array(bytes, NLMSG_HDRLEN + 4 + 8)?);
            Some(Message::Answer { sequence, error: error.checked_neg()? })
        }
        NFQNL_MSG_PACKET => packet(bytes).map(Message::Packet),
        _ => None,
    }
}

fn packet(bytes: &[u8]) -> Option<PacketMessage> {
    let queue = u16::from_be_bytes(array(bytes, NLMSG_HDRLEN + 2)?);
    let (mut number, mut mark, mut payload, mut is_cut) = (None, 0, None, false);
    let (mut input_ifindex, mut output_ifindex) = (None, None);
    let mut at = NLMSG_HDRLEN + NFGENMSG_BYTES;
    while let Some((kind, value)) = attribute(bytes, at) {
        at = aligned(value.end);
        match kind {
            NFQA_PACKET_HDR => number = word(bytes, &value),
            NFQA_MARK => mark = word(bytes, &value)?,
            NFQA_IFINDEX_INDEV => input_ifindex = word(bytes, &value),
            NFQA_IFINDEX_OUTDEV => output_ifindex = word(bytes, &value),
            NFQA_PAYLOAD => payload = Some(value),
            NFQA_CAP_LEN => is_cut = true,
            _ => {}
        }
    }
    let key = PacketKey { queue, number: number? };
    Some(PacketMessage { key, mark, input_ifindex, output_ifindex, payload: payload.filter(|_| !is_cut) })
}

/// Returns the type of the attribute at this offset, and the range of its value; `None` at the end.
fn attribute(bytes: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let length = usize::from(u16::from_ne_bytes(array(bytes, at)?));
    let kind = u16::from_ne_bytes(array(bytes, at + 2)?) & NLA_TYPE_MASK;
    let is_whole = length >= NLA_HDRLEN && at + length <= bytes.len();
    is_whole.then(|| (kind, at + NLA_HDRLEN..at + length))
}

/// Returns the first word of a value, in network byte order.
fn word(bytes: &[u8], value: &Range<usize>) -> Option<u32> {
    array(&bytes[value.clone()], 0).map(u32::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Encodes a request to bind a queue: up to `bytes_max` bytes of each packet, `packets_max` of them
/// at once. Further packets continue through the system as without a queue. Before it queues
/// packets, the kernel segments those that it left to the hardware, and computes checksums.
pub(super) fn add_bind(out: &mut Vec<u8>, sequence: u32, queue: u16, bytes_max: u32, packets_max: u32) {
    add(out, (NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK), sequence, queue, |out| {
        add_attribute(out, NFQA_CFG_CMD, &[NFQNL_CFG_CMD_BIND, 0, 0, 0]);
        let [first, second, third, fourth] = bytes_max.to_be_bytes();
        add_attribute(out, NFQA_CFG_PARAMS, &[first, second, third, fourth, NFQNL_COPY_PACKET]);
        add_attribute(out, NFQA_CFG_QUEUE_MAXLEN, &packets_max.to_be_bytes());
        add_attribute(out, NFQA_CFG_MASK, &NFQA_CFG_F_FAIL_OPEN.to_be_bytes());
        add_attribute(out, NFQA_CFG_FLAGS, &NFQA_CFG_F_FAIL_OPEN.to_be_bytes());
    });
}

/// Encodes a request to unbind a queue.
pub(super) fn add_unbind(out: &mut Vec<u8>, sequence: u32, queue: u16) {
    add(out, (NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK), sequence, queue, |out| {
        add_attribute(out, NFQA_CFG_CMD, &[NFQNL_CFG_CMD_UNBIND, 0, 0, 0]);
    });
}

/// Encodes the verdict on a queued packet.
pub(super) fn add_verdict(out: &mut Vec<u8>, key: PacketKey, verdict: Verdict) {
    let verdict = match verdict {
        Verdict::Consumed => NF_DROP,
        Verdict::Accepted => NF_ACCEPT,
    };
    add(out, (NFQNL_MSG_VERDICT, NLM_F_REQUEST), 0, key.queue, |out| {
        let value = (u64::from(verdict) << 32 | u64::from(key.number)).to_be_bytes();
        add_attribute(out, NFQA_VERDICT_HDR, &value);
    });
}

fn add(
    out: &mut Vec<u8>,
    (kind, flags): (u16, u16),
    sequence: u32,
    queue: u16,
    add_attributes: impl FnOnce(&mut Vec<u8>),
) {
    let begin = out.len();
    out.extend([0; 4]);
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    // The kernel knows the port; any address family, version 0.
    out.extend([0; 4 + 2]);
    out.extend(queue.to_be_bytes());
    add_attributes(out);
    let length = u32::try_from(out.len() - begin).expect("a request has a few attributes");
    out[begin..begin + 4].copy_from_slice(&length.to_ne_bytes());
}

fn add_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(NLA_HDRLEN + value.len()).expect("values are short");
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(aligned(out.len()), 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: PacketKey = PacketKey { queue: 7, number: 0x0102_0304 };

    /// Returns a packet message as the kernel sends it.
    fn packet_message(add_more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        add(&mut bytes, (NFQNL_MSG_PACKET, 0), 0, KEY.queue, |out| {
            // Number, protocol and hook: seven bytes, and one of padding.
            add_attribute(out, NFQA_PACKET_HDR, &[1, 2, 3, 4, 8, 0, 3]);
            add_more(out);
        });
        bytes
    }

    fn parse_packet(bytes: &[u8]) -> Option<PacketMessage> {
        match parse(bytes)? {
            Message::Packet(found) => Some(found),
            Message::Answer { .. } => None,
        }
    }

    #[test]
    fn a_packet_is_read_with_its_mark_and_the_device_that_it_came_by() {
        let bytes = packet_message(|out| {
            add_attribute(out, NFQA_MARK, &4_600_u32.to_be_bytes());
            add_attribute(out, NFQA_IFINDEX_INDEV, &3_u32.to_be_bytes());
            add_attribute(out, NFQA_PAYLOAD, &[0x45, 0, 0, 20, 9]);
        });
        let found = parse_packet(&bytes).expect("a packet");
        assert_eq!((found.key, found.mark, found.input_ifindex), (KEY, 4_600, Some(3)));
        assert_eq!(&bytes[found.payload.expect("it is whole")], [0x45, 0, 0, 20, 9]);
    }

    #[test]
    fn of_a_packet_that_is_cut_or_has_no_bytes_the_number_is_known() {
        let cut = packet_message(|out| {
            add_attribute(out, NFQA_PAYLOAD, &[0x45; 8]);
            add_attribute(out, NFQA_CAP_LEN, &9_u32.to_be_bytes());
        });
        for bytes in [cut, packet_message(|_| {})] {
            let expected =
                PacketMessage { key: KEY, mark: 0, input_ifindex: None, output_ifindex: None, payload: None };
            assert_eq!(parse_packet(&bytes), Some(expected));
        }
    }

    #[test]
    fn answers_name_their_request_and_the_systems_error() {
        let mut bytes = Vec::new();
        add(&mut bytes, (NLMSG_ERROR, 0), 0, 0, |_| {});
        bytes.truncate(NLMSG_HDRLEN);
        bytes.extend((-16_i32).to_ne_bytes());
        add_bind(&mut bytes, 5, 7, 1_500, 64);
        let length = u32::try_from(bytes.len()).expect("it is short");
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(parse(&bytes), Some(Message::Answer { sequence: 5, error: 16 }));
    }

    #[test]
    fn a_verdict_is_as_the_kernel_reads_it() {
        let mut bytes = Vec::new();
        add_verdict(&mut bytes, KEY, Verdict::Accepted);
        let header = [32_u32.to_ne_bytes(), 0x0001_0301_u32.to_le_bytes(), [0; 4], [0; 4], [0, 0, 0, 7]];
        let attribute = [[12, 0, 2, 0], [0, 0, 0, 1], [1, 2, 3, 4]];
        let expected: Vec<u8> = header.into_iter().chain(attribute).flatten().collect();
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected);
        }
        add_verdict(&mut bytes, KEY, Verdict::Consumed);
        assert_eq!(
            (bytes.len(), &bytes[56..60]),
            (2 * VERDICT_BYTES, &[0; 4][..]),
            "several have one buffer"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_damage_leads_beyond_the_message(index in 0_usize..64, byte: u8, length in 0_usize..64) {
            let mut bytes = packet_message(|out| {
                add_attribute(out, NFQA_MARK, &[0; 4]);
                add_attribute(out, NFQA_PAYLOAD, &[0x45; 20]);
            });
            let index = index % bytes.len();
            bytes[index] = byte;
            bytes.truncate(length);
            if let Some(found) = parse_packet(&bytes) {
                prop_assert!(found.payload.is_none_or(|payload| payload.end <= bytes.len()));
            }
        }
    }
}

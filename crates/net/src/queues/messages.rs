//! What the kernel's queues of packets say and are told: netlink messages of `nfnetlink_queue.h`.

use std::ops::Range;

/// A netlink header: length, type, flags, sequence number, port (RFC 3549, section 2.3.2).
const HEADER_BYTES: usize = 16;

/// What follows it for queues: address family, version, number of the queue.
const QUEUE_HEADER_BYTES: usize = 4;

/// The header of an attribute: its length with the header, and its type, of which the two highest bits are flags.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3FFF;

/// Types of messages: an answer to a request, and those of queues (`NFNL_SUBSYS_QUEUE` is 3).
const ERROR: u16 = 2;
const PACKET: u16 = 3 << 8;
const VERDICT: u16 = 3 << 8 | 1;
const CONFIGURE: u16 = 3 << 8 | 2;

/// Flags of requests.
const REQUEST: u16 = 1;
const WITH_ANSWER: u16 = 4;

/// Attributes of a packet (`NFQA_...`).
const PACKET_HEADER: u16 = 1;
const MARK: u16 = 3;
const CAME_BY: u16 = 5;
const LEAVES_BY: u16 = 6;
const PAYLOAD: u16 = 10;
const UNCUT_LENGTH: u16 = 13;

/// The attribute of a verdict, and what it says (`NF_...`).
const VERDICT_HEADER: u16 = 2;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

/// Attributes of a configuration (`NFQA_CFG_...`), and their values.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const LENGTH_MAX: u16 = 3;
const FLAGS_MASK: u16 = 4;
const FLAGS: u16 = 5;
const BIND: u8 = 1;
const UNBIND: u8 = 2;
const COPY_PACKETS: u8 = 2;
const FAIL_OPEN: u32 = 1;

/// The length of a verdict.
pub(super) const VERDICT_BYTES: usize = HEADER_BYTES + QUEUE_HEADER_BYTES + ATTRIBUTE_HEADER_BYTES + 8;

/// What becomes of a packet of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The role has it, and the system forgets it.
    Taken,
    /// It goes on, as if there were no queue.
    Accepted,
}

/// Which packet of which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) queue: u16,
    /// The kernel's number for it.
    pub(crate) number: u32,
}

/// A packet in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: Key,
    /// Its firewall mark; 0: none.
    pub(crate) mark: u32,
    /// The number of the device by which it came; `None`: it begins at this machine.
    pub(crate) came_by: Option<u32>,
    pub(crate) leaves_by: Option<u32>,
    /// Where it lies; `None`: it is longer than what the kernel copies.
    pub(crate) payload: Option<Range<usize>>,
}

/// A message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Packet(Found),
    /// To the request with this sequence number: done, or an error of the system.
    Answer {
        sequence: u32,
        error: i32,
    },
}

/// Reads a message; `None` if it is another one, or makes no sense. The kernel puts one into each datagram.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
    let bytes = &bytes[..length.min(bytes.len())];
    match u16::from_ne_bytes(array(bytes, 4)?) {
        ERROR => {
            let error = i32::from_ne_bytes(array(bytes, HEADER_BYTES)?);
            // The header of the request follows.
            let sequence = u32::from_ne_bytes(array(bytes, HEADER_BYTES + 4 + 8)?);
            Some(Message::Answer { sequence, error: error.checked_neg()? })
        }
        PACKET => packet(bytes).map(Message::Packet),
        _ => None,
    }
}

fn packet(bytes: &[u8]) -> Option<Found> {
    let queue = u16::from_be_bytes(array(bytes, HEADER_BYTES + 2)?);
    let (mut number, mut mark, mut payload, mut is_cut) = (None, 0, None, false);
    let (mut came_by, mut leaves_by) = (None, None);
    let mut at = HEADER_BYTES + QUEUE_HEADER_BYTES;
    while let Some((kind, value)) = attribute(bytes, at) {
        at = aligned(value.end);
        match kind {
            PACKET_HEADER => number = word(bytes, &value),
            MARK => mark = word(bytes, &value)?,
            CAME_BY => came_by = word(bytes, &value),
            LEAVES_BY => leaves_by = word(bytes, &value),
            PAYLOAD => payload = Some(value),
            UNCUT_LENGTH => is_cut = true,
            _ => {}
        }
    }
    let key = Key { queue, number: number? };
    Some(Found { key, mark, came_by, leaves_by, payload: payload.filter(|_| !is_cut) })
}

/// The type of the attribute that begins there, and where its value lies.
fn attribute(bytes: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let length = usize::from(u16::from_ne_bytes(array(bytes, at)?));
    let kind = u16::from_ne_bytes(array(bytes, at + 2)?) & ATTRIBUTE_TYPE_MASK;
    let is_whole = length >= ATTRIBUTE_HEADER_BYTES && at + length <= bytes.len();
    is_whole.then(|| (kind, at + ATTRIBUTE_HEADER_BYTES..at + length))
}

/// The first word of a value, in network byte order.
fn word(bytes: &[u8], value: &Range<usize>) -> Option<u32> {
    array(&bytes[value.clone()], 0).map(u32::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Asks for a queue's packets: up to `bytes_max` bytes of each, `packets_max` of them at once. What is more goes on as if there were no
/// queue; the kernel cuts what its hardware would have cut into packets, and fills in checksums, before it queues them.
pub(super) fn add_bind(out: &mut Vec<u8>, sequence: u32, queue: u16, bytes_max: u32, packets_max: u32) {
    add(out, (CONFIGURE, REQUEST | WITH_ANSWER), sequence, queue, |out| {
        add_attribute(out, COMMAND, &[BIND, 0, 0, 0]);
        let [first, second, third, fourth] = bytes_max.to_be_bytes();
        add_attribute(out, PARAMETERS, &[first, second, third, fourth, COPY_PACKETS]);
        add_attribute(out, LENGTH_MAX, &packets_max.to_be_bytes());
        add_attribute(out, FLAGS_MASK, &FAIL_OPEN.to_be_bytes());
        add_attribute(out, FLAGS, &FAIL_OPEN.to_be_bytes());
    });
}

/// Gives a queue back.
pub(super) fn add_unbind(out: &mut Vec<u8>, sequence: u32, queue: u16) {
    add(out, (CONFIGURE, REQUEST | WITH_ANSWER), sequence, queue, |out| {
        add_attribute(out, COMMAND, &[UNBIND, 0, 0, 0]);
    });
}

/// Says what becomes of a packet.
pub(super) fn add_verdict(out: &mut Vec<u8>, key: Key, verdict: Verdict) {
    let verdict = match verdict {
        Verdict::Taken => DROP,
        Verdict::Accepted => ACCEPT,
    };
    add(out, (VERDICT, REQUEST), 0, key.queue, |out| {
        let value = (u64::from(verdict) << 32 | u64::from(key.number)).to_be_bytes();
        add_attribute(out, VERDICT_HEADER, &value);
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
    // The kernel knows from which port it came; any address family, version 0.
    out.extend([0; 4 + 2]);
    out.extend(queue.to_be_bytes());
    add_attributes(out);
    let length = u32::try_from(out.len() - begin).expect("a request has a few attributes");
    out[begin..begin + 4].copy_from_slice(&length.to_ne_bytes());
}

fn add_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).expect("values are short");
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(aligned(out.len()), 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: Key = Key { queue: 7, number: 0x0102_0304 };

    /// A packet as the kernel sends it.
    fn sent(add_more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        add(&mut bytes, (PACKET, 0), 0, KEY.queue, |out| {
            // Number, protocol and hook: seven bytes, and one that fills.
            add_attribute(out, PACKET_HEADER, &[1, 2, 3, 4, 8, 0, 3]);
            add_more(out);
        });
        bytes
    }

    fn found(bytes: &[u8]) -> Option<Found> {
        match parse(bytes)? {
            Message::Packet(found) => Some(found),
            Message::Answer { .. } => None,
        }
    }

    #[test]
    fn a_packet_is_read_with_its_mark_and_the_device_that_it_came_by() {
        let bytes = sent(|out| {
            add_attribute(out, MARK, &4_600_u32.to_be_bytes());
            add_attribute(out, CAME_BY, &3_u32.to_be_bytes());
            add_attribute(out, PAYLOAD, &[0x45, 0, 0, 20, 9]);
        });
        let found = found(&bytes).expect("a packet");
        assert_eq!((found.key, found.mark, found.came_by), (KEY, 4_600, Some(3)));
        assert_eq!(&bytes[found.payload.expect("it is whole")], [0x45, 0, 0, 20, 9]);
    }

    #[test]
    fn of_a_packet_that_is_cut_or_has_no_bytes_the_number_is_known() {
        let cut = sent(|out| {
            add_attribute(out, PAYLOAD, &[0x45; 8]);
            add_attribute(out, UNCUT_LENGTH, &9_u32.to_be_bytes());
        });
        for bytes in [cut, sent(|_| {})] {
            let expected = Found { key: KEY, mark: 0, came_by: None, leaves_by: None, payload: None };
            assert_eq!(found(&bytes), Some(expected));
        }
    }

    #[test]
    fn answers_name_their_request_and_the_systems_error() {
        let mut bytes = Vec::new();
        add(&mut bytes, (ERROR, 0), 0, 0, |_| {});
        bytes.truncate(HEADER_BYTES);
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
        add_verdict(&mut bytes, KEY, Verdict::Taken);
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
        fn no_damage_leads_beyond_the_message(place in 0_usize..64, byte: u8, length in 0_usize..64) {
            let mut bytes = sent(|out| {
                add_attribute(out, MARK, &[0; 4]);
                add_attribute(out, PAYLOAD, &[0x45; 20]);
            });
            let place = place % bytes.len();
            bytes[place] = byte;
            bytes.truncate(length);
            if let Some(found) = found(&bytes) {
                prop_assert!(found.payload.is_none_or(|payload| payload.end <= bytes.len()));
            }
        }
    }
}

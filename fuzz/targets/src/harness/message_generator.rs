//! Generator of arbitrary messages: mostly well-formed, about existing flows, with extreme values.

use byway_wire::FlowKey;

use super::input::Input;

/// A field of a message's body.
#[derive(Clone, Copy, Debug)]
enum Field {
    Alias,
    /// Low bits of a sequence number near the newest.
    Number,
    Key,
    Byte,
    /// A byte below this value.
    Code(u8),
    Word,
    Long,
    /// Repair lifetime in microseconds.
    RepairLifetime,
    Ranges,
    Index,
    Mask,
    /// Bytes of any length.
    Payload,
    /// Unmodified bytes of the input.
    Raw(u8),
    Address,
    /// Identifier of an agent that may exist.
    Agent,
    /// A packet to be relayed, from the caller.
    Packet,
    /// A count, and that many times these fields.
    Several(&'static [Field]),
    /// Cover of a batch: its entries, and digests if the bit is set.
    Cover,
    /// These fields in sequence.
    Group(&'static [Field]),
    /// A length and a few bytes.
    Text,
}

use Field::{
    Address, Agent, Alias, Byte, Code, Cover, Group, Index, Key, Long, Mask, Number, Packet, Payload, Ranges,
    Raw, RepairLifetime, Several, Text, Word,
};

/// Message types and their bodies, as in `docs/wire.md`.
const BODIES: [(u8, &[Field]); 23] = [
    (
        1,
        &[
            Key,
            Code(4),
            Code(6),
            Byte,
            Code(10),
            Byte,
            Code(10),
            Byte,
            Long,
            RepairLifetime,
            Byte,
            Word,
            Byte,
            Word,
        ],
    ),
    (2, &[Key, Code(4), Code(8), Alias]),
    (3, &[Several(&[Alias, Key, Code(6), Long])]),
    (4, &[Several(&[Alias, Code(3)])]),
    (5, &[Key, Code(4)]),
    (6, &[Key, Code(4)]),
    (16, &[Alias, Number, Mask, Index, Raw(2), Payload]),
    (17, &[Long, Index, Cover, Payload]),
    (17, &[Raw(4), Index, Cover, Payload]),
    (18, &[Alias, Code(9), Number, RepairLifetime, Ranges]),
    (19, &[Alias, Ranges]),
    (20, &[Alias, Number]),
    (21, &[Alias, RepairLifetime, Ranges]),
    (22, &[Alias, Ranges]),
    (23, &[Alias, Ranges]),
    (24, &[Key, Number, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long]),
    (32, &[Long, Long, RepairLifetime]),
    (33, &[Code(20), Raw(3), Long, Long, Long, Address]),
    (34, &[Raw(8)]),
    (36, &[Agent, Packet]),
    (37, &[Several(&[Address])]),
    (38, &[Code(4)]),
    (240, &[Payload]),
];

const REPAIR_LIFETIMES_MICROS: [u32; 8] = [0, 1, 1_000, 20_000, 250_000, 2_000_000, 3_000_000, u32::MAX];

/// One direction of an offer.
const TERMS: &[Field] = &[Code(6), Code(34), Code(10), Code(34), Code(10), Byte, Long, RepairLifetime];

/// Offers, their answers, and early packets.
const OFFERS: [(u8, &[Field]); 3] = [
    (7, &[Code(2), Byte, Group(TERMS), Group(TERMS), Text]),
    (8, &[Code(2), Byte, Code(7)]),
    (
        9,
        &[
            Code(2),
            Code(6),
            Code(1),
            Code(1),
            Code(1),
            Code(2),
            Number,
            Code(4),
            RepairLifetime,
            Long,
            Byte,
            Payload,
        ],
    ),
];

/// Flows, sequence numbers and packets for generated messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageContext<'a> {
    /// Keys of flows that exist at the machine.
    pub(crate) keys: &'a [FlowKey],
    /// Low bits of the newest sequence number.
    pub(crate) newest: u32,
    /// Number of aliases in use, from 1 on.
    pub(crate) aliases: u8,
    /// A packet to be relayed.
    pub(crate) packet: &'a [u8],
}

impl MessageContext<'_> {
    /// Writes one message, or several equal ones if the input says so.
    pub(crate) fn write_message(&self, input: &mut Input<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = input.byte();
        let (message_type, fields) = match kind {
            230..242 => OFFERS[usize::from(kind) % OFFERS.len()],
            _ => BODIES[usize::from(kind) % BODIES.len()],
        };
        let mut body = Vec::new();
        self.fields(fields, input, &mut body);
        body.truncate(65_000);
        out.push(message_type);
        out.extend_from_slice(&u16::try_from(body.len()).expect("it was cut").to_be_bytes());
        out.extend_from_slice(&body);
        if kind >= 242 {
            let message = out[start..].to_vec();
            for _ in 0..input.byte() {
                out.extend_from_slice(&message);
            }
        }
    }

    fn fields(&self, fields: &[Field], input: &mut Input<'_>, out: &mut Vec<u8>) {
        for field in fields {
            self.field(*field, input, out);
        }
    }

    fn field(&self, field: Field, input: &mut Input<'_>, out: &mut Vec<u8>) {
        match field {
            Alias => out.extend_from_slice(&self.alias(input).to_be_bytes()),
            Number => out.extend_from_slice(&input.near(self.newest).to_be_bytes()),
            Key => out.extend_from_slice(&self.keys[input.below(self.keys.len())].to_bytes()),
            Byte => out.push(input.byte()),
            Code(end) => out.push(input.byte() % end),
            Word => out.extend_from_slice(&input.array::<2>()),
            Long => out.extend_from_slice(&input.array::<4>()),
            RepairLifetime => {
                let micros = REPAIR_LIFETIMES_MICROS[input.below(REPAIR_LIFETIMES_MICROS.len())];
                out.extend_from_slice(&micros.to_be_bytes());
            }
            Ranges => self.ranges(input, out),
            Index => {
                let byte = input.byte();
                out.push((byte % 9) << 4 | (byte / 16 % 10));
            }
            Mask => {
                let byte = input.byte();
                let mask = if byte < 32 { u32::MAX >> byte } else { input.long() };
                out.extend_from_slice(&(mask | u32::from(byte < 250)).to_be_bytes());
            }
            Payload => out.resize(out.len() + input.length(), input.byte()),
            Raw(count) => {
                let start = out.len();
                out.extend_from_slice(input.bytes(count.into()));
                out.resize(start + usize::from(count), 0);
            }
            Address => address(input, out),
            Agent => out.extend_from_slice(&u32::from(input.byte() % 6).to_be_bytes()),
            Packet => out.extend_from_slice(self.packet),
            Several(fields) => {
                let count = input.byte();
                let count = if count < 200 { count % 10 } else { count };
                out.push(count);
                for _ in 0..count {
                    self.fields(fields, input, out);
                }
            }
            Cover => self.cover(input, out),
            Group(fields) => self.fields(fields, input, out),
            Text => {
                let length = input.byte() % 16;
                out.push(length);
                out.resize(out.len() + usize::from(length), input.byte());
            }
        }
    }

    fn alias(&self, input: &mut Input<'_>) -> u16 {
        match input.byte() {
            255 => u16::from_be_bytes(input.array()),
            254 => u16::MAX,
            byte => u16::from(byte % (self.aliases + 1)) + u16::from(byte < 128),
        }
    }

    fn cover(&self, input: &mut Input<'_>, out: &mut Vec<u8>) {
        let cover = input.byte();
        let count = if cover & 0x7F < 100 { cover & 0x8F } else { cover };
        out.push(count);
        out.extend_from_slice(input.bytes(2));
        for _ in 0..count & 0x3F {
            self.fields(&[Alias, Number], input, out);
        }
        if count & 0x80 != 0 {
            out.resize(out.len() + 4 * usize::from(count & 0x3F), input.byte());
        }
    }

    fn ranges(&self, input: &mut Input<'_>, out: &mut Vec<u8>) {
        let count = input.byte() % 36;
        out.push(count);
        let mut first = input.near(self.newest);
        for _ in 0..count {
            let byte = input.byte();
            let length = if byte < 200 { u16::from(byte % 20) } else { u16::from(byte - 199) * 160 };
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&length.to_be_bytes());
            first = first.wrapping_add(u32::from(length)).wrapping_add(u32::from(byte / 20));
        }
    }
}

fn address(input: &mut Input<'_>, out: &mut Vec<u8>) {
    if input.byte() < 200 {
        out.extend_from_slice(&[4, 203, 0, 113, input.byte(), 0, 80]);
    } else {
        out.push(6);
        out.resize(out.len() + 18, input.byte());
    }
}

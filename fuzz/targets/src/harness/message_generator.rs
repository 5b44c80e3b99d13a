//! Arbitrary messages: mostly of the right form, about things that exist, with values at the edges.

use byway_wire::FlowKey;

use super::input::Input;

/// A field of a message's body.
#[derive(Clone, Copy, Debug)]
enum Field {
    Alias,
    /// A sequence number near the newest, its low bits.
    Number,
    Key,
    Byte,
    /// A byte below this.
    Code(u8),
    Word,
    Long,
    /// Microseconds.
    Patience,
    Ranges,
    Place,
    Mask,
    /// Whatever length it has.
    Payload,
    /// Bytes right out of the input.
    Raw(u8),
    Address,
    /// An agent that may be there.
    Agent,
    /// A packet to be passed on, as the caller has it.
    Packet,
    /// So many of these, their number before them.
    Several(&'static [Field]),
    /// The cover of a batch: its entries, and digests if the bit is set.
    Cover,
    /// These, one after the other.
    Group(&'static [Field]),
    /// A few bytes, their number before them.
    Text,
}

use Field::{
    Address, Agent, Alias, Byte, Code, Cover, Group, Key, Long, Mask, Number, Packet, Patience, Payload,
    Place, Ranges, Raw, Several, Text, Word,
};

/// The types of messages, and their bodies as in `docs/wire.md`.
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
            Patience,
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
    (16, &[Alias, Number, Mask, Place, Raw(2), Payload]),
    (17, &[Long, Place, Cover, Payload]),
    (17, &[Raw(4), Place, Cover, Payload]),
    (18, &[Alias, Code(9), Number, Patience, Ranges]),
    (19, &[Alias, Ranges]),
    (20, &[Alias, Number]),
    (21, &[Alias, Patience, Ranges]),
    (22, &[Alias, Ranges]),
    (23, &[Alias, Ranges]),
    (24, &[Key, Number, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long]),
    (32, &[Long, Long, Patience]),
    (33, &[Code(20), Raw(3), Long, Long, Long, Address]),
    (34, &[Raw(8)]),
    (36, &[Agent, Packet]),
    (37, &[Several(&[Address])]),
    (38, &[Code(4)]),
    (240, &[Payload]),
];

const PATIENCES_MICROS: [u32; 8] = [0, 1, 1_000, 20_000, 250_000, 2_000_000, 3_000_000, u32::MAX];

/// One direction of an offer.
const TERMS: &[Field] = &[Code(6), Code(34), Code(10), Code(34), Code(10), Byte, Long, Patience];

/// Offers, answers to them, and packets that go with them.
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
            Patience,
            Long,
            Byte,
            Payload,
        ],
    ),
];

/// The flows, numbers and packets that generated messages are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The flows that exist.
    pub(crate) keys: &'a [FlowKey],
    /// The newest sequence number, its low bits.
    pub(crate) newest: u32,
    /// How many aliases are in use, from 1 on.
    pub(crate) aliases: u8,
    /// What may be passed on.
    pub(crate) packet: &'a [u8],
}

impl Subject<'_> {
    /// One message, or more if the input wants many of the same.
    pub(crate) fn say(&self, input: &mut Input<'_>, out: &mut Vec<u8>) {
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
            Patience => {
                let micros = PATIENCES_MICROS[input.below(PATIENCES_MICROS.len())];
                out.extend_from_slice(&micros.to_be_bytes());
            }
            Ranges => self.ranges(input, out),
            Place => {
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

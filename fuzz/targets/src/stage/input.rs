//! The fuzzer's bytes, as choices.

use byway_units::Duration;
use byway_wire::packets::EnvelopeRole;

/// What is left of an input. Past its end everything is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

/// Steps of time that matter to some timer: a packet, a round trip, a probe, a handshake, a rekeying.
const STEPS_MICROS: [u64; 16] = [
    0,
    1,
    100,
    1_000,
    5_000,
    10_000,
    25_000,
    60_000,
    130_000,
    300_000,
    1_100_000,
    4_000_000,
    11_000_000,
    61_000_000,
    125_000_000,
    250_000_000,
];

/// Lengths at which something begins or ends.
const LENGTHS: [usize; 16] =
    [0, 1, 20, 21, 22, 37, 100, 255, 700, 1_170, 1_200, 1_376, 1_472, 2_048, 2_060, 60_000];

impl<'a> Input<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    pub(crate) fn long(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// At most so many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// A number below `end`, of at most 256.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn step(&mut self) -> Duration {
        Duration::from_micros(STEPS_MICROS[self.below(STEPS_MICROS.len())])
    }

    pub(crate) fn length(&mut self) -> usize {
        LENGTHS[self.below(LENGTHS.len())]
    }

    pub(crate) fn role(&mut self) -> EnvelopeRole {
        const ROLES: [EnvelopeRole; 7] = [
            EnvelopeRole::Copy,
            EnvelopeRole::ResentCopy,
            EnvelopeRole::Carried,
            EnvelopeRole::Forwarded,
            EnvelopeRole::CachedRepair,
            EnvelopeRole::CooperativeRepair,
            EnvelopeRole::CooperativeAnswer,
        ];
        ROLES[self.below(ROLES.len())]
    }

    /// A number near another one most of the time.
    pub(crate) fn near(&mut self, number: u32) -> u32 {
        match self.byte() {
            255 => self.long(),
            254 => number.wrapping_add(1 << 31),
            253 => number.wrapping_add(9_000),
            252 => number.wrapping_sub(9_000),
            by => number.wrapping_add(u32::from(by)).wrapping_sub(100),
        }
    }
}

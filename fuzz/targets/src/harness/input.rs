//! Choices derived from the fuzzer's bytes.

use byway_units::Duration;
use byway_wire::packets::EnvelopeRole;

/// Unread part of an input. After its end, all bytes are zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    /// Rest of [`LONG_STEPS_MICROS_MAX`].
    long_steps_left: u64,
}

/// Most virtual time of the long steps in one input: one longest step, or two rekeyings.
///
/// A node without answers repeats its handshakes forever. Without this limit, that would take half
/// of a fuzzer's time.
const LONG_STEPS_MICROS_MAX: u64 = 251_000_000;

/// Least duration of a long step, and the duration of a step after the limit is reached.
const LONG_STEP_MICROS: u64 = 4_000_000;
const SHORT_STEP_MICROS: u64 = 130_000;

/// Time steps that matter to timers: a packet, a round trip, a probe, a handshake, a rekeying.
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

/// Datagram lengths at limits of the formats.
const LENGTHS: [usize; 16] =
    [0, 1, 20, 21, 22, 37, 100, 255, 700, 1_170, 1_200, 1_376, 1_472, 2_048, 2_060, 60_000];

impl<'a> Input<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, long_steps_left: LONG_STEPS_MICROS_MAX }
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

    /// Returns at most `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// Returns a number below `end`, which is at most 256.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn step(&mut self) -> Duration {
        let micros = STEPS_MICROS[self.below(STEPS_MICROS.len())];
        if micros < LONG_STEP_MICROS {
            return Duration::from_micros(micros);
        }
        let Some(left) = self.long_steps_left.checked_sub(micros) else {
            return Duration::from_micros(SHORT_STEP_MICROS);
        };
        self.long_steps_left = left;
        Duration::from_micros(micros)
    }

    pub(crate) fn length(&mut self) -> usize {
        LENGTHS[self.below(LENGTHS.len())]
    }

    pub(crate) fn role(&mut self) -> EnvelopeRole {
        const ROLES: [EnvelopeRole; 7] = [
            EnvelopeRole::Copy,
            EnvelopeRole::ResentCopy,
            EnvelopeRole::RelayedCopy,
            EnvelopeRole::Forwarded,
            EnvelopeRole::CachedRepair,
            EnvelopeRole::CooperativeRepair,
            EnvelopeRole::CooperativeAnswer,
        ];
        ROLES[self.below(ROLES.len())]
    }

    /// Returns a number that is mostly near `number`.
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

//! The bytes of packets that passed a moment ago.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_code::{ALIGNMENT, AlignedBuffer, prefetch};
use byway_units::{Bytes, Duration, Time};

use crate::limits::{LOG_BLOCK_BYTES_MAX, LOG_BLOCK_BYTES_MIN};

/// Where a packet is in a [`PacketLog`].
///
/// It stays valid: when the packet is gone, the log says so, until it has taken in 2^32 blocks more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// How many blocks the log had begun before the one that the packet is in, modulo 2^32, in two halves: there are
    /// as many handles as packets, and tables are made of them.
    block: [u16; 2],
    /// How many packets are before it in the block.
    index: u16,
    /// How many times [`ALIGNMENT`] bytes are before it in the block.
    start: u16,
    bytes: u16,
}

impl Handle {
    /// How long the packet is.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }
}

/// Packets in the order in which they came, until their room is needed or their time is over.
///
/// Packets lie in blocks, each packet in one piece on an [`ALIGNMENT`] boundary. When a block is full, the oldest
/// one is used again if all of its packets have outlived `age_max`; if not, another is allocated as long as
/// `bytes_max` allows, each as large as all before it together, up to 64 KiB; then the oldest is given up. So a
/// log grows to what its traffic needs, in small steps and without copying, and then allocates nothing.
#[derive(Debug)]
pub struct PacketLog {
    /// Oldest first; packets go into the last.
    blocks: VecDeque<Block>,
    /// How many blocks were begun before the first.
    blocks_before: u32,
    bytes_held: usize,
    bytes_max: usize,
    age_max: Duration,
    counters: LogCounters,
}

/// What became of the packets of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Kept.
    pub kept: u64,
    /// Given up before their time was over, since their room was needed.
    pub evicted_early: u64,
    /// Not kept, as they are longer than 65,535 bytes.
    pub too_long: u64,
}

#[derive(Debug)]
struct Block {
    bytes: AlignedBuffer,
    /// How many bytes are used.
    end: usize,
    /// When each packet came.
    times: Vec<Time>,
}

impl Block {
    fn new(bytes: usize) -> Self {
        // As many as the shortest packets need, so that it never grows; what is not used is never touched.
        Self { bytes: AlignedBuffer::new(bytes), end: 0, times: Vec::with_capacity(bytes / ALIGNMENT) }
    }

    fn size(&self) -> usize {
        self.bytes.as_ref().len()
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.size() - self.end >= bytes
    }

    fn empty(&mut self) {
        self.end = 0;
        self.times.clear();
    }

    /// How many packets came no longer than `age_max` ago.
    fn count_young(&self, age_max: Duration, now: Time) -> usize {
        self.times.len() - self.times.partition_point(|time| is_over(*time, age_max, now))
    }
}

fn is_over(time: Time, age_max: Duration, now: Time) -> bool {
    now.saturating_since(time) > age_max
}

impl PacketLog {
    /// An empty log of at most `bytes_max` (or 64 KiB, if that is more), which gives packets out until they are
    /// `age_max` old (`Duration::MAX`: as long as they are there).
    #[must_use]
    pub fn new(bytes_max: Bytes, age_max: Duration) -> Self {
        let bytes_max = usize::try_from(bytes_max.count()).unwrap_or(usize::MAX).max(LOG_BLOCK_BYTES_MAX);
        Self {
            blocks: VecDeque::new(),
            blocks_before: 0,
            bytes_held: 0,
            bytes_max,
            age_max,
            counters: LogCounters::default(),
        }
    }

    /// Keeps a copy of `packet`, unless it is longer than 65,535 bytes, what a datagram can hold.
    ///
    /// Time must not run backwards from call to call.
    pub fn push(&mut self, packet: &[u8], now: Time) -> Option<Handle> {
        let (handle, room) = self.reserve(packet.len(), now)?;
        room.copy_from_slice(packet);
        Some(handle)
    }

    /// Room for a packet of `bytes`, for the caller to fill: what it holds now is undefined.
    pub fn reserve(&mut self, bytes: usize, now: Time) -> Option<(Handle, &mut [u8])> {
        let Ok(bytes_u16) = u16::try_from(bytes) else {
            self.counters.too_long += 1;
            return None;
        };
        let aligned = bytes.max(1).next_multiple_of(ALIGNMENT);
        if self.blocks.back().is_none_or(|last| !last.has_room(aligned)) {
            self.begin_block(aligned, now);
        }
        let number = self.blocks_before.wrapping_add(u32_of(self.blocks.len() - 1));
        let block = self.blocks.back_mut()?;
        let (index, start) = (u16_of(block.times.len()), block.end);
        let handle =
            Handle { block: halves(number), index, start: u16_of(start / ALIGNMENT), bytes: bytes_u16 };
        block.end += aligned;
        block.times.push(now);
        self.counters.kept += 1;
        let (room, rest) = block.bytes.as_mut()[start..].split_at_mut(aligned);
        // A log is larger than the cache, and the room for the next packet is what was used longest ago.
        prefetch(rest);
        Some((handle, &mut room[..bytes]))
    }

    /// The packet, if it is still there and its time is not over.
    #[must_use]
    pub fn get(&self, handle: Handle, now: Time) -> Option<&[u8]> {
        let place = usize::try_from(whole(handle.block).wrapping_sub(self.blocks_before)).ok()?;
        let block = self.blocks.get(place)?;
        let time = block.times.get(usize::from(handle.index))?;
        let start = usize::from(handle.start) * ALIGNMENT;
        let packet = block.bytes.as_ref().get(start..start + handle.bytes())?;
        (!is_over(*time, self.age_max, now)).then_some(packet)
    }

    /// When the packet came, if it is still there.
    #[must_use]
    pub fn came(&self, handle: Handle) -> Option<Time> {
        let place = usize::try_from(whole(handle.block).wrapping_sub(self.blocks_before)).ok()?;
        self.blocks.get(place)?.times.get(usize::from(handle.index)).copied()
    }

    /// Gives back the memory of packets whose time is over: for flows that fell silent.
    pub fn release(&mut self, now: Time) {
        while self.blocks.front().is_some_and(|block| block.count_young(self.age_max, now) == 0) {
            self.pop_block();
        }
    }

    /// How much memory the blocks take; when packets came takes an eighth of that at most.
    #[must_use]
    pub fn held(&self) -> Bytes {
        Bytes::from(self.bytes_held)
    }

    /// What became of the packets so far.
    #[must_use]
    pub const fn counters(&self) -> &LogCounters {
        &self.counters
    }

    /// Begins a block with room for `needed` bytes.
    #[cold]
    fn begin_block(&mut self, needed: usize, now: Time) {
        let block = match self.take_oldest(needed, now) {
            Some(block) => block,
            None => self.allocate(needed),
        };
        self.bytes_held += block.size();
        self.blocks.push_back(block);
    }

    /// Takes blocks from the front until one is large enough, as long as their packets are old or there is no
    /// room for another block.
    fn take_oldest(&mut self, needed: usize, now: Time) -> Option<Block> {
        while let Some(oldest) = self.blocks.front() {
            let young = oldest.count_young(self.age_max, now);
            if young > 0 && self.bytes_held + needed.max(LOG_BLOCK_BYTES_MIN) <= self.bytes_max {
                return None;
            }
            self.counters.evicted_early += young as u64;
            let mut block = self.pop_block()?;
            block.empty();
            if block.has_room(needed) {
                return Some(block);
            }
        }
        None
    }

    /// As large as all before it together, within the bounds.
    fn allocate(&mut self, needed: usize) -> Block {
        let free = self.bytes_max - self.bytes_held;
        let wanted = self.bytes_held.next_power_of_two().clamp(LOG_BLOCK_BYTES_MIN, LOG_BLOCK_BYTES_MAX);
        Block::new(wanted.min(free / ALIGNMENT * ALIGNMENT).max(needed))
    }

    fn pop_block(&mut self) -> Option<Block> {
        let block = self.blocks.pop_front()?;
        self.blocks_before = self.blocks_before.wrapping_add(1);
        self.bytes_held -= block.size();
        Some(block)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
const fn halves(number: u32) -> [u16; 2] {
    [(number >> 16) as u16, number as u16]
}

const fn whole([high, low]: [u16; 2]) -> u32 {
    (high as u32) << 16 | low as u32
}

/// A count of blocks, of 8 KiB or more.
fn u32_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A count within a block: of at most 64 KiB, in steps of [`ALIGNMENT`].
fn u16_of(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use proptest::prelude::*;

    use super::*;

    const AGE: Duration = Duration::from_millis(500);
    /// A log of four blocks of 64 KiB.
    const BYTES: u64 = 256 << 10;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn log() -> PacketLog {
        PacketLog::new(Bytes::new(BYTES), AGE)
    }

    #[test]
    fn a_packet_is_given_out_until_its_time_is_over() {
        let mut log = log();
        let handle = log.push(b"a packet", at(0)).expect("it is short");
        let later = log.push(b"another", at(3)).expect("it is short");
        assert_eq!((log.came(handle), log.came(later)), (Some(at(0)), Some(at(3))));
        assert_eq!(log.get(handle, at(500)), Some(&b"a packet"[..]));
        assert_eq!(log.get(handle, at(501)), None);
        assert_eq!(handle.bytes(), 8);
    }

    #[test]
    fn an_idle_log_holds_no_memory_and_a_silent_one_gives_it_back() {
        let mut log = log();
        assert_eq!((log.held(), log.blocks.capacity()), (Bytes::ZERO, 0));
        let handle = log.push(b"a packet", at(0)).expect("it is short");
        assert_eq!(log.held(), Bytes::from(LOG_BLOCK_BYTES_MIN));
        log.release(at(500));
        assert!(log.get(handle, at(500)).is_some());
        log.release(at(501));
        assert_eq!((log.held(), log.get(handle, at(0))), (Bytes::ZERO, None));
        let newer = log.push(b"another", at(502)).expect("it is short");
        assert_eq!((log.get(handle, at(502)), log.get(newer, at(502))), (None, Some(&b"another"[..])));
    }

    #[test]
    fn a_log_grows_to_what_is_alive_at_a_time_and_no_further() {
        let mut log = log();
        // 20 packets in half a second, 1,024 bytes each in the log.
        for number in 0..1_000 {
            log.push(&[0; 1_000], at(25 * number));
        }
        assert_eq!(log.held(), Bytes::from(8 * LOG_BLOCK_BYTES_MIN));
        assert_eq!(log.counters().evicted_early, 0);
    }

    #[test]
    fn the_oldest_packets_make_room_when_the_log_is_full() {
        let mut log = log();
        let handles: Vec<_> = (0..1_000_u16).map(|number| log.push(&number.to_be_bytes(), at(0))).collect();
        assert!(handles.iter().flatten().all(|handle| log.get(*handle, at(0)).is_some()));
        for _ in 0..BYTES / 64 {
            log.push(b"newer", at(1));
        }
        assert!(handles.iter().flatten().all(|handle| log.get(*handle, at(1)).is_none()));
        assert!(log.counters().evicted_early >= 1_000);
        assert_eq!(log.held(), Bytes::new(BYTES));
    }

    #[test]
    fn the_longest_datagram_is_kept_and_what_is_longer_is_not() {
        let mut log = log();
        let longest = vec![7; 65_535];
        let handle = log.push(&longest, at(0)).expect("it fits");
        assert_eq!(log.get(handle, at(0)), Some(&longest[..]));
        assert_eq!(log.push(&vec![0; 65_536], at(0)), None);
        assert_eq!(*log.counters(), LogCounters { kept: 1, evicted_early: 0, too_long: 1 });
    }

    #[test]
    fn packets_lie_on_cache_lines() {
        let mut log = log();
        for bytes in [0, 1, 63, 64, 65, 1_400] {
            let handle = log.push(&vec![1; bytes], at(0)).expect("it is short");
            let packet = log.get(handle, at(0)).expect("it is there");
            assert_eq!((packet.as_ptr().addr() % ALIGNMENT, packet.len()), (0, bytes));
        }
    }

    #[test]
    fn a_handle_takes_ten_bytes() {
        assert_eq!(size_of::<Handle>(), 10);
    }

    /// What was pushed: its handle, its bytes and when it came.
    type Pushed = (Handle, Vec<u8>, Time);

    /// Whatever the log gives out is right, and it gives out the newest 100 KiB that are not too old.
    fn check(log: &PacketLog, pushed: &[Pushed], now: Time) {
        let mut newer_bytes = 0;
        for (handle, packet, time) in pushed.iter().rev() {
            newer_bytes += packet.len().max(1).next_multiple_of(ALIGNMENT);
            let is_young = now - *time <= AGE;
            match log.get(*handle, now) {
                Some(given) => assert!(is_young && given == packet),
                None => assert!(!is_young || newer_bytes > 100 << 10),
            }
        }
        assert!(log.held() <= Bytes::new(BYTES));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_log_gives_out_what_went_in(
            steps in proptest::collection::vec((0_usize..2_000, 0_u64..20, any::<u8>()), 0..400),
        ) {
            let (mut log, mut pushed, mut now) = (log(), Vec::new(), at(0));
            for (bytes, gap_millis, fill) in steps {
                now += Duration::from_millis(gap_millis / 8 * gap_millis);
                let packet = vec![fill; bytes];
                let handle = log.push(&packet, now).expect("it is short");
                pushed.push((handle, packet, now));
            }
            check(&log, &pushed, now);
            log.release(now);
            let released = log.counters().evicted_early;
            check(&log, &pushed, now);
            prop_assert_eq!(log.counters().evicted_early, released);
            prop_assert_eq!(log.counters().kept, pushed.len() as u64);
        }
    }
}

//! Buffer for the bytes of recent packets.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_code::{ALIGNMENT, AlignedBuffer, prefetch};
use byway_units::{Bytes, Duration, Time};

use crate::limits::{BUFFER_CHUNK_BYTES_MAX, BUFFER_CHUNK_BYTES_MIN};

/// Handle of a packet in a [`PacketBuffer`].
///
/// It is valid until the buffer has begun 2^32 more chunks. After the packet's removal, lookups
/// return `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Number of the packet's chunk, modulo 2^32, in two halves: 16-bit alignment keeps the tables
    /// of handles small.
    chunk: [u16; 2],
    /// Index of the packet in its chunk.
    index: u16,
    /// Offset of the packet in its chunk, in units of [`ALIGNMENT`] bytes.
    start: u16,
    bytes: u16,
}

impl Handle {
    /// Returns the length of the packet, in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }
}

/// Packets in order of arrival, until they expire or the buffer is full.
///
/// Packets are stored in chunks, each packet contiguous on an [`ALIGNMENT`] boundary. When a chunk
/// is full, there are three cases:
/// 1. If all packets of the oldest chunk are older than `age_max`, it is reused.
/// 2. Otherwise, if `bytes_max` allows, another chunk is allocated. It is as large as all before it
///    together, up to 64 KiB.
/// 3. Otherwise, the packets of the oldest chunk are evicted.
///
/// So a buffer grows to the size that its traffic needs, in small steps and without copying, and
/// then allocates nothing.
#[derive(Debug)]
pub struct PacketBuffer {
    /// Chunks, oldest first; new packets go into the last one.
    chunks: VecDeque<Chunk>,
    /// Number of chunks that were removed or reused, modulo 2^32: the number of the first chunk.
    chunks_before: u32,
    bytes_allocated: usize,
    bytes_max: usize,
    age_max: Duration,
    counters: PacketBufferCounters,
}

/// Packets of a buffer by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBufferCounters {
    /// Packets that the buffer has stored.
    pub stored: u64,
    /// Packets evicted before they expired, because the buffer was full.
    pub evicted_early: u64,
    /// Packets not stored, because they are longer than 65,535 bytes.
    pub too_long: u64,
}

#[derive(Debug)]
struct Chunk {
    bytes: AlignedBuffer,
    /// Number of used bytes in the chunk.
    end: usize,
    /// Arrival time of each packet in the chunk.
    times: Vec<Time>,
}

impl Chunk {
    fn new(bytes: usize) -> Self {
        // As many as the shortest packets need, so it never grows; unused memory is never touched.
        Self { bytes: AlignedBuffer::new(bytes), end: 0, times: Vec::with_capacity(bytes / ALIGNMENT) }
    }

    fn size(&self) -> usize {
        self.bytes.as_ref().len()
    }

    fn has_space(&self, bytes: usize) -> bool {
        self.size() - self.end >= bytes
    }

    fn empty(&mut self) {
        self.end = 0;
        self.times.clear();
    }

    /// Returns the number of packets that are at most `age_max` old.
    fn count_young(&self, age_max: Duration, now: Time) -> usize {
        self.times.len() - self.times.partition_point(|time| is_over(*time, age_max, now))
    }
}

fn is_over(time: Time, age_max: Duration, now: Time) -> bool {
    now.saturating_since(time) > age_max
}

impl PacketBuffer {
    /// Creates an empty buffer of at most `bytes_max` bytes (or 64 KiB, if that is more). Packets
    /// expire after `age_max` (`Duration::MAX`: never).
    #[must_use]
    pub fn new(bytes_max: Bytes, age_max: Duration) -> Self {
        let bytes_max = usize::try_from(bytes_max.count()).unwrap_or(usize::MAX).max(BUFFER_CHUNK_BYTES_MAX);
        Self {
            chunks: VecDeque::new(),
            chunks_before: 0,
            bytes_allocated: 0,
            bytes_max,
            age_max,
            counters: PacketBufferCounters::default(),
        }
    }

    /// Stores a copy of `packet`, and returns its handle; `None` if it is longer than 65,535 bytes,
    /// the most in a datagram.
    ///
    /// Time must not run backwards from call to call.
    pub fn push(&mut self, packet: &[u8], now: Time) -> Option<Handle> {
        let (handle, buffer) = self.reserve(packet.len(), now)?;
        buffer.copy_from_slice(packet);
        Some(handle)
    }

    /// Reserves memory for a packet of `bytes` bytes, and returns it for the caller to fill; its
    /// content is undefined. `None` if the packet is longer than 65,535 bytes.
    pub fn reserve(&mut self, bytes: usize, now: Time) -> Option<(Handle, &mut [u8])> {
        let Ok(bytes_u16) = u16::try_from(bytes) else {
            self.counters.too_long += 1;
            return None;
        };
        let aligned = bytes.max(1).next_multiple_of(ALIGNMENT);
        if self.chunks.back().is_none_or(|last| !last.has_space(aligned)) {
            self.begin_chunk(aligned, now);
        }
        let number = self.chunks_before.wrapping_add(u32_of(self.chunks.len() - 1));
        let chunk = self.chunks.back_mut()?;
        let (index, start) = (u16_of(chunk.times.len()), chunk.end);
        let handle =
            Handle { chunk: halves(number), index, start: u16_of(start / ALIGNMENT), bytes: bytes_u16 };
        chunk.end += aligned;
        chunk.times.push(now);
        self.counters.stored += 1;
        let (buffer, rest) = chunk.bytes.as_mut()[start..].split_at_mut(aligned);
        // A buffer is larger than the cache, and the memory for the next packet is the least
        // recently used.
        prefetch(rest);
        Some((handle, &mut buffer[..bytes]))
    }

    /// Returns the packet; `None` if it was evicted or has expired.
    #[must_use]
    pub fn get(&self, handle: Handle, now: Time) -> Option<&[u8]> {
        let chunk_index = usize::try_from(whole(handle.chunk).wrapping_sub(self.chunks_before)).ok()?;
        let chunk = self.chunks.get(chunk_index)?;
        let time = chunk.times.get(usize::from(handle.index))?;
        let start = usize::from(handle.start) * ALIGNMENT;
        let packet = chunk.bytes.as_ref().get(start..start + handle.bytes())?;
        (!is_over(*time, self.age_max, now)).then_some(packet)
    }

    /// Returns the arrival time of the packet; `None` if it was evicted. It may have expired.
    #[must_use]
    pub fn stored_at(&self, handle: Handle) -> Option<Time> {
        let chunk_index = usize::try_from(whole(handle.chunk).wrapping_sub(self.chunks_before)).ok()?;
        self.chunks.get(chunk_index)?.times.get(usize::from(handle.index)).copied()
    }

    /// Frees the memory of chunks whose packets have all expired. It is for flows that send
    /// nothing: others reuse the memory.
    pub fn release(&mut self, now: Time) {
        while self.chunks.front().is_some_and(|chunk| chunk.count_young(self.age_max, now) == 0) {
            self.pop_chunk();
        }
    }

    /// Returns the memory of the chunks, in bytes. Arrival times take at most an eighth more.
    #[must_use]
    pub fn memory_bytes(&self) -> Bytes {
        Bytes::from(self.bytes_allocated)
    }

    /// Returns the counts of packets by what happened to them.
    #[must_use]
    pub const fn counters(&self) -> &PacketBufferCounters {
        &self.counters
    }

    /// Begins a chunk with at least `needed` free bytes.
    #[cold]
    fn begin_chunk(&mut self, needed: usize, now: Time) {
        let chunk = match self.reuse_oldest(needed, now) {
            Some(chunk) => chunk,
            None => self.allocate(needed),
        };
        self.bytes_allocated += chunk.size();
        self.chunks.push_back(chunk);
    }

    /// Removes chunks from the front until one has `needed` bytes, while their packets have expired
    /// or the buffer may not grow. `None` if another chunk should be allocated.
    fn reuse_oldest(&mut self, needed: usize, now: Time) -> Option<Chunk> {
        while let Some(oldest) = self.chunks.front() {
            let young = oldest.count_young(self.age_max, now);
            if young > 0 && self.bytes_allocated + needed.max(BUFFER_CHUNK_BYTES_MIN) <= self.bytes_max {
                return None;
            }
            self.counters.evicted_early += young as u64;
            let mut chunk = self.pop_chunk()?;
            chunk.empty();
            if chunk.has_space(needed) {
                return Some(chunk);
            }
        }
        None
    }

    /// Allocates a chunk as large as all before it together, within the bounds.
    fn allocate(&mut self, needed: usize) -> Chunk {
        let free = self.bytes_max - self.bytes_allocated;
        let wanted =
            self.bytes_allocated.next_power_of_two().clamp(BUFFER_CHUNK_BYTES_MIN, BUFFER_CHUNK_BYTES_MAX);
        Chunk::new(wanted.min(free / ALIGNMENT * ALIGNMENT).max(needed))
    }

    fn pop_chunk(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.chunks_before = self.chunks_before.wrapping_add(1);
        self.bytes_allocated -= chunk.size();
        Some(chunk)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
const fn halves(number: u32) -> [u16; 2] {
    [(number >> 16) as u16, number as u16]
}

const fn whole([high, low]: [u16; 2]) -> u32 {
    (high as u32) << 16 | low as u32
}

/// Converts a count of chunks, of 8 KiB or more.
fn u32_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Converts a count within a chunk: of at most 64 KiB, in steps of [`ALIGNMENT`].
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
    /// Size of a buffer with four chunks of 64 KiB.
    const BYTES: u64 = 256 << 10;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn log() -> PacketBuffer {
        PacketBuffer::new(Bytes::new(BYTES), AGE)
    }

    #[test]
    fn a_packet_is_given_out_until_its_time_is_over() {
        let mut log = log();
        let handle = log.push(b"a packet", at(0)).expect("it is short");
        let later = log.push(b"another", at(3)).expect("it is short");
        assert_eq!((log.stored_at(handle), log.stored_at(later)), (Some(at(0)), Some(at(3))));
        assert_eq!(log.get(handle, at(500)), Some(&b"a packet"[..]));
        assert_eq!(log.get(handle, at(501)), None);
        assert_eq!(handle.bytes(), 8);
    }

    #[test]
    fn an_idle_log_holds_no_memory_and_a_silent_one_gives_it_back() {
        let mut log = log();
        assert_eq!((log.memory_bytes(), log.chunks.capacity()), (Bytes::ZERO, 0));
        let handle = log.push(b"a packet", at(0)).expect("it is short");
        assert_eq!(log.memory_bytes(), Bytes::from(BUFFER_CHUNK_BYTES_MIN));
        log.release(at(500));
        assert!(log.get(handle, at(500)).is_some());
        log.release(at(501));
        assert_eq!((log.memory_bytes(), log.get(handle, at(0))), (Bytes::ZERO, None));
        let newer = log.push(b"another", at(502)).expect("it is short");
        assert_eq!((log.get(handle, at(502)), log.get(newer, at(502))), (None, Some(&b"another"[..])));
    }

    #[test]
    fn a_log_grows_to_what_is_alive_at_a_time_and_no_further() {
        let mut log = log();
        // 20 packets in half a second, 1,024 bytes each in the buffer.
        for number in 0..1_000 {
            log.push(&[0; 1_000], at(25 * number));
        }
        assert_eq!(log.memory_bytes(), Bytes::from(8 * BUFFER_CHUNK_BYTES_MIN));
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
        assert_eq!(log.memory_bytes(), Bytes::new(BYTES));
    }

    #[test]
    fn the_longest_datagram_is_kept_and_what_is_longer_is_not() {
        let mut log = log();
        let longest = vec![7; 65_535];
        let handle = log.push(&longest, at(0)).expect("it fits");
        assert_eq!(log.get(handle, at(0)), Some(&longest[..]));
        assert_eq!(log.push(&vec![0; 65_536], at(0)), None);
        assert_eq!(*log.counters(), PacketBufferCounters { stored: 1, evicted_early: 0, too_long: 1 });
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

    /// A stored packet: its handle, its bytes and its arrival time.
    type PushedPacket = (Handle, Vec<u8>, Time);

    /// Checks that every packet returned is correct, and that the newest 100 KiB are returned
    /// unless they have expired.
    fn check(log: &PacketBuffer, pushed: &[PushedPacket], now: Time) {
        let mut newer_bytes = 0;
        for (handle, packet, time) in pushed.iter().rev() {
            newer_bytes += packet.len().max(1).next_multiple_of(ALIGNMENT);
            let is_young = now - *time <= AGE;
            match log.get(*handle, now) {
                Some(found) => assert!(is_young && found == packet),
                None => assert!(!is_young || newer_bytes > 100 << 10),
            }
        }
        assert!(log.memory_bytes() <= Bytes::new(BYTES));
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
            prop_assert_eq!(log.counters().stored, pushed.len() as u64);
        }
    }
}

//! Constants, and the reasons for their values.
//!
//! They bound the memory that an image or a message may cost: a main header of a hundred bytes can
//! describe 2⁶⁴ precincts.

/// Most tiles of an image. The format allows 65,535; a layout has up to 20 bytes for each
/// resolution of each component of each tile.
pub const TILES_MAX: u32 = 4_096;

/// Most components of an image: twice those of eight-colour prints. The format allows 16,384.
pub const COMPONENTS_MAX: u16 = 16;

/// Most decomposition levels, a limit of the format.
pub(crate) const LEVELS_MAX: u8 = 32;

/// Most grids of precincts, one for each resolution of each component of each tile: 2.6 MB of a
/// layout.
pub(crate) const GRIDS_MAX: usize = 1 << 17;

/// Most precincts of an image: those of two gigapixels in three components, with precincts of 128.
/// A layout has up to 16 bytes for each, and 24 more while it is built.
pub const PRECINCTS_MAX: u32 = 1 << 19;

/// Most packets of an image: 800 megapixels in three components and 20 layers. An index has 8 bytes
/// for each, and a [`Cache`](crate::Cache) one bit.
pub const PACKETS_MAX: u32 = 1 << 22;

/// Most tile-parts of an image: 16 of each tile.
pub const TILE_PARTS_MAX: usize = 1 << 16;

/// Most bytes of a packet. Packets of precincts of 128 have at most some 100 kB; a larger one does
/// not fit in an answer.
pub const PACKET_BYTES_MAX: u32 = 1 << 20;

/// Most precincts of which an answer has packets: a window of 16,000 × 8,000 pixels in three
/// components. They cost 256 kB while packets are selected.
pub const WINDOW_PRECINCTS_MAX: usize = 1 << 16;

/// Most bytes of an answer, whatever a request allows: 0.3 s at 100 Mbit/s.
pub const ANSWER_BYTES_MAX: u32 = 4 << 20;

/// Most bytes of an outline without packet lengths: a client holds it before it has any packet.
pub const OUTLINE_BYTES_MAX: usize = 1 << 20;

/// Bytes that a stored packet counts beside its own: those of a map's entry and an allocation.
pub(crate) const STORED_OVERHEAD: usize = 64;

/// Samples of a band on each side of a window that its reconstruction reads, in each level. The 9/7
/// synthesis reads 1 low and 2 high ones before, and 2 of each after the window (ISO/IEC 15444-1,
/// annex F.3); the 5/3 synthesis reads fewer.
pub(crate) const SUPPORT: u64 = 2;

const _: () = assert!(PACKET_BYTES_MAX + 64 < ANSWER_BYTES_MAX, "every packet fits in an answer");
const _: () = assert!(PRECINCTS_MAX <= PACKETS_MAX, "every precinct has a packet");

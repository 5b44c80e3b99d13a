//! Index of a codestream: the bytes of each packet.

use alloc::vec::Vec;
use core::ops::Range;

use crate::boxes::codestream;
use crate::fault::{CodestreamError, Fault, Field, Limit};
use crate::layout::{Layout, PacketNumber};
use crate::limits::TILE_PARTS_MAX;
use crate::marker::Marker;
use crate::reader::{Reader, Segment};
use crate::tile_part::{PacketLengths, TilePartStart, read_header};

/// Index of a JPEG 2000 codestream: the geometry of its packets, and the bytes of each.
///
/// The codestream has packet lengths (PLT), the progression RPCL, and its tiles in order. Its
/// headers are the same for all components and tiles (no COC, POC, PPM and PPT). A JP2 file around
/// it is skipped.
///
/// An index has its [`Layout`], 8 bytes for each packet, and 24 for each tile-part. Of a file of n
/// bytes, the latter two are at most 8 n bytes, and at most 70 MB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    layout: Layout,
    codestream: Range<u64>,
    parts: Vec<TilePart>,
    /// Byte of the file behind each packet.
    ends: Vec<u64>,
}

/// Part of a tile, in the order of the codestream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TilePart {
    /// Number of its first packet, which is that of the next tile-part if it has none.
    pub(crate) first: u32,
    /// Bytes of the file at which its header and its data begin.
    pub(crate) header: u64,
    pub(crate) data: u64,
}

impl Index {
    /// Reads the headers of a file.
    ///
    /// The time is that of the headers, and of sorting the precincts.
    ///
    /// # Errors
    /// If the file is cut or faulty, or if it has packets that an index does not support.
    pub fn new(file: &[u8]) -> Result<Self, CodestreamError> {
        let mut reader = codestream(file)?;
        let begin = reader.offset();
        let layout = Layout::read(&mut reader)?;
        let mut parts = PartReader::new(reader, &layout);
        let end = parts.read_all()?;
        let PartReader { parts, ends, .. } = parts;
        Ok(Self { layout, codestream: begin..end, parts, ends })
    }

    /// Returns the geometry of the packets.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the bytes of the file that are the codestream.
    #[must_use]
    pub fn codestream(&self) -> Range<u64> {
        self.codestream.clone()
    }

    /// Returns the bytes of the file that are a packet; `None` if the image has fewer packets.
    #[must_use]
    pub fn packet_bytes(&self, packet: PacketNumber) -> Option<Range<u64>> {
        let end = *self.ends.get(packet.index())?;
        let part = self.parts.partition_point(|part| part.first <= packet.get()).checked_sub(1)?;
        let part = self.parts[part];
        let begin = if part.first == packet.get() { part.data } else { self.ends[packet.index() - 1] };
        Some(begin..end)
    }

    /// Returns a packet of the file that was indexed. `None` if the image has fewer packets, or if
    /// the file is shorter than it was.
    #[must_use]
    pub fn packet<'a>(&self, file: &'a [u8], packet: PacketNumber) -> Option<&'a [u8]> {
        bytes_of(file, self.packet_bytes(packet)?)
    }

    pub(crate) fn parts(&self) -> &[TilePart] {
        &self.parts
    }

    /// Returns the number of packets in a tile-part.
    pub(crate) fn packets_of_part(&self, part: usize) -> u32 {
        let next = self.parts.get(part + 1).map_or(self.layout.packets(), |next| next.first);
        self.parts.get(part).map_or(0, |part| next - part.first)
    }
}

/// Returns these bytes of a file; `None` if it is shorter.
pub(crate) fn bytes_of(file: &[u8], range: Range<u64>) -> Option<&[u8]> {
    file.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

/// Reading of all tile-parts.
struct PartReader<'a> {
    reader: Reader<'a>,
    layout: &'a Layout,
    parts: Vec<TilePart>,
    ends: Vec<u64>,
    /// Tile of the last tile-part, and the number of the next one in it.
    last: Option<(u32, u16)>,
    /// True after a tile-part that has no length.
    is_last: bool,
}

impl<'a> PartReader<'a> {
    const fn new(reader: Reader<'a>, layout: &'a Layout) -> Self {
        Self { reader, layout, parts: Vec::new(), ends: Vec::new(), last: None, is_last: false }
    }

    /// Reads all tile-parts, and returns the end of the codestream.
    fn read_all(&mut self) -> Result<u64, CodestreamError> {
        loop {
            let (marker, offset) = self.reader.marker(Marker::SOT)?;
            let error = |fault| CodestreamError::new(marker, offset, fault);
            match marker {
                Marker::SOT if self.parts.len() >= TILE_PARTS_MAX => {
                    return Err(error(Fault::TooMany(Limit::TileParts)));
                }
                Marker::SOT if !self.is_last => self.read_part(offset)?,
                Marker::EOC if self.ends.len() == self.layout.packets() as usize => {
                    return Ok(self.reader.offset());
                }
                Marker::EOC => return Err(error(Fault::PacketCount)),
                _ => return Err(error(Fault::Unexpected)),
            }
        }
    }

    /// Reads the tile-part whose SOT is at this byte, and skips its data.
    fn read_part(&mut self, offset: u64) -> Result<(), CodestreamError> {
        let begin = self.reader.position() - 2;
        let segment = self.reader.segment(Marker::SOT, offset)?;
        let start = TilePartStart::read(&segment)?;
        self.check_order(start, &segment)?;
        let cut = segment.error(Fault::CutShort);
        let end = start.length.map_or(self.reader.end(), |length| begin.saturating_add(length as usize));
        let mut header = self.reader.until(end).ok_or(cut)?;

        let first = self.ends.len();
        let last = self.layout.first_of_tile(start.tile + 1) as usize;
        let (mut lengths, mut sum, ends) = (PacketLengths::default(), 0_u64, &mut self.ends);
        let data_start = read_header(&mut header, |segment| {
            lengths.read(segment, |length| {
                if ends.len() >= last {
                    return Err(Fault::PacketCount);
                }
                sum += u64::from(length);
                ends.push(sum);
                Ok(())
            })
        })?;
        let data = header.offset();
        let available = (end - header.position()) as u64;
        lengths.check_sum(sum, start.length.map(|_| available), data_start)?;
        if sum > available {
            return Err(cut);
        }
        self.ends[first..].iter_mut().for_each(|end| *end += data);

        let part = TilePart { first: u32::try_from(first).unwrap_or(u32::MAX), header: offset, data };
        self.parts.push(part);
        self.last = Some((start.tile, u16::from(start.number) + 1));
        self.is_last = start.length.is_none();
        // The sum is within the file, so it is within memory.
        let data_end = header.position() + usize::try_from(sum).unwrap_or(0);
        self.reader.read(data_end - self.reader.position());
        Ok(())
    }

    /// Checks that a tile-part follows the last one: the next part of the tile, or the first part
    /// of the next tile that has packets.
    fn check_order(&self, start: TilePartStart, segment: &Segment<'_>) -> Result<(), CodestreamError> {
        let range = |field| Err(segment.error(Fault::OutOfRange(field)));
        let last_tile = self.last.map(|(tile, _)| tile);
        if start.tile >= self.layout.tiles() || last_tile.is_some_and(|tile| start.tile < tile) {
            return range(Field::TileNumber);
        }
        let is_next_tile = last_tile != Some(start.tile);
        let number = self.last.filter(|_| !is_next_tile).map_or(0, |(_, number)| number);
        if u16::from(start.number) != number {
            return range(Field::TilePartNumber);
        }
        if is_next_tile && self.ends.len() != self.layout.first_of_tile(start.tile) as usize {
            return Err(segment.error(Fault::PacketCount));
        }
        Ok(())
    }
}

//! Headers of a codestream, and codestreams with those packets that a client has.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::fault::CodestreamError;
use crate::index::{Index, bytes_of};
use crate::layout::{Layout, PacketNumber};
use crate::limits::TILE_PARTS_MAX;
use crate::marker::Marker;
use crate::reader::Reader;
use crate::tile_part::read_header;

/// Headers of a codestream, and the number of packets in each tile-part: all that a client needs to
/// write a codestream of the packets that it has.
///
/// An outline has the bytes of the headers, 16 for each tile-part, and its [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    layout: Layout,
    /// Main header, and the headers of all tile-parts from SOT to SOD.
    headers: Vec<u8>,
    main_end: usize,
    parts: Vec<PartOutline>,
    /// True if the headers have the lengths of the image's packets and tile-parts.
    has_lengths: bool,
}

/// Header of a tile-part in an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartOutline {
    /// End of the header in the outline's headers.
    end: usize,
    packets: u32,
}

/// Bytes of SOT in which the length of the tile-part is.
const LENGTH_BYTES: core::ops::Range<usize> = 6..10;

impl Outline {
    /// Copies the headers of an indexed file.
    ///
    /// # Errors
    /// If the file is shorter than it was when it was indexed.
    pub fn new(index: &Index, file: &[u8]) -> Result<Self, FileChanged> {
        let main = index.codestream().start;
        // An index has at least one tile-part.
        let main_end = index.parts().first().map_or(main, |part| part.header);
        let mut headers = bytes_of(file, main..main_end).ok_or(FileChanged)?.to_vec();
        let main_end = headers.len();
        let mut parts = Vec::with_capacity(index.parts().len());
        for (number, part) in index.parts().iter().enumerate() {
            headers.extend_from_slice(bytes_of(file, part.header..part.data).ok_or(FileChanged)?);
            parts.push(PartOutline { end: headers.len(), packets: index.packets_of_part(number) });
        }
        Ok(Self { layout: index.layout().clone(), headers, main_end, parts, has_lengths: true })
    }

    /// Reads headers, and the number of packets in each tile-part.
    ///
    /// # Errors
    /// If the headers are faulty, or if the numbers do not fit them.
    pub(crate) fn read(headers: &[u8], packets: &[u32]) -> Result<Self, OutlineError> {
        let mut reader = Reader::new(headers);
        let layout = Layout::read(&mut reader)?;
        let (main_end, mut parts, mut sum) = (reader.position(), Vec::new(), 0_u64);
        for packets in packets.iter().take(TILE_PARTS_MAX).copied() {
            let (marker, offset) = reader.marker(Marker::SOT)?;
            if marker != Marker::SOT {
                return Err(OutlineError::PacketCount);
            }
            reader.segment(marker, offset)?;
            read_header(&mut reader, |_| Ok(()))?;
            parts.push(PartOutline { end: reader.position(), packets });
            sum += u64::from(packets);
        }
        if sum != u64::from(layout.packets()) || !reader.is_empty() {
            return Err(OutlineError::PacketCount);
        }
        let outline = Self { layout, headers: headers.to_vec(), main_end, parts, has_lengths: true };
        Ok(outline.without_lengths())
    }

    /// Returns the geometry of the packets.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the outline without the lengths of packets and tile-parts (PLT, PLM, TLM), which are
    /// most of an image's headers. This is the outline that clients receive.
    #[must_use]
    pub fn without_lengths(&self) -> Self {
        let mut headers = Vec::new();
        copy_without_lengths(&self.headers[..self.main_end], &mut headers);
        let (main_end, mut begin) = (headers.len(), self.main_end);
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            copy_without_lengths(&self.headers[begin..part.end], &mut headers);
            begin = part.end;
            parts.push(PartOutline { end: headers.len(), packets: part.packets });
        }
        Self { layout: self.layout.clone(), headers, main_end, parts, has_lengths: false }
    }

    /// Writes the codestream of those packets that `packet` returns. Any decoder reads it.
    ///
    /// An empty packet stands for each one that is missing, and for all higher layers of its
    /// precinct. A packet header is coded relative to those of lower layers (ISO/IEC 15444-1, annex
    /// B.10). If a packet is missing, the codestream has no lengths of packets (PLT, PLM, TLM). If
    /// none is, and the outline has them, the codestream is the image's, byte by byte.
    ///
    /// # Errors
    /// If a tile-part would have 4 GiB or more.
    pub fn assemble<'a>(
        &self,
        packet: impl Fn(PacketNumber) -> Option<&'a [u8]>,
    ) -> Result<Vec<u8>, TilePartTooLong> {
        if self.has_lengths {
            let is_complete =
                (0..self.layout.packets()).all(|number| packet(PacketNumber::new(number)).is_some());
            if !is_complete {
                return self.without_lengths().assemble(packet);
            }
        }
        let mut codestream = self.headers[..self.main_end].to_vec();
        let (mut begin, mut number, mut is_missing) = (self.main_end, 0_u32, false);
        for part in &self.parts {
            let start = codestream.len();
            codestream.extend_from_slice(&self.headers[begin..part.end]);
            begin = part.end;
            for packet_number in number..number + part.packets {
                // A precinct has one packet of each layer.
                is_missing &= !packet_number.is_multiple_of(self.layout.layers());
                let bytes = packet(PacketNumber::new(packet_number)).filter(|_| !is_missing);
                is_missing |= bytes.is_none();
                codestream.extend_from_slice(bytes.unwrap_or(self.layout.empty_packet()));
            }
            number += part.packets;
            if !self.has_lengths {
                write_length(&mut codestream[start..])?;
            }
        }
        codestream.extend_from_slice(&Marker::EOC.code().to_be_bytes());
        Ok(codestream)
    }

    /// Returns the main header, followed by the headers of all tile-parts.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers
    }

    /// Returns the number of packets in each tile-part.
    pub(crate) fn packets_of_parts(&self) -> impl ExactSizeIterator<Item = u32> {
        self.parts.iter().map(|part| part.packets)
    }
}

/// Copies a header without the segments that have lengths.
fn copy_without_lengths(header: &[u8], copy: &mut Vec<u8>) {
    let mut reader = Reader::new(header);
    while let Ok((marker, offset)) = reader.marker(Marker::SOD) {
        let begin = reader.position() - 2;
        // Headers have been read before, so that each marker has its segment.
        if marker.has_segment() && reader.segment(marker, offset).is_err() {
            return;
        }
        if !marker.has_lengths() {
            copy.extend_from_slice(&header[begin..reader.position()]);
        }
    }
}

/// Writes the length of a tile-part into its SOT.
fn write_length(part: &mut [u8]) -> Result<(), TilePartTooLong> {
    let length = u32::try_from(part.len()).map_err(|_| TilePartTooLong)?;
    // The header of a tile-part begins with SOT, so the bytes are there.
    if let Some(bytes) = part.get_mut(LENGTH_BYTES) {
        bytes.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// Error of a file that is not the one that was indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileChanged;

impl fmt::Display for FileChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot read the image: the file changed; index it again")
    }
}

impl Error for FileChanged {}

/// Error of a codestream whose tile-part exceeds the format's 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePartTooLong;

impl fmt::Display for TilePartTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write the codestream: a tile-part has 4 GiB; use fewer packets")
    }
}

impl Error for TilePartTooLong {}

/// Error of an outline that a client received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlineError {
    /// A header is faulty. Offsets are those of the outline.
    Header(CodestreamError),
    /// The packets of the tile-parts are not those of the image.
    PacketCount,
}

impl From<CodestreamError> for OutlineError {
    fn from(error: CodestreamError) -> Self {
        Self::Header(error)
    }
}

impl fmt::Display for OutlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "{error}"),
            Self::PacketCount => f.write_str("cannot read the outline: number of packets invalid"),
        }
    }
}

impl Error for OutlineError {}

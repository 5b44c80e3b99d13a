//! Errors of codestreams.

use core::error::Error;
use core::fmt;

use crate::marker::Marker;

/// Error of a codestream, with the marker and the byte of the file at which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodestreamError {
    /// Marker whose segment is faulty, or that was expected.
    pub marker: Marker,
    /// Byte of the file where the marker is, or should be. Errors in the boxes of a JP2 file have
    /// the first byte of the box.
    pub offset: u64,
    /// Fault of the segment.
    pub fault: Fault,
}

impl CodestreamError {
    pub(crate) const fn new(marker: Marker, offset: u64, fault: Fault) -> Self {
        Self { marker, offset, fault }
    }
}

impl fmt::Display for CodestreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { marker, offset, fault } = self;
        write!(f, "cannot index the image: {marker} at byte {offset}: {fault}")
    }
}

impl Error for CodestreamError {}

/// Fault of one segment of a codestream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file ends within the segment, the tile-part or the box.
    CutShort,
    /// The length of the segment or box does not fit its contents.
    SegmentLength,
    /// The marker is not there.
    Missing,
    /// The marker is there twice.
    Repeated,
    /// The marker may not be at this byte.
    Unexpected,
    /// The segment describes packets that this index does not support.
    Unsupported,
    /// A value is outside its range.
    OutOfRange(Field),
    /// The image has more of something than an index holds.
    TooMany(Limit),
    /// The lengths of packets do not add up to the data of the tile-part.
    LengthSum,
    /// The number of packets is not that of the image's geometry.
    PacketCount,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => f.write_str("the file ends here"),
            Self::SegmentLength => f.write_str("length invalid"),
            Self::Missing => f.write_str("not found"),
            Self::Repeated => f.write_str("there is another one"),
            Self::Unexpected => f.write_str("not expected here"),
            Self::Unsupported => f.write_str("not supported: encode the image without it"),
            Self::OutOfRange(field) => write!(f, "{field} invalid"),
            Self::TooMany(limit) => write!(f, "too many {limit}"),
            Self::LengthSum => f.write_str("packet lengths do not add up to the tile-part"),
            Self::PacketCount => f.write_str("number of packets is not that of the image's geometry"),
        }
    }
}

/// Field of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Extensions of the format that may change its packets (`Rsiz`, `Scod`).
    Extensions,
    /// Size and origin of the image.
    ImageSize,
    /// Size and origin of tiles.
    TileSize,
    /// Number of components.
    Components,
    /// Subsampling of a component.
    Subsampling,
    /// Progression, which is not RPCL (resolution, position, component, layer).
    Progression,
    /// Number of layers.
    Layers,
    /// Number of decomposition levels.
    Levels,
    /// Size of precincts.
    PrecinctSize,
    /// Number of a tile.
    TileNumber,
    /// Number of a tile-part.
    TilePartNumber,
    /// Length of a tile-part.
    TilePartLength,
    /// Number of a segment with packet lengths.
    SegmentNumber,
    /// Length of a packet.
    PacketLength,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Extensions => "extensions",
            Self::ImageSize => "size of the image",
            Self::TileSize => "size of tiles",
            Self::Components => "number of components",
            Self::Subsampling => "subsampling",
            Self::Progression => "progression (RPCL needed)",
            Self::Layers => "number of layers",
            Self::Levels => "number of decomposition levels",
            Self::PrecinctSize => "size of precincts",
            Self::TileNumber => "number of the tile",
            Self::TilePartNumber => "number of the tile-part",
            Self::TilePartLength => "length of the tile-part",
            Self::SegmentNumber => "number of the segment",
            Self::PacketLength => "length of a packet",
        })
    }
}

/// Part of an image of which an index holds a limited number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Tiles: [`TILES_MAX`](crate::TILES_MAX).
    Tiles,
    /// Components: [`COMPONENTS_MAX`](crate::COMPONENTS_MAX).
    Components,
    /// Resolutions of all components of all tiles: 131,072.
    Resolutions,
    /// Precincts: [`PRECINCTS_MAX`](crate::PRECINCTS_MAX).
    Precincts,
    /// Packets: [`PACKETS_MAX`](crate::PACKETS_MAX).
    Packets,
    /// Tile-parts: [`TILE_PARTS_MAX`](crate::TILE_PARTS_MAX).
    TileParts,
    /// Bytes of one packet: [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX).
    PacketBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tiles => "tiles",
            Self::Components => "components",
            Self::Resolutions => "resolutions of tiles",
            Self::Precincts => "precincts",
            Self::Packets => "packets",
            Self::TileParts => "tile-parts",
            Self::PacketBytes => "bytes in a packet",
        })
    }
}

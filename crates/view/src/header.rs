//! Main header of a codestream: the segments SIZ and COD.

use alloc::vec::Vec;
use core::ops::Range;

use crate::fault::{CodestreamError, Fault, Field, Limit};
use crate::limits::{COMPONENTS_MAX, LEVELS_MAX, TILES_MAX};
use crate::marker::Marker;
use crate::reader::{Reader, Segment};

/// Coordinates of samples on one axis, from the first to behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) const fn is_empty(self) -> bool {
        self.begin >= self.end
    }

    pub(crate) fn overlap(self, other: Self) -> Self {
        Self { begin: self.begin.max(other.begin), end: self.end.min(other.end) }
    }

    /// Returns the samples that remain if every `step`-th one does, from coordinate 0 on.
    pub(crate) const fn sampled(self, step: u64) -> Self {
        Self { begin: self.begin.div_ceil(step), end: self.end.div_ceil(step) }
    }

    /// Returns the cells of `step` samples, counted from coordinate 0, that have samples of the
    /// span.
    pub(crate) const fn cells(self, step: u64) -> Self {
        Self { begin: self.begin / step, end: self.end.div_ceil(step) }
    }
}

/// Image and its tiles on one axis of the reference grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) image: Span,
    tile_origin: u64,
    tile_size: u64,
}

impl Axis {
    fn new(image: Span, tile_origin: u32, tile_size: u32) -> Self {
        Self { image, tile_origin: u64::from(tile_origin), tile_size: u64::from(tile_size) }
    }

    /// Returns the field that is invalid, if there is one.
    fn fault(self) -> Option<Field> {
        let Self { image, tile_origin, tile_size } = self;
        if image.is_empty() {
            return Some(Field::ImageSize);
        }
        let has_first = tile_origin <= image.begin && image.begin < tile_origin + tile_size;
        (!has_first).then_some(Field::TileSize)
    }

    /// Returns the number of tiles; the axis is valid.
    pub(crate) const fn tiles(self) -> u64 {
        (self.image.end - self.tile_origin).div_ceil(self.tile_size)
    }

    pub(crate) fn tile(self, index: u64) -> Span {
        let begin = self.tile_origin + index * self.tile_size;
        Span { begin, end: begin + self.tile_size }.overlap(self.image)
    }

    /// Returns the tiles that have a part of this span of the image.
    pub(crate) fn tiles_of(self, span: Span) -> Range<u64> {
        let span = span.overlap(self.image);
        if span.is_empty() {
            return 0..0;
        }
        let from = span.begin - self.tile_origin;
        let to = span.end - self.tile_origin;
        from / self.tile_size..to.div_ceil(self.tile_size)
    }
}

/// Contents of SIZ (ISO/IEC 15444-1, annex A.5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageSize {
    /// Horizontal and vertical axis.
    pub(crate) axes: [Axis; 2],
    /// Subsampling of each component on both axes (`XRsiz`, `YRsiz`).
    pub(crate) components: Vec<[u8; 2]>,
}

/// Bit of `Rsiz` that announces extensions of the second part of the standard.
const EXTENDED: u16 = 0x8000;

impl ImageSize {
    fn read(segment: &Segment<'_>) -> Result<Self, CodestreamError> {
        let length = segment.error(Fault::SegmentLength);
        let mut content = segment.content;
        let capabilities = content.u16().ok_or(length)?;
        let mut numbers = [0; 8];
        for number in &mut numbers {
            *number = content.u32().ok_or(length)?;
        }
        let components = content.u16().ok_or(length)?;
        let range = |field| segment.error(Fault::OutOfRange(field));
        if capabilities & EXTENDED != 0 {
            return Err(range(Field::Extensions));
        }
        let axes = axes(numbers).map_err(range)?;
        if axes[0].tiles().saturating_mul(axes[1].tiles()) > u64::from(TILES_MAX) {
            return Err(segment.error(Fault::TooMany(Limit::Tiles)));
        }
        if components == 0 {
            return Err(range(Field::Components));
        }
        if components > COMPONENTS_MAX {
            return Err(segment.error(Fault::TooMany(Limit::Components)));
        }
        let components: Option<Vec<_>> = (0..components).map(|_| subsampling(&mut content)).collect();
        let components = components.filter(|_| content.is_empty()).ok_or(length)?;
        if components.iter().flatten().any(|step| *step == 0) {
            return Err(range(Field::Subsampling));
        }
        Ok(Self { axes, components })
    }

    /// Returns the number of tiles, at most [`TILES_MAX`].
    pub(crate) fn tiles(&self) -> u32 {
        let tiles = self.axes[0].tiles() * self.axes[1].tiles();
        u32::try_from(tiles).unwrap_or(TILES_MAX)
    }

    /// Returns the spans of a tile on both axes.
    pub(crate) fn tile(&self, tile: u32) -> [Span; 2] {
        let columns = self.axes[0].tiles();
        let (row, column) = (u64::from(tile) / columns, u64::from(tile) % columns);
        [self.axes[0].tile(column), self.axes[1].tile(row)]
    }
}

/// Returns the axes of the numbers of SIZ, in its order: `Xsiz`, `Ysiz`, `XOsiz`, `YOsiz`, `XTsiz`,
/// `YTsiz`, `XTOsiz`, `YTOsiz`.
fn axes(numbers: [u32; 8]) -> Result<[Axis; 2], Field> {
    let [end_x, end_y, begin_x, begin_y, tile_x, tile_y, origin_x, origin_y] = numbers;
    let span = |begin: u32, end: u32| Span { begin: u64::from(begin), end: u64::from(end) };
    let axes = [
        Axis::new(span(begin_x, end_x), origin_x, tile_x),
        Axis::new(span(begin_y, end_y), origin_y, tile_y),
    ];
    match axes.iter().find_map(|axis| axis.fault()) {
        Some(field) => Err(field),
        None => Ok(axes),
    }
}

/// Reads the subsampling of a component behind its depth (`Ssiz`).
fn subsampling(content: &mut Reader<'_>) -> Option<[u8; 2]> {
    content.u8()?;
    content.array()
}

/// Contents of COD (ISO/IEC 15444-1, annex A.6.1), as far as they decide on packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) layers: u16,
    /// Decomposition levels; there is one resolution more.
    pub(crate) levels: u8,
    /// Size of precincts on both axes for each resolution, as a power of two.
    pub(crate) precincts: Vec<[u8; 2]>,
    /// True if each packet header ends with the marker EPH.
    pub(crate) has_header_ends: bool,
}

/// Bits of `Scod`: precincts have sizes, packets may begin with SOP, packet headers end with EPH.
const HAS_PRECINCTS: u8 = 1;
const HAS_PACKET_STARTS: u8 = 2;
const HAS_HEADER_ENDS: u8 = 4;

/// Progression by resolution, position, component and layer.
const RPCL: u8 = 2;

/// Size of a precinct without one, as a power of two.
const WHOLE: u8 = 15;

impl Coding {
    fn read(segment: &Segment<'_>) -> Result<Self, CodestreamError> {
        let length = segment.error(Fault::SegmentLength);
        let range = |field| segment.error(Fault::OutOfRange(field));
        let mut content = segment.content;
        let [style, progression, layers_high, layers_low, _transform, levels] =
            content.array::<6>().ok_or(length)?;
        // Code-blocks and the wavelet do not decide on packets.
        content.read(4).ok_or(length)?;
        let layers = u16::from_be_bytes([layers_high, layers_low]);
        if style & !(HAS_PRECINCTS | HAS_PACKET_STARTS | HAS_HEADER_ENDS) != 0 {
            return Err(range(Field::Extensions));
        }
        if progression != RPCL {
            return Err(range(Field::Progression));
        }
        if layers == 0 {
            return Err(range(Field::Layers));
        }
        if levels > LEVELS_MAX {
            return Err(range(Field::Levels));
        }
        let resolutions = usize::from(levels) + 1;
        let precincts: Vec<[u8; 2]> = if style & HAS_PRECINCTS == 0 {
            alloc::vec![[WHOLE; 2]; resolutions]
        } else {
            let sizes = content.read(resolutions).ok_or(length)?;
            sizes.iter().map(|size| [size & 0xF, size >> 4]).collect()
        };
        if !content.is_empty() {
            return Err(length);
        }
        // Above the lowest resolution, a precinct has half of its size in each band.
        if precincts.iter().skip(1).flatten().any(|size| *size == 0) {
            return Err(range(Field::PrecinctSize));
        }
        Ok(Self { layers, levels, precincts, has_header_ends: style & HAS_HEADER_ENDS != 0 })
    }
}

/// Sizes and coding of an image, and the byte of the file at which COD is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MainHeader {
    pub(crate) size: ImageSize,
    pub(crate) coding: Coding,
    pub(crate) coding_offset: u64,
}

impl MainHeader {
    /// Reads the main header, and leaves the reader at the first tile-part.
    ///
    /// # Errors
    /// If a segment is faulty, missing, there twice or not supported.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, CodestreamError> {
        expect(reader, Marker::SOC)?;
        let offset = expect(reader, Marker::SIZ)?;
        let size = ImageSize::read(&reader.segment(Marker::SIZ, offset)?)?;
        let mut coding = None;
        loop {
            let before = *reader;
            let (marker, offset) = reader.marker(Marker::SOT)?;
            let error = |fault| CodestreamError::new(marker, offset, fault);
            match marker {
                Marker::SOT => {
                    *reader = before;
                    let missing = CodestreamError::new(Marker::COD, offset, Fault::Missing);
                    let (coding, coding_offset) = coding.ok_or(missing)?;
                    return Ok(Self { size, coding, coding_offset });
                }
                Marker::COD if coding.is_none() => {
                    coding = Some((Coding::read(&reader.segment(marker, offset)?)?, offset));
                }
                Marker::SIZ | Marker::COD => return Err(error(Fault::Repeated)),
                Marker::COC | Marker::POC | Marker::PPM => return Err(error(Fault::Unsupported)),
                Marker::PLT | Marker::PPT => return Err(error(Fault::Unexpected)),
                _ => {
                    reader.segment(marker, offset)?;
                }
            }
        }
    }
}

/// Reads a marker that must be here, and returns its byte of the file.
fn expect(reader: &mut Reader<'_>, expected: Marker) -> Result<u64, CodestreamError> {
    let (marker, offset) = reader.marker(expected)?;
    if marker == expected { Ok(offset) } else { Err(CodestreamError::new(expected, offset, Fault::Missing)) }
}

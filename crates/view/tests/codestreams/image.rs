//! Writer of codestreams whose packets are no image, and the order of their packets in the words of
//! the standard.

use byway_view::PacketPosition;
use proptest::prelude::*;

/// Headers of a codestream.
#[derive(Clone, Debug)]
pub(crate) struct TestImage {
    /// `XOsiz` and `YOsiz`.
    pub(crate) begin: [u32; 2],
    /// `Xsiz` and `Ysiz`.
    pub(crate) end: [u32; 2],
    /// `XTsiz` and `YTsiz`.
    pub(crate) tile: [u32; 2],
    /// `XTOsiz` and `YTOsiz`.
    pub(crate) tile_origin: [u32; 2],
    /// Subsampling of each component.
    pub(crate) components: Vec<[u8; 2]>,
    pub(crate) levels: u8,
    pub(crate) layers: u16,
    /// Size of precincts for each resolution, as powers of two; none for the largest size.
    pub(crate) precincts: Vec<[u8; 2]>,
    /// True if packet headers end with EPH.
    pub(crate) has_header_ends: bool,
}

/// Packets of a tile-part.
#[derive(Clone, Debug)]
pub(crate) struct TestPart {
    pub(crate) tile: u16,
    pub(crate) number: u8,
    pub(crate) packets: Vec<Vec<u8>>,
}

impl TestImage {
    /// An image of one tile and one component, with precincts of 128.
    pub(crate) fn new(width: u32, height: u32, levels: u8, layers: u16) -> Self {
        Self {
            begin: [0, 0],
            end: [width, height],
            tile: [width, height],
            tile_origin: [0, 0],
            components: vec![[1, 1]],
            levels,
            layers,
            precincts: vec![[7, 7]; usize::from(levels) + 1],
            has_header_ends: false,
        }
    }

    fn size(&self) -> Vec<u8> {
        let mut content = vec![0, 0];
        for [x, y] in [self.end, self.begin, self.tile, self.tile_origin] {
            content.extend(x.to_be_bytes());
            content.extend(y.to_be_bytes());
        }
        content.extend((self.components.len() as u16).to_be_bytes());
        for [x, y] in &self.components {
            content.extend([7, *x, *y]);
        }
        content
    }

    fn coding(&self) -> Vec<u8> {
        let style = u8::from(!self.precincts.is_empty()) + 4 * u8::from(self.has_header_ends);
        let [high, low] = self.layers.to_be_bytes();
        let mut content = vec![style, 2, high, low, 0, self.levels, 4, 4, 0, 0];
        content.extend(self.precincts.iter().map(|[x, y]| (y << 4) | x));
        content
    }

    /// Writes a codestream, with or without lengths of packets and tile-parts.
    pub(crate) fn codestream(&self, parts: &[TestPart], has_lengths: bool) -> Vec<u8> {
        let mut file = vec![0xFF, 0x4F];
        file.extend(segment(0x51, &self.size()));
        file.extend(segment(0x52, &self.coding()));
        file.extend(segment(0x5C, &[0x40, 0x40]));
        if has_lengths {
            // Nobody reads lengths of tile-parts (TLM); they only have to vanish with the others.
            file.extend(segment(0x55, &[0, 0x40, 0, 0, 0, 0]));
        }
        for part in parts {
            file.extend(part.encode(has_lengths));
        }
        file.extend([0xFF, 0xD9]);
        file
    }

    fn tiles(&self) -> [u32; 2] {
        [0, 1].map(|axis| (self.end[axis] - self.tile_origin[axis]).div_ceil(self.tile[axis]))
    }

    /// The positions of all packets in the order of the codestream, as B.12.1.3 of the standard has
    /// it: a visit of each pixel of each tile for each resolution.
    pub(crate) fn positions(&self) -> Vec<PacketPosition> {
        let [columns, rows] = self.tiles();
        (0..columns * rows).flat_map(|tile| self.positions_of_tile(tile)).collect()
    }

    pub(crate) fn positions_of_tile(&self, tile: u32) -> Vec<PacketPosition> {
        let columns = self.tiles()[0];
        let index = [tile % columns, tile / columns];
        let [x, y] = [0, 1].map(|axis| {
            let begin = self.tile_origin[axis] + index[axis] * self.tile[axis];
            (begin.max(self.begin[axis]), (begin + self.tile[axis]).min(self.end[axis]))
        });
        let mut positions = Vec::new();
        for resolution in 0..=self.levels {
            let mut visited = vec![0; self.components.len()];
            for row in y.0..y.1 {
                for column in x.0..x.1 {
                    for (component, visited) in visited.iter_mut().enumerate() {
                        let along = Axis::new(self, (resolution, component, 0), x);
                        let down = Axis::new(self, (resolution, component, 1), y);
                        let count = along.precincts() * down.precincts();
                        if along.begins(column) && down.begins(row) && *visited < count {
                            let (row, column) = (*visited / along.precincts(), *visited % along.precincts());
                            *visited += 1;
                            let component = component as u16;
                            positions.extend((0..self.layers).map(|layer| PacketPosition {
                                tile,
                                resolution,
                                component,
                                column,
                                row,
                                layer,
                            }));
                        }
                    }
                }
            }
        }
        positions
    }

    /// The pixels of a packet's precinct in its tile on both axes, and the pixels of one of its
    /// samples.
    pub(crate) fn area(&self, position: PacketPosition) -> [(u32, u32, u32); 2] {
        let columns = self.tiles()[0];
        let (tile, precinct) =
            ([position.tile % columns, position.tile / columns], [position.column, position.row]);
        [0, 1].map(|axis| {
            let begin = self.tile_origin[axis] + tile[axis] * self.tile[axis];
            let (begin, end) = (begin.max(self.begin[axis]), (begin + self.tile[axis]).min(self.end[axis]));
            let of =
                Axis::new(self, (position.resolution, usize::from(position.component), axis), (begin, end));
            let sample = of.sampling << of.levels_above;
            let first = ((of.samples.0 >> of.precinct) + precinct[axis]) << of.precinct;
            let past = first + (1 << of.precinct);
            ((first * sample).max(begin), (past * sample).min(end), sample)
        })
    }

    /// Splits packets with these bytes into one to three tile-parts a tile.
    pub(crate) fn parts(&self, seed: u32) -> Vec<TestPart> {
        let [columns, rows] = self.tiles();
        let (mut parts, mut number) = (Vec::new(), 0);
        for tile in 0..columns * rows {
            let count = self.positions_of_tile(tile).len();
            let packets: Vec<_> = (number..number + count).map(|number| packet(number, seed)).collect();
            number += count;
            let size = count.div_ceil(1 + (seed as usize + tile as usize) % 3).max(1);
            let mut chunks: Vec<_> = packets.chunks(size).map(<[_]>::to_vec).collect();
            if chunks.is_empty() {
                chunks.push(Vec::new());
            }
            parts.extend(chunks.into_iter().enumerate().map(|(number, packets)| TestPart {
                tile: tile as u16,
                number: number as u8,
                packets,
            }));
        }
        parts
    }
}

/// One axis of a tile's component and resolution, in the terms of the standard.
struct Axis {
    /// `tx0` or `ty0`.
    tile_begin: u32,
    /// `trx0` or `try0`, and `trx1` or `try1`.
    samples: (u32, u32),
    /// NL - r.
    levels_above: u8,
    /// `XRsiz` or `YRsiz`.
    sampling: u32,
    /// `PPx` or `PPy`.
    precinct: u8,
}

impl Axis {
    fn new(image: &TestImage, (resolution, component, axis): (u8, usize, usize), tile: (u32, u32)) -> Self {
        let levels_above = image.levels - resolution;
        let sampling = u32::from(image.components[component][axis]);
        let precinct = image.precincts.get(usize::from(resolution)).map_or(15, |sizes| sizes[axis]);
        let sample = |pixel: u32| pixel.div_ceil(sampling).div_ceil(1 << levels_above);
        Self {
            tile_begin: tile.0,
            samples: (sample(tile.0), sample(tile.1)),
            levels_above,
            sampling,
            precinct,
        }
    }

    /// `numprecinctswide` or `numprecinctshigh` (equation B-16).
    fn precincts(&self) -> u32 {
        let (begin, end) = self.samples;
        if begin < end { end.div_ceil(1 << self.precinct) - (begin >> self.precinct) } else { 0 }
    }

    fn begins(&self, pixel: u32) -> bool {
        let size = u64::from(self.precinct + self.levels_above);
        let step = u64::from(self.sampling) << size;
        let first = u64::from(self.samples.0) << self.levels_above;
        let is_first = pixel == self.tile_begin && !first.is_multiple_of(1 << size);
        u64::from(pixel).is_multiple_of(step) || is_first
    }
}

impl TestPart {
    fn encode(&self, has_lengths: bool) -> Vec<u8> {
        let mut header = segment(0x64, &[0, 1, b'c']);
        if has_lengths {
            // Ten lengths in each segment, so that several are read.
            for (number, packets) in self.packets.chunks(10).enumerate() {
                let mut content = vec![number as u8];
                for packet in packets {
                    content.extend(length(packet.len()));
                }
                header.extend(segment(0x58, &content));
            }
        }
        header.extend([0xFF, 0x93]);
        let data = self.packets.concat();
        let mut start = self.tile.to_be_bytes().to_vec();
        start.extend(((12 + header.len() + data.len()) as u32).to_be_bytes());
        start.extend([self.number, 0]);
        [segment(0x90, &start), header, data].concat()
    }
}

/// A segment of the marker with this second byte.
pub(crate) fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let mut segment = vec![0xFF, marker];
    segment.extend((content.len() as u16 + 2).to_be_bytes());
    segment.extend(content);
    segment
}

/// The length of a packet in PLT, up to 16,383.
fn length(length: usize) -> Vec<u8> {
    if length < 128 { vec![length as u8] } else { vec![(length >> 7) as u8 | 0x80, length as u8 & 0x7F] }
}

/// A packet of 1 to 200 bytes that is unlike others.
pub(crate) fn packet(number: usize, seed: u32) -> Vec<u8> {
    let mut state = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(seed) << 32);
    let length = 1 + (state >> 40) % 200;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(byte).collect()
}

/// One axis: begin and end of the image, size and origin of tiles.
fn any_axis() -> impl Strategy<Value = [u32; 4]> {
    (0_u32..6, 12_u32..40, 0_u32..40, 1_u32..40).prop_map(|(origin, tile, from, count)| {
        [origin + from % tile, origin + from % tile + count, tile, origin]
    })
}

/// Small images with all that makes geometry hard: odd origins, several tiles, subsampling, and
/// precincts down to one sample.
pub(crate) fn any_image() -> impl Strategy<Value = TestImage> {
    (
        [any_axis(), any_axis()],
        prop::collection::vec([1_u8..4, 1_u8..4], 1..4),
        0_u8..4,
        1_u16..4,
        prop::collection::vec([1_u8..6, 1_u8..6], 4),
        any::<[bool; 2]>(),
    )
        .prop_map(
            |([x, y], components, levels, layers, mut precincts, [has_precincts, has_header_ends])| {
                precincts.truncate(if has_precincts { usize::from(levels) + 1 } else { 0 });
                // The lowest resolution alone may have precincts of one sample.
                precincts.iter_mut().take(1).flatten().for_each(|size| *size -= 1);
                let [begin, end, tile, tile_origin] = [0, 1, 2, 3].map(|index: usize| [x[index], y[index]]);
                TestImage {
                    begin,
                    end,
                    tile,
                    tile_origin,
                    components,
                    levels,
                    layers,
                    precincts,
                    has_header_ends,
                }
            },
        )
}

/// The packets of all tile-parts.
pub(crate) fn packets(parts: &[TestPart]) -> Vec<Vec<u8>> {
    parts.iter().flat_map(|part| part.packets.clone()).collect()
}

//! Geometry of an image's packets: which packet has which precinct, and in which order they are.

use alloc::vec::Vec;
use core::array;

use crate::fault::{CodestreamError, Fault, Limit};
use crate::header::{Coding, ImageSize, MainHeader, Span};
use crate::limits::{GRIDS_MAX, PACKETS_MAX, PRECINCTS_MAX};
use crate::marker::Marker;
use crate::reader::Reader;

/// Number of a packet in the codestream: tiles in order, and each tile's packets in the order of
/// the progression RPCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketNumber(u32);

impl PacketNumber {
    /// Creates the number of a packet, counted from 0.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Part of the image that a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPosition {
    /// Number of the tile, by rows.
    pub tile: u32,
    /// Resolution: 0 is the smallest image.
    pub resolution: u8,
    /// Component.
    pub component: u16,
    /// Column of the precinct among those of its tile, resolution and component.
    pub column: u32,
    /// Row of the precinct.
    pub row: u32,
    /// Layer: 0 is the coarsest one.
    pub layer: u16,
}

/// Geometry of an image's packets (ISO/IEC 15444-1, annexes B.2 to B.6 and B.12.1.3).
///
/// A layout is computed from the main header alone. It has at most 11 MB, for any header, and while
/// it is built 13 MB more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    size: ImageSize,
    coding: Coding,
    /// Grids by tile, resolution and component.
    grids: Vec<PrecinctGrid>,
    /// Number of each precinct in the codestream. Cells are in the order of `grids`, each by rows.
    numbers: Vec<u32>,
    /// Cell of each precinct, in the order of the codestream.
    cells: Vec<u32>,
}

/// Precincts of one resolution of one component of one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrecinctGrid {
    first_cell: u32,
    /// Column and row of the first precinct, counted from coordinate 0.
    begin: [u32; 2],
    /// Columns and rows; both are zero if there are no samples.
    count: [u32; 2],
}

impl PrecinctGrid {
    /// Creates the grid of samples on both axes, or returns `None` if it has too many precincts
    /// behind `first_cell` others.
    fn new(first_cell: u32, samples: [Span; 2], precinct: [u8; 2]) -> Option<Self> {
        if samples.iter().any(|span| span.is_empty()) {
            return Some(Self { first_cell, begin: [0; 2], count: [0; 2] });
        }
        let cells: [Span; 2] = array::from_fn(|axis| samples[axis].cells(1 << precinct[axis]));
        let [columns, rows] = cells.map(|span| span.end - span.begin);
        let count = columns.checked_mul(rows)?.checked_add(u64::from(first_cell))?;
        if count > u64::from(PRECINCTS_MAX) {
            return None;
        }
        let narrow = |number: u64| u32::try_from(number).ok();
        Some(Self {
            first_cell,
            begin: [narrow(cells[0].begin)?, narrow(cells[1].begin)?],
            count: [narrow(columns)?, narrow(rows)?],
        })
    }

    const fn end_cell(&self) -> u32 {
        self.first_cell + self.count[0] * self.count[1]
    }
}

impl Layout {
    /// Reads a main header, and leaves the reader at the first tile-part.
    ///
    /// # Errors
    /// If the header is faulty or not supported, or if the image has too many packets.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, CodestreamError> {
        let header = MainHeader::read(reader)?;
        let offset = header.coding_offset;
        Self::new(header).map_err(|limit| CodestreamError::new(Marker::COD, offset, Fault::TooMany(limit)))
    }

    /// Computes the layout of an image.
    fn new(header: MainHeader) -> Result<Self, Limit> {
        let MainHeader { size, coding, .. } = header;
        let (tiles, levels) = (size.tiles(), coding.levels);
        let of_tile = (usize::from(levels) + 1) * size.components.len();
        let grids = of_tile.saturating_mul(tiles as usize);
        if grids > GRIDS_MAX {
            return Err(Limit::Resolutions);
        }
        let (grids, numbers, cells) = (Vec::with_capacity(grids), Vec::new(), Vec::new());
        let mut layout = Self { size, coding, grids, numbers, cells };
        for tile in 0..tiles {
            for resolution in 0..=levels {
                layout.add_resolution(tile, resolution)?;
            }
        }
        Ok(layout)
    }

    /// Adds the precincts of all components of a tile's resolution.
    fn add_resolution(&mut self, tile: u32, resolution: u8) -> Result<(), Limit> {
        let first_grid = self.grids.len();
        let mut first_cell = self.precincts();
        for component in 0..self.size.components.len() {
            let samples = self.samples(tile, resolution, component);
            let precinct = self.coding.precincts[usize::from(resolution)];
            let grid = PrecinctGrid::new(first_cell, samples, precinct).ok_or(Limit::Precincts)?;
            first_cell = grid.end_cell();
            self.grids.push(grid);
        }
        if u64::from(first_cell) * u64::from(self.coding.layers) > u64::from(PACKETS_MAX) {
            return Err(Limit::Packets);
        }
        self.number_precincts(tile, resolution, first_grid);
        Ok(())
    }

    /// Numbers the precincts of a resolution by position, then component.
    fn number_precincts(&mut self, tile: u32, resolution: u8, first_grid: usize) {
        let tile = self.size.tile(tile);
        let steps = self.precinct_steps(resolution);
        let count: u32 = self.grids[first_grid..].iter().map(|grid| grid.count[0] * grid.count[1]).sum();
        let mut positions = Vec::with_capacity(count as usize);
        for (grid, steps) in self.grids[first_grid..].iter().zip(steps) {
            // The first precinct of a tile may begin before it (B.12.1.3).
            let position = |axis: usize, index: u32| {
                let index = u64::from(grid.begin[axis]) + u64::from(index);
                (index * steps[axis]).max(tile[axis].begin)
            };
            let mut cell = grid.first_cell;
            for row in 0..grid.count[1] {
                for column in 0..grid.count[0] {
                    positions.push((position(1, row), position(0, column), cell));
                    cell += 1;
                }
            }
        }
        // Cells grow with the component.
        positions.sort_unstable();
        let first = self.precincts();
        self.numbers.resize(self.numbers.len() + positions.len(), 0);
        for (number, (_, _, cell)) in (first..).zip(positions) {
            self.numbers[cell as usize] = number;
            self.cells.push(cell);
        }
    }

    /// Returns the size of a resolution's precincts on the reference grid, for each component.
    fn precinct_steps(&self, resolution: u8) -> Vec<[u64; 2]> {
        let precinct = self.coding.precincts[usize::from(resolution)];
        let scale = self.scale(resolution);
        let steps =
            |sampling: &[u8; 2]| array::from_fn(|axis| (scale << precinct[axis]) * u64::from(sampling[axis]));
        self.size.components.iter().map(steps).collect()
    }

    /// Returns the samples of a component that one sample of a resolution stands for, on one axis.
    fn scale(&self, resolution: u8) -> u64 {
        1 << (self.coding.levels - resolution)
    }

    /// Returns the samples of a component's resolution in a tile, on both axes.
    fn samples(&self, tile: u32, resolution: u8, component: usize) -> [Span; 2] {
        let (tile, scale) = (self.size.tile(tile), self.scale(resolution));
        let sampling = self.size.components[component];
        array::from_fn(|axis| tile[axis].sampled(u64::from(sampling[axis])).sampled(scale))
    }

    /// Returns the number of precincts.
    fn precincts(&self) -> u32 {
        u32::try_from(self.numbers.len()).unwrap_or(PRECINCTS_MAX)
    }

    /// Returns the number of packets, at most [`PACKETS_MAX`].
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.precincts() * self.layers()
    }

    /// Returns the width and the height of the image, on its reference grid.
    #[must_use]
    pub fn image_size(&self) -> [u32; 2] {
        self.size.axes.map(|axis| u32::try_from(axis.image.end - axis.image.begin).unwrap_or(u32::MAX))
    }

    /// Returns the highest resolution, which is that of the whole image.
    #[must_use]
    pub fn resolution_max(&self) -> u8 {
        self.coding.levels
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn layers(&self) -> u32 {
        u32::from(self.coding.layers)
    }

    /// Returns the number of tiles.
    #[must_use]
    pub fn tiles(&self) -> u32 {
        self.size.tiles()
    }

    /// Returns the number of components.
    #[must_use]
    pub fn components(&self) -> usize {
        self.size.components.len()
    }

    /// Returns the position of a packet; `None` if the image has fewer packets.
    #[must_use]
    pub fn position(&self, packet: PacketNumber) -> Option<PacketPosition> {
        let cell = *self.cells.get((packet.get() / self.layers()) as usize)?;
        let index = self.grids.partition_point(|grid| grid.first_cell <= cell).checked_sub(1)?;
        let grid = self.grids[index];
        let (row, column) =
            ((cell - grid.first_cell) / grid.count[0], (cell - grid.first_cell) % grid.count[0]);
        let resolutions = usize::from(self.coding.levels) + 1;
        let (rest, component) = (index / self.components(), index % self.components());
        Some(PacketPosition {
            tile: u32::try_from(rest / resolutions).ok()?,
            resolution: u8::try_from(rest % resolutions).ok()?,
            component: u16::try_from(component).ok()?,
            column,
            row,
            layer: u16::try_from(packet.get() % self.layers()).ok()?,
        })
    }

    /// Returns the number of the packet at a position; `None` if the image has no such packet.
    #[must_use]
    pub fn number(&self, position: PacketPosition) -> Option<PacketNumber> {
        let PacketPosition { tile, resolution, component, column, row, layer } = position;
        let is_inside = tile < self.tiles()
            && resolution <= self.coding.levels
            && usize::from(component) < self.components()
            && layer < self.coding.layers;
        if !is_inside {
            return None;
        }
        let grid = self.grid(tile, resolution, usize::from(component));
        if column >= grid.count[0] || row >= grid.count[1] {
            return None;
        }
        let cell = grid.first_cell + row * grid.count[0] + column;
        let number = *self.numbers.get(cell as usize)?;
        Some(PacketNumber(number * self.layers() + u32::from(layer)))
    }

    /// Returns the number of the first packet of a tile, and of all packets for tiles beyond the
    /// last.
    pub(crate) fn first_of_tile(&self, tile: u32) -> u32 {
        let of_tile = (usize::from(self.coding.levels) + 1) * self.components();
        let grid = self.grids.get(of_tile.saturating_mul(tile as usize));
        grid.map_or(self.packets(), |grid| grid.first_cell * self.layers())
    }

    /// Returns an empty packet: a header of one zero bit, rounded to a byte (B.10.3).
    pub(crate) fn empty_packet(&self) -> &'static [u8] {
        if self.coding.has_header_ends { &[0, 0xFF, 0x92] } else { &[0] }
    }

    pub(crate) const fn size(&self) -> &ImageSize {
        &self.size
    }

    pub(crate) const fn coding(&self) -> &Coding {
        &self.coding
    }

    /// Calls `visit` with the numbers of those precincts of a grid that are in `cells`, on both
    /// axes, counted from coordinate 0.
    pub(crate) fn visit_precincts(
        &self,
        (tile, resolution, component): (u32, u8, usize),
        cells: [Span; 2],
        mut visit: impl FnMut(u32),
    ) {
        let grid = self.grid(tile, resolution, component);
        let [columns, rows]: [Span; 2] = array::from_fn(|axis| {
            let begin = u64::from(grid.begin[axis]);
            let inside = cells[axis].overlap(Span { begin, end: begin + u64::from(grid.count[axis]) });
            Span { begin: inside.begin - begin, end: inside.end.saturating_sub(begin) }
        });
        for row in rows.begin..rows.end {
            let first = u64::from(grid.first_cell) + row * u64::from(grid.count[0]);
            let inside =
                usize::try_from(first + columns.begin).ok().zip(usize::try_from(first + columns.end).ok());
            let numbers = inside.and_then(|(from, to)| self.numbers.get(from..to));
            numbers.unwrap_or_default().iter().copied().for_each(&mut visit);
        }
    }

    fn grid(&self, tile: u32, resolution: u8, component: usize) -> PrecinctGrid {
        let of_tile = tile as usize * (usize::from(self.coding.levels) + 1);
        self.grids[(of_tile + usize::from(resolution)) * self.components() + component]
    }
}

//! Selection of a chart's drawable numbers, and the ranges of its axes.

use crate::chart::{Chart, Curve, Direction, Kind, Scale};
use crate::range::{Range, extent, is_drawable, padded};

/// Most groups of bars that a chart draws; more do not have a pixel each.
const GROUPS_MAX: f64 = 500.0;

/// Vertical axes include zero if the least value is below this share of the greatest.
const NEAR_ZERO_Y: f64 = 0.6;

/// Horizontal axes include zero if the least value is below this share of the greatest.
const NEAR_ZERO_X: f64 = 0.2;

/// Least range of each axis that contains all numbers of a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extents {
    pub(crate) x: Range,
    pub(crate) y: Range,
}

impl Chart<'_> {
    /// Returns the ranges of a chart's numbers; `None` if it has nothing to draw.
    pub(crate) fn extents(&self) -> Option<Extents> {
        let points = || self.curves.iter().flat_map(|curve| self.drawable(curve));
        let marks = |direction, scale| {
            let marks = self.marks.iter().filter(move |mark| mark.direction == direction);
            marks.map(|mark| mark.at).filter(move |&at| is_drawable(at, scale))
        };
        // A chart of marks alone would be empty.
        points().next()?;
        let x = extent(points().map(|[x, _]| x).chain(marks(Direction::Vertical, self.x.scale)))?;
        let y = extent(points().map(|[_, y]| y).chain(marks(Direction::Horizontal, self.y.scale)))?;
        let near = if self.kind == Kind::Bars { 1.0 } else { NEAR_ZERO_Y };
        Some(Extents {
            x: padded(x, self.x.scale, NEAR_ZERO_X),
            y: self.whole_shares(padded(y, self.y.scale, near)),
        })
    }

    /// Extends the vertical range of a distribution of shares to 0 and 1.
    fn whole_shares(&self, (low, high): Range) -> Range {
        let is_distribution = self.kind == Kind::Steps && self.y.is_share && self.y.scale == Scale::Linear;
        if is_distribution && low >= 0.0 { (0.0, high.max(1.0)) } else { (low, high) }
    }

    /// Returns the points of a curve that have a position between the axes.
    pub(crate) fn drawable<'b>(&'b self, curve: &Curve<'b>) -> impl Iterator<Item = [f64; 2]> + 'b {
        let points: &'b [[f64; 2]] = curve.points;
        points.iter().copied().filter(|&point| self.is_drawable(point))
    }

    /// True if a point has a position between the axes.
    pub(crate) fn is_drawable(&self, [x, y]: [f64; 2]) -> bool {
        let has_x = match self.kind {
            Kind::Bars => (-0.5..GROUPS_MAX - 0.5).contains(&x),
            _ => is_drawable(x, self.x.scale),
        };
        has_x && is_drawable(y, self.y.scale)
    }

    /// Returns the number of groups in a bar chart, including empty ones.
    pub(crate) fn groups(&self) -> usize {
        let last = self.curves.iter().flat_map(|curve| self.drawable(curve)).map(|[x, _]| group(x)).max();
        last.map_or(0, |last| last + 1).max(self.labels.len())
    }
}

/// Returns the index of the group of bars at an x.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is drawable is below the greatest number of groups"
)]
pub(crate) fn group(x: f64) -> usize {
    libm::round(x.max(0.0)) as usize
}

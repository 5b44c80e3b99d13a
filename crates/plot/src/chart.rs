//! Data of a chart: axes, curves, bars and marks.

use alloc::string::String;
use alloc::vec::Vec;

/// Chart of numbers between two axes, as borrowed data.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Title of the chart, in one line. A standalone chart shows it; a page shows it elsewhere.
    pub title: &'a str,
    /// Description for readers who cannot see the chart.
    pub description: &'a str,
    /// Horizontal axis; bars have labels instead of its numbers.
    pub x: Axis<'a>,
    /// Vertical axis of the chart.
    pub y: Axis<'a>,
    /// Form of the chart's curves.
    pub kind: Kind,
    /// Curves, or for bars one bar of each group.
    pub curves: Vec<Curve<'a>>,
    /// Labels below groups of bars at x = 0, 1 and so on; ignored in other charts.
    pub labels: &'a [String],
    /// Lines across the chart at values of an axis.
    pub marks: Vec<Mark<'a>>,
}

/// Axis of a chart. Its range follows from the numbers.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// Title of the axis, with the unit.
    pub title: &'a str,
    /// Linear or logarithmic scale of the axis.
    pub scale: Scale,
    /// True if its numbers are shares of one, shown in percent.
    pub is_share: bool,
}

impl<'a> Axis<'a> {
    /// Makes a linear axis with this title.
    #[must_use]
    pub const fn linear(title: &'a str) -> Self {
        Self { title, scale: Scale::Linear, is_share: false }
    }

    /// Makes a logarithmic axis with this title.
    #[must_use]
    pub const fn log(title: &'a str) -> Self {
        Self { title, scale: Scale::Log, is_share: false }
    }

    /// Returns the same axis for shares of one, with its numbers in percent.
    #[must_use]
    pub const fn as_share(self) -> Self {
        Self { is_share: true, ..self }
    }
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear scale.
    Linear,
    /// Logarithmic; numbers that are not positive are left out.
    Log,
}

/// Form of a chart's curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Points joined by straight lines.
    Lines,
    /// Steps for distributions: each value is valid until the next point.
    Steps,
    /// Points without lines between them.
    Points,
    /// Bars in groups, side by side.
    Bars,
}

/// Curve of a chart; in a bar chart, the bars of one colour.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// Name of the curve in the legend.
    pub name: &'a str,
    /// Points, by x. Points without finite numbers are gaps.
    pub points: &'a [[f64; 2]],
    /// True for bounds, models and published values, which are dashed; false for measurements.
    pub is_reference: bool,
}

/// Line across the chart at one value, which extends the axis if necessary.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Name of the mark line.
    pub name: &'a str,
    /// Value at which the line crosses its axis.
    pub at: f64,
    /// Direction of the mark line.
    pub direction: Direction,
}

/// Direction of a mark line across the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From left to right, at a value of the vertical axis.
    Horizontal,
    /// From bottom to top, at a value of the horizontal axis.
    Vertical,
}

/// Size of a chart, in pixels at its natural size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Total width of the chart, at least 200.
    pub width: f64,
    /// Height between the axes, at least 80. Titles and legends add to it, because they must not
    /// reduce the curves.
    pub height: f64,
}

impl Size {
    /// File for a slide or half of a screen.
    pub const FILE: Self = Self { width: 760.0, height: 360.0 };
    /// One of two charts side by side, also readable on a telephone.
    pub const HALF: Self = Self { width: 430.0, height: 215.0 };
    /// Chart over the whole width of a page.
    pub const WHOLE: Self = Self { width: 1000.0, height: 280.0 };
}

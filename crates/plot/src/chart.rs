//! What a chart is made of.

use alloc::string::String;
use alloc::vec::Vec;

/// Numbers to be drawn between two axes.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// What it shows, in a line. A standalone chart shows it; a page has its own place for it.
    pub title: &'a str,
    /// What is to be seen in it, for those who cannot see it.
    pub description: &'a str,
    /// The horizontal axis; bars have labels instead of its numbers.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// How points are drawn.
    pub kind: Kind,
    /// The curves, or the bars of all groups, one from each curve.
    pub curves: Vec<Curve<'a>>,
    /// What stands below the groups of bars at x = 0, 1 and so on; not looked at elsewhere.
    pub labels: &'a [String],
    /// Lines across the chart that help to read it.
    pub marks: Vec<Mark<'a>>,
}

/// An axis. It reaches as far as the numbers do.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// What it counts, with its unit.
    pub title: &'a str,
    /// How it counts.
    pub scale: Scale,
    /// Whether its numbers are shares of one, to be shown in percent.
    pub is_share: bool,
}

impl<'a> Axis<'a> {
    /// An axis that counts evenly.
    #[must_use]
    pub const fn linear(title: &'a str) -> Self {
        Self { title, scale: Scale::Linear, is_share: false }
    }

    /// An axis that counts by factors.
    #[must_use]
    pub const fn log(title: &'a str) -> Self {
        Self { title, scale: Scale::Log, is_share: false }
    }

    /// The same axis, its numbers shown in percent.
    #[must_use]
    pub const fn as_share(self) -> Self {
        Self { is_share: true, ..self }
    }
}

/// How an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By factors: numbers that are not positive are left out.
    Log,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Joined by straight lines.
    Lines,
    /// As steps, each of which holds until the next point: distributions.
    Steps,
    /// By themselves.
    Points,
    /// As bars in groups.
    Bars,
}

/// The points of one curve.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its points, by x. Those that are no finite numbers are gaps.
    pub points: &'a [[f64; 2]],
    /// Whether it is no measurement but a bound, a model or a published value: drawn dashed.
    pub is_reference: bool,
}

/// A line across the chart at one value. It makes an axis longer where it has to.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// What is there.
    pub name: &'a str,
    /// Where.
    pub at: f64,
    /// How it runs.
    pub direction: Direction,
}

/// How a mark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From left to right, at a value of the vertical axis.
    Horizontal,
    /// From bottom to top, at a value of the horizontal axis.
    Vertical,
}

/// How large a chart is, in pixels as they are where it is shown in its own size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Of everything; at least 200.
    pub width: f64,
    /// Between the axes, at least 80: titles and legends come on top of it, so that they never squeeze the curves.
    pub height: f64,
}

impl Size {
    /// A file that fills a slide or a screen's half.
    pub const FILE: Self = Self { width: 760.0, height: 360.0 };
    /// One of two charts side by side, readable on a telephone too.
    pub const HALF: Self = Self { width: 430.0, height: 215.0 };
    /// A chart over the whole width of a page.
    pub const WHOLE: Self = Self { width: 1000.0, height: 280.0 };
}

//! Layout of a chart: positions of its heading, legend, axes, labels and curves.

use alloc::string::String;
use alloc::vec::Vec;

use crate::axis_scale::AxisScale;
use crate::chart::{Chart, Direction, Kind, Size};
use crate::data::Extents;
use crate::legend::{self, LegendEntry, LegendItem};
use crate::range::{Range, Tick, is_drawable, rounded, ticks};
use crate::text::{balanced, shortened, width, wrapped};

/// Font size of the numbers and titles at axes, in pixels.
pub(crate) const TICK: f64 = 12.0;

/// Font size of the heading in pixels, increased for the width of bold letters.
const HEADING: f64 = 17.0 * 1.16;

/// Distance between lines of text at the axes, in pixels.
pub(crate) const LINE_HEIGHT: f64 = 16.0;

/// Distance between lines of the heading, in pixels.
pub(crate) const HEADING_LINE_HEIGHT: f64 = 22.0;

/// Distance between text and the edge of the drawing, in pixels.
pub(crate) const EDGE: f64 = 8.0;

/// Least distance between numbers at the vertical axis, in pixels.
const TICK_DISTANCE: f64 = 42.0;

/// Least gap between numbers at the horizontal axis, in pixels.
const TICK_GAP: f64 = 14.0;

/// Most lines of a horizontal label below a group of bars; with more, labels are slanted.
const LABEL_LINES_MAX: usize = 3;

/// Greatest length of a slanted label below bars, in pixels; longer ones are shortened.
const SLANTED_MAX: f64 = 220.0;

/// Angle of slanted labels in degrees, with its sine and cosine.
pub(crate) const SLANT: (f64, f64, f64) = (50.0, 0.77, 0.64);

/// Most lines above the axes for the names of vertical marks.
const MARK_LINES_MAX: u32 = 12;

/// Area between the axes of a chart, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// Names of curves and horizontal marks: at the ends of the curves with their positions, or in a
/// legend.
#[derive(Debug)]
pub(crate) enum Names {
    Ends(Vec<LegendEntry>, Vec<f64>),
    Legend(Vec<LegendItem>),
}

/// Labels below the groups of a bar chart.
#[derive(Debug)]
pub(crate) enum Labels {
    /// Lines of horizontal text below each group.
    Flat(Vec<Vec<String>>),
    /// Slanted text below each group; empty for a group whose label would touch another.
    Slanted(Vec<String>),
}

/// Name of a vertical mark above the axes: the mark's position, the middle of the name, and its
/// line, counted from below.
#[derive(Debug)]
pub(crate) struct MarkName {
    pub(crate) at: f64,
    pub(crate) middle: f64,
    pub(crate) row: u32,
    pub(crate) name: String,
}

/// Positions of all parts of a chart, in pixels, and its axes.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) size: (f64, f64),
    pub(crate) heading: Vec<String>,
    pub(crate) names: Names,
    pub(crate) y_title: Vec<String>,
    pub(crate) x_title: Vec<String>,
    pub(crate) mark_names: Vec<MarkName>,
    pub(crate) labels: Labels,
    pub(crate) frame: Frame,
    pub(crate) x: AxisScale,
    pub(crate) y: AxisScale,
    pub(crate) x_ticks: Vec<Tick>,
    pub(crate) y_ticks: Vec<Tick>,
}

impl Layout {
    /// Computes the layout of a chart with these ranges. `heading` is empty if the page shows the
    /// chart's title.
    pub(crate) fn new(chart: &Chart<'_>, extents: Extents, size: Size, heading: &str) -> Self {
        let size = Size { width: size.width.max(200.0), height: size.height.max(80.0) };
        let heading = wrapped_heading(heading, size.width);
        let y_count = count(size.height / TICK_DISTANCE);
        let y_range = rounded(extents.y, chart.y, y_count, 1.0);
        let y_ticks = ticks(y_range, chart.y, y_count);
        let y = AxisScale { values: y_range, pixels: (size.height, 0.0), scale: chart.y.scale };
        let entries = legend::entries(chart);
        let left = left_edge(chart, &y_ticks, size.width);

        let plain = XAxis::new(chart, extents.x, left, size.width, 0.0);
        let ends = legend::end_label_width(&entries, size.width).and_then(|label_width| {
            let with_names = XAxis::new(chart, extents.x, left, size.width, label_width);
            legend::end_label_positions(&entries, with_names.x, y).map(|positions| (with_names, positions))
        });
        let (horizontal, names) = match ends {
            Some((horizontal, positions)) => (horizontal, Names::Ends(entries, positions)),
            None => (plain, Names::Legend(legend::legend(entries, EDGE, size.width - EDGE))),
        };
        let vertical = YAxis { heading, names, y, y_ticks, y_range };
        Self::stacked(chart, size, horizontal, vertical)
    }

    /// Places from top to bottom: heading, legend, title of the vertical axis, names of marks,
    /// frame, labels of bars or ticks, title of the horizontal axis. The chart's height follows.
    fn stacked(chart: &Chart<'_>, size: Size, horizontal: XAxis, vertical: YAxis) -> Self {
        let XAxis { left, right, x, ticks: x_ticks } = horizontal;
        let YAxis { heading, names, y, y_ticks, y_range } = vertical;
        let text_width = size.width - 2.0 * EDGE;
        let y_title = wrapped(chart.y.title, TICK, text_width);
        let x_title = wrapped(chart.x.title, TICK, text_width);
        let labels = labels(chart, left, right);
        let mark_names = mark_names(chart, x, size.width);

        let mark_lines = mark_names.iter().map(|name| name.row + 1).max().unwrap_or(0);
        let top = heading_height(&heading)
            + names_height(&names)
            + text_height(&y_title)
            + f64::from(mark_lines) * LINE_HEIGHT
            + if chart.kind == Kind::Bars { 16.0 } else { 10.0 };
        let bottom = top + size.height;
        let height = bottom + labels_height(chart.kind, &labels) + text_height(&x_title) + EDGE;
        Self {
            size: (size.width, height),
            heading,
            names: names.moved(top),
            y_title,
            x_title,
            mark_names,
            labels,
            frame: Frame { left, top, right, bottom },
            x,
            y: AxisScale { values: y_range, pixels: (bottom, top), ..y },
            x_ticks,
            y_ticks,
        }
    }

    /// Returns the vertical position of the legend's top.
    pub(crate) fn legend_top(&self) -> f64 {
        heading_height(&self.heading)
    }

    /// Returns the vertical position of the top of the vertical axis's title.
    pub(crate) fn y_title_top(&self) -> f64 {
        self.legend_top() + names_height(&self.names)
    }

    /// Returns the vertical position of the top of the horizontal axis's title.
    pub(crate) fn x_title_top(&self) -> f64 {
        self.size.1 - EDGE - text_height(&self.x_title)
    }
}

impl Names {
    fn moved(self, by: f64) -> Self {
        match self {
            Self::Ends(entries, positions) => {
                Self::Ends(entries, positions.into_iter().map(|position| position + by).collect())
            }
            legend @ Self::Legend(_) => legend,
        }
    }
}

/// Horizontal axis with its margins to the left and right.
struct XAxis {
    left: f64,
    right: f64,
    x: AxisScale,
    ticks: Vec<Tick>,
}

/// Vertical axis with heading and names, before its position in the drawing is known.
struct YAxis {
    heading: Vec<String>,
    names: Names,
    y: AxisScale,
    y_ticks: Vec<Tick>,
    y_range: Range,
}

impl XAxis {
    /// Makes the horizontal axis with as many numbers as fit. `reserved` pixels to the right remain
    /// for names.
    fn new(chart: &Chart<'_>, extent: Range, left: f64, width: f64, reserved: f64) -> Self {
        // The last number may exceed the axis by half of its width, as the first attempt shows.
        let mut right = width - reserved.max(EDGE + 6.0);
        let mut left = left;
        let mut axis = fitted(chart, extent, left, right);
        for _ in 0..2 {
            let half = |tick: Option<&Tick>| tick.map_or(0.0, |tick| tick_width(tick) / 2.0);
            let (first, last) = (axis.1.first(), axis.1.last());
            let beyond = last.map_or(0.0, |tick| axis.0.at(tick.at)) + half(last) + 4.0 - width;
            let before = half(first) + 4.0 - first.map_or(left, |tick| axis.0.at(tick.at));
            if beyond <= 0.0 && before <= 0.0 {
                break;
            }
            right -= beyond.max(0.0);
            left += before.max(0.0);
            axis = fitted(chart, extent, left, right);
        }
        Self { left, right, x: axis.0, ticks: axis.1 }
    }
}

/// Returns the horizontal axis with the greatest number of ticks whose numbers do not touch.
fn fitted(chart: &Chart<'_>, extent: Range, left: f64, right: f64) -> (AxisScale, Vec<Tick>) {
    let gap_max = if chart.kind == Kind::Points { 1.0 } else { 0.1 };
    let axis = |count: u32| {
        let range = rounded(extent, chart.x, count, gap_max);
        let scale = AxisScale { values: range, pixels: (left, right), scale: chart.x.scale };
        (scale, ticks(range, chart.x, count))
    };
    if chart.kind == Kind::Bars {
        return (axis(2).0, Vec::new());
    }
    let touch = |scale: &AxisScale, pair: &[Tick]| {
        let distance = scale.at(pair[1].at) - scale.at(pair[0].at);
        distance < f64::midpoint(tick_width(&pair[0]), tick_width(&pair[1])) + TICK_GAP
    };
    let fits = |(scale, ticks): &(AxisScale, Vec<Tick>)| !ticks.windows(2).any(|pair| touch(scale, pair));
    (2..=10).rev().map(axis).find(fits).unwrap_or_else(|| {
        let (scale, mut ticks) = axis(2);
        ticks.truncate(1);
        (scale, ticks)
    })
}

fn tick_width(tick: &Tick) -> f64 {
    width(&tick.label, TICK)
}

/// Returns the left margin in pixels, which has the numbers of the vertical axis and the begin of
/// the first slanted label.
fn left_edge(chart: &Chart<'_>, y_ticks: &[Tick], size: f64) -> f64 {
    let numbers = y_ticks.iter().map(tick_width).fold(0.0, f64::max) + 8.0 + EDGE;
    let left = numbers.min(size / 2.0);
    if chart.kind != Kind::Bars {
        return left;
    }
    match labels(chart, left, size - EDGE) {
        Labels::Flat(_) => left,
        Labels::Slanted(_) => {
            let first =
                chart.labels.first().map_or(0.0, |label| width(label, TICK).min(SLANTED_MAX) * SLANT.2);
            left.max((first - band(chart, left, size) / 2.0 + EDGE).min(size / 5.0))
        }
    }
}

/// Returns the width of a group of bars in pixels, including the gap to the next.
pub(crate) fn band(chart: &Chart<'_>, left: f64, right: f64) -> f64 {
    let groups = u32::try_from(chart.groups()).unwrap_or(u32::MAX).max(1);
    (right - left) / f64::from(groups)
}

fn labels(chart: &Chart<'_>, left: f64, right: f64) -> Labels {
    if chart.kind != Kind::Bars {
        return Labels::Flat(Vec::new());
    }
    let band = band(chart, left, right);
    let label_width = band - 8.0;
    let words_fit = |label: &String| label.split_whitespace().all(|word| width(word, TICK) <= label_width);
    if chart.labels.iter().all(words_fit) {
        let flat: Vec<_> = chart.labels.iter().map(|label| balanced(label, TICK, label_width)).collect();
        if flat.iter().all(|lines| lines.len() <= LABEL_LINES_MAX) {
            return Labels::Flat(flat);
        }
    }
    let mut free_from = f64::NEG_INFINITY;
    let slanted = chart.labels.iter().zip(0_u32..).map(|(label, group)| {
        let middle = left + (f64::from(group) + 0.5) * band;
        if middle < free_from {
            return String::new();
        }
        free_from = middle + LINE_HEIGHT / SLANT.1;
        shortened(label, TICK, ((middle - EDGE) / SLANT.2).clamp(0.0, SLANTED_MAX))
    });
    Labels::Slanted(slanted.collect())
}

/// Positions the names of vertical marks above the axes, each in the lowest line without an
/// overlap.
fn mark_names(chart: &Chart<'_>, x: AxisScale, size: f64) -> Vec<MarkName> {
    let marks = chart.marks.iter().filter(|mark| mark.direction == Direction::Vertical);
    let marks = marks.filter(|mark| is_drawable(mark.at, chart.x.scale));
    let mut occupied: Vec<(u32, f64, f64)> = Vec::new();
    let name = |mark: &crate::Mark<'_>| {
        let name = shortened(mark.name, TICK, size - 2.0 * EDGE);
        let half = width(&name, TICK) / 2.0;
        let at = x.at(mark.at);
        let middle = at.max(EDGE + half).min(size - EDGE - half);
        let (from, until) = (middle - half - EDGE, middle + half + EDGE);
        let is_free =
            |row: &u32| !occupied.iter().any(|other| other.0 == *row && from < other.2 && until > other.1);
        let row = (0..MARK_LINES_MAX).find(is_free).unwrap_or(0);
        occupied.push((row, from, until));
        MarkName { at, middle, row, name }
    };
    marks.map(name).collect()
}

/// Breaks a heading into lines that fit into the drawing's width.
pub(crate) fn wrapped_heading(heading: &str, width: f64) -> Vec<String> {
    wrapped(heading, HEADING, width - 2.0 * EDGE)
}

fn heading_height(heading: &[String]) -> f64 {
    EDGE + f64::from(small(heading.len())) * HEADING_LINE_HEIGHT
}

fn names_height(names: &Names) -> f64 {
    match names {
        Names::Ends(..) => 0.0,
        Names::Legend(items) => legend::legend_height(items),
    }
}

fn labels_height(kind: Kind, labels: &Labels) -> f64 {
    match labels {
        Labels::Flat(_) if kind != Kind::Bars => LINE_HEIGHT + 6.0,
        Labels::Flat(labels) => {
            let most = labels.iter().map(Vec::len).max().unwrap_or(0).max(1);
            f64::from(small(most)) * LINE_HEIGHT + 6.0
        }
        Labels::Slanted(labels) => {
            let longest = labels.iter().map(|label| width(label, TICK)).fold(0.0, f64::max);
            longest * SLANT.1 + LINE_HEIGHT + 8.0
        }
    }
}

fn text_height(text: &[String]) -> f64 {
    f64::from(small(text.len())) * LINE_HEIGHT
}

fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few ticks, never negative")]
fn count(ticks: f64) -> u32 {
    ticks.clamp(2.0, 10.0) as u32
}

//! Where everything is.

use alloc::string::String;
use alloc::vec::Vec;

use crate::chart::{Chart, Direction, Kind, Size};
use crate::data::Extents;
use crate::key::{self, Entry, LegendItem};
use crate::range::{Range, Tick, is_drawable, rounded, ticks};
use crate::ruler::Ruler;
use crate::text::{balanced, shortened, width, wrapped};

/// Of numbers at axes, in pixels.
pub(crate) const TICK: f64 = 12.0;

/// Of the heading, measured a little larger than it is: it is bold.
const HEADING: f64 = 17.0 * 1.16;

/// From one line of text to the next.
pub(crate) const LINE: f64 = 16.0;

/// From one line of the heading to the next.
pub(crate) const HEADING_LINE: f64 = 22.0;

/// Between text and the edge.
pub(crate) const EDGE: f64 = 8.0;

/// From one number at the vertical axis to the next, at least.
const TICK_DISTANCE: f64 = 42.0;

/// Between two numbers at the horizontal axis.
const TICK_GAP: f64 = 14.0;

/// Labels below bars are in at most so many lines.
const LABEL_LINES_MAX: usize = 3;

/// Of a slanted label, in pixels; longer ones are shortened.
const SLANTED_MAX: f64 = 220.0;

/// The angle of slanted labels in degrees, with its sine and cosine.
pub(crate) const SLANT: (f64, f64, f64) = (50.0, 0.77, 0.64);

/// Names of vertical marks are in at most so many lines.
const MARK_LINES_MAX: u32 = 12;

/// The room between the axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// The names of what is drawn.
#[derive(Debug)]
pub(crate) enum Names {
    Ends(Vec<Entry>, Vec<f64>),
    Legend(Vec<LegendItem>),
}

/// The names of groups of bars.
#[derive(Debug)]
pub(crate) enum Labels {
    /// In lines below each group.
    Flat(Vec<Vec<String>>),
    /// Rising towards each group; empty where there is no room for all.
    Slanted(Vec<String>),
}

/// The name of a vertical mark: its place, its middle, and its line from below.
#[derive(Debug)]
pub(crate) struct MarkName {
    pub(crate) at: f64,
    pub(crate) middle: f64,
    pub(crate) line: u32,
    pub(crate) name: String,
}

/// Where everything is.
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
    pub(crate) x: Ruler,
    pub(crate) y: Ruler,
    pub(crate) x_ticks: Vec<Tick>,
    pub(crate) y_ticks: Vec<Tick>,
}

impl Layout {
    /// The layout of a chart that reaches so far; `heading` is empty where its title is shown elsewhere.
    pub(crate) fn new(chart: &Chart<'_>, extents: Extents, size: Size, heading: &str) -> Self {
        let size = Size { width: size.width.max(200.0), height: size.height.max(80.0) };
        let heading = heading_lines(heading, size.width);
        let y_count = count(size.height / TICK_DISTANCE);
        let y_range = rounded(extents.y, chart.y, y_count, 1.0);
        let y_ticks = ticks(y_range, chart.y, y_count);
        let y = Ruler { values: y_range, pixels: (size.height, 0.0), scale: chart.y.scale };
        let entries = key::entries(chart);
        let left = left_edge(chart, &y_ticks, size.width);

        let plain = Horizontal::new(chart, extents.x, left, size.width, 0.0);
        let ends = key::end_room(&entries, size.width).and_then(|room| {
            let with_names = Horizontal::new(chart, extents.x, left, size.width, room);
            key::end_places(&entries, with_names.x, y).map(|places| (with_names, places))
        });
        let (horizontal, names) = match ends {
            Some((horizontal, places)) => (horizontal, Names::Ends(entries, places)),
            None => (plain, Names::Legend(key::legend(entries, EDGE, size.width - EDGE))),
        };
        let vertical = Vertical { heading, names, y, y_ticks, y_range };
        Self::stacked(chart, size, horizontal, vertical)
    }

    /// Everything, one above the other.
    fn stacked(chart: &Chart<'_>, size: Size, horizontal: Horizontal, vertical: Vertical) -> Self {
        let Horizontal { left, right, x, ticks: x_ticks } = horizontal;
        let Vertical { heading, names, y, y_ticks, y_range } = vertical;
        let room = size.width - 2.0 * EDGE;
        let y_title = wrapped(chart.y.title, TICK, room);
        let x_title = wrapped(chart.x.title, TICK, room);
        let labels = labels(chart, left, right);
        let mark_names = mark_names(chart, x, size.width);

        let mark_lines = mark_names.iter().map(|name| name.line + 1).max().unwrap_or(0);
        let top = heading_height(&heading)
            + names_height(&names)
            + lines(&y_title)
            + f64::from(mark_lines) * LINE
            + if chart.kind == Kind::Bars { 16.0 } else { 10.0 };
        let bottom = top + size.height;
        let height = bottom + labels_height(chart.kind, &labels) + lines(&x_title) + EDGE;
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
            y: Ruler { values: y_range, pixels: (bottom, top), ..y },
            x_ticks,
            y_ticks,
        }
    }

    /// Where the legend begins.
    pub(crate) fn legend_top(&self) -> f64 {
        heading_height(&self.heading)
    }

    /// Where the title of the vertical axis begins.
    pub(crate) fn y_title_top(&self) -> f64 {
        self.legend_top() + names_height(&self.names)
    }

    /// Where the title of the horizontal axis begins.
    pub(crate) fn x_title_top(&self) -> f64 {
        self.size.1 - EDGE - lines(&self.x_title)
    }
}

impl Names {
    fn moved(self, by: f64) -> Self {
        match self {
            Self::Ends(entries, places) => {
                Self::Ends(entries, places.into_iter().map(|place| place + by).collect())
            }
            legend @ Self::Legend(_) => legend,
        }
    }
}

/// The horizontal axis and the room beside it.
struct Horizontal {
    left: f64,
    right: f64,
    x: Ruler,
    ticks: Vec<Tick>,
}

/// What is known of the vertical axis before its place is.
struct Vertical {
    heading: Vec<String>,
    names: Names,
    y: Ruler,
    y_ticks: Vec<Tick>,
    y_range: Range,
}

impl Horizontal {
    /// The axis with as many numbers as have room; `reserved` pixels to the right are for names.
    fn new(chart: &Chart<'_>, extent: Range, left: f64, width: f64, reserved: f64) -> Self {
        // The last number may reach beyond the axis by half of its width: what a first try shows.
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

/// The greatest number of ticks whose labels do not touch.
fn fitted(chart: &Chart<'_>, extent: Range, left: f64, right: f64) -> (Ruler, Vec<Tick>) {
    let gap_max = if chart.kind == Kind::Points { 1.0 } else { 0.1 };
    let axis = |count: u32| {
        let range = rounded(extent, chart.x, count, gap_max);
        let ruler = Ruler { values: range, pixels: (left, right), scale: chart.x.scale };
        (ruler, ticks(range, chart.x, count))
    };
    if chart.kind == Kind::Bars {
        return (axis(2).0, Vec::new());
    }
    let touch = |ruler: &Ruler, pair: &[Tick]| {
        let distance = ruler.at(pair[1].at) - ruler.at(pair[0].at);
        distance < f64::midpoint(tick_width(&pair[0]), tick_width(&pair[1])) + TICK_GAP
    };
    let fits = |(ruler, ticks): &(Ruler, Vec<Tick>)| !ticks.windows(2).any(|pair| touch(ruler, pair));
    (2..=10).rev().map(axis).find(fits).unwrap_or_else(|| {
        let (ruler, mut ticks) = axis(2);
        ticks.truncate(1);
        (ruler, ticks)
    })
}

fn tick_width(tick: &Tick) -> f64 {
    width(&tick.label, TICK)
}

/// Room for the numbers of the vertical axis, and for the first slanted label.
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

/// How wide a group of bars is, with the gap to the next.
pub(crate) fn band(chart: &Chart<'_>, left: f64, right: f64) -> f64 {
    let groups = u32::try_from(chart.groups()).unwrap_or(u32::MAX).max(1);
    (right - left) / f64::from(groups)
}

fn labels(chart: &Chart<'_>, left: f64, right: f64) -> Labels {
    if chart.kind != Kind::Bars {
        return Labels::Flat(Vec::new());
    }
    let band = band(chart, left, right);
    let room = band - 8.0;
    let words_fit = |label: &String| label.split_whitespace().all(|word| width(word, TICK) <= room);
    if chart.labels.iter().all(words_fit) {
        let flat: Vec<_> = chart.labels.iter().map(|label| balanced(label, TICK, room)).collect();
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
        free_from = middle + LINE / SLANT.1;
        shortened(label, TICK, ((middle - EDGE) / SLANT.2).clamp(0.0, SLANTED_MAX))
    });
    Labels::Slanted(slanted.collect())
}

/// The names of vertical marks above the axes, each in the lowest line where it touches no other.
fn mark_names(chart: &Chart<'_>, x: Ruler, size: f64) -> Vec<MarkName> {
    let marks = chart.marks.iter().filter(|mark| mark.direction == Direction::Vertical);
    let marks = marks.filter(|mark| is_drawable(mark.at, chart.x.scale));
    let mut taken: Vec<(u32, f64, f64)> = Vec::new();
    let name = |mark: &crate::Mark<'_>| {
        let name = shortened(mark.name, TICK, size - 2.0 * EDGE);
        let half = width(&name, TICK) / 2.0;
        let at = x.at(mark.at);
        let middle = at.max(EDGE + half).min(size - EDGE - half);
        let (from, until) = (middle - half - EDGE, middle + half + EDGE);
        let is_free =
            |line: &u32| !taken.iter().any(|other| other.0 == *line && from < other.2 && until > other.1);
        let line = (0..MARK_LINES_MAX).find(is_free).unwrap_or(0);
        taken.push((line, from, until));
        MarkName { at, middle, line, name }
    };
    marks.map(name).collect()
}

/// A heading in lines.
pub(crate) fn heading_lines(heading: &str, width: f64) -> Vec<String> {
    wrapped(heading, HEADING, width - 2.0 * EDGE)
}

fn heading_height(heading: &[String]) -> f64 {
    EDGE + f64::from(small(heading.len())) * HEADING_LINE
}

fn names_height(names: &Names) -> f64 {
    match names {
        Names::Ends(..) => 0.0,
        Names::Legend(items) => key::legend_height(items),
    }
}

fn labels_height(kind: Kind, labels: &Labels) -> f64 {
    match labels {
        Labels::Flat(_) if kind != Kind::Bars => LINE + 6.0,
        Labels::Flat(labels) => {
            let most = labels.iter().map(Vec::len).max().unwrap_or(0).max(1);
            f64::from(small(most)) * LINE + 6.0
        }
        Labels::Slanted(labels) => {
            let longest = labels.iter().map(|label| width(label, TICK)).fold(0.0, f64::max);
            longest * SLANT.1 + LINE + 8.0
        }
    }
}

fn lines(text: &[String]) -> f64 {
    f64::from(small(text.len())) * LINE
}

fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few ticks, never negative")]
fn count(ticks: f64) -> u32 {
    ticks.clamp(2.0, 10.0) as u32
}

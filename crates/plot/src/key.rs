//! What curves are called: at their ends where there is room, otherwise in a legend.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::chart::{Chart, Curve, Direction, Kind};
use crate::curves::has_markers;
use crate::drawing::Drawing;
use crate::marker::{Look, RADIUS};
use crate::range::is_drawable;
use crate::ruler::Ruler;
use crate::text::{shortened, width};

/// Of names, in pixels.
pub(crate) const TEXT: f64 = 13.0;

/// From one line of the legend, or one name at a curve's end, to the next.
const LINE: f64 = 18.0;

/// How wide the piece of a curve beside its name is, with the gap after it.
const SWATCH: f64 = 28.0;

/// How wide a bar or a point beside its name is, with the gap after it.
const SMALL_SWATCH: f64 = 18.0;

/// Between two names of the legend.
const GAP: f64 = 16.0;

/// Names at ends take at most this share of the width.
const END_SHARE_MAX: f64 = 0.26;

/// More curves than this are found more easily in a legend.
const ENDS_MAX: usize = 7;

/// How far a name is moved from its curve's end, at most.
const SHIFT_MAX: f64 = 9.0;

/// A curve that ends farther left than this share of the width has no name at the right.
const END_FROM: f64 = 0.93;

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Where its curve ends, in values.
    pub(crate) end: Option<[f64; 2]>,
    /// What stands beside the name.
    pub(crate) swatch: Swatch,
}

/// What stands beside a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swatch {
    Line,
    MarkedLine,
    Point,
    Bar,
}

impl Swatch {
    fn of(chart: &Chart<'_>, look: Look, curve: &Curve<'_>) -> Self {
        match (look, chart.kind) {
            (Look::Measured(_), Kind::Bars) => Self::Bar,
            (Look::Measured(_), Kind::Points) => Self::Point,
            (Look::Measured(_), _) if has_markers(chart, curve) => Self::MarkedLine,
            _ => Self::Line,
        }
    }

    const fn width(self) -> f64 {
        match self {
            Self::Line | Self::MarkedLine => SWATCH,
            Self::Point | Self::Bar => SMALL_SWATCH,
        }
    }
}

/// All that has a name, in the order in which it was given; marks come last.
pub(crate) fn entries(chart: &Chart<'_>) -> Vec<Entry> {
    let has_ends = matches!(chart.kind, Kind::Lines | Kind::Steps);
    let curves = looks(chart).into_iter().zip(&chart.curves).map(|(look, curve)| {
        let end = chart.drawable(curve).last();
        let name = if end.is_some() { curve.name.into() } else { format!("{} (no points)", curve.name) };
        Entry { name, look, end: end.filter(|_| has_ends), swatch: Swatch::of(chart, look, curve) }
    });
    let levels = chart.marks.iter().filter(|mark| mark.direction == Direction::Horizontal);
    let levels = levels.filter(|mark| is_drawable(mark.at, chart.y.scale));
    let levels = levels.map(|mark| Entry {
        name: mark.name.into(),
        look: Look::Mark,
        end: has_ends.then_some([f64::INFINITY, mark.at]),
        swatch: Swatch::Line,
    });
    curves.chain(levels).filter(|entry| !entry.name.trim().is_empty()).collect()
}

/// How each curve looks.
pub(crate) fn looks(chart: &Chart<'_>) -> Vec<Look> {
    let (mut measured, mut references) = (0, 0);
    let look = |is_reference: bool| {
        let counter = if is_reference { &mut references } else { &mut measured };
        *counter += 1;
        if is_reference { Look::Reference(*counter - 1) } else { Look::Measured(*counter - 1) }
    };
    chart.curves.iter().map(|curve| curve.is_reference).map(look).collect()
}

/// How much room to the right names at ends take; `None` if they would take too much.
pub(crate) fn end_room(entries: &[Entry], chart_width: f64) -> Option<f64> {
    let widest = entries.iter().map(|entry| width(&entry.name, TEXT)).fold(0.0, f64::max);
    let room = widest + 3.0 * RADIUS + 8.0;
    let is_possible = (1..=ENDS_MAX).contains(&entries.len()) && room <= END_SHARE_MAX * chart_width;
    is_possible.then_some(room)
}

/// Where names stand beside the ends of curves, in pixels from top to bottom: one for each entry, in their order.
/// `None` if a curve ends elsewhere, or too near to another.
pub(crate) fn end_places(entries: &[Entry], x: Ruler, y: Ruler) -> Option<Vec<f64>> {
    let far = x.pixels.0 + END_FROM * (x.pixels.1 - x.pixels.0);
    let ends =
        entries.iter().map(|entry| entry.end.filter(|end| x.at(end[0]) >= far).map(|end| y.at(end[1])));
    let ends: Vec<f64> = ends.collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&one, &other| ends[one].total_cmp(&ends[other]));
    let mut places = ends.clone();
    // Downwards each keeps its distance from the one above; half of that shift is then taken back.
    for pair in order.windows(2) {
        places[pair[1]] = places[pair[1]].max(places[pair[0]] + LINE - 3.0);
    }
    let shift = ends.iter().zip(&places).map(|(end, place)| place - end).fold(0.0, f64::max);
    let moved = |place: &f64| place - shift / 2.0;
    (shift / 2.0 <= SHIFT_MAX).then(|| places.iter().map(moved).collect())
}

/// A name's place in the legend: its left end and its line, counted from zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LegendItem {
    pub(crate) entry: Entry,
    pub(crate) x: f64,
    pub(crate) line: u32,
}

/// The names in lines from `left` to `right`.
pub(crate) fn legend(entries: Vec<Entry>, left: f64, right: f64) -> Vec<LegendItem> {
    let (mut x, mut line) = (left, 0);
    let item = |mut entry: Entry| {
        entry.name = shortened(&entry.name, TEXT, right - left - entry.swatch.width());
        let taken = entry.swatch.width() + width(&entry.name, TEXT);
        if x > left && x + taken > right {
            (x, line) = (left, line + 1);
        }
        let place = x;
        x += taken + GAP;
        LegendItem { entry, x: place, line }
    };
    entries.into_iter().map(item).collect()
}

/// How high a legend is.
pub(crate) fn legend_height(items: &[LegendItem]) -> f64 {
    items.last().map_or(0.0, |item| f64::from(item.line + 1) * LINE + 4.0)
}

/// Draws a legend whose top is at `top`.
pub(crate) fn draw_legend(drawing: &mut Drawing, items: &[LegendItem], top: f64) {
    for LegendItem { entry, x, line } in items {
        let middle = top + f64::from(*line) * LINE + LINE / 2.0;
        draw_swatch(drawing, entry, (*x, middle));
        drawing.text("name", "start", (x + entry.swatch.width(), middle + 4.5), &entry.name);
    }
}

fn draw_swatch(drawing: &mut Drawing, entry: &Entry, (x, y): (f64, f64)) {
    let look = entry.look;
    let marker = format!("marker {}", look.fill());
    match entry.swatch {
        Swatch::Bar => drawing.rectangle(look.fill(), x, y - 6.0, SMALL_SWATCH - 6.0, 12.0),
        Swatch::Point => drawing.path(&marker, &look.marker((x + RADIUS + 2.0, y))),
        Swatch::Line | Swatch::MarkedLine => drawing.line(look.line(), (x, y), (x + SWATCH - 6.0, y)),
    }
    if entry.swatch == Swatch::MarkedLine {
        drawing.path(&marker, &look.marker((x + SWATCH / 2.0 - 3.0, y)));
    }
}

/// Draws names beside the ends of curves; `left` is where the curves' room ends.
pub(crate) fn draw_ends(drawing: &mut Drawing, entries: &[Entry], places: &[f64], left: f64) {
    for (entry, &y) in entries.iter().zip(places) {
        let class = format!("marker {}", entry.look.fill());
        let marker = entry.look.marker((left + 10.0, y));
        drawing.path(&class, &marker);
        let indent = if marker.is_empty() { 6.0 } else { 8.0 + 3.0 * RADIUS };
        drawing.text("name", "start", (left + indent, y + 4.5), &entry.name);
    }
}

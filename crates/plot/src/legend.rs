//! Names of curves: at their ends if they fit, otherwise in a legend.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::axis_scale::AxisScale;
use crate::chart::{Chart, Curve, Direction, Kind};
use crate::curves::has_markers;
use crate::drawing::Drawing;
use crate::marker::{RADIUS, SeriesStyle};
use crate::range::is_drawable;
use crate::text::{shortened, width};

/// Font size of names in the legend or at ends of curves, in pixels.
pub(crate) const TEXT: f64 = 13.0;

/// Distance in pixels between lines of the legend, or between names at ends of curves.
const LINE_HEIGHT: f64 = 18.0;

/// Width of a curve's sample in the legend, including the gap after it, in pixels.
const LEGEND_MARK: f64 = 28.0;

/// Width of a bar's or a point's sample in the legend, including the gap after it, in pixels.
const SMALL_LEGEND_MARK: f64 = 18.0;

/// Gap between names in a line of the legend, in pixels.
const GAP: f64 = 16.0;

/// Greatest share of the chart's width for names at ends of curves; otherwise names are in a
/// legend.
const END_SHARE_MAX: f64 = 0.26;

/// Most curves with names at their ends. More names are easier to find in a legend.
const ENDS_MAX: usize = 7;

/// Greatest vertical distance of a name from the end of its curve, in pixels.
const SHIFT_MAX: f64 = 9.0;

/// Least share of the horizontal axis at which a curve must end to have its name at its end.
const END_FROM: f64 = 0.93;

/// Name of a curve or horizontal mark, with the sample that shows its style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LegendEntry {
    pub(crate) name: String,
    pub(crate) style: SeriesStyle,
    /// Last point of the curve, in values of the axes; `None` if the name cannot be at the curve's
    /// end.
    pub(crate) end: Option<[f64; 2]>,
    /// Kind of the sample next to the name.
    pub(crate) mark: LegendMark,
}

/// Kind of the sample next to a name in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegendMark {
    Curve,
    MarkedCurve,
    Point,
    Bar,
}

impl LegendMark {
    fn of(chart: &Chart<'_>, style: SeriesStyle, curve: &Curve<'_>) -> Self {
        match (style, chart.kind) {
            (SeriesStyle::Measured(_), Kind::Bars) => Self::Bar,
            (SeriesStyle::Measured(_), Kind::Points) => Self::Point,
            (SeriesStyle::Measured(_), _) if has_markers(chart, curve) => Self::MarkedCurve,
            _ => Self::Curve,
        }
    }

    const fn width(self) -> f64 {
        match self {
            Self::Curve | Self::MarkedCurve => LEGEND_MARK,
            Self::Point | Self::Bar => SMALL_LEGEND_MARK,
        }
    }
}

/// Returns the names of all curves in the order of the chart, then those of its horizontal marks.
pub(crate) fn entries(chart: &Chart<'_>) -> Vec<LegendEntry> {
    let has_ends = matches!(chart.kind, Kind::Lines | Kind::Steps);
    let curves = series_styles(chart).into_iter().zip(&chart.curves).map(|(style, curve)| {
        let end = chart.drawable(curve).last();
        let name = if end.is_some() { curve.name.into() } else { format!("{} (no points)", curve.name) };
        LegendEntry { name, style, end: end.filter(|_| has_ends), mark: LegendMark::of(chart, style, curve) }
    });
    let levels = chart.marks.iter().filter(|mark| mark.direction == Direction::Horizontal);
    let levels = levels.filter(|mark| is_drawable(mark.at, chart.y.scale));
    let levels = levels.map(|mark| LegendEntry {
        name: mark.name.into(),
        style: SeriesStyle::Mark,
        end: has_ends.then_some([f64::INFINITY, mark.at]),
        mark: LegendMark::Curve,
    });
    curves.chain(levels).filter(|entry| !entry.name.trim().is_empty()).collect()
}

/// Returns the style of each curve of a chart, in their order.
pub(crate) fn series_styles(chart: &Chart<'_>) -> Vec<SeriesStyle> {
    let (mut measured, mut references) = (0, 0);
    let style = |is_reference: bool| {
        let counter = if is_reference { &mut references } else { &mut measured };
        *counter += 1;
        if is_reference { SeriesStyle::Reference(*counter - 1) } else { SeriesStyle::Measured(*counter - 1) }
    };
    chart.curves.iter().map(|curve| curve.is_reference).map(style).collect()
}

/// Returns the width in pixels that names at ends of curves need; `None` if it is too large or
/// there are too many curves.
pub(crate) fn end_label_width(entries: &[LegendEntry], chart_width: f64) -> Option<f64> {
    let widest = entries.iter().map(|entry| width(&entry.name, TEXT)).fold(0.0, f64::max);
    let reserved = widest + 3.0 * RADIUS + 8.0;
    let is_possible = (1..=ENDS_MAX).contains(&entries.len()) && reserved <= END_SHARE_MAX * chart_width;
    is_possible.then_some(reserved)
}

/// Returns the vertical position of each entry's name at the end of its curve, in pixels, in the
/// order of the entries. `None` if a curve ends too far left, or too near to another.
pub(crate) fn end_label_positions(entries: &[LegendEntry], x: AxisScale, y: AxisScale) -> Option<Vec<f64>> {
    let far = x.pixels.0 + END_FROM * (x.pixels.1 - x.pixels.0);
    let ends =
        entries.iter().map(|entry| entry.end.filter(|end| x.at(end[0]) >= far).map(|end| y.at(end[1])));
    let ends: Vec<f64> = ends.collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&one, &other| ends[one].total_cmp(&ends[other]));
    let mut positions = ends.clone();
    // The first pass moves names down to their least distances; then half of that shift is
    // reverted.
    for pair in order.windows(2) {
        positions[pair[1]] = positions[pair[1]].max(positions[pair[0]] + LINE_HEIGHT - 3.0);
    }
    let shift = ends.iter().zip(&positions).map(|(end, position)| position - end).fold(0.0, f64::max);
    let moved = |position: &f64| position - shift / 2.0;
    (shift / 2.0 <= SHIFT_MAX).then(|| positions.iter().map(moved).collect())
}

/// Name in the legend with its position: its left end, and its line counted from zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LegendItem {
    pub(crate) entry: LegendEntry,
    pub(crate) x: f64,
    pub(crate) row: u32,
}

/// Arranges names in the lines of a legend from `left` to `right`.
pub(crate) fn legend(entries: Vec<LegendEntry>, left: f64, right: f64) -> Vec<LegendItem> {
    let (mut x, mut row) = (left, 0);
    let item = |mut entry: LegendEntry| {
        entry.name = shortened(&entry.name, TEXT, right - left - entry.mark.width());
        let needed = entry.mark.width() + width(&entry.name, TEXT);
        if x > left && x + needed > right {
            (x, row) = (left, row + 1);
        }
        let item_x = x;
        x += needed + GAP;
        LegendItem { entry, x: item_x, row }
    };
    entries.into_iter().map(item).collect()
}

/// Returns the height of a legend in pixels.
pub(crate) fn legend_height(items: &[LegendItem]) -> f64 {
    items.last().map_or(0.0, |item| f64::from(item.row + 1) * LINE_HEIGHT + 4.0)
}

/// Draws a legend whose top is at `top`.
pub(crate) fn draw_legend(drawing: &mut Drawing, items: &[LegendItem], top: f64) {
    for LegendItem { entry, x, row } in items {
        let middle = top + f64::from(*row) * LINE_HEIGHT + LINE_HEIGHT / 2.0;
        draw_legend_mark(drawing, entry, (*x, middle));
        drawing.text("name", "start", (x + entry.mark.width(), middle + 4.5), &entry.name);
    }
}

fn draw_legend_mark(drawing: &mut Drawing, entry: &LegendEntry, (x, y): (f64, f64)) {
    let style = entry.style;
    let marker = format!("marker {}", style.fill_class());
    match entry.mark {
        LegendMark::Bar => drawing.rectangle(style.fill_class(), x, y - 6.0, SMALL_LEGEND_MARK - 6.0, 12.0),
        LegendMark::Point => drawing.path(&marker, &style.marker((x + RADIUS + 2.0, y))),
        LegendMark::Curve | LegendMark::MarkedCurve => {
            drawing.segment(style.stroke_class(), (x, y), (x + LEGEND_MARK - 6.0, y));
        }
    }
    if entry.mark == LegendMark::MarkedCurve {
        drawing.path(&marker, &style.marker((x + LEGEND_MARK / 2.0 - 3.0, y)));
    }
}

/// Draws names at the ends of curves. `left` is the right end of the area between the axes.
pub(crate) fn draw_ends(drawing: &mut Drawing, entries: &[LegendEntry], positions: &[f64], left: f64) {
    for (entry, &y) in entries.iter().zip(positions) {
        let class = format!("marker {}", entry.style.fill_class());
        let marker = entry.style.marker((left + 10.0, y));
        drawing.path(&class, &marker);
        let indent = if marker.is_empty() { 6.0 } else { 8.0 + 3.0 * RADIUS };
        drawing.text("name", "start", (left + indent, y + 4.5), &entry.name);
    }
}

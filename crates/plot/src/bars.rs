//! Drawing of bar charts: bars in groups.

use alloc::format;
use alloc::string::String;

use crate::chart::{Chart, Curve};
use crate::data::group;
use crate::drawing::Drawing;
use crate::layout::{Layout, band};
use crate::legend::series_styles;
use crate::marker::SeriesStyle;
use crate::number::{exponent_of, grouped};
use crate::text::width;

/// Font size of the numbers above bars, in pixels.
const VALUE: f64 = 11.0;

/// Share of a group's width that its bars cover.
const FILLED: f64 = 0.8;

/// Greatest width of a bar in pixels.
const BAR_MAX: f64 = 46.0;

/// Positions of the bars of a chart, in pixels: left edge, width of a group and of a bar, and
/// number of bars in a group.
struct BarLayout {
    left: f64,
    band: f64,
    bar: f64,
    bars: f64,
}

/// Draws all bars of a chart, and its reference curves as dashed lines across their groups.
pub(crate) fn draw(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let bars = chart.curves.iter().filter(|curve| !curve.is_reference).count();
    let bars = f64::from(u32::try_from(bars).unwrap_or(u32::MAX)).max(1.0);
    let band = band(chart, layout.frame.left, layout.frame.right);
    let bar_layout =
        BarLayout { left: layout.frame.left, band, bar: (band * FILLED / bars).min(BAR_MAX), bars };
    let shows_values = fits_values(chart, &bar_layout);
    for (style, curve) in series_styles(chart).into_iter().zip(&chart.curves) {
        if let SeriesStyle::Measured(index) = style {
            draw_bars(drawing, chart, layout, &bar_layout, (style, index, shows_values), curve);
        }
    }
    for (style, curve) in
        series_styles(chart).into_iter().zip(&chart.curves).filter(|(_, curve)| curve.is_reference)
    {
        for [x, y] in chart.drawable(curve) {
            let (from, y) = (bar_layout.group_left(x), layout.y.at(y));
            // The halo separates the line from the bars that it crosses.
            drawing.segment("halo", (from, y), (from + bar_layout.band, y));
            drawing.segment(style.stroke_class(), (from, y), (from + bar_layout.band, y));
        }
    }
    let ground = layout.y.at(0.0);
    drawing.segment("axis", (layout.frame.left, ground), (layout.frame.right, ground));
}

fn draw_bars(
    drawing: &mut Drawing,
    chart: &Chart<'_>,
    layout: &Layout,
    bar_layout: &BarLayout,
    (style, index, shows_values): (SeriesStyle, usize, bool),
    curve: &Curve<'_>,
) {
    let ground = layout.y.at(0.0);
    for [x, y] in chart.drawable(curve) {
        let left = bar_layout.bar_left(x, index);
        let end = layout.y.at(y);
        let value = value(y, chart.y.is_share);
        let label = chart.labels.get(group(x)).map_or("", String::as_str);
        let name = format!("{label}: {} {value}", curve.name);
        // A bar of zero has a visible height, because it is a measurement.
        let height = (end - ground).abs().max(0.8);
        let gap = if bar_layout.bar > 6.0 { 1.0 } else { 0.0 };
        let corner = (left + gap, end.min(ground));
        drawing.named_rectangle(style.fill_class(), corner, (bar_layout.bar - 2.0 * gap, height), &name);
        if shows_values {
            let above = if end <= ground { end - 4.0 } else { end + 11.0 };
            drawing.text("value", "middle", (left + bar_layout.bar / 2.0, above), &value);
        }
    }
}

impl BarLayout {
    fn group_left(&self, x: f64) -> f64 {
        let group = f64::from(u32::try_from(group(x)).unwrap_or(u32::MAX));
        self.left + group * self.band
    }

    fn bar_left(&self, x: f64, index: usize) -> f64 {
        let index = f64::from(u32::try_from(index).unwrap_or(u32::MAX));
        self.group_left(x) + (self.band - self.bar * self.bars) / 2.0 + index * self.bar
    }
}

/// True if no number above a bar touches the next one. Either all bars have their numbers or none.
fn fits_values(chart: &Chart<'_>, bar_layout: &BarLayout) -> bool {
    let bars = chart.curves.iter().filter(|curve| !curve.is_reference);
    let mut values = bars.flat_map(|curve| chart.drawable(curve));
    values.all(|[_, y]| width(&value(y, chart.y.is_share), VALUE) <= bar_layout.bar + 1.0)
}

/// Formats the number above a bar with three significant digits; shares in percent.
fn value(value: f64, is_share: bool) -> String {
    let shown = if is_share { 100.0 * value } else { value };
    let unit = if is_share { "\u{202f}%" } else { "" };
    if shown.abs() < 1e-9 {
        return format!("0{unit}");
    }
    let decimals = usize::try_from(2 - exponent_of(shown.abs())).unwrap_or(0);
    let text = grouped(shown, decimals.min(6));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_figures() {
        let values = [0.0, 0.012_34, 1.0, 12.345, 1_234.6, -2.5].map(|number| value(number, false));
        assert_eq!(values, ["0", "0.0123", "1", "12.3", "1\u{202f}235", "−2.5"]);
        assert_eq!([0.5, 0.987_65].map(|share| value(share, true)), ["50\u{202f}%", "98.8\u{202f}%"]);
    }
}

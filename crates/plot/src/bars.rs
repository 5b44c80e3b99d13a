//! Bars in groups.

use alloc::format;
use alloc::string::String;

use crate::chart::{Chart, Curve};
use crate::data::group;
use crate::drawing::Drawing;
use crate::key::looks;
use crate::layout::{Layout, band};
use crate::marker::Look;
use crate::number::{exponent_of, grouped};
use crate::text::width;

/// Of the values above bars, in pixels.
const VALUE: f64 = 11.0;

/// How much of a group's room its bars take.
const FILLED: f64 = 0.8;

/// The widest bar: a wider one is a block.
const BAR_MAX: f64 = 46.0;

/// The place of the bars of all groups.
struct Places {
    left: f64,
    band: f64,
    bar: f64,
    bars: f64,
}

/// Draws all bars, and the dashed lines of references across their groups.
pub(crate) fn draw(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let bars = chart.curves.iter().filter(|curve| !curve.is_reference).count();
    let bars = f64::from(u32::try_from(bars).unwrap_or(u32::MAX)).max(1.0);
    let band = band(chart, layout.frame.left, layout.frame.right);
    let places = Places { left: layout.frame.left, band, bar: (band * FILLED / bars).min(BAR_MAX), bars };
    let has_room = has_room_for_values(chart, &places);
    for (look, curve) in looks(chart).into_iter().zip(&chart.curves) {
        if let Look::Measured(slot) = look {
            draw_bars(drawing, chart, layout, &places, (look, slot, has_room), curve);
        }
    }
    for (look, curve) in looks(chart).into_iter().zip(&chart.curves).filter(|(_, curve)| curve.is_reference) {
        for [x, y] in chart.drawable(curve) {
            let (from, y) = (places.group_left(x), layout.y.at(y));
            // Apart from the bars that it crosses.
            drawing.line("halo", (from, y), (from + places.band, y));
            drawing.line(look.line(), (from, y), (from + places.band, y));
        }
    }
    let ground = layout.y.at(0.0);
    drawing.line("axis", (layout.frame.left, ground), (layout.frame.right, ground));
}

fn draw_bars(
    drawing: &mut Drawing,
    chart: &Chart<'_>,
    layout: &Layout,
    places: &Places,
    (look, slot, has_room): (Look, usize, bool),
    curve: &Curve<'_>,
) {
    let ground = layout.y.at(0.0);
    for [x, y] in chart.drawable(curve) {
        let left = places.bar_left(x, slot);
        let end = layout.y.at(y);
        let value = value(y, chart.y.is_share);
        let label = chart.labels.get(group(x)).map_or("", String::as_str);
        let name = format!("{label}: {} {value}", curve.name);
        // A bar of zero is a hair: something was measured.
        let height = (end - ground).abs().max(0.8);
        let gap = if places.bar > 6.0 { 1.0 } else { 0.0 };
        let corner = (left + gap, end.min(ground));
        drawing.named_rectangle(look.fill(), corner, (places.bar - 2.0 * gap, height), &name);
        if has_room {
            let above = if end <= ground { end - 4.0 } else { end + 11.0 };
            drawing.text("value", "middle", (left + places.bar / 2.0, above), &value);
        }
    }
}

impl Places {
    fn group_left(&self, x: f64) -> f64 {
        let group = f64::from(u32::try_from(group(x)).unwrap_or(u32::MAX));
        self.left + group * self.band
    }

    fn bar_left(&self, x: f64, slot: usize) -> f64 {
        let slot = f64::from(u32::try_from(slot).unwrap_or(u32::MAX));
        self.group_left(x) + (self.band - self.bar * self.bars) / 2.0 + slot * self.bar
    }
}

/// Whether no value above a bar touches the next one: all are shown, or none.
fn has_room_for_values(chart: &Chart<'_>, places: &Places) -> bool {
    let bars = chart.curves.iter().filter(|curve| !curve.is_reference);
    let mut values = bars.flat_map(|curve| chart.drawable(curve));
    values.all(|[_, y]| width(&value(y, chart.y.is_share), VALUE) <= places.bar + 1.0)
}

/// A value in three figures.
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

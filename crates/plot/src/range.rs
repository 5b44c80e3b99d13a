//! How far an axis reaches, and which of its values are named.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::chart::{Axis, Scale};
use crate::number::{exponent_of, grouped, power, ten_to};

/// Beyond this, differences overflow.
const LARGEST: f64 = 1e300;

/// From here on, figures are longer than their power of ten.
const PLAIN_MAX: f64 = 1e7;

/// Up to here, too.
const PLAIN_MIN: f64 = 1e-5;

/// More decades than this leave no room for lines between them.
const MINOR_DECADES_MAX: i32 = 5;

/// The least and the greatest value of an axis.
pub(crate) type Range = (f64, f64);

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Whether a value has a place on an axis.
pub(crate) fn is_drawable(value: f64, scale: Scale) -> bool {
    match scale {
        Scale::Linear => value.abs() <= LARGEST,
        Scale::Log => (1.0 / LARGEST..=LARGEST).contains(&value),
    }
}

/// The least and the greatest of some values.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> Option<Range> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// A range that is longer than nothing, and begins at zero where that is near: within `near` of the other end.
pub(crate) fn padded((low, high): Range, scale: Scale, near: f64) -> Range {
    match scale {
        Scale::Log if high / low < 1.0 + 1e-9 => (low / 3.0, high * 3.0),
        Scale::Log => (low, high),
        Scale::Linear if low.abs().max(high.abs()) < 1.0 / LARGEST => (0.0, 1.0),
        Scale::Linear if low >= 0.0 && low <= near * high && high > 0.0 => (0.0, high),
        Scale::Linear if high <= 0.0 && high >= near * low && low < 0.0 => (low, 0.0),
        Scale::Linear if high - low > 1e-9 * high.abs().max(low.abs()) => (low, high),
        Scale::Linear => ((2.0 * low).min(0.0), (2.0 * high).max(0.0)),
    }
}

/// The range, grown to the next ticks where the gap is at most `gap_max` of it.
pub(crate) fn rounded((low, high): Range, axis: Axis<'_>, count: u32, gap_max: f64) -> Range {
    match axis.scale {
        Scale::Linear => {
            let step = step((low, high), axis, count) / factor(axis);
            let (below, above) =
                (libm::floor(low / step + 1e-9) * step, libm::ceil(high / step - 1e-9) * step);
            let room = gap_max * (high - low);
            (
                if low - below <= room { below.min(low) } else { low },
                if above - high <= room { above.max(high) } else { high },
            )
        }
        Scale::Log => {
            let figures =
                |value: f64| [1.0, 2.0, 5.0, 10.0].map(|figure| figure * ten_to(exponent_of(value)));
            let below = figures(low).into_iter().rfind(|&figure| figure <= low * (1.0 + 1e-9));
            let above = figures(high).into_iter().find(|&figure| figure >= high * (1.0 - 1e-9));
            (below.unwrap_or(low).min(low), above.unwrap_or(high).max(high))
        }
    }
}

/// At most `count` named values, and one or two more where an axis counts by factors.
pub(crate) fn ticks(range: Range, axis: Axis<'_>, count: u32) -> Vec<Tick> {
    match axis.scale {
        Scale::Linear => linear_ticks(range, axis, count),
        Scale::Log => log_ticks(range, axis, count),
    }
}

/// Values between the decades, which get a faint line.
pub(crate) fn minor(range: Range, axis: Axis<'_>) -> Vec<f64> {
    if axis.scale == Scale::Linear {
        return Vec::new();
    }
    let decades = exponent_of(range.0)..=exponent_of(range.1);
    if decades.end() - decades.start() > MINOR_DECADES_MAX {
        return Vec::new();
    }
    let figures =
        decades.flat_map(|exponent| (2..10).map(move |figure| f64::from(figure) * ten_to(exponent)));
    figures.filter(|&value| value > range.0 && value < range.1).collect()
}

/// What values are multiplied with to be shown.
fn factor(axis: Axis<'_>) -> f64 {
    if axis.is_share { 100.0 } else { 1.0 }
}

fn unit(axis: Axis<'_>) -> &'static str {
    if axis.is_share { "\u{202f}%" } else { "" }
}

/// The distance of ticks as shown: 1, 2 or 5 times a power of ten.
fn step((low, high): Range, axis: Axis<'_>, count: u32) -> f64 {
    let least = (high - low) * factor(axis) / f64::from(count.max(1));
    let power = ten_to(exponent_of(least));
    let mut figures = [1.0, 2.0, 5.0].into_iter();
    figures.find(|figure| figure * power >= least * (1.0 - 1e-9)).unwrap_or(10.0) * power
}

fn linear_ticks(range: Range, axis: Axis<'_>, count: u32) -> Vec<Tick> {
    let (factor, step) = (factor(axis), step(range, axis, count));
    let first = libm::ceil(range.0 * factor / step - 1e-9);
    let last = libm::floor(range.1 * factor / step + 1e-9);
    let decimals = usize::try_from(-exponent_of(step)).unwrap_or(0);
    let largest = range.0.abs().max(range.1.abs()) * factor;
    let is_plain = largest < PLAIN_MAX && step >= PLAIN_MIN;
    let tick = |place: u32| {
        let shown = (first + f64::from(place)) * step;
        let number = if is_plain { grouped(shown, decimals) } else { scientific(shown, largest, step) };
        Tick { at: shown / factor, label: format!("{number}{}", unit(axis)) }
    };
    let places = (0..=count + 1).take_while(|&place| first + f64::from(place) <= last);
    places.map(tick).collect()
}

/// `1.5×10⁸`, all ticks of an axis with the same power of ten.
fn scientific(value: f64, largest: f64, step: f64) -> String {
    let exponent = exponent_of(largest);
    let decimals = usize::try_from(exponent - exponent_of(step)).unwrap_or(0).min(12);
    if value.abs() < step / 2.0 {
        return "0".into();
    }
    format!("{}×{}", grouped(value / ten_to(exponent), decimals), power(exponent))
}

fn log_ticks(range: Range, axis: Axis<'_>, count: u32) -> Vec<Tick> {
    let decades = exponent_of(range.0)..=exponent_of(range.1);
    let of = |figures: &'static [f64]| {
        let all =
            decades.clone().flat_map(move |exponent| figures.iter().map(move |&figure| (figure, exponent)));
        let is_inside = |&(figure, exponent): &(f64, i32)| {
            let value = figure * ten_to(exponent);
            value >= range.0 * (1.0 - 1e-9) && value <= range.1 * (1.0 + 1e-9)
        };
        all.filter(is_inside).collect::<Vec<_>>()
    };
    let count = usize::try_from(count).unwrap_or(2).max(2);
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() < 2 {
        return linear_ticks(range, axis, 4);
    }
    let whole = of(&[1.0]);
    let chosen = if fine.len() <= count || whole.len() < 2 { fine } else { whole };
    let stride = chosen.len().div_ceil(count);
    let is_plain = range.0 * factor(axis) >= PLAIN_MIN && range.1 * factor(axis) <= PLAIN_MAX;
    chosen.into_iter().step_by(stride).map(|tick| log_tick(tick, axis, is_plain)).collect()
}

fn log_tick((figure, exponent): (f64, i32), axis: Axis<'_>, is_plain: bool) -> Tick {
    let shown = if axis.is_share { exponent + 2 } else { exponent };
    let number = match (is_plain, figure <= 1.0) {
        (true, _) => grouped(figure * ten_to(shown), usize::try_from(-shown).unwrap_or(0)),
        (false, true) => power(shown),
        (false, false) => format!("{figure}×{}", power(shown)),
    };
    Tick { at: figure * ten_to(exponent), label: format!("{number}{}", unit(axis)) }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn labels(range: Range, axis: Axis<'_>, count: u32) -> Vec<String> {
        ticks(range, axis, count).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        let axis = Axis::linear("");
        assert_eq!(labels((0.0, 100.0), axis, 5), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels((0.13, 0.52), axis, 5), ["0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(labels((-3.0, 3.0), axis, 4), ["−2", "0", "2"]);
        assert_eq!(labels((0.0, 2_000.0), axis, 2), ["0", "1\u{202f}000", "2\u{202f}000"]);
        assert_eq!(labels((0.0, 3e8), axis, 3), ["0", "1×10⁸", "2×10⁸", "3×10⁸"]);
        assert_eq!(labels((0.0, 2e-7), axis, 2), ["0", "1×10⁻⁷", "2×10⁻⁷"]);
    }

    #[test]
    fn shares_are_shown_in_percent() {
        let shares = labels((0.0, 1.0), Axis::linear("").as_share(), 4);
        assert_eq!(shares, ["0\u{202f}%", "50\u{202f}%", "100\u{202f}%"]);
        let shares = labels((0.000_1, 0.1), Axis::log("").as_share(), 5);
        assert_eq!(shares, ["0.01\u{202f}%", "0.1\u{202f}%", "1\u{202f}%", "10\u{202f}%"]);
    }

    #[test]
    fn ticks_of_factors_are_powers_of_ten_or_round_figures_between_them() {
        let axis = Axis::log("");
        assert_eq!(labels((0.1, 1_000.0), axis, 6), ["0.1", "1", "10", "100", "1\u{202f}000"]);
        assert_eq!(labels((1.0, 60.0), axis, 8), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels((1e-9, 1e9), axis, 5), ["10⁻⁹", "10⁻⁵", "10⁻¹", "10³", "10⁷"]);
        assert_eq!(labels((31.0, 39.0), axis, 5), ["32", "34", "36", "38"]);
        assert_eq!(minor((1.0, 10.0), axis).len(), 8);
        assert_eq!(minor((1e-9, 1e9), axis), vec![]);
    }

    #[test]
    fn ranges_grow_to_ticks_and_are_never_empty() {
        let axis = Axis::linear("");
        assert_eq!(rounded((0.3, 97.0), axis, 5, 1.0), (0.0, 100.0));
        assert_eq!(rounded((0.0, 81.0), axis, 5, 0.1), (0.0, 81.0));
        assert_eq!(rounded((0.3, 700.0), Axis::log(""), 5, 1.0), (0.2, 1_000.0));
        assert_eq!(padded((5.0, 5.0), Scale::Linear, 0.0), (0.0, 10.0));
        assert_eq!(padded((0.0, 0.0), Scale::Linear, 0.0), (0.0, 1.0));
        assert_eq!(padded((-4.0, -4.0), Scale::Linear, 0.0), (-8.0, 0.0));
        assert_eq!(padded((10.0, 100.0), Scale::Linear, 0.2), (0.0, 100.0));
    }

    #[test]
    fn extreme_ranges_have_few_ticks() {
        let ranges = [(-1e300, 1e300), (1e-300, 1e300), (1.0, 1.0 + 1e-8), (0.0, 5e-324), (1e15, 1e15 + 1e7)];
        for axis in [Axis::linear(""), Axis::log("")] {
            for range in ranges.into_iter().filter(|range| is_drawable(range.0, axis.scale)) {
                let range = rounded(padded(range, axis.scale, 0.2), axis, 5, 1.0);
                assert!(range.0 < range.1 && ticks(range, axis, 5).len() <= 8, "{range:?}");
            }
        }
    }
}

//! Ranges of axes, and the ticks on them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::chart::{Axis, Scale};
use crate::number::{exponent_of, grouped, power, ten_to};

/// Greatest absolute value on an axis; differences of greater ones would overflow.
const LARGEST: f64 = 1e300;

/// Value from which ticks have scientific notation, because it is shorter.
const PLAIN_MAX: f64 = 1e7;

/// Step or value below which ticks have scientific notation.
const PLAIN_MIN: f64 = 1e-5;

/// Most decades of a logarithmic axis with faint lines between them.
const MINOR_DECADES_MAX: i32 = 5;

/// Least and greatest value of an axis.
pub(crate) type Range = (f64, f64);

/// Value on an axis with its label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// True if a value has a position on an axis with this scale.
pub(crate) fn is_drawable(value: f64, scale: Scale) -> bool {
    match scale {
        Scale::Linear => value.abs() <= LARGEST,
        Scale::Log => (1.0 / LARGEST..=LARGEST).contains(&value),
    }
}

/// Returns the least and the greatest value; `None` without values.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> Option<Range> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// Extends a range to a positive length. It then begins at zero if zero is near: if the end near
/// zero is within `near` times the other end.
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

/// Extends a range to the next ticks, at each end by at most `gap_max` of its length. Logarithmic
/// ranges always extend to 1, 2 or 5 times a power of ten.
pub(crate) fn rounded((low, high): Range, axis: Axis<'_>, count: u32, gap_max: f64) -> Range {
    match axis.scale {
        Scale::Linear => {
            let step = step((low, high), axis, count) / factor(axis);
            let (below, above) =
                (libm::floor(low / step + 1e-9) * step, libm::ceil(high / step - 1e-9) * step);
            let gap = gap_max * (high - low);
            (
                if low - below <= gap { below.min(low) } else { low },
                if above - high <= gap { above.max(high) } else { high },
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

/// Returns at most `count` ticks, and one or two more on a logarithmic axis.
pub(crate) fn ticks(range: Range, axis: Axis<'_>, count: u32) -> Vec<Tick> {
    match axis.scale {
        Scale::Linear => linear_ticks(range, axis, count),
        Scale::Log => log_ticks(range, axis, count),
    }
}

/// Returns the values between the powers of ten of a logarithmic axis that get a faint line.
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

/// Returns the factor from an axis's values to displayed numbers: 100 for percent.
fn factor(axis: Axis<'_>) -> f64 {
    if axis.is_share { 100.0 } else { 1.0 }
}

fn unit(axis: Axis<'_>) -> &'static str {
    if axis.is_share { "\u{202f}%" } else { "" }
}

/// Returns the distance between ticks in displayed numbers: 1, 2 or 5 times a power of ten.
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
    let tick = |index: u32| {
        let shown = (first + f64::from(index)) * step;
        let number = if is_plain { grouped(shown, decimals) } else { scientific(shown, largest, step) };
        Tick { at: shown / factor, label: format!("{number}{}", unit(axis)) }
    };
    let indices = (0..=count + 1).take_while(|&index| first + f64::from(index) <= last);
    indices.map(tick).collect()
}

/// Formats a value like `1.5×10⁸`, with the same power of ten for all ticks of an axis.
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

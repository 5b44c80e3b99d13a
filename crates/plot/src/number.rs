//! Formatting of numbers for readers.

use alloc::format;
use alloc::string::String;

/// Separator of groups of three digits: a narrow no-break space.
const SEPARATOR: char = '\u{202f}';

/// Formats a number with this many decimals, digits in groups of three, a true minus sign and no
/// negative zero.
///
/// ```
/// assert_eq!(byway_plot::grouped(-12345.67, 1), "−12\u{202f}345.7");
/// ```
#[must_use]
pub fn grouped(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let whole = digits.find('.').unwrap_or(digits.len());
    let is_zero = digits.chars().all(|digit| matches!(digit, '0' | '.'));
    let mut text = String::new();
    if value < 0.0 && !is_zero {
        text.push('−');
    }
    let is_number = value.is_finite();
    for (index, digit) in digits.chars().enumerate() {
        if is_number && index > 0 && index < whole && (whole - index).is_multiple_of(3) {
            text.push(SEPARATOR);
        }
        text.push(digit);
    }
    text
}

/// Formats a power of ten: `10⁻³`.
pub(crate) fn power(exponent: i32) -> String {
    let mut text = String::from("10");
    for digit in format!("{exponent}").chars() {
        text.push(match digit {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            '9' => '⁹',
            _ => '⁰',
        });
    }
    text
}

/// Returns ten to the power of `exponent`, exact if representable, unlike a general power function.
pub(crate) fn ten_to(exponent: i32) -> f64 {
    let power = (0..exponent.unsigned_abs()).fold(1.0, |power, _| power * 10.0);
    if exponent < 0 { 1.0 / power } else { power }
}

/// Returns the exponent of the greatest power of ten that does not exceed a positive value; for
/// zero, that of the least number.
#[allow(clippy::cast_possible_truncation, reason = "exponents of ten are at most three digits long")]
pub(crate) fn exponent_of(value: f64) -> i32 {
    let guess = libm::floor(libm::log10(value)).clamp(-308.0, 308.0) as i32;
    // The computed logarithm of a power of ten may be slightly too small.
    if ten_to(guess + 1) <= value { guess + 1 } else { guess }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_groups() {
        let numbers = [(0.0, 0), (-0.001, 1), (999.0, 0), (1_000.0, 0), (1_234_567.891, 2), (-1_000.0, 0)];
        let texts = ["0", "0.0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567.89", "−1\u{202f}000"];
        for ((value, decimals), text) in numbers.into_iter().zip(texts) {
            assert_eq!(grouped(value, decimals), text);
        }
        assert_eq!([f64::NAN, f64::INFINITY].map(|value| grouped(value, 1)), ["NaN", "inf"]);
    }

    #[test]
    fn powers_of_ten_are_exact() {
        assert_eq!([-3, 0, 12].map(power), ["10⁻³", "10⁰", "10¹²"]);
        for exponent in -20..20 {
            assert_eq!(exponent_of(ten_to(exponent)), exponent);
        }
        assert_eq!([999.9, 1_000.0, 0.05, 0.0].map(exponent_of), [2, 3, -2, -308]);
    }
}

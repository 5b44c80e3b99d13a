//! Arithmetic that all additive quantities share.

/// Implements addition, subtraction, scaling and summing for a newtype over one integer.
///
/// Operators panic on overflow in every build profile; the `checked_` and `saturating_` methods do
/// not.
macro_rules! additive_quantity {
    ($quantity:ident, $integer:ty, $scale:ty) => {
        impl $quantity {
            /// Zero of the quantity.
            pub const ZERO: Self = Self(0);
            /// Largest value that the type can represent.
            pub const MAX: Self = Self(<$integer>::MAX);

            /// Returns the sum of both values; `None` if it does not fit.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Returns the difference of both values; `None` if it does not fit.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// Returns the product with a plain number; `None` if it does not fit.
            #[must_use]
            pub const fn checked_mul(self, times: $scale) -> Option<Self> {
                match self.0.checked_mul(times) {
                    Some(product) => Some(Self(product)),
                    None => None,
                }
            }

            /// Returns the sum of both values, or the nearest bound of the range.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Returns the difference of both values, or the nearest bound of the range (zero for
            /// unsigned quantities).
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// True if the value is zero.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl core::ops::Add for $quantity {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                match self.checked_add(other) {
                    Some(sum) => sum,
                    None => panic!("{self:?} + {other:?} does not fit"),
                }
            }
        }

        impl core::ops::Sub for $quantity {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                match self.checked_sub(other) {
                    Some(difference) => difference,
                    None => panic!("{self:?} - {other:?} does not fit"),
                }
            }
        }

        impl core::ops::Mul<$scale> for $quantity {
            type Output = Self;

            fn mul(self, times: $scale) -> Self {
                match self.checked_mul(times) {
                    Some(product) => product,
                    None => panic!("{self:?} * {times} does not fit"),
                }
            }
        }

        impl core::ops::AddAssign for $quantity {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl core::ops::SubAssign for $quantity {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl core::iter::Sum for $quantity {
            fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
                quantities.fold(Self::ZERO, |sum, next| sum + next)
            }
        }
    };
}

pub(crate) use additive_quantity;

/// Writes `value / 10^decimals`, without zeros at the end of the fraction.
///
/// `decimals` is at most 9; `decimals_min` of them are always shown.
pub(crate) fn write_decimal(
    f: &mut core::fmt::Formatter<'_>,
    value: u64,
    decimals: usize,
    decimals_min: usize,
) -> core::fmt::Result {
    let scale = 10_u64.pow(u32::try_from(decimals).unwrap_or(u32::MAX));
    let (whole, mut fraction) = (value / scale, value % scale);
    let mut shown = decimals;
    while shown > decimals_min && fraction.is_multiple_of(10) {
        fraction /= 10;
        shown -= 1;
    }
    if shown == 0 {
        return write!(f, "{whole}");
    }
    write!(f, "{whole}.{fraction:0shown$}")
}

//! Axis scales of charts: mapping from values to pixel positions.

use crate::Scale;

/// Scale of an axis: maps values to pixel positions.
#[derive(Clone, Copy, Debug)]
pub struct AxisScale {
    /// Least and greatest value of the axis.
    pub values: (f64, f64),
    /// Pixel positions of the least and the greatest value.
    pub pixels: (f64, f64),
    /// Linear or logarithmic mapping.
    pub scale: Scale,
}

impl AxisScale {
    /// Makes a linear scale that maps the two `values` to the two `pixels`.
    #[must_use]
    pub const fn linear(values: (f64, f64), pixels: (f64, f64)) -> Self {
        Self { values, pixels, scale: Scale::Linear }
    }

    /// Returns the pixel position of a value. Values beyond the axis are at its ends.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let ((low, high), (from, to)) = (self.values, self.pixels);
        // `clamp` would panic if an end is not a number.
        let value = value.max(low).min(high);
        let share = match self.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log => {
                let [value, low, high] = [value, low, high].map(libm::log10);
                (value - low) / (high - low)
            }
        };
        from + share * (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rulers_map_ends_to_ends_and_keep_what_is_beyond() {
        let scale = AxisScale::linear((10.0, 20.0), (100.0, 0.0));
        for (value, pixel) in [(10.0, 100.0), (15.0, 50.0), (20.0, 0.0), (30.0, 0.0), (0.0, 100.0)] {
            assert!((scale.at(value) - pixel).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn factors_are_equally_long() {
        let scale = AxisScale { values: (0.1, 100.0), pixels: (0.0, 30.0), scale: Scale::Log };
        for (value, pixel) in [(0.1, 0.0), (1.0, 10.0), (10.0, 20.0), (0.0, 0.0), (1e9, 30.0)] {
            assert!((scale.at(value) - pixel).abs() < 1e-9, "{value}");
        }
    }
}

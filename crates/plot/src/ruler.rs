//! Where values are, in pixels.

use crate::Scale;

/// Maps values to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Ruler {
    /// The least and the greatest value.
    pub values: (f64, f64),
    /// Where they are.
    pub pixels: (f64, f64),
    /// How values are counted in between.
    pub scale: Scale,
}

impl Ruler {
    /// An evenly counting one.
    #[must_use]
    pub const fn linear(values: (f64, f64), pixels: (f64, f64)) -> Self {
        Self { values, pixels, scale: Scale::Linear }
    }

    /// Where a value is; values beyond the ends are at the ends.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let ((low, high), (from, to)) = (self.values, self.pixels);
        // No `clamp`: it panics where the ends are no numbers.
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
        let ruler = Ruler::linear((10.0, 20.0), (100.0, 0.0));
        for (value, pixel) in [(10.0, 100.0), (15.0, 50.0), (20.0, 0.0), (30.0, 0.0), (0.0, 100.0)] {
            assert!((ruler.at(value) - pixel).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn factors_are_equally_long() {
        let ruler = Ruler { values: (0.1, 100.0), pixels: (0.0, 30.0), scale: Scale::Log };
        for (value, pixel) in [(0.1, 0.0), (1.0, 10.0), (10.0, 20.0), (0.0, 0.0), (1e9, 30.0)] {
            assert!((ruler.at(value) - pixel).abs() < 1e-9, "{value}");
        }
    }
}

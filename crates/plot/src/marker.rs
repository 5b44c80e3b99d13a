//! Marker shapes and dashes, which distinguish curves without colours.

use alloc::string::String;
use core::fmt::Write as _;

/// Number of colours for curves; the style has as many classes.
pub(crate) const COLOURS: usize = 8;

/// Number of dash patterns for reference curves; the style has as many classes.
const DASHES: usize = 4;

const FORMS: usize = 7;

/// Radius of a curve's marker, in pixels.
pub(crate) const RADIUS: f64 = 3.6;

/// Style of a curve or mark. The number counts the measured or the reference curves of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeriesStyle {
    Measured(usize),
    Reference(usize),
    Mark,
}

impl SeriesStyle {
    /// Returns the CSS class of the curve's line.
    pub(crate) const fn stroke_class(self) -> &'static str {
        match self {
            Self::Measured(index) => {
                ["line s0", "line s1", "line s2", "line s3", "line s4", "line s5", "line s6", "line s7"]
                    [index % COLOURS]
            }
            Self::Reference(index) => {
                ["reference d0", "reference d1", "reference d2", "reference d3"][index % DASHES]
            }
            Self::Mark => "mark",
        }
    }

    /// Returns the CSS class of the curve's markers and bars.
    pub(crate) const fn fill_class(self) -> &'static str {
        match self {
            Self::Measured(index) => ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"][index % COLOURS],
            Self::Reference(_) | Self::Mark => "f-reference",
        }
    }

    /// Returns the SVG path of the curve's marker at a position; empty for reference curves and
    /// marks.
    pub(crate) fn marker(self, at: (f64, f64)) -> String {
        let Self::Measured(index) = self else { return String::new() };
        // Shapes shift with every repetition of the colours, so the first 56 curves all differ.
        path((index + index / COLOURS) % FORMS, at)
    }
}

fn path(form: usize, (x, y): (f64, f64)) -> String {
    let mut path = String::new();
    // Writing to a string cannot fail.
    let _ = match form {
        0 => write!(path, "M{:.1},{y:.1}a3.6,3.6 0 1 1 7.2,0a3.6,3.6 0 1 1-7.2,0z", x - RADIUS),
        1 => write!(path, "M{:.1},{:.1}h6.4v6.4h-6.4z", x - 3.2, y - 3.2),
        2 => write!(path, "M{x:.1},{:.1}l4.3,7.4h-8.6z", y - 4.6),
        3 => write!(path, "M{x:.1},{:.1}l4.6,4.6l-4.6,4.6l-4.6,-4.6z", y - 4.6),
        4 => write!(path, "M{x:.1},{:.1}l4.3,-7.4h-8.6z", y + 4.6),
        5 => write!(path, "M{:.1},{:.1}h3v3h3v3h-3v3h-3v-3h-3v-3h3z", x - 1.5, y - 4.5),
        _ => write!(path, "M{:.1},{:.1}h9.6v4h-9.6z", x - 4.8, y - 2.0),
    };
    path
}

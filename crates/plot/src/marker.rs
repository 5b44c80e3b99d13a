//! The forms that tell curves apart where colours do not.

use alloc::string::String;
use core::fmt::Write as _;

/// How many colours there are; the style has as many classes.
pub(crate) const COLOURS: usize = 8;

/// How many ways to be dashed there are; the style has as many classes.
const DASHES: usize = 4;

const FORMS: usize = 7;

/// How far a marker reaches from its middle, in pixels.
pub(crate) const RADIUS: f64 = 3.6;

/// How a curve looks: the nth of those measured, or the nth of those dashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Measured(usize),
    Reference(usize),
    Mark,
}

impl Look {
    /// The class of its line.
    pub(crate) const fn line(self) -> &'static str {
        match self {
            Self::Measured(slot) => {
                ["line s0", "line s1", "line s2", "line s3", "line s4", "line s5", "line s6", "line s7"]
                    [slot % COLOURS]
            }
            Self::Reference(slot) => {
                ["reference d0", "reference d1", "reference d2", "reference d3"][slot % DASHES]
            }
            Self::Mark => "mark",
        }
    }

    /// The class of its markers and bars.
    pub(crate) const fn fill(self) -> &'static str {
        match self {
            Self::Measured(slot) => ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"][slot % COLOURS],
            Self::Reference(_) | Self::Mark => "f-reference",
        }
    }

    /// The path of its marker at a place; nothing for what is dashed.
    pub(crate) fn marker(self, at: (f64, f64)) -> String {
        let Self::Measured(slot) = self else { return String::new() };
        // Forms move on when colours come round again, so that no two of the first 56 look alike.
        path((slot + slot / COLOURS) % FORMS, at)
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

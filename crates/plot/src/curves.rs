//! Lines, steps and points.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::chart::{Chart, Curve, Kind};
use crate::drawing::Drawing;
use crate::key::looks;
use crate::layout::Layout;
use crate::marker::Look;
use crate::thin::{Pixel, columns, pixels};

/// A curve of at most so many points shows where they are.
const MARKED_MAX: usize = 24;

/// More points than this are a cloud, of which no form can be told: dots.
const FORMED_MAX: usize = 3_000;

/// From one marker on a curve of many points to the next, in pixels.
const MARKER_DISTANCE: f64 = 90.0;

/// Draws all curves, the dashed ones first: measurements lie above them.
pub(crate) fn draw(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let mut order: Vec<(Look, &Curve<'_>)> = looks(chart).into_iter().zip(&chart.curves).collect();
    order.sort_by_key(|(_, curve)| !curve.is_reference);
    for &(look, curve) in &order {
        // A bound among points is a line.
        if chart.kind == Kind::Points && !curve.is_reference {
            draw_points(drawing, chart, layout, look, curve);
        } else {
            draw_line(drawing, chart, layout, look, curve);
        }
    }
    if chart.kind != Kind::Points {
        for &(look, curve) in &order {
            draw_markers(drawing, chart, layout, look, curve);
        }
    }
}

fn draw_points(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout, look: Look, curve: &Curve<'_>) {
    let places = chart.drawable(curve).map(|point| layout.place(point));
    let kept = pixels(places);
    if kept.len() > FORMED_MAX {
        let mut path = String::new();
        for (x, y) in kept {
            // Writing to a string cannot fail.
            let _ = write!(path, "M{x:.0},{y:.0}h0");
        }
        return drawing.path(&format!("{} dot", look.line()), &path);
    }
    let path: String = kept.into_iter().map(|place| look.marker(place)).collect();
    drawing.path(&format!("point {}", look.fill()), &path);
}

fn draw_line(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout, look: Look, curve: &Curve<'_>) {
    let mut path = String::new();
    // What cannot be drawn is a gap.
    for piece in curve.points.split(|&point| !chart.is_drawable(point)) {
        let kept = columns(piece.iter().map(|&point| layout.place(point)));
        if chart.kind == Kind::Steps {
            push_steps(&mut path, &kept);
        } else {
            push_lines(&mut path, &kept);
        }
    }
    drawing.path(look.line(), &path);
}

fn push_lines(path: &mut String, points: &[Pixel]) {
    let Some((&(x, y), rest)) = points.split_first() else { return };
    // Writing to a string cannot fail. A line to where it begins makes a point of its own visible.
    let _ = write!(path, "M{x:.1},{y:.1}");
    if rest.is_empty() {
        path.push_str("h0");
    }
    for (x, y) in rest {
        let _ = write!(path, "L{x:.1},{y:.1}");
    }
}

fn push_steps(path: &mut String, points: &[Pixel]) {
    let Some((&(x, y), rest)) = points.split_first() else { return };
    let _ = write!(path, "M{x:.1},{y:.1}");
    if rest.is_empty() {
        path.push_str("h0");
    }
    for (x, y) in rest {
        let _ = write!(path, "H{x:.1}V{y:.1}");
    }
}

/// Whether a curve needs markers: a long one that is alone does not.
pub(crate) fn has_markers(chart: &Chart<'_>, curve: &Curve<'_>) -> bool {
    !curve.is_reference && (measured(chart) > 1 || curve.points.len() <= MARKED_MAX)
}

fn measured(chart: &Chart<'_>) -> usize {
    chart.curves.iter().filter(|curve| !curve.is_reference).count()
}

/// Markers on all points of a short curve; on a long one here and there, where other curves have theirs elsewhere.
fn draw_markers(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout, look: Look, curve: &Curve<'_>) {
    let Look::Measured(slot) = look else { return };
    if !has_markers(chart, curve) {
        return;
    }
    let places: Vec<Pixel> = chart.drawable(curve).map(|point| layout.place(point)).collect();
    let kept = if places.len() <= MARKED_MAX {
        pixels(places)
    } else {
        here_and_there(&places, layout.frame.left, share(slot, measured(chart)))
    };
    let path: String = kept.into_iter().map(|place| look.marker(place)).collect();
    drawing.path(&format!("marker {}", look.fill()), &path);
}

/// Places at even distances, the first of them after a share of a distance.
fn here_and_there(places: &[Pixel], left: f64, share: f64) -> Vec<Pixel> {
    let mut next = left + MARKER_DISTANCE * (share + 0.2);
    let is_due = |place: &&Pixel| {
        let is_due = place.0 >= next;
        while place.0 >= next {
            next += MARKER_DISTANCE;
        }
        is_due
    };
    places.iter().filter(is_due).copied().collect()
}

fn share(part: usize, whole: usize) -> f64 {
    let [part, whole] = [part, whole].map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    part / whole.max(1.0)
}

impl Layout {
    /// Where a point is.
    fn place(&self, [x, y]: [f64; 2]) -> Pixel {
        (self.x.at(x), self.y.at(y))
    }
}

//! Drawing of curves as lines, steps and points.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::chart::{Chart, Curve, Kind};
use crate::downsample::{Pixel, columns, pixels};
use crate::drawing::Drawing;
use crate::layout::Layout;
use crate::legend::series_styles;
use crate::marker::SeriesStyle;

/// Most points of a curve of which each gets a marker.
const MARKED_MAX: usize = 24;

/// Most points of a scatter plot that get marker shapes. More points form a cloud without
/// recognisable shapes, so they become dots.
const FORMED_MAX: usize = 3_000;

/// Distance of markers on a curve with more than [`MARKED_MAX`] points, in pixels.
const MARKER_DISTANCE: f64 = 90.0;

/// Draws all curves of a chart. Dashed reference curves come first, because measurements lie above
/// them.
pub(crate) fn draw(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let mut order: Vec<(SeriesStyle, &Curve<'_>)> =
        series_styles(chart).into_iter().zip(&chart.curves).collect();
    order.sort_by_key(|(_, curve)| !curve.is_reference);
    for &(style, curve) in &order {
        // A bound among points is drawn as a line.
        if chart.kind == Kind::Points && !curve.is_reference {
            draw_points(drawing, chart, layout, style, curve);
        } else {
            draw_curve(drawing, chart, layout, style, curve);
        }
    }
    if chart.kind != Kind::Points {
        for &(style, curve) in &order {
            draw_markers(drawing, chart, layout, style, curve);
        }
    }
}

fn draw_points(
    drawing: &mut Drawing,
    chart: &Chart<'_>,
    layout: &Layout,
    style: SeriesStyle,
    curve: &Curve<'_>,
) {
    let positions = chart.drawable(curve).map(|point| layout.to_pixel(point));
    let pixels_used = pixels(positions);
    if pixels_used.len() > FORMED_MAX {
        let mut path = String::new();
        for (x, y) in pixels_used {
            // Writing to a string cannot fail.
            let _ = write!(path, "M{x:.0},{y:.0}h0");
        }
        return drawing.path(&format!("{} dot", style.stroke_class()), &path);
    }
    let path: String = pixels_used.into_iter().map(|position| style.marker(position)).collect();
    drawing.path(&format!("point {}", style.fill_class()), &path);
}

fn draw_curve(
    drawing: &mut Drawing,
    chart: &Chart<'_>,
    layout: &Layout,
    style: SeriesStyle,
    curve: &Curve<'_>,
) {
    let mut path = String::new();
    // Points that cannot be drawn are gaps.
    for segment in curve.points.split(|&point| !chart.is_drawable(point)) {
        let reduced = columns(segment.iter().map(|&point| layout.to_pixel(point)));
        if chart.kind == Kind::Steps {
            push_steps(&mut path, &reduced);
        } else {
            push_segments(&mut path, &reduced);
        }
    }
    drawing.path(style.stroke_class(), &path);
}

fn push_segments(path: &mut String, points: &[Pixel]) {
    let Some((&(x, y), rest)) = points.split_first() else { return };
    // Writing to a string cannot fail. A line back to its begin makes a single point visible.
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

/// True if a curve gets markers. Reference curves and a single long curve do not need them.
pub(crate) fn has_markers(chart: &Chart<'_>, curve: &Curve<'_>) -> bool {
    !curve.is_reference && (measured(chart) > 1 || curve.points.len() <= MARKED_MAX)
}

fn measured(chart: &Chart<'_>) -> usize {
    chart.curves.iter().filter(|curve| !curve.is_reference).count()
}

/// Draws a curve's markers: on all points of a short curve, and at intervals on a long one. The
/// intervals of different curves are offset.
fn draw_markers(
    drawing: &mut Drawing,
    chart: &Chart<'_>,
    layout: &Layout,
    style: SeriesStyle,
    curve: &Curve<'_>,
) {
    let SeriesStyle::Measured(index) = style else { return };
    if !has_markers(chart, curve) {
        return;
    }
    let positions: Vec<Pixel> = chart.drawable(curve).map(|point| layout.to_pixel(point)).collect();
    let marked = if positions.len() <= MARKED_MAX {
        pixels(positions)
    } else {
        spaced_positions(&positions, layout.frame.left, share(index, measured(chart)))
    };
    let path: String = marked.into_iter().map(|position| style.marker(position)).collect();
    drawing.path(&format!("marker {}", style.fill_class()), &path);
}

/// Returns the positions at which a long curve gets markers: at even distances, the first after a
/// share of a distance.
fn spaced_positions(positions: &[Pixel], left: f64, share: f64) -> Vec<Pixel> {
    let mut next = left + MARKER_DISTANCE * (share + 0.2);
    let is_due = |position: &&Pixel| {
        let is_due = position.0 >= next;
        while position.0 >= next {
            next += MARKER_DISTANCE;
        }
        is_due
    };
    positions.iter().filter(is_due).copied().collect()
}

fn share(part: usize, whole: usize) -> f64 {
    let [part, whole] = [part, whole].map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    part / whole.max(1.0)
}

impl Layout {
    /// Returns the pixel position of a point of a curve.
    fn to_pixel(&self, [x, y]: [f64; 2]) -> Pixel {
        (self.x.at(x), self.y.at(y))
    }
}

//! Drawing of a chart's heading, axes, grid and mark lines.

use crate::chart::{Chart, Direction, Kind};
use crate::drawing::Drawing;
use crate::layout::{EDGE, HEADING_LINE_HEIGHT, LINE_HEIGHT, Labels, Layout, Names, SLANT, TICK, band};
use crate::legend;
use crate::range::{is_drawable, minor};
use crate::text::width;

/// Draws everything that lies below the curves: texts, axes, grid and labels.
pub(crate) fn draw_ground(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    draw_texts(drawing, layout);
    draw_vertical_axis(drawing, chart, layout);
    if chart.kind == Kind::Bars {
        draw_labels(drawing, chart, layout);
    } else {
        draw_horizontal_axis(drawing, chart, layout);
    }
}

fn draw_texts(drawing: &mut Drawing, layout: &Layout) {
    for (line, number) in layout.heading.iter().zip(1_u32..) {
        drawing.text("heading", "start", (EDGE, f64::from(number) * HEADING_LINE_HEIGHT), line);
    }
    match &layout.names {
        Names::Legend(items) => legend::draw_legend(drawing, items, layout.legend_top()),
        Names::Ends(entries, positions) => legend::draw_ends(drawing, entries, positions, layout.frame.right),
    }
    for (line, number) in layout.y_title.iter().zip(1_u32..) {
        drawing.text(
            "tick",
            "start",
            (EDGE, layout.y_title_top() + f64::from(number) * LINE_HEIGHT - 3.0),
            line,
        );
    }
    let middle = f64::midpoint(layout.frame.left, layout.frame.right);
    for (line, number) in layout.x_title.iter().zip(1_u32..) {
        let half = width(line, TICK) / 2.0;
        let middle = middle.min(layout.size.0 - EDGE - half).max(EDGE + half);
        let y = layout.x_title_top() + f64::from(number) * LINE_HEIGHT - 3.0;
        drawing.text("tick", "middle", (middle, y), line);
    }
}

fn draw_vertical_axis(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let frame = layout.frame;
    for value in minor(layout.y.values, chart.y) {
        let y = layout.y.at(value);
        drawing.segment("minor", (frame.left, y), (frame.right, y));
    }
    for tick in &layout.y_ticks {
        let y = layout.y.at(tick.at);
        drawing.segment("grid", (frame.left, y), (frame.right, y));
        drawing.text("tick", "end", (frame.left - 8.0, y + 4.0), &tick.label);
    }
}

fn draw_horizontal_axis(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let frame = layout.frame;
    for value in minor(layout.x.values, chart.x) {
        let x = layout.x.at(value);
        drawing.segment("minor", (x, frame.top), (x, frame.bottom));
    }
    for tick in &layout.x_ticks {
        let x = layout.x.at(tick.at);
        drawing.segment("grid", (x, frame.top), (x, frame.bottom + 4.0));
        drawing.text("tick", "middle", (x, frame.bottom + LINE_HEIGHT + 1.0), &tick.label);
    }
    drawing.segment("axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
}

fn draw_labels(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let frame = layout.frame;
    let band = band(chart, frame.left, frame.right);
    let middle = |group: u32| frame.left + (f64::from(group) + 0.5) * band;
    match &layout.labels {
        Labels::Flat(labels) => {
            for (lines, group) in labels.iter().zip(0..) {
                for (line, number) in lines.iter().zip(1_u32..) {
                    let y = frame.bottom + f64::from(number) * LINE_HEIGHT + 1.0;
                    drawing.text("tick", "middle", (middle(group), y), line);
                }
            }
        }
        Labels::Slanted(labels) => {
            for (label, group) in labels.iter().zip(0..).filter(|(label, _)| !label.is_empty()) {
                drawing.slanted_text("tick", (middle(group) + 4.0, frame.bottom + 14.0), SLANT.0, label);
            }
        }
    }
}

/// Draws the lines of a chart's marks, and the names of vertical ones. The names of horizontal
/// marks are in the legend.
pub(crate) fn draw_marks(drawing: &mut Drawing, chart: &Chart<'_>, layout: &Layout) {
    let frame = layout.frame;
    let levels = chart.marks.iter().filter(|mark| mark.direction == Direction::Horizontal);
    for mark in levels.filter(|mark| is_drawable(mark.at, chart.y.scale)) {
        let y = layout.y.at(mark.at);
        drawing.segment("mark", (frame.left, y), (frame.right, y));
    }
    for mark in &layout.mark_names {
        let y = frame.top - 6.0 - f64::from(mark.row) * LINE_HEIGHT;
        drawing.segment("mark", (mark.at, frame.bottom), (mark.at, frame.top - 2.0));
        drawing.text("tick", "middle", (mark.middle, y), &mark.name);
    }
}

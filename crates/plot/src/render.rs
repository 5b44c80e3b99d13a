//! Rendering of a chart as SVG.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::chart::{Chart, Kind, Size};
use crate::drawing::Drawing;
use crate::layout::{EDGE, HEADING_LINE_HEIGHT, Layout, wrapped_heading};
use crate::{STYLE, axes, bars, curves};

impl Chart<'_> {
    /// Renders the chart as a standalone SVG file, with title, background and style.
    #[must_use]
    pub fn standalone(&self, size: Size) -> String {
        self.draw(size, self.title).finish_chart(self.title, &self.words(), Some(STYLE))
    }

    /// Renders the chart as a part of a page, which must contain [`STYLE`] and show the title
    /// itself.
    #[must_use]
    pub fn inline(&self, size: Size) -> String {
        self.draw(size, "").finish_chart(self.title, &self.words(), None)
    }

    fn draw(&self, size: Size, heading: &str) -> Drawing {
        let Some(extents) = self.extents() else { return nothing(size, heading) };
        let layout = Layout::new(self, extents, size, heading);
        let mut drawing = Drawing::new(layout.size.0, layout.size.1);
        axes::draw_ground(&mut drawing, self, &layout);
        if self.kind == Kind::Bars {
            bars::draw(&mut drawing, self, &layout);
        } else {
            curves::draw(&mut drawing, self, &layout);
        }
        axes::draw_marks(&mut drawing, self, &layout);
        drawing
    }

    /// Describes the chart's axes and curves for readers who cannot see it.
    fn words(&self) -> String {
        let mut words =
            format!("{} Horizontal: {}. Vertical: {}.", self.description, self.x.title, self.y.title);
        for curve in &self.curves {
            let dashed = if curve.is_reference { ", dashed" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(words, " {}{dashed}: {} points.", curve.name, curve.points.len());
        }
        words
    }
}

/// Draws a note in place of a chart without drawable numbers.
fn nothing(size: Size, heading: &str) -> Drawing {
    let width = size.width.max(200.0);
    let lines = wrapped_heading(heading, width);
    let top = f64::from(u32::try_from(lines.len()).unwrap_or(u32::MAX)) * HEADING_LINE_HEIGHT + EDGE;
    let height = (size.height / 2.0).max(60.0);
    let mut drawing = Drawing::new(width, top + height);
    for (line, number) in lines.iter().zip(1_u32..) {
        drawing.text("heading", "start", (EDGE, f64::from(number) * HEADING_LINE_HEIGHT), line);
    }
    drawing.rectangle("empty", EDGE, top, width - 2.0 * EDGE, height - EDGE);
    drawing.text("soft", "middle", (width / 2.0, top + height / 2.0), "Nothing to show: no points.");
    drawing
}

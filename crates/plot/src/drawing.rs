//! SVG drawing. Colours are classes, because the style chooses between light and dark.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::text::escaped;

/// SVG drawing of this size in pixels, scaled to the width available on the page.
#[derive(Clone, Debug)]
pub struct Drawing {
    body: String,
    width: f64,
    height: f64,
}

impl Drawing {
    /// Makes an empty drawing of this size in pixels.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// Adds a filled rectangle with a CSS class. A negative width or height counts as zero.
    pub fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        // Writing to a string cannot fail.
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.2}" y="{y:.2}" width="{:.2}" height="{:.2}"/>"#,
            width.max(0.0),
            height.max(0.0)
        );
    }

    /// Adds a filled rectangle with `name` as its tooltip.
    pub(crate) fn named_rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), name: &str) {
        let ((x, y), (width, height)) = (corner, size);
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{}</title></rect>"#,
            escaped(name)
        );
    }

    /// Adds a straight line with a CSS class.
    pub fn segment(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}"/>"#
        );
    }

    /// Adds a polyline: straight lines from point to point.
    pub fn polyline(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let _ = write!(self.body, r#"<polyline class="{class}" points=""#);
        for (x, y) in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>");
    }

    /// Adds a path with these SVG commands; nothing if there are none.
    pub(crate) fn path(&mut self, class: &str, commands: &str) {
        if !commands.is_empty() {
            let _ = write!(self.body, r#"<path class="{class}" d="{commands}"/>"#);
        }
    }

    /// Adds text at a position. The anchor is `start`, `middle` or `end`.
    pub fn text(&mut self, class: &str, anchor: &str, at: (f64, f64), text: &str) {
        let (x, y) = at;
        let _ = write!(
            self.body,
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{}</text>"#,
            escaped(text)
        );
    }

    /// Adds text that ends at a position and rises towards it at this angle in degrees.
    pub(crate) fn slanted_text(&mut self, class: &str, at: (f64, f64), degrees: f64, text: &str) {
        let (x, y) = at;
        let _ = write!(
            self.body,
            r#"<text class="{class}" text-anchor="end" transform="translate({x:.1} {y:.1}) rotate(-{degrees})">{}</text>"#,
            escaped(text)
        );
    }

    /// Returns the drawing as an SVG element. `label` describes it to readers who cannot see it.
    #[must_use]
    pub fn finish(self, label: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>"#,
            self.width,
            self.height,
            escaped(label),
            self.body
        )
    }

    /// Returns the drawing as the SVG element of a chart, with a title and a description for
    /// readers who cannot see it. A `style` makes it a standalone file.
    pub(crate) fn finish_chart(self, title: &str, description: &str, style: Option<&str>) -> String {
        let (width, height) = (self.width, libm::ceil(self.height));
        // HTML knows the namespace of SVG; a file must declare it.
        let file = match style {
            Some(_) => format!(r#" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}""#),
            None => String::new(),
        };
        let style = style.map_or_else(String::new, |style| {
            format!(r#"<style>{style}</style><rect class="ground" width="{width}" height="{height}"/>"#)
        });
        format!(
            r#"<svg{file} class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{}"><title>{}</title><desc>{}</desc>{style}{}</svg>"#,
            escaped(title),
            escaped(title),
            escaped(description),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text("a", "start", (1.0, 2.0), "</text><script>");
        let svg = drawing.finish("a \"label\"");
        assert!(!svg.contains("<script>") && svg.contains("&quot;label&quot;"), "{svg}");
    }
}

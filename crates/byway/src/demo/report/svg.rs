//! Drawing in SVG. Colours are classes, so that the page decides between light and dark.

use std::fmt::Write as _;

use super::words::escaped;

/// A drawing of this size, in pixels, which fills the width of its place on the page.
#[derive(Debug)]
pub(super) struct Drawing {
    body: String,
    width: f64,
    height: f64,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    pub(super) fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        // Writing to a string cannot fail.
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.2}" y="{y:.2}" width="{:.2}" height="{:.2}"/>"#,
            width.max(0.0),
            height.max(0.0)
        );
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}"/>"#
        );
    }

    pub(super) fn polyline(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let _ = write!(self.body, r#"<polyline class="{class}" points=""#);
        for (x, y) in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>");
    }

    /// Text whose anchor is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, anchor: &str, at: (f64, f64), text: &str) {
        let (x, y) = at;
        let _ = write!(
            self.body,
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{}</text>"#,
            escaped(text)
        );
    }

    /// The drawing; `label` is for those who cannot see it.
    pub(super) fn finish(self, label: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>"#,
            self.width,
            self.height,
            escaped(label),
            self.body
        )
    }
}

/// Maps values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) values: (f64, f64),
    pub(super) pixels: (f64, f64),
}

impl Scale {
    /// Where a value is; values beyond the ends are at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let ((low, high), (from, to)) = (self.values, self.pixels);
        from + (value.clamp(low, high) - low) / (high - low) * (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_map_ends_to_ends_and_keep_what_is_beyond() {
        let scale = Scale { values: (10.0, 20.0), pixels: (100.0, 0.0) };
        for (value, pixel) in [(10.0, 100.0), (15.0, 50.0), (20.0, 0.0), (30.0, 0.0), (0.0, 100.0)] {
            assert!((scale.at(value) - pixel).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn text_cannot_break_out() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text("a", "start", (1.0, 2.0), "</text><script>");
        let svg = drawing.finish("a \"label\"");
        assert!(!svg.contains("<script>") && svg.contains("&quot;label&quot;"), "{svg}");
    }
}

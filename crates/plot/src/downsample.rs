//! Reduction of a curve's points without a visible difference.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Position in the drawing as x and y, in pixels.
pub(crate) type Pixel = (f64, f64);

/// Reduces the points in each pixel column of a curve to the first, least, greatest and last. A
/// line through them covers the same pixels as one through all points.
pub(crate) fn columns(points: impl IntoIterator<Item = Pixel>) -> Vec<Pixel> {
    let mut reduced = Vec::new();
    let mut column: Option<Column> = None;
    for point in points {
        match &mut column {
            Some(column) if column.holds(point) => column.add(point),
            _ => {
                if let Some(full) = column.replace(Column::new(point)) {
                    full.append_to(&mut reduced);
                }
            }
        }
    }
    if let Some(last) = column {
        last.append_to(&mut reduced);
    }
    reduced
}

/// Returns the first point in each pixel, in the order of the points.
pub(crate) fn pixels(points: impl IntoIterator<Item = Pixel>) -> Vec<Pixel> {
    let mut filled = BTreeSet::new();
    points.into_iter().filter(|&(x, y)| filled.insert((cell(x), cell(y)))).collect()
}

#[allow(clippy::cast_possible_truncation, reason = "a pixel of a drawing")]
fn cell(position: f64) -> i64 {
    libm::floor(position) as i64
}

/// Points of a curve in one pixel column; least and greatest with their index among them.
struct Column {
    count: usize,
    first: Pixel,
    least: (usize, Pixel),
    greatest: (usize, Pixel),
    last: Pixel,
}

impl Column {
    const fn new(point: Pixel) -> Self {
        Self { count: 1, first: point, least: (0, point), greatest: (0, point), last: point }
    }

    fn holds(&self, point: Pixel) -> bool {
        cell(point.0) == cell(self.first.0)
    }

    fn add(&mut self, point: Pixel) {
        if point.1 < self.least.1.1 {
            self.least = (self.count, point);
        }
        if point.1 > self.greatest.1.1 {
            self.greatest = (self.count, point);
        }
        self.last = point;
        self.count += 1;
    }

    fn append_to(self, reduced: &mut Vec<Pixel>) {
        let mut points = [(0, self.first), self.least, self.greatest, (self.count - 1, self.last)];
        points.sort_by_key(|&(index, _)| index);
        let mut next = 0;
        for (index, point) in points {
            if index >= next {
                reduced.push(point);
                next = index + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn extremes_are_kept_in_their_order() {
        let points = (0..10_000_u32).map(|index| {
            let y = match index {
                5_123 => 99.0,
                5_150 => -7.0,
                _ => 50.0 + f64::from(index % 3),
            };
            (f64::from(index) / 100.0, y)
        });
        let reduced = columns(points);
        assert!(reduced.len() <= 400, "{}", reduced.len());
        let index = |y: f64| reduced.iter().position(|point| point.1.total_cmp(&y).is_eq());
        let (peak, dip) = (index(99.0), index(-7.0));
        assert!(peak.is_some() && dip.is_some() && peak < dip, "{peak:?} {dip:?}");
        assert_eq!((reduced.first(), reduced.last()), (Some(&(0.0, 50.0)), Some(&(99.99, 50.0))));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = vec![(0.2, 1.0), (0.4, 3.0), (0.6, 2.0), (7.0, 2.0), (3.0, 1.0)];
        assert_eq!(columns(points.clone()), points);
        assert_eq!(columns(Vec::new()), Vec::new());
    }

    #[test]
    fn points_in_one_pixel_are_drawn_once() {
        assert_eq!(pixels(vec![(0.1, 0.2), (0.9, 0.9), (1.1, 0.2)]), vec![(0.1, 0.2), (1.1, 0.2)]);
    }
}

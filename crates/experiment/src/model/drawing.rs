//! Plots of distributions and tables of words, for models.

use crate::findings::number;
use crate::result::{Curve, Kind, Plot, Scale, Table};

/// Number of points of a distribution's curve. Steps of half a percent are as fine as a plot shows.
const QUANTILES: u64 = 200;

/// Returns a distribution as a curve: the share of values of at most x, for x up to `x_max`.
pub(super) fn distribution(name: &str, mut values: Vec<f64>, x_max: f64) -> Curve {
    values.sort_unstable_by(f64::total_cmp);
    let point = |part: u64| {
        let share = number(part) / number(QUANTILES);
        byway_plan::quantile(&values, share).map(|value| [value, share])
    };
    let points = (0..=QUANTILES).filter_map(point).filter(|[value, _]| *value <= x_max).collect();
    Curve { name: name.to_owned(), points, is_reference: false }
}

/// Returns a published share at one x, as a reference curve: a dashed vertical line.
pub(super) fn published(name: &str, x: f64, share: f64) -> Curve {
    Curve { name: format!("published: {name}"), points: vec![[x, 0.0], [x, share]], is_reference: true }
}

/// Returns a plot of distributions, whose vertical axis is the share of paths.
pub(super) fn distributions(title: &str, caption: &str, x: &str, curves: Vec<Curve>) -> Plot {
    Plot {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: x.to_owned(),
        y: "share of paths".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        kind: Kind::Steps,
        curves,
        labels: Vec::new(),
    }
}

/// Returns a table with these column titles and rows.
pub(super) fn table(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows,
    }
}

/// Formats a share in percent; `None` is a dash.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Returns a curve of computed values, which is not a reference.
pub(super) fn curve(name: &str, points: Vec<[f64; 2]>) -> Curve {
    Curve { name: name.to_owned(), points, is_reference: false }
}

//! Plots of distributions and tables of words, as models need them.

use byway_wire::Service;

use crate::findings::number;
use crate::result::{Curve, Kind, Plot, Scale, Table};

/// Points of a distribution's curve: half a percent from one to the next, as fine as a plot shows.
const QUANTILES: u64 = 200;

/// A distribution: the share of values that are at most x, of x up to a limit.
pub(super) fn distribution(name: &str, mut values: Vec<f64>, x_max: f64) -> Curve {
    values.sort_unstable_by(f64::total_cmp);
    let point = |part: u64| {
        let share = number(part) / number(QUANTILES);
        byway_plan::quantile(&values, share).map(|value| [value, share])
    };
    let points = (0..=QUANTILES).filter_map(point).filter(|[value, _]| *value <= x_max).collect();
    Curve { name: name.to_owned(), points, is_reference: false }
}

/// A published share at one x, as a dashed line up to it.
pub(super) fn published(name: &str, x: f64, share: f64) -> Curve {
    Curve { name: format!("published: {name}"), points: vec![[x, 0.0], [x, share]], is_reference: true }
}

/// A plot of distributions.
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

/// A table with these columns.
pub(super) fn table(title: &str, columns: &[&str], lines: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        lines,
    }
}

/// A share in percent; a dash if there is none.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A measured curve.
pub(super) fn curve(name: &str, points: Vec<[f64; 2]>) -> Curve {
    Curve { name: name.to_owned(), points, is_reference: false }
}

/// What measures and curves call a service.
pub(super) const fn name(service: Service) -> &'static str {
    match service {
        Service::Internet => "internet",
        Service::Coding => "coding",
        Service::Caching => "caching",
        Service::Forwarding => "forwarding",
        Service::Both => "both",
    }
}

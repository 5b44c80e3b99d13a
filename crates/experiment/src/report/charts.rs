//! Conversion of plots into charts.

use byway_plot::{Axis, Chart, Curve, Size};

use crate::{Kind, Plot, Scale};

/// Most groups of bars, and most bars, of a chart with half the width of a page.
const HALF_GROUPS_MAX: usize = 9;
const HALF_BARS_MAX: usize = 24;

/// Renders a plot as a standalone SVG file. The same plot gives the same bytes on every machine.
///
/// An axis whose title begins with "share" shows percent. If the plot has no drawable number, the
/// file contains a note.
#[must_use]
pub fn svg(plot: &Plot) -> String {
    chart(plot).standalone(Size::FILE)
}

/// Renders a plot as a part of a page.
pub(super) fn inline(plot: &Plot) -> String {
    chart(plot).inline(if is_wide(plot) { Size::WHOLE } else { Size::HALF })
}

/// True if a plot needs the whole width of a page, because it has many bars.
pub(super) fn is_wide(plot: &Plot) -> bool {
    let groups = plot.curves.iter().map(|curve| curve.points.len()).fold(plot.labels.len(), usize::max);
    let bars = groups * plot.curves.iter().filter(|curve| !curve.is_reference).count();
    plot.kind == Kind::Bars && (groups > HALF_GROUPS_MAX || bars > HALF_BARS_MAX)
}

fn chart(plot: &Plot) -> Chart<'_> {
    Chart {
        title: &plot.title,
        description: &plot.caption,
        x: axis(&plot.x, plot.x_scale),
        y: axis(&plot.y, plot.y_scale),
        kind: kind(plot.kind),
        curves: plot.curves.iter().map(curve).collect(),
        labels: &plot.labels,
        marks: Vec::new(),
    }
}

fn curve(curve: &crate::Curve) -> Curve<'_> {
    Curve { name: &curve.name, points: &curve.points, is_reference: curve.is_reference }
}

fn axis(title: &str, scale: Scale) -> Axis<'_> {
    let axis = match scale {
        Scale::Linear => Axis::linear(title),
        Scale::Log => Axis::log(title),
    };
    let is_share = title.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("share"));
    if is_share { axis.as_share() } else { axis }
}

const fn kind(kind: Kind) -> byway_plot::Kind {
    match kind {
        Kind::Lines => byway_plot::Kind::Lines,
        Kind::Steps => byway_plot::Kind::Steps,
        Kind::Points => byway_plot::Kind::Points,
        Kind::Bars => byway_plot::Kind::Bars,
    }
}

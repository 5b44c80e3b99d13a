//! Charts as SVG.
//!
//! A [`Chart`] is borrowed data with two axes; it is drawn as a file of its own ([`Chart::standalone`]) or as a part of a
//! page ([`Chart::inline`]), whose style then holds [`STYLE`] once. The same chart gives the same bytes on every machine.
//! Light and dark follow what the reader prefers; print is always light. Where no number can be drawn, the chart says so.
//!
//! Text is measured by estimates that err on the wide side, so that it neither overlaps nor is cut whatever font there
//! is. Curves are told apart by colour and by the form of their marks; those that are no measurement are dashed.
//!
//! ```
//! use byway_plot::{Axis, Chart, Curve, Kind, Size};
//!
//! let points = [[20.0, 0.0], [40.0, 0.5], [60.0, 1.0]];
//! let chart = Chart {
//!     title: "Repair times",
//!     description: "How long after it was due a lost packet came.",
//!     x: Axis::linear("repair time, ms"),
//!     y: Axis::linear("share of repairs").as_share(),
//!     kind: Kind::Steps,
//!     curves: vec![Curve { name: "coding", points: &points, is_reference: false }],
//!     labels: &[],
//!     marks: vec![],
//! };
//! assert!(chart.standalone(Size::FILE).starts_with("<svg "));
//! ```
//!
//! What pages draw that is no chart, they draw with a [`Drawing`], and [`PAGE_STYLE`] is the look that pages share.
#![no_std]

extern crate alloc;

mod axes;
mod bars;
mod chart;
mod curves;
mod data;
mod drawing;
mod key;
mod layout;
mod marker;
mod number;
mod range;
mod render;
mod ruler;
mod text;
mod thin;

pub use chart::{Axis, Chart, Curve, Direction, Kind, Mark, Scale, Size};
pub use drawing::Drawing;
pub use number::grouped;
pub use ruler::Ruler;
pub use text::escaped;

/// The style of charts, for pages that hold them [inline](Chart::inline).
pub const STYLE: &str = include_str!("chart.css");

/// The look of pages with charts: colours, type, sections and tables.
pub const PAGE_STYLE: &str = include_str!("page.css");

//! Charts as SVG.
//!
//! A [`Chart`] is borrowed data with two axes. It is drawn as a standalone file
//! ([`Chart::standalone`]) or as a part of a page ([`Chart::inline`]), whose style must contain
//! [`STYLE`] once. The same chart gives the same bytes on every machine. Colours follow the
//! reader's preference for light or dark; print is always light. A chart without drawable numbers
//! contains a note.
//!
//! Text widths are estimated for the widest usual font, so text neither overlaps nor is cut with
//! other fonts. Curves differ in colour and in the shape of their markers; those that are not
//! measurements are dashed.
//!
//! ```
//! use byway_plot::{Axis, Chart, Curve, Kind, Size};
//!
//! let points = [[20.0, 0.0], [40.0, 0.5], [60.0, 1.0]];
//! let chart = Chart {
//!     title: "Repair times",
//!     description: "Time from the due time of a lost packet to its repair.",
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
//! Pages use a [`Drawing`] for other graphics, and share the style [`PAGE_STYLE`].
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `axes` | heading, axes, grid and marks |
//! | `axis_scale` | mapping from values to pixels |
//! | `bars` | bars in groups |
//! | `chart` | data of a chart |
//! | `curves` | lines, steps and points |
//! | `data` | drawable numbers and their ranges |
//! | `downsample` | fewer points, without a visible difference |
//! | `drawing` | SVG elements |
//! | `layout` | positions of all parts |
//! | `legend` | names of curves |
//! | `marker` | colours, dashes and marker shapes |
//! | `number` | formatting of numbers |
//! | `range` | ranges and ticks of axes |
//! | `render` | charts as files and parts of pages |
//! | `text` | escaping, measuring and wrapping of text |
#![no_std]

extern crate alloc;

mod axes;
mod axis_scale;
mod bars;
mod chart;
mod curves;
mod data;
mod downsample;
mod drawing;
mod layout;
mod legend;
mod marker;
mod number;
mod range;
mod render;
mod text;

pub use axis_scale::AxisScale;
pub use chart::{Axis, Chart, Curve, Direction, Kind, Mark, Scale, Size};
pub use drawing::Drawing;
pub use number::grouped;
pub use text::escaped;

/// Style of charts, for pages that contain them [inline](Chart::inline).
pub const STYLE: &str = include_str!("chart.css");

/// Style of pages with charts: colours, type, sections and tables.
pub const PAGE_STYLE: &str = include_str!("page.css");

//! What people type into files: quantities with units, and problems that name the file, the line and the key.
//!
//! ```
//! use std::path::Path;
//!
//! use byway_typed::{KeyPath, Source, TypedRate};
//!
//! let source = Source::new(Path::new("byway.toml"), "[forward]\nrate = \"4 Mbit/s\"\n".to_owned());
//! let rate: TypedRate = "4 Mbit/s".parse()?;
//! assert_eq!(rate.0.bits_per_second(), 4_000_000);
//! let problem = source.problem(&KeyPath::of("forward").key("rate"), "is more than the line has");
//! assert_eq!(problem.to_string(), "byway.toml:2: forward.rate: is more than the line has");
//! # Ok::<(), byway_typed::QuantityError>(())
//! ```

mod drawn;
mod ports;
mod problem;
mod quantities;
pub mod reference;

pub use drawn::{Drawn, Quantity};
pub use ports::{Protocol, TypedPorts, range};
pub use problem::{KeyPath, Problem, Source};
pub use quantities::{
    QuantityError, TypedBytes, TypedDuration, TypedRate, TypedRatio, TypedShape, TypedShare,
};

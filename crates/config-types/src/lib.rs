//! Types of settings in files: quantities with units, and problems with the file, the line and the
//! key.
//!
//! ```
//! use std::path::Path;
//!
//! use byway_config_types::{KeyPath, RateSetting, Source};
//!
//! let text = "[forward]\nrate = \"4 Mbit/s\"\n";
//! let source = Source::new(Path::new("byway.toml"), text.to_owned());
//! let rate: RateSetting = "4 Mbit/s".parse()?;
//! assert_eq!(rate.0.bits_per_second(), 4_000_000);
//! let key = KeyPath::of("forward").key("rate");
//! let problem = source.problem(&key, "exceeds the rate of the link");
//! assert_eq!(problem.to_string(), "byway.toml:2: forward.rate: exceeds the rate of the link");
//! # Ok::<(), byway_config_types::QuantityError>(())
//! ```
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `ports` | transport protocols and port ranges |
//! | `price_sheets` | validated prices of a network's relays |
//! | `prices` | prices of a relay as typed |
//! | `problem` | problems with their locations in a file |
//! | `quantities` | rates, times, bytes, shares, ratios and shapes of repair packets |
//! | `redundancy` | rule for the number of repair packets |
//! | `reference` | reference pages from the settings types |
//! | `sampled` | values drawn at random from a range or a list |

mod ports;
mod price_sheets;
mod prices;
mod problem;
mod quantities;
mod redundancy;
pub mod reference;
mod sampled;

pub use ports::{PortsSetting, Protocol, range};
pub use price_sheets::PriceSheets;
pub use prices::PricesSetting;
pub use problem::{KeyPath, Problem, Source};
pub use quantities::{
    BytesSetting, DurationSetting, QuantityError, RateSetting, RatioSetting, ShapeSetting, ShareSetting,
};
pub use redundancy::RedundancySetting;
pub use sampled::{Quantity, Sampled};

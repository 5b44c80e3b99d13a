//! Agents and relays in the world: the production state machines behind [`Host`](crate::Host), and set-ups of them.

mod books;
pub mod cast;
mod chain;
mod checksums;
mod host;
mod pairs;

pub use books::Books;
pub use chain::{Chain, ChainSettings, Stage};
pub use checksums::Checksums;
pub use host::{Delivered, Offered, OverlayHost};
pub use pairs::{Pairs, PairsRun, PairsWorld, Sending};

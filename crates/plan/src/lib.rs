//! What services would do for a flow: how long deliveries take, what they cost, and which service is the cheapest
//! competent one.
//!
//! A call from Sydney to Frankfurt, whose direct path loses 1 %, between relays in regions of a public cloud:
//!
//! ```
//! use byway_plan::{Criteria, Delays, FlowTerms, PriceBook, Reason, World, choose};
//! use byway_units::{Duration, Probability};
//! use byway_wire::Service;
//!
//! let world = World::built_in();
//! let delays = Delays {
//!     sender_to_ingress: Duration::from_millis(8),
//!     ingress_to_egress: Duration::from_millis(123),
//!     egress_to_receiver: Duration::from_millis(7),
//!     direct: Duration::from_millis(140),
//!     cooperating: Duration::from_millis(20),
//!     detection: Duration::from_millis(10),
//!     encoding: Duration::from_millis(10),
//! };
//! assert_eq!(delays.delivery(Service::Coding), Some(Duration::from_millis(204)));
//!
//! let call = FlowTerms::published_call(Probability::new(0.01)?);
//! let clouds = PriceBook::hyperscale(&world);
//! let prices = clouds.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("the book has both");
//! let choice = choose(&call, &prices, Some(&delays), &Criteria::default());
//! assert_eq!((choice.service, choice.reason), (Service::Coding, Reason::Cheapest));
//! assert_eq!(choice.cost().ingress_relay.outgoing.to_string(), "$0.01323");
//!
//! // Within 200 ms, coding is too slow.
//! let criteria = Criteria { budget: Some(Duration::from_millis(200)), ..Criteria::default() };
//! assert_eq!(choose(&call, &prices, Some(&delays), &criteria).service, Service::Caching);
//!
//! // Where relays' ports may be used as much as they carry, nothing is saved by sending less.
//! let ports = PriceBook::flat_rate(&world);
//! let prices = ports.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("the book has both");
//! let choice = choose(&call, &prices, Some(&delays), &Criteria::default());
//! assert_eq!((choice.service, choice.reason), (Service::Forwarding, Reason::EgressNearlyFree));
//! # Ok::<(), byway_units::ProbabilityError>(())
//! ```
//!
//! # Where to start
//! - [`Delays`] predicts when a packet is delivered by each service if its direct copy is lost.
//! - [`cost`] says what a service costs for a flow ([`FlowTerms`]) at given [`Prices`], relay by relay.
//! - [`choose`] puts both together, and gives a reason.
//! - [`PriceBook`] has prices by region: of hyperscale clouds, at a flat rate, with a quota, or from public tables.
//! - [`World`] has the regions, cities and delays that come with this crate; [`datasets`] reads larger tables.
//! - [`feasibility`] and [`cost_table`] are studies of all paths and of all pairs of regions.
//!
//! # What it takes for granted
//! Losses are independent, of packets and of flows. Relays and the paths between them lose nothing. Storage is free. Costs
//! are for an hour of a flow that always sends. Delays are constant: use the percentile that the budget is for.
//!
//! # What this crate leaves to others
//! Files, measurements, and changing a flow's service when measurements change.
#![no_std]

extern crate alloc;

mod book;
mod choice;
mod cost;
mod cost_table;
pub mod datasets;
mod delay;
mod feasibility;
mod flow;
mod last_mile;
mod places;
mod price;
mod random;
mod table;

pub use book::{PriceBook, RegionPrices};
pub use choice::{Candidate, Choice, Criteria, Reason, Rejection, choose};
pub use cost::{
    CODING_COMPUTE_RATIO, Cost, EndpointCost, FLOWS_PER_THREAD, Prices, RelayCost, RelayPrices, break_even,
    cost,
};
pub use cost_table::{CostRow, LOSS_RATES, Threshold, cost_table, thresholds};
pub use delay::Delays;
pub use feasibility::{FeasibilitySetup, PathDelays, StudyPath, feasibility, quantile};
pub use flow::{FlowTerms, HOUR, IP_AND_UDP_BYTES, Messages, NACK_BYTES, REQUEST_BYTES, Traffic};
pub use last_mile::LastMile;
pub use places::{City, DelayTable, Position, Region, SAME_PLACE, World, cities, regions};
pub use price::{GIGABYTE, MONTH, PricePerGigabyte, Tariff, Tier};
pub use table::{COLUMNS_MAX, ROWS_MAX, Row, Table, TableError};

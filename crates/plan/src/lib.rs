//! Planner: predicts delivery times and costs of services for a flow, and chooses the cheapest
//! competent one.
//!
//! The example is a call from Sydney to Frankfurt, whose direct path loses 1 %, between relays in
//! regions of a public cloud:
//!
//! ```
//! use byway_plan::{Criteria, Delays, FlowTerms, PriceList, Reason, World, choose};
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
//!     detection_afar: Duration::from_millis(10),
//!     encoding: Duration::from_millis(10),
//! };
//! assert_eq!(delays.delivery(Service::Coding), Some(Duration::from_millis(204)));
//!
//! let call = FlowTerms::published_call(Probability::new(0.01)?);
//! let clouds = PriceList::hyperscale(&world);
//! let prices = clouds.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("both are listed");
//! let choice = choose(&call, &prices, Some(&delays), &Criteria::default());
//! assert_eq!((choice.service, choice.reason), (Service::Coding, Reason::Cheapest));
//! assert_eq!(choice.cost().ingress_relay.outgoing.to_string(), "$0.01323");
//!
//! // Within 200 ms, coding is too slow.
//! let criteria = Criteria { budget: Some(Duration::from_millis(200)), ..Criteria::default() };
//! assert_eq!(choose(&call, &prices, Some(&delays), &criteria).service, Service::Caching);
//!
//! // With a flat rate for relays' ports, sending less saves nothing.
//! let ports = PriceList::flat_rate(&world);
//! let prices = ports.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("both are listed");
//! let choice = choose(&call, &prices, Some(&delays), &Criteria::default());
//! assert_eq!((choice.service, choice.reason), (Service::Forwarding, Reason::EgressNearlyFree));
//! # Ok::<(), byway_units::ProbabilityError>(())
//! ```
//!
//! # Where to start
//! - [`Delays`] predicts the delivery time of a packet by each service if its direct copy is lost.
//! - [`cost`] returns the cost of a service for a flow ([`FlowTerms`]) at given [`Prices`], relay
//!   by relay.
//! - [`choose`] combines both, and gives a reason.
//! - [`Selector`] chooses again while the flow runs, and changes the service seldom.
//! - [`RouteTable`] plans routes over up to three relays, where the direct path is too slow; a
//!   [`RouteSelector`] changes a flow's path while it runs.
//! - [`PriceSheet`] has the prices of one relay as its provider bills them, and returns the
//!   [`Bill`] for a month's usage.
//! - [`PriceList`] has prices by region: of hyperscale clouds, at a flat rate, with a quota, or
//!   from public tables.
//! - [`World`] has the regions, cities and delays of this crate; [`datasets`] reads larger tables.
//! - [`feasibility`] and [`cost_table`] are studies of all paths and of all pairs of regions.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `bill` | bill of a relay for a month |
//! | `choice` | choice of a service |
//! | `coding_prediction` | batches that a flow would have with coding |
//! | `cost` | cost of a service for a flow |
//! | `cost_table` | costs between all regions of a price list |
//! | `currency` | currencies of prices |
//! | [`datasets`] | readers of larger public tables |
//! | `decision_log` | latest evaluation and last changes of a service |
//! | `delay` | delivery times |
//! | `feasibility` | study of delays between endpoints |
//! | `flow` | traffic of a flow |
//! | `last_mile` | delays of endpoints to their nearest relay |
//! | `locations` | regions, cities and the delays among them |
//! | `month` | calendar months and five-minute samples |
//! | `path_usage` | bytes of a flow on each segment of its relay path |
//! | `prediction` | predictions of what a service does for a flow |
//! | `price` | prices and tariffs |
//! | `price_list` | prices of a market by region |
//! | `price_sheet` | prices of one relay |
//! | `price_table` | prices of the next bytes of relays |
//! | `random` | pseudo-random numbers |
//! | `relay_delays` | delays of relays to each other |
//! | `relay_loss` | loss of a flow's relay path |
//! | `route` | routes over up to three relays |
//! | `route_selection` | selection of a flow's path while it runs: direct, or a route |
//! | `route_trust` | routes and relays that failed, or were slower than planned |
//! | `selection` | selection of a flow's service while it runs |
//! | `table` | parser of tables |
//! | `what_if` | circumstances that would change a choice |
//!
//! # Assumptions
//! Losses are independent, of packets and of flows. Relays and the paths between them lose nothing,
//! apart from [`FlowTerms::relay_loss`] of flows that relays alone forward. Storage is free. Costs
//! are for an hour of a flow that always sends. Delays are constant: use the percentile that the
//! budget is for.
//!
//! # What this crate leaves to others
//! Files and measurements.
#![no_std]

extern crate alloc;

mod bill;
mod choice;
mod coding_prediction;
mod cost;
mod cost_table;
mod currency;
pub mod datasets;
mod decision_log;
mod delay;
mod feasibility;
mod flow;
mod last_mile;
mod locations;
mod month;
mod path_usage;
mod prediction;
mod price;
mod price_list;
mod price_sheet;
mod price_table;
mod random;
mod relay_delays;
mod relay_loss;
mod route;
mod route_selection;
mod route_trust;
mod selection;
mod table;
mod what_if;

pub use bill::{Bill, BillItem, DailyPrices, MonthUsage, UsageTotals};
pub use choice::{Candidate, Choice, Criteria, Reason, Rejection, choose};
pub use coding_prediction::ACTIVITY_REPORT_INTERVAL;
pub use cost::{
    CODING_COMPUTE_RATIO, Cost, EndpointCost, FLOWS_PER_THREAD, Prices, RelayCost, RelayPrices, break_even,
    cost, relay_bytes,
};
pub use cost_table::{CostRow, LOSS_RATES, Threshold, cost_table, thresholds};
pub use currency::{Currency, UnknownCurrency};
pub use decision_log::{CHANGES_KEPT, DecisionLog, Evaluation, PriceBasis, ServiceChange};
pub use delay::Delays;
pub use feasibility::{FeasibilitySetup, PathDelays, StudyPath, feasibility, quantile};
pub use flow::{FlowTerms, HOUR, IP_AND_UDP_BYTES, MessageOverhead, NACK_BYTES, REQUEST_BYTES, Traffic};
pub use last_mile::LastMile;
pub use locations::{City, DelayTable, Position, Region, SAME_CITY_DELAY, World, cities, regions};
pub use month::{Month, SAMPLE_SECONDS, SAMPLES_OF_MONTH_MAX};
pub use path_usage::{PathUsage, UsageTerms};
pub use prediction::{PredictedTimes, Prediction, PredictionTerms, repairs_within};
pub use price::{GIGABYTE, MONTH, PricePerGigabyte, Tariff, Tier, TierError, TierRange};
pub use price_list::{PriceList, RegionPrices};
pub use price_sheet::{Destination, DestinationPrice, MarginalPrices, PriceSheet, PriceSheetError};
pub use price_table::{NextBytePrices, OneRelayPrices, RelayPriceTable, SegmentPrices};
pub use relay_delays::{ROUTE_RELAYS_MAX, RelayDelays, TooManyRelaysError};
pub use route::{
    AccessDelay, PlannedRoute, ROUTE_LENGTH_MAX, Reach, Route, RouteQuery, RouteTable, delay_of,
    fastest_of_all,
};
pub use route_selection::{
    LatencyTerms, PathDelay, PathObservation, PathReason, PathSelection, PlanRoute, RETURN_AFTER,
    RouteSelector,
};
pub use route_trust::{ROUTE_BARRED_FOR, RouteTrust};
pub use selection::{
    CHANGE_INTERVAL, DOWNGRADE_AFTER, FAILED_FOR, Observation, Selection, Selector, UPGRADE_REMEMBERED,
};
pub use table::{COLUMNS_MAX, ROWS_MAX, Row, Table, TableError};
pub use what_if::{WhatIf, what_if};

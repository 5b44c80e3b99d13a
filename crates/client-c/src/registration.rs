//! Registrations of flows in the C interface.

use byway_client::{Duplication, RedundancyMode, Service, ServiceSelector, Traffic};
use byway_units::{Duration, Rate};

use crate::error::{Error, ErrorDetail};

/// The cheapest service that repairs the losses within the latency budget, selected again and
/// again.
pub const BYWAY_SERVICE_AUTOMATIC: i32 = 0;
/// Service without relays: the direct path alone.
pub const BYWAY_SERVICE_INTERNET: i32 = 1;
/// Repair packets, in-stream and cross-stream.
pub const BYWAY_SERVICE_CODING: i32 = 2;
/// Repair from copies in a relay's cache near the receiver.
pub const BYWAY_SERVICE_CACHING: i32 = 3;
/// Delivery through relays, without the direct path.
pub const BYWAY_SERVICE_FORWARDING: i32 = 4;
/// Delivery through relays and on the direct path.
pub const BYWAY_SERVICE_BOTH: i32 = 5;
/// Repair from copies that wait near the sender until a packet is missing.
pub const BYWAY_SERVICE_PULL: i32 = 6;
/// Repair by the sender, through relays, when a packet is missing.
pub const BYWAY_SERVICE_RETRANSMISSION: i32 = 7;

/// Datagrams that may be delivered out of order.
pub const BYWAY_TRAFFIC_DATAGRAMS: i32 = 0;
/// Traffic of TCP or QUIC, which controls congestion itself.
pub const BYWAY_TRAFFIC_CONGESTION_CONTROLLED: i32 = 1;
/// Datagrams and congestion-controlled traffic, which the agent cannot distinguish.
pub const BYWAY_TRAFFIC_MIXTURE: i32 = 2;

/// All packets are copied to the relay. Of congestion-controlled traffic, only marked packets are
/// copied.
pub const BYWAY_COPIES_USUAL: i32 = 0;
/// All packets of the flow are copied to the relay.
pub const BYWAY_COPIES_ALL: i32 = 1;
/// Only marked packets are copied.
pub const BYWAY_COPIES_MARKED: i32 = 2;
/// All packets go to the relay, which forwards them. The direct path is not used.
pub const BYWAY_COPIES_BY_RELAY: i32 = 3;
/// Sender FEC: the relay gets repair packets instead of copies.
pub const BYWAY_COPIES_SENDER_FEC: i32 = 4;

/// As many repair packets as the losses of the latest half minute require, and none without losses.
pub const BYWAY_REDUNDANCY_ADAPTIVE: i32 = 1;
/// The same number of repair packets for each batch and block.
pub const BYWAY_REDUNDANCY_FIXED: i32 = 0;

/// An application's request for a pair of flows. All fields zero are the defaults of
/// byway_client_register.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Registration {
    /// Latency budget from sending to delivery in microseconds, 1,000 to 10,000,000; 0 means
    /// 250,000.
    pub latency_budget_us: u64,
    /// Upper bound of each direction's rate in bits per second, at least 1,000; 0 means 4,000,000.
    pub rate_bps: u64,
    /// Service of the flow that this end sends, or its automatic selection: BYWAY_SERVICE_...
    pub service: i32,
    /// Kind of traffic: BYWAY_TRAFFIC_...
    pub traffic: i32,
    /// Packets that are copied to the relay: BYWAY_COPIES_...
    pub copies: i32,
    /// Rule for the number of repair packets, if the service is coding: BYWAY_REDUNDANCY_...
    pub redundancy: i32,
    /// 1 if relays may code the flows with those of other tenants that agree as well, if the
    /// service is coding; otherwise 0. The number of repair packets is then fixed.
    pub coded_with_other_tenants: i32,
}

impl Registration {
    pub(crate) fn to_registration(self) -> Result<byway_client::Registration, ErrorDetail> {
        let usual = byway_client::Registration::default();
        let out_of_range =
            |what: &str| ErrorDetail::about(Error::OutOfRange, format!("{what} is out of range"));
        let Self { latency_budget_us, rate_bps, service, traffic, copies, redundancy, .. } = self;
        let service = match service {
            BYWAY_SERVICE_AUTOMATIC => ServiceSelector::Automatic,
            BYWAY_SERVICE_INTERNET => ServiceSelector::Service(Service::Internet),
            BYWAY_SERVICE_CODING => ServiceSelector::Service(Service::Coding),
            BYWAY_SERVICE_CACHING => ServiceSelector::Service(Service::Caching),
            BYWAY_SERVICE_FORWARDING => ServiceSelector::Service(Service::Forwarding),
            BYWAY_SERVICE_BOTH => ServiceSelector::Service(Service::Both),
            BYWAY_SERVICE_PULL => ServiceSelector::Service(Service::Pull),
            BYWAY_SERVICE_RETRANSMISSION => ServiceSelector::Service(Service::Retransmission),
            _ => return Err(out_of_range("the service")),
        };
        let budget = latency_budget_us.checked_mul(1_000).map(Duration::from_nanos);
        let budget = budget.ok_or_else(|| out_of_range("the latency budget"))?;
        Ok(byway_client::Registration {
            latency_budget: if latency_budget_us > 0 { budget } else { usual.latency_budget },
            choice: service,
            rates: usual.rates,
            redundancy: match redundancy {
                BYWAY_REDUNDANCY_ADAPTIVE => RedundancyMode::Adaptive,
                BYWAY_REDUNDANCY_FIXED => RedundancyMode::Fixed,
                _ => return Err(out_of_range("the redundancy")),
            },
            coded_with_other_tenants: match self.coded_with_other_tenants {
                0 => false,
                1 => true,
                _ => return Err(out_of_range("coded_with_other_tenants")),
            },
            rate: if rate_bps > 0 { Rate::from_bits_per_second(rate_bps) } else { usual.rate },
            traffic: match traffic {
                BYWAY_TRAFFIC_DATAGRAMS => Traffic::Datagrams,
                BYWAY_TRAFFIC_CONGESTION_CONTROLLED => Traffic::CongestionControlled,
                BYWAY_TRAFFIC_MIXTURE => Traffic::Mixture,
                _ => return Err(out_of_range("the traffic")),
            },
            duplication: match copies {
                BYWAY_COPIES_USUAL => Duplication::Usual,
                BYWAY_COPIES_ALL => Duplication::All,
                BYWAY_COPIES_MARKED => Duplication::Marked,
                BYWAY_COPIES_BY_RELAY => Duplication::ByRelay,
                BYWAY_COPIES_SENDER_FEC => Duplication::SenderFec,
                _ => return Err(out_of_range("the copies")),
            },
        })
    }
}

/// Returns the constant of the C interface for a service.
pub(crate) const fn number_of(service: Service) -> i32 {
    match service {
        Service::Internet => BYWAY_SERVICE_INTERNET,
        Service::Coding => BYWAY_SERVICE_CODING,
        Service::Caching => BYWAY_SERVICE_CACHING,
        Service::Forwarding => BYWAY_SERVICE_FORWARDING,
        Service::Both => BYWAY_SERVICE_BOTH,
        Service::Pull => BYWAY_SERVICE_PULL,
        Service::Retransmission => BYWAY_SERVICE_RETRANSMISSION,
    }
}

//! What an application asks for, and what it is given, as C has it.

use std::ffi::c_char;

use byway_client::{Choice, Duplication, Service, Traffic};
use byway_units::{Duration, Rate};

use crate::error::{Error, Problem};
use crate::memory::fitting;

/// The cheapest service whose deliveries are expected within the latency budget.
pub const BYWAY_SERVICE_BY_BUDGET: i32 = 0;
/// The direct path alone.
pub const BYWAY_SERVICE_INTERNET: i32 = 1;
/// Repair packets.
pub const BYWAY_SERVICE_CODING: i32 = 2;
/// Repair from copies near the receiver.
pub const BYWAY_SERVICE_CACHING: i32 = 3;
/// Through relays, and not directly.
pub const BYWAY_SERVICE_FORWARDING: i32 = 4;
/// Through relays and directly.
pub const BYWAY_SERVICE_BOTH: i32 = 5;

/// Datagrams whose order does not matter.
pub const BYWAY_TRAFFIC_DATAGRAMS: i32 = 0;
/// TCP or QUIC.
pub const BYWAY_TRAFFIC_CONGESTION_CONTROLLED: i32 = 1;
/// Both, and nobody can tell which packets are which.
pub const BYWAY_TRAFFIC_MIXTURE: i32 = 2;

/// All packets are copied to the relay; of congestion-controlled traffic, those that are marked.
pub const BYWAY_COPIES_USUAL: i32 = 0;
/// All packets are copied.
pub const BYWAY_COPIES_ALL: i32 = 1;
/// Packets are copied that are marked.
pub const BYWAY_COPIES_MARKED: i32 = 2;
/// The relay gets the packets, and sends them on; nothing leaves by the direct path.
pub const BYWAY_COPIES_BY_RELAY: i32 = 3;
/// The relay gets repair packets instead of copies.
pub const BYWAY_COPIES_OWN_REPAIRS: i32 = 4;

/// What an application asks for. With all fields zero, it is what byway_client_register does without one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Registration {
    /// From sending to delivery in microseconds, 1,000 to 10,000,000; 0 if none is stated.
    pub latency_budget_us: u64,
    /// What each direction sends at most in bits per second, from 1,000 on; 0 for 4,000,000.
    pub rate_bps: u64,
    /// BYWAY_SERVICE_...
    pub service: i32,
    /// BYWAY_TRAFFIC_...
    pub traffic: i32,
    /// BYWAY_COPIES_...
    pub copies: i32,
    /// Whether copies wait for the first losses: 0 or 1.
    pub standby: i32,
}

/// What a registration leads to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Registered {
    /// The flows: one to the peer, and one back.
    pub flow: u64,
    /// Their service: BYWAY_SERVICE_...
    pub service: i32,
    /// The service and the reason for it, in words.
    pub reason: [c_char; 256],
}

impl Registration {
    pub(crate) fn meaning(&self) -> Result<byway_client::Registration, Problem> {
        let usual = byway_client::Registration::default();
        let out_of_range =
            |what: &str| Problem::about(Error::OutOfRange, format!("{what} is none that there is"));
        let Self { latency_budget_us, rate_bps, service, traffic, copies, standby } = *self;
        let service = match service {
            BYWAY_SERVICE_BY_BUDGET => Choice::ByBudget,
            BYWAY_SERVICE_INTERNET => Choice::Service(Service::Internet),
            BYWAY_SERVICE_CODING => Choice::Service(Service::Coding),
            BYWAY_SERVICE_CACHING => Choice::Service(Service::Caching),
            BYWAY_SERVICE_FORWARDING => Choice::Service(Service::Forwarding),
            BYWAY_SERVICE_BOTH => Choice::Service(Service::Both),
            _ => return Err(out_of_range("the service")),
        };
        let budget = latency_budget_us.checked_mul(1_000).map(Duration::from_nanos);
        let budget = budget.ok_or_else(|| out_of_range("the latency budget"))?;
        Ok(byway_client::Registration {
            latency_budget: (latency_budget_us > 0).then_some(budget),
            choice: service,
            rates: usual.rates,
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
                BYWAY_COPIES_OWN_REPAIRS => Duplication::OwnRepairs,
                _ => return Err(out_of_range("the copies")),
            },
            standby: match standby {
                0 => false,
                1 => true,
                _ => return Err(out_of_range("standby")),
            },
        })
    }
}

/// The number of a service.
pub(crate) const fn number_of(service: Service) -> i32 {
    match service {
        Service::Internet => BYWAY_SERVICE_INTERNET,
        Service::Coding => BYWAY_SERVICE_CODING,
        Service::Caching => BYWAY_SERVICE_CACHING,
        Service::Forwarding => BYWAY_SERVICE_FORWARDING,
        Service::Both => BYWAY_SERVICE_BOTH,
    }
}

impl From<&byway_client::Registered> for Registered {
    fn from(registered: &byway_client::Registered) -> Self {
        let mut reason = [0; 256];
        let said = registered.chosen.to_string();
        for (place, byte) in reason.iter_mut().zip(fitting(&said, 255).bytes()) {
            *place = c_char::from_ne_bytes([byte]);
        }
        Self { flow: registered.flow.number(), service: number_of(registered.chosen.service), reason }
    }
}

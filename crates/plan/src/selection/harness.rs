//! Flow of the tests, whose receiver reports once a second.

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_units::{Duration, Probability, Time};
use byway_wire::{BlockShape, Service, Services};

use super::{Observation, Selector};
use crate::choice::Criteria;
use crate::cost::Prices;
use crate::delay::Delays;
use crate::flow::{FlowTerms, MessageOverhead};

/// Services of a flow without coding peers.
pub(super) const ALL: Services = Services::NONE
    .with(Service::Retransmission)
    .with(Service::Pull)
    .with(Service::Caching)
    .with(Service::Both);

/// A flow of 50 packets a second between two agents that are 50 ms apart and 10 ms from their
/// relays.
pub(super) struct Harness {
    pub(super) selector: Selector,
    pub(super) service: Service,
    pub(super) observation: Observation,
    pub(super) now: Time,
    pub(super) changes: Vec<(Time, Service)>,
    /// Services that both ends support.
    pub(super) allowed: Services,
    /// True for the services whose repairs arrive in time.
    pub(super) repairs: Box<dyn Fn(Service) -> bool>,
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn delays(direct: u64) -> Delays {
    Delays { detection: ms(25), ..Delays::from_measured(ms(direct), ms(10), false) }
}

fn criteria(budget: u64) -> Criteria {
    Criteria {
        budget: Some(ms(budget)),
        repaired_min: Probability::ONE,
        residual_max: Probability::new(0.001).expect("it is a share"),
        indifference: Probability::ZERO,
        ..Criteria::default()
    }
}

impl Harness {
    /// Returns a harness of a flow with this latency budget, in milliseconds, which begins with
    /// caching. Repairs are as fast as predicted.
    pub(super) fn new(budget: u64) -> Self {
        let flow = FlowTerms {
            cross_stream: BlockShape::new(8, 2),
            messages: MessageOverhead::Counted,
            ..FlowTerms::published_call(Probability::ZERO)
        };
        Self {
            selector: Selector::new(flow, Prices::nominal(), criteria(budget)),
            service: Service::Caching,
            observation: Observation { path: Some(0), delays: Some(delays(50)), ..Observation::default() },
            now: Time::START,
            changes: Vec::new(),
            allowed: ALL,
            repairs: Box::new(move |service| {
                delays(50).delivery(service).is_some_and(|delivery| delivery <= ms(budget))
            }),
        }
    }

    /// Lets the flow send for `seconds`, with this number of losses in each.
    pub(super) fn run(&mut self, seconds: u64, lost: u64) {
        for _ in 0..seconds {
            self.now += ms(1_000);
            self.observation.direct += 50 - lost;
            if self.service == Service::Both {
                self.observation.forwarded += lost;
                self.observation.covered += lost;
            } else {
                self.observation.lost += lost;
                self.observation.repaired += if (self.repairs)(self.service) { lost } else { 0 };
            }
            self.select();
        }
    }

    /// Lets the application pause.
    pub(super) fn pause(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += ms(1_000);
            self.select();
        }
    }

    pub(super) fn select(&mut self) {
        if let Some(change) = self.selector.select(&self.observation, (self.service, self.allowed), self.now)
        {
            assert_ne!(change.service, self.service);
            self.selector.on_changed(change, self.now);
            self.service = change.service;
            self.changes.push((self.now, change.service));
        }
    }

    /// Returns the services since the begin, the first one included.
    pub(super) fn services(&self) -> Vec<Service> {
        self.changes.iter().map(|(_, service)| *service).collect()
    }
}

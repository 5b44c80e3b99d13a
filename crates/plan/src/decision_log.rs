//! Decisions about a flow's service, for people: the latest evaluation of all services, and the
//! last changes.

use alloc::collections::VecDeque;
use core::fmt;

use byway_units::Time;
use byway_wire::Service;

use crate::choice::{Choice, Reason};
use crate::flow::FlowTerms;

/// Most changes that a log keeps: at the shortest interval, those of a minute and more.
pub const CHANGES_KEPT: usize = 16;

/// Prices by which services are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriceBasis {
    /// Nominal prices, because the prices of a relay in use are not known.
    #[default]
    Nominal,
    /// Prices of the next bytes of both relays in use.
    Listed,
}

impl fmt::Display for PriceBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nominal => "nominal prices",
            Self::Listed => "list prices",
        })
    }
}

/// Change of a flow's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// Time of the change.
    pub at: Time,
    /// Service before.
    pub from: Service,
    /// Service after.
    pub to: Service,
    /// Reason for the choice.
    pub reason: Reason,
}

/// Latest evaluation of all services for a flow, and the terms on which it rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Time of the evaluation.
    pub at: Time,
    /// Flow with the measured loss of its direct path.
    pub flow: FlowTerms,
    /// Service that would be chosen, and all candidates.
    pub choice: Choice,
}

/// Latest evaluation, and the last changes of a flow's service.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog {
    latest: Option<Evaluation>,
    changes: VecDeque<ServiceChange>,
}

impl DecisionLog {
    /// Returns an empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { latest: None, changes: VecDeque::new() }
    }

    /// Records an evaluation, which replaces the one before.
    pub fn record(&mut self, evaluation: Evaluation) {
        self.latest = Some(evaluation);
    }

    /// Records a change. If the log is full, it drops the oldest one.
    pub fn record_change(&mut self, change: ServiceChange) {
        if self.changes.len() == CHANGES_KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// Returns the latest evaluation; `None` before the first one.
    #[must_use]
    pub const fn latest(&self) -> Option<&Evaluation> {
        self.latest.as_ref()
    }

    /// Returns the last changes, the oldest first.
    #[must_use]
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &ServiceChange> {
        self.changes.iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use byway_units::Duration;

    use super::*;

    #[test]
    fn a_full_log_drops_the_oldest_change() {
        let mut log = DecisionLog::new();
        let at = |second| Time::START + Duration::from_secs(second);
        for second in 0..20 {
            log.record_change(ServiceChange {
                at: at(second),
                from: Service::Caching,
                to: Service::Both,
                reason: Reason::Cheapest,
            });
        }
        let kept: Vec<Time> = log.changes().map(|change| change.at).collect();
        assert_eq!(kept, (4..20).map(at).collect::<Vec<_>>());
    }
}

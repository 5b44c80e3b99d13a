//! Measures of flows and links.

use byway_units::Rate;

use crate::delivery_counts::{number, share};
use crate::outcome::{ClassOutcome, ClassesOutcome, FlowOutcome, TransfersOutcome};
use crate::scenario::Measure;

/// Unit in which a measure is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Packets,
    Share,
    Ratio,
    Milliseconds,
    /// Mbit/s.
    Megabits,
}

impl Measure {
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Sent
            | Self::LostDirect
            | Self::Late
            | Self::Missing
            | Self::Duplicates
            | Self::TransfersUnfinished => Unit::Packets,
            Self::Goodput => Unit::Megabits,
            Self::Repaired | Self::RepairedWithinRtt | Self::HighRateLoss | Self::LowDelayLoss => Unit::Share,
            Self::RelayBytes => Unit::Ratio,
            Self::RepairP50
            | Self::RepairP95
            | Self::RepairP99
            | Self::DelayP50
            | Self::DelayP99
            | Self::TransferP50
            | Self::TransferP99
            | Self::TransferP999
            | Self::TransferMax
            | Self::HighRateSojournMax
            | Self::LowDelaySojournMax => Unit::Milliseconds,
        }
    }

    /// True if the measure is one of links; all others are of flows.
    pub(crate) const fn is_of_links(self) -> bool {
        matches!(
            self,
            Self::HighRateSojournMax | Self::HighRateLoss | Self::LowDelaySojournMax | Self::LowDelayLoss
        )
    }

    /// Returns the measure's value for a link, in one direction; `None` without packets of its
    /// class.
    pub(crate) fn of_classes(self, classes: &ClassesOutcome) -> Option<f64> {
        let waited = |class: &ClassOutcome| (class.dequeued > 0).then_some(class.sojourn_ms_max);
        let lost = |class: &ClassOutcome| share(class.dropped, class.offered);
        match self {
            Self::HighRateSojournMax => waited(&classes.high_rate),
            Self::HighRateLoss => lost(&classes.high_rate),
            Self::LowDelaySojournMax => waited(&classes.low_delay),
            Self::LowDelayLoss => lost(&classes.low_delay),
            _ => None,
        }
    }

    /// Returns the measure's value for flows; `None` without data, for example for repairs if
    /// nothing was lost.
    pub(crate) fn of(self, flow: &FlowOutcome) -> Option<f64> {
        match self {
            Self::Sent => Some(number(flow.sent)),
            Self::LostDirect => Some(number(flow.lost_direct)),
            Self::Late => Some(number(flow.late)),
            Self::Missing => Some(number(flow.missing)),
            Self::Duplicates => Some(number(flow.duplicates)),
            Self::Repaired => share(flow.repaired, flow.lost_direct),
            Self::RepairedWithinRtt => share(flow.repaired_within_rtt, flow.lost_direct),
            Self::RelayBytes => flow.relay_share,
            Self::RepairP50 => flow.repair_ms.map(|times| times.p50),
            Self::RepairP95 => flow.repair_ms.map(|times| times.p95),
            Self::RepairP99 => flow.repair_ms.map(|times| times.p99),
            Self::DelayP50 => flow.delay_ms.map(|times| times.p50),
            Self::DelayP99 => flow.delay_ms.map(|times| times.p99),
            Self::TransfersUnfinished
            | Self::TransferP50
            | Self::TransferP99
            | Self::TransferP999
            | Self::TransferMax
            | Self::Goodput => self.of_transfers(flow.transfers.as_ref()?),
            Self::HighRateSojournMax | Self::HighRateLoss | Self::LowDelaySojournMax | Self::LowDelayLoss => {
                None
            }
        }
    }

    fn of_transfers(self, transfers: &TransfersOutcome) -> Option<f64> {
        let times = transfers.completion_ms;
        match self {
            Self::TransfersUnfinished => Some(number(transfers.begun - transfers.finished)),
            Self::TransferP50 => times.map(|times| times.p50),
            Self::TransferP99 => times.map(|times| times.p99),
            Self::TransferP999 => times.map(|times| times.p999),
            Self::TransferMax => times.map(|times| times.max),
            Self::Goodput => transfers.goodput_mbit,
            _ => None,
        }
    }
}

/// Returns a rate in Mbit/s.
#[allow(clippy::cast_precision_loss, reason = "rates are far below 2^53 bit/s")]
pub(crate) const fn megabits(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 1e6
}

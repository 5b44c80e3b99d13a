//! Flow with those whose packets can share batches with its own, and the redundancy of these.
//!
//! A flow that is not coded could share batches with coded flows, and with cached ones if these
//! change to coding, too. Each sender decides for itself, so the latter is a hope. Once the flow is
//! coded, only the coded flows count. That number is remembered, or the flow would change to coding
//! again and again in vain.

use byway_units::{Duration, Probability, Time};
use byway_wire::BlockShape;
use byway_wire::messages::{GroupActivity, LOSS_CLASSES};

use crate::flow::{FlowTerms, repaired};

/// Time for which a flow has to be coded until only coded flows count. Senders of the same group
/// ask their relay each 30 s, and may then select coding, too.
const HOPED_FOR: Duration = Duration::from_secs(75);

/// Time for which the number of coded flows is remembered after the flow was coded.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Most flows of a batch: the default of `batch`.
const BATCH_FLOWS_MAX: u8 = 8;

/// Flow, and those whose packets can share batches with its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchedFlow {
    terms: FlowTerms,
    /// Time since which the flow is coded; `None` while it is not.
    coded_since: Option<Time>,
    /// Number of coded flows while this one was coded, and its time.
    known: Option<(u8, Time)>,
    activity: GroupActivity,
}

impl BatchedFlow {
    /// Returns a flow with these terms, whose group is not known yet.
    pub(crate) const fn new(terms: FlowTerms) -> Self {
        Self { terms, coded_since: None, known: None, activity: GroupActivity { coded: 0, cached: 0 } }
    }

    /// Records the activity of the flow's coding group, and whether the flow is coded.
    pub(crate) fn observe(&mut self, activity: Option<GroupActivity>, is_coded: bool, now: Time) {
        self.activity = activity.unwrap_or_default();
        self.coded_since = if is_coded { self.coded_since.or(Some(now)) } else { None };
        let is_known = self.coded_since.is_some_and(|since| now.saturating_since(since) >= HOPED_FOR);
        if is_known {
            self.known = Some((self.activity.coded, now));
        }
    }

    /// Returns the terms of the flow at this loss, in batches with flows whose loss is `of_others`.
    /// Their redundancy is the smallest that leaves at most `residual_max` of the flow's packets
    /// lost, or the largest. A flow alone has no batches.
    pub(crate) fn terms(
        &self,
        (loss, of_others): (Probability, Probability),
        residual_max: Probability,
        now: Time,
    ) -> FlowTerms {
        let cross_stream = self.shape((loss, of_others), residual_max, now);
        FlowTerms { loss, loss_of_others: Some(of_others), cross_stream, ..self.terms }
    }

    fn shape(
        &self,
        (loss, of_others): (Probability, Probability),
        residual_max: Probability,
        now: Time,
    ) -> Option<BlockShape> {
        let GroupActivity { coded, cached } = self.activity;
        let known = self.known.filter(|(_, at)| now.saturating_since(*at) < REMEMBERED_FOR);
        let others = known.map_or(coded.saturating_add(cached), |(coded, _)| coded);
        let flows = others.saturating_add(1).min(BATCH_FLOWS_MAX);
        if flows == 1 {
            return None;
        }
        let most = flows.div_ceil(2).min(u8::try_from(LOSS_CLASSES).unwrap_or(u8::MAX));
        let shapes = (1..=most).filter_map(|repairs| BlockShape::new(flows, repairs));
        let suffices = |shape: &BlockShape| {
            loss.value() * repaired(*shape, of_others).complement().value() <= residual_max.value()
        };
        shapes.clone().find(suffices).or_else(|| shapes.clone().next_back())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    fn share(value: f64) -> Probability {
        Probability::new(value).expect("the test gives a share")
    }

    fn flow() -> BatchedFlow {
        BatchedFlow::new(FlowTerms::published_call(Probability::ZERO))
    }

    fn shape(flow: &BatchedFlow, loss: f64, seconds: u64) -> Option<(u8, u8)> {
        let terms = flow.terms((share(loss), share(loss)), share(0.001), at(seconds));
        assert_eq!(terms.loss_of_others, Some(terms.loss));
        let shape = terms.cross_stream?;
        Some((shape.source_packets(), shape.repair_packets()))
    }

    #[test]
    fn redundancy_grows_with_the_loss() {
        let mut flow = flow();
        flow.observe(Some(GroupActivity { coded: 3, cached: 20 }), false, at(0));
        let shapes = [0.0, 0.005, 0.02, 0.06, 0.3].map(|loss| shape(&flow, loss, 0));
        assert_eq!(shapes, [Some((8, 1)), Some((8, 1)), Some((8, 2)), Some((8, 3)), Some((8, 4))]);
    }

    #[test]
    fn a_flow_alone_has_no_batches() {
        let mut flow = flow();
        assert_eq!(shape(&flow, 0.01, 0), None);
        flow.observe(Some(GroupActivity::default()), false, at(0));
        assert_eq!(shape(&flow, 0.01, 0), None);
        flow.observe(Some(GroupActivity { coded: 0, cached: 1 }), false, at(1));
        assert_eq!(shape(&flow, 0.01, 1), Some((2, 1)));
    }

    #[test]
    fn cached_flows_that_do_not_follow_count_no_more_for_ten_minutes() {
        let mut flow = flow();
        let activity = Some(GroupActivity { coded: 1, cached: 6 });
        flow.observe(activity, true, at(10));
        flow.observe(activity, true, at(84));
        assert_eq!(shape(&flow, 0.02, 84), Some((8, 2)), "the others may follow");
        flow.observe(activity, true, at(85));
        assert_eq!(shape(&flow, 0.02, 85), Some((2, 1)));
        flow.observe(activity, false, at(100));
        assert_eq!(shape(&flow, 0.02, 684), Some((2, 1)));
        assert_eq!(shape(&flow, 0.02, 685), Some((8, 2)));
    }
}

//! Prediction of the batches that a flow would have with coding: how many flows share them, and
//! the redundancy that they need.
//!
//! A flow that is not coded could share batches with coded flows, and with cached ones if these
//! change to coding, too. Each sender decides for itself, so cached flows may not follow. A flow
//! that has waited for them in vain counts coded ones alone for a while, or it would change to
//! coding again and again.

use byway_units::{Duration, Probability, Time};
use byway_wire::BlockShape;
use byway_wire::messages::{GroupActivity, LOSS_CLASSES};

use crate::flow::{FlowTerms, repaired};
use crate::selection::DOWNGRADE_AFTER;

/// Longest interval at which a sender has to ask the ingress relay for its coding group's activity,
/// so that predictions hold.
pub const ACTIVITY_REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// Time in which cached flows may follow a flow that has changed to coding: two reports until their
/// senders know of it, and the wait before their own changes.
const JOIN_TIMEOUT: Duration =
    ACTIVITY_REPORT_INTERVAL.saturating_add(ACTIVITY_REPORT_INTERVAL).saturating_add(DOWNGRADE_AFTER);

/// Time for which a larger number of coded flows counts than the latest report has: two reports in
/// a row. A relay that has just restarted reports none, and all flows may pause for a moment.
const PEAK_KEPT_FOR: Duration = Duration::from_secs(45);

/// Time for which cached flows do not count after they have not followed.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Flow, and the others in its coding group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodingPrediction {
    /// Terms of the flow. The shape of their batches is that of full ones.
    terms: FlowTerms,
    /// Time since which the flow is coded; `None` while it is not.
    coded_since: Option<Time>,
    /// Largest recent number of coded flows, and its time.
    coded: (u8, Time),
    /// Latest number of cached flows.
    cached: u8,
    /// Number of coded flows when the cached ones had not followed, and the time of that.
    unfollowed: Option<(u8, Time)>,
}

impl CodingPrediction {
    /// Returns the prediction for a flow with these terms, whose group is not known yet.
    pub(crate) const fn new(terms: FlowTerms) -> Self {
        Self { terms, coded_since: None, coded: (0, Time::START), cached: 0, unfollowed: None }
    }

    /// Forgets the group of the flow, because another relay path has other groups.
    pub(crate) const fn forget_group(&mut self) {
        *self = Self::new(self.terms);
    }

    /// Records the activity of the flow's coding group, if it was reported, and whether the flow is
    /// coded.
    pub(crate) fn observe(&mut self, activity: Option<GroupActivity>, is_coded: bool, now: Time) {
        if let Some(GroupActivity { coded, cached }) = activity {
            let (peak, at) = self.coded;
            if coded >= peak || now.saturating_since(at) > PEAK_KEPT_FOR {
                self.coded = (coded, now);
            }
            self.cached = cached;
        }
        self.coded_since = if is_coded { self.coded_since.or(Some(now)) } else { None };
        if self.coded_since.is_some_and(|since| now.saturating_since(since) >= JOIN_TIMEOUT) {
            self.unfollowed = Some((self.coded.0, now));
        }
    }

    /// Returns the terms of the flow at this loss, in batches with flows whose loss is `of_others`.
    /// A flow alone has no batches.
    pub(crate) fn terms(
        &self,
        (loss, of_others): (Probability, Probability),
        residual_max: Probability,
        now: Time,
    ) -> FlowTerms {
        let flows = self.others(now).saturating_add(1);
        let full = self.terms.cross_stream.filter(|_| flows > 1);
        let terms = FlowTerms { loss, loss_of_others: Some(of_others), cross_stream: full, ..self.terms };
        terms.with_adaptive_redundancy(flows, residual_max)
    }

    /// Returns the number of other flows that share batches with the flow, or would.
    fn others(&self, now: Time) -> u8 {
        let (coded, _) = self.coded;
        let unfollowed = self.unfollowed.filter(|(_, at)| now.saturating_since(*at) < REMEMBERED_FOR);
        match unfollowed {
            Some((then, _)) if coded <= then => coded,
            _ => coded.saturating_add(self.cached),
        }
    }
}

impl FlowTerms {
    /// Returns these terms with batches of at most `flows` packets. Their redundancy is the
    /// smallest that leaves at most `residual_max` of the flow's packets lost, or the largest that
    /// relays give such batches.
    pub(crate) fn with_adaptive_redundancy(self, flows: u8, residual_max: Probability) -> Self {
        let others = self.loss_of_others.unwrap_or(self.loss);
        let cross_stream = self.cross_stream.and_then(|full| {
            let size = flows.min(full.source_packets());
            let most = size.div_ceil(2).max(full.repair_packets());
            let most = most.min(u8::try_from(LOSS_CLASSES).unwrap_or(u8::MAX));
            let shapes = (1..=most).filter_map(|repairs| BlockShape::new(size, repairs));
            let suffices = |shape: &BlockShape| {
                let missed = self.loss.value() * repaired(*shape, others).complement().value();
                missed <= residual_max.value()
            };
            shapes.clone().find(suffices).or_else(|| shapes.clone().next_back())
        });
        Self { cross_stream, ..self }
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

    fn flow() -> CodingPrediction {
        let call = FlowTerms::published_call(Probability::ZERO);
        CodingPrediction::new(FlowTerms { cross_stream: BlockShape::new(8, 2), ..call })
    }

    fn activity(coded: u8, cached: u8) -> GroupActivity {
        GroupActivity { coded, cached }
    }

    fn shape(flow: &CodingPrediction, loss: f64, seconds: u64) -> Option<(u8, u8)> {
        let terms = flow.terms((share(loss), share(loss)), share(0.001), at(seconds));
        assert_eq!(terms.loss_of_others, Some(terms.loss));
        let shape = terms.cross_stream?;
        Some((shape.source_packets(), shape.repair_packets()))
    }

    #[test]
    fn redundancy_grows_with_the_loss() {
        let mut flow = flow();
        flow.observe(Some(activity(3, 20)), false, at(0));
        let shapes = [0.0, 0.005, 0.02, 0.06, 0.3].map(|loss| shape(&flow, loss, 0));
        assert_eq!(shapes, [Some((8, 1)), Some((8, 1)), Some((8, 2)), Some((8, 3)), Some((8, 4))]);
    }

    #[test]
    fn a_flow_alone_has_no_batches() {
        let mut flow = flow();
        assert_eq!(shape(&flow, 0.01, 0), None);
        flow.observe(Some(activity(0, 0)), false, at(0));
        assert_eq!(shape(&flow, 0.01, 0), None);
        flow.observe(Some(activity(0, 1)), false, at(1));
        assert_eq!(shape(&flow, 0.004, 1), Some((2, 1)));
    }

    #[test]
    fn batches_are_no_larger_than_those_of_the_settings() {
        let call = FlowTerms::published_call(Probability::ZERO);
        let batches = [BlockShape::new(4, 1), None];
        let shapes = batches.map(|cross_stream| {
            let mut flow = CodingPrediction::new(FlowTerms { cross_stream, ..call });
            flow.observe(Some(activity(7, 0)), false, at(0));
            shape(&flow, 0.3, 0)
        });
        assert_eq!(shapes, [Some((4, 2)), None]);
    }

    #[test]
    fn cached_flows_that_do_not_follow_count_no_more_for_ten_minutes() {
        let mut flow = flow();
        flow.observe(Some(activity(1, 6)), true, at(10));
        flow.observe(Some(activity(1, 6)), true, at(99));
        assert_eq!(shape(&flow, 0.02, 99), Some((8, 2)), "the others may follow");
        flow.observe(Some(activity(1, 6)), true, at(100));
        assert_eq!(shape(&flow, 0.004, 100), Some((2, 1)));
        flow.observe(Some(activity(1, 6)), false, at(110));
        assert_eq!(shape(&flow, 0.004, 699), Some((2, 1)));
        assert_eq!(shape(&flow, 0.02, 700), Some((8, 2)));
    }

    #[test]
    fn cached_flows_count_again_once_one_of_them_follows() {
        let mut flow = flow();
        flow.observe(Some(activity(1, 6)), true, at(10));
        flow.observe(Some(activity(1, 6)), true, at(100));
        flow.observe(Some(activity(2, 5)), false, at(130));
        assert_eq!(shape(&flow, 0.02, 130), Some((8, 2)));
    }

    #[test]
    fn one_low_report_changes_nothing_and_two_do() {
        let mut flow = flow();
        for second in [10, 100, 130] {
            flow.observe(Some(activity(7, 0)), true, at(second));
        }
        flow.observe(Some(activity(0, 0)), true, at(140));
        flow.observe(None, true, at(150));
        assert_eq!(shape(&flow, 0.02, 150), Some((8, 2)));
        flow.observe(Some(activity(7, 0)), true, at(170));
        flow.observe(Some(activity(0, 0)), true, at(200));
        assert_eq!(shape(&flow, 0.02, 200), Some((8, 2)));
        flow.observe(Some(activity(0, 0)), true, at(230));
        assert_eq!(shape(&flow, 0.02, 230), None);
    }

    #[test]
    fn another_path_has_another_group() {
        let mut flow = flow();
        flow.observe(Some(activity(1, 6)), true, at(10));
        flow.observe(Some(activity(1, 6)), true, at(100));
        flow.forget_group();
        assert_eq!(shape(&flow, 0.02, 101), None);
        flow.observe(Some(activity(0, 7)), true, at(101));
        assert_eq!(shape(&flow, 0.02, 101), Some((8, 2)));
    }
}

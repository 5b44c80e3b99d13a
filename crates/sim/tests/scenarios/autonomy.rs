//! Tests of agents and relays without a controller for hours.

use byway_proto::agent::Delivery;
use byway_sim::Loss;
use byway_sim::overlay::SendSchedule;
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, Plan, secs, share};

const HOUR: Duration = Duration::from_secs(3_600);

/// A day and an hour: the validity of the absent controller's grants.
const GRANTED_UNTIL: u64 = 25 * 3_600;

/// Asserts that bursts every minute are protected in the last of three hours as in the first.
fn assert_needs_no_controller(service: Service) {
    for (name, arrange) in ARRANGEMENTS {
        let mut plan = arrange(Plan::pairs(2, service)).each_flow(|flow| {
            flow.direct.loss = vec![Loss::Independent(share(0.05))];
            flow.sending = SendSchedule::Frames { interval: secs(60), packets_max: 20 };
            flow.length = HOUR * 3;
            flow.terms.not_after_unix_seconds = GRANTED_UNTIL;
        });
        plan.has_controller = true;
        let (_, run) = plan.run();
        let last = run.end().saturating_sub(HOUR);
        for (from, until) in [(Time::START, Time::START + HOUR), (last, Time::MAX)] {
            let relayed = run.delivered.iter().filter(|got| got.delivery != Delivery::Direct);
            let relayed = relayed.filter(|got| got.at >= from && got.at < until).count();
            let missing = run.all_missing(from, until);
            let is_lossless = matches!(service, Service::Forwarding | Service::Both);
            let missing_max = if is_lossless { 0 } else { relayed / 2 };
            let case = format!("{service:?}, {name}, from {from:?}: {missing} missing, {relayed} relayed");
            assert!(relayed > 20 && missing <= missing_max, "{case}");
        }
    }
}

#[test]
fn coded_flows_need_no_controller_for_hours() {
    assert_needs_no_controller(Service::Coding);
}

#[test]
fn cached_flows_need_no_controller_for_hours() {
    assert_needs_no_controller(Service::Caching);
}

#[test]
fn forwarded_flows_need_no_controller_for_hours() {
    assert_needs_no_controller(Service::Forwarding);
}

#[test]
fn flows_on_both_ways_need_no_controller_for_hours() {
    assert_needs_no_controller(Service::Both);
}

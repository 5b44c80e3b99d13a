//! Attack: sends reports on flows, which are not for relays.

use byway_units::Duration;
use byway_wire::messages::{
    DelayPercentiles, FlowRole, RELAYS_REPORTED_MAX, RepairCounters, Report, ReportedDelays,
};
use byway_wire::{Message, Microseconds};

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "reports",
    prepare: |_| {},
    datagram: |attacker, nth, _| {
        let late = Microseconds::from_duration(Duration::from_secs(1));
        let report = Report {
            flow_key: attacker.flow(FlowRole::Receiver, 1),
            highest_low: nth,
            direct: 0,
            lost: u32::MAX,
            repaired: RepairCounters::default(),
            late: u32::MAX,
            bursts: nth,
            longest_burst: u32::MAX,
            delay: DelayPercentiles { p50: late, p95: late, p99: late },
            detection: Microseconds::new(0),
            relays: [None; RELAYS_REPORTED_MAX],
            covered: u32::MAX,
            paths: ReportedDelays::default(),
        };
        attacker.peer.seal_messages(&filled(std::iter::repeat_n(Message::Report(report), 20)))
    },
};

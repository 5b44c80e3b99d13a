//! Redundancy of batches and blocks that follows reported losses.

use byway_wire::messages::{FlowLosses, GroupActivity};

use super::*;

/// Flow of tenant 1 with adaptive redundancy.
fn adaptive() -> FlowConfig {
    FlowConfig { tenant: 1, shares: false, is_adaptive: true, ..batched(8, 2) }
}

/// Flows that send a packet each 20 ms, and their reports.
struct Senders {
    harness: IngressHarness,
    flows: Vec<FlowSlot>,
    sequence: u64,
}

impl Senders {
    fn new(configs: &[FlowConfig]) -> Self {
        let mut harness = IngressHarness::new();
        let flows = configs.iter().map(|config| harness.flow(*config)).collect();
        Self { harness, flows, sequence: 0 }
    }

    /// Sends packets for a time. Returns the mean number of repair packets of the batches that
    /// cover the flow's packets, in hundredths.
    fn send_for(&mut self, millis: u64, flow: usize) -> usize {
        self.harness.batches();
        for _ in 0..millis / 20 {
            for flow in &self.flows {
                self.harness.copy(*flow, self.sequence);
            }
            self.sequence += 1;
            self.harness.advance(20);
        }
        let alias = alias(self.flows[flow]).number();
        let batches = self.harness.batches();
        let own = batches.iter().filter(|batch| batch.covered.iter().any(|(covered, _)| *covered == alias));
        let repairs: usize = own.map(|batch| batch.repairs.len()).sum();
        repairs * 100 / usize::try_from(millis / 20).expect("few packets")
    }

    fn report(&mut self, flow: usize, losses: [i16; 4], is_open_ended: bool, queue_grows: bool) {
        let slot = self.flows[flow];
        let losses = FlowLosses { alias: alias(slot), is_open_ended, queue_grows, losses };
        self.harness.ingress.on_losses(slot, &losses, self.harness.now);
    }
}

#[test]
fn without_losses_batches_have_no_repair_packets_after_five_seconds() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    assert_eq!(senders.send_for(4_980, 0), 200);
    senders.send_for(100, 0);
    assert_eq!(senders.send_for(20_000, 0), 0);
    let counters = senders.harness.ingress.counters;
    assert_eq!((counters.uncovered_budget, counters.uncovered_lossless >= 8_000), (0, true));
}

#[test]
fn losses_raise_the_redundancy_within_one_report_and_it_ends_within_half_a_minute() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.send_for(10_000, 0);
    senders.report(0, [40, 0, 0, 0], false, false);
    assert_eq!(senders.send_for(200, 0), 100);
    senders.report(1, [0, 40, 0, 0], false, false);
    assert_eq!(senders.send_for(200, 0), 200);
    senders.report(1, [0, 0, 0, 80], false, false);
    assert_eq!(senders.send_for(200, 7), 400);
    senders.send_for(29_500, 0);
    assert_eq!(senders.send_for(200, 0), 0);
}

#[test]
fn an_open_ended_nack_raises_the_redundancy_at_once() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.send_for(10_000, 0);
    senders.report(3, [0; 4], true, false);
    assert_eq!(senders.send_for(200, 0), 200);
    senders.send_for(1_000, 0);
    assert_eq!(senders.send_for(200, 0), 0);
}

#[test]
fn losses_while_a_queue_grows_lower_the_redundancy() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.send_for(10_000, 0);
    senders.report(0, [0, 20, 20, 0], false, false);
    assert_eq!(senders.send_for(200, 0), 300);
    let mut repairs = Vec::new();
    for _ in 0..4 {
        for _ in 0..5 {
            senders.report(0, [0; 4], false, true);
            repairs.push(senders.send_for(200, 0));
        }
    }
    let repairs: Vec<_> = repairs.into_iter().step_by(5).collect();
    assert_eq!(repairs, [200, 100, 0, 0]);
}

#[test]
fn small_batches_repair_as_many_losses_as_full_ones() {
    let mut senders = Senders::new(&[adaptive(); 4]);
    senders.send_for(10_000, 0);
    senders.report(0, [0, 40, 0, 0], false, false);
    let repairs = senders.send_for(1_000, 0);
    assert!((195..=200).contains(&repairs), "two for four packets, in each batch: {repairs}");
}

#[test]
fn reports_of_one_tenant_change_no_batch_of_another() {
    let other = FlowConfig { tenant: 2, ..adaptive() };
    let mut senders =
        Senders::new(&[adaptive(), adaptive(), adaptive(), adaptive(), other, other, other, other]);
    senders.send_for(10_000, 0);
    for _ in 0..40 {
        senders.report(0, [0, 0, 0, 10], true, false);
        assert_eq!(senders.send_for(200, 4), 0);
    }
    senders.report(0, [0, 0, 0, 10], true, false);
    assert_eq!(senders.send_for(200, 0), 200, "half of the four packets in a batch");
}

#[test]
fn more_losses_than_packets_are_refused() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.send_for(10_000, 0);
    // Each of the 500 packets may count four times: alone, and as its batch loses others.
    for losses in [[2_001, 0, 0, 0], [-2_001, 0, 0, 2_001], [i16::MIN, 0, 0, i16::MAX]] {
        senders.report(0, losses, false, false);
    }
    assert_eq!(senders.send_for(200, 0), 0);
    let counters = senders.harness.ingress.counters;
    assert_eq!((counters.losses_refused, counters.losses_reported), (3, 0));
    senders.report(0, [510, 0, 0, 0], false, false);
    assert_eq!(senders.send_for(200, 0), 100);
}

#[test]
fn without_reports_of_the_egress_relay_the_redundancy_is_fixed() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.harness.sink.is_silent = true;
    senders.send_for(10_000, 0);
    assert_eq!(senders.send_for(10_000, 0), 200);
}

#[test]
fn a_lone_flow_has_block_repair_packets_while_it_loses_packets() {
    let config = FlowConfig { rates: CodingRates::default(), ..adaptive() };
    let mut senders = Senders::new(&[config]);
    senders.send_for(10_000, 0);
    senders.harness.drain_in_stream();
    senders.send_for(2_000, 0);
    assert_eq!(senders.harness.drain_in_stream().len(), 0);
    senders.report(0, [10, 0, 0, 0], false, false);
    senders.send_for(2_000, 0);
    let blocks = senders.harness.drain_in_stream().len();
    assert!((19..=20).contains(&blocks), "one for five packets: {blocks}");
}

#[test]
fn flows_in_batches_have_no_block_repair_packets() {
    let rates = CodingRates { batch: BlockShape::new(8, 2), ..CodingRates::default() };
    let mut senders = Senders::new(&[FlowConfig { rates, ..adaptive() }; 8]);
    senders.send_for(10_000, 0);
    senders.harness.drain_in_stream();
    senders.report(0, [0, 40, 0, 0], false, false);
    assert_eq!(senders.send_for(1_000, 0), 200);
    assert_eq!(senders.harness.drain_in_stream(), []);
}

/// Returns the numbers of coded and cached flows that a flow's sender learns of.
fn activity(senders: &mut Senders, flow: usize) -> Option<(u8, u8)> {
    let (slot, now) = (senders.flows[flow], senders.harness.now);
    let GroupActivity { coded, cached } = senders.harness.ingress.group_activity(slot, now)?;
    Some((coded, cached))
}

#[test]
fn a_sender_learns_of_other_flows_that_send_and_not_of_its_own() {
    let cached = FlowConfig { service: Service::Caching, ..adaptive() };
    let mut senders = Senders::new(&[adaptive(), adaptive(), cached, cached, cached]);
    assert_eq!(activity(&mut senders, 0), Some((0, 0)), "nobody sends yet");
    senders.send_for(5_000, 0);
    assert_eq!([0, 2].map(|flow| activity(&mut senders, flow)), [Some((1, 3)), Some((2, 2))]);
    let silent = senders.harness.flow(adaptive());
    senders.flows.push(silent);
    assert_eq!(activity(&mut senders, 5), Some((2, 3)), "it sends nothing itself");
}

#[test]
fn flows_that_pause_leave_the_activity_within_four_seconds() {
    let mut senders = Senders::new(&[adaptive(); 3]);
    senders.send_for(5_000, 0);
    let paused = senders.flows.pop().expect("there are three");
    senders.send_for(4_000, 0);
    assert_eq!(activity(&mut senders, 0), Some((1, 0)));
    senders.flows.push(paused);
    assert_eq!(activity(&mut senders, 2), Some((2, 0)));
}

#[test]
fn flows_of_other_tenants_and_services_are_no_coding_peers() {
    let other = FlowConfig { tenant: 2, ..adaptive() };
    let forwarded = FlowConfig { service: Service::Forwarding, ..adaptive() };
    let fixed = FlowConfig { is_adaptive: false, ..adaptive() };
    let mut senders = Senders::new(&[adaptive(), other, other, forwarded, fixed]);
    senders.send_for(5_000, 0);
    let known = [0, 1, 3, 4].map(|flow| activity(&mut senders, flow));
    assert_eq!(known, [Some((0, 0)), Some((1, 0)), Some((1, 0)), None]);
}

#[test]
fn a_flow_of_another_service_that_joins_restarts_no_redundancy() {
    let mut senders = Senders::new(&[adaptive(); 8]);
    senders.send_for(20_000, 0);
    for service in [Service::Retransmission, Service::Caching, Service::Both] {
        senders.harness.flow(FlowConfig { service, ..adaptive() });
        assert_eq!(senders.send_for(1_000, 0), 0, "{service:?}");
    }
    senders.harness.flow(adaptive());
    assert!(senders.send_for(1_000, 0) >= 100, "a coded flow does");
}

#[test]
fn a_group_that_pauses_has_no_activity_afterwards() {
    let mut senders = Senders::new(&[adaptive(); 3]);
    senders.send_for(5_000, 0);
    senders.harness.advance(8_000);
    assert_eq!(activity(&mut senders, 0), Some((0, 0)));
}

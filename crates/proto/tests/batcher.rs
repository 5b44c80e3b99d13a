//! Tests of batcher strategies over simulated traffic; k = 8, r = 2.

mod support;

use byway_proto::parts::batcher::{FullestFirst, RedundancyPolicy, RoundRobin};
use byway_units::Duration;
use support::batcher::{Networks, Outcome, Source, budget, settings, study, study_tagged};

const WAIT: Duration = Duration::from_millis(40);
const RATE: f64 = 2.0 / 8.0;

fn recommended(sources: &[Source], percent: u16) -> Outcome {
    study(sources, settings(64, budget(percent, sources)), WAIT, &FullestFirst)
}

fn published(sources: &[Source], queues: u8, wait_ms: u64) -> Outcome {
    let wait = Duration::from_millis(wait_ms);
    study(sources, settings(queues, RedundancyPolicy::PerBatch), wait, &RoundRobin::default())
}

#[test]
fn paced_flows_fill_their_batches() {
    let outcome = recommended(&[Source::MEDIA; 8], 120);
    assert!(outcome.uncovered() < 0.01, "{} %", outcome.uncovered());
    assert!((0.99..1.01).contains(&outcome.overhead(RATE)), "{}", outcome.overhead(RATE));
    assert!(outcome.mean_wait_ms() < 5.0, "{} ms", outcome.mean_wait_ms());
}

#[test]
fn bursts_are_covered_within_a_fifth_more_than_full_batches_cost() {
    let outcome = recommended(&[Source::VIDEO; 8], 120);
    assert!(outcome.uncovered() < 0.2, "{} %", outcome.uncovered());
    assert!(outcome.overhead(RATE) < 1.15, "{}", outcome.overhead(RATE));
    assert!(outcome.byte_overhead(RATE) < 1.21, "{}", outcome.byte_overhead(RATE));
    assert!(outcome.mean_wait_ms() < 18.0, "{} ms", outcome.mean_wait_ms());
    assert!(outcome.repairable() > 94.5, "{} %", outcome.repairable());
}

#[test]
fn bursts_are_covered_at_the_price_of_full_batches() {
    let outcome = recommended(&[Source::VIDEO; 8], 105);
    assert!(outcome.uncovered() < 1.0, "{} %", outcome.uncovered());
    assert!(outcome.byte_overhead(RATE) < 1.06, "{}", outcome.byte_overhead(RATE));
}

#[test]
fn one_queue_leaves_half_of_bursty_video_uncovered() {
    let outcome = published(&[Source::VIDEO; 8], 1, 30);
    assert!(outcome.uncovered() > 50.0, "{} %", outcome.uncovered());
}

#[test]
fn round_robin_covers_less_and_costs_more_with_any_number_of_queues() {
    let best = recommended(&[Source::VIDEO; 8], 120);
    for queues in [4, 8, 12, 16, 20, 24, 32] {
        let outcome = published(&[Source::VIDEO; 8], queues, 40);
        assert!(outcome.uncovered() > 2.0 * best.uncovered(), "{queues} queues");
        assert!(outcome.byte_overhead(RATE) > 1.1 * best.byte_overhead(RATE), "{queues} queues");
    }
}

#[test]
fn many_flows_fill_their_batches_although_they_may_close_early() {
    let outcome = recommended(&[Source::VIDEO; 24], 120);
    assert!(outcome.uncovered() < 0.01, "{} %", outcome.uncovered());
    assert!(outcome.twice() > 95.0, "{} %", outcome.twice());
    assert!(outcome.overhead(RATE) < 1.05, "{}", outcome.overhead(RATE));
}

#[test]
fn few_flows_stay_within_the_budget_and_say_what_it_leaves_uncovered() {
    let outcome = recommended(&[Source::VIDEO; 3], 120);
    assert!(outcome.byte_overhead(RATE) < 1.21, "{}", outcome.byte_overhead(RATE));
    assert!((20.0..35.0).contains(&outcome.uncovered()), "{} %", outcome.uncovered());
}

#[test]
fn voice_beside_video_is_not_padded_to_its_length() {
    let sources = [[Source::VIDEO; 8], [Source::VOICE; 8]].concat();
    let outcome = recommended(&sources, 120);
    assert!(outcome.uncovered() < 0.1, "{} %", outcome.uncovered());
    assert!(outcome.byte_overhead(RATE) < 1.21, "{}", outcome.byte_overhead(RATE));
}

#[test]
fn flows_that_lose_together_share_batches_half_as_often_at_no_cost() {
    let video = [Source::VIDEO; 24];
    let settings = settings(64, budget(120, &video));
    let unknown = study(&video, settings, WAIT, &FullestFirst);
    // Two flows share each network, of receivers or of senders.
    let to = |flow: u32| Networks { receiver: 1 + flow / 2, sender: 0 };
    let from = |flow: u32| Networks { receiver: 1 + flow, sender: 1 + flow / 2 };
    let known = [
        study_tagged(&video, settings, WAIT, &FullestFirst, to),
        study_tagged(&video, settings, WAIT, &FullestFirst, from),
    ];
    for known in known {
        let (beside, before) = (known.beside_twin(), unknown.beside_twin());
        assert!(beside * 1.5 < before, "{beside} {before}");
        assert!(known.uncovered() < 0.01, "{} %", known.uncovered());
        assert!(
            known.byte_overhead(RATE) < 1.02 * unknown.byte_overhead(RATE),
            "{}",
            known.byte_overhead(RATE)
        );
    }
}

#[test]
fn one_sender_to_many_receivers_is_coded_as_if_nothing_were_known() {
    for sources in [[Source::VIDEO; 8], [Source::MEDIA; 8]] {
        let settings = settings(64, budget(115, &sources));
        let unknown = study(&sources, settings, WAIT, &FullestFirst);
        let star = |flow: u32| Networks { receiver: 1 + flow, sender: 1 };
        let known = study_tagged(&sources, settings, WAIT, &FullestFirst, star);
        assert_eq!(known.counters, unknown.counters);
        assert_eq!((known.batches, known.repair_bytes), (unknown.batches, unknown.repair_bytes));
    }
}

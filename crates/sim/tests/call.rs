//! The set-up of a call: eight flows, bursty losses, one path dark for seconds.

use byway_proto::agent::{Delivery, FlowSettings};
use byway_proto::CodingRates;
use byway_sim::overlay::{Pairs, Sending};
use byway_sim::{GilbertElliott, Jitter, Link, Loss, Seed, Span};
use byway_units::{Duration, Probability, Rate, Time};
use byway_wire::{BlockShape, Service};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn call(seed: u64) -> Pairs {
    let noise = |delay: Duration| Link {
        delay,
        jitter: Jitter { max: ms(5), may_reorder: false },
        loss: vec![Loss::Independent(Probability::new(0.001).unwrap())],
        ..Link::default()
    };
    let interval = ms(10);
    let bursts = GilbertElliott::bursts(Probability::new(0.01).unwrap(), 3.0, interval).unwrap();
    let direct = (0..8)
        .map(|pair| Link {
            delay: ms(50),
            loss: vec![Loss::GilbertElliott(bursts)],
            outages: if pair == 0 { vec![Span::new(Time::START + Duration::from_secs(20 + seed % 7), Duration::from_secs(3))] } else { vec![] },
            ..Link::default()
        })
        .collect();
    Pairs {
        pairs: 8,
        sending: Sending::Paced(interval),
        datagram_bytes: 500,
        flow: FlowSettings {
            service: Service::Coding,
            rates: CodingRates { in_stream: BlockShape::new(5, 1), batch: BlockShape::new(8, 2) },
            rate: Rate::from_kilobits_per_second(600),
            latency_budget: ms(200),
            ..FlowSettings::default()
        },
        direct,
        back: noise(ms(50)),
        access: noise(Duration::from_micros(7_500)),
        between: noise(ms(35)),
        begin: Duration::from_secs(2),
        length: Duration::from_secs(60),
    }
}

#[test]
fn a_call_survives() {
    let only: Option<u64> = std::env::var("SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in (0..20).filter(|seed| only.is_none_or(|only| only == *seed)) {
        let (mut world, mut run) = call(seed).build(Seed::new(seed));
        world.run_until(Time::START + Duration::from_secs(64), &mut run);
        world.check_conservation().unwrap();
        let summary = run.summary(&mut world, ms(150), ms(100));
        println!(
            "seed {seed}: lost {} within {} ({:.2} %) late {} missing {} dup {} p50 {} p99 {}",
            summary.lost, summary.repaired_within, 100.0 * summary.repaired_within as f64 / summary.lost as f64, summary.late, summary.missing,
            summary.duplicates, summary.repair_times.median().unwrap(), summary.repair_times.p99().unwrap()
        );
        for (pair, number) in run.unrepaired() { print!("({pair},{number}) "); }
        println!();
        if std::env::var("V").is_ok() {
        println!("{:?}", world.host(run.egress).as_relay().egress_counters());
        println!("{:?}", world.host(run.ingress).as_relay().ingress_counters());
        }
        assert!(run.delivered_by(Delivery::Cooperative) > 0);
    }
}

use super::data::{AddedDelay, LossBin, ReportData, RunReport, bins};
use super::page::page;
use super::terminal::table;
use crate::demo::measure::{DatagramOutcome, Traffic};
use crate::demo::media::{Freeze, Score};
use crate::demo::results::{
    AfterKill, DemoResult, FailedRun, Psnr, RepairTimes, RepairedBy, RunKind, RunResult,
};
use byway_lab::timer_lateness::LatenessSummary;

const AFTER_KILL: AfterKill = AfterKill {
    killed_ms: 10_012.3,
    sent: 11_380,
    lost_direct: 112,
    late: 0,
    unrepaired: 109,
    pairs_worse: 0,
};

fn result(service: RunKind) -> RunResult {
    let (lost_direct, repaired_in_time) = match service {
        RunKind::Lossless => (0, 0),
        RunKind::Internet => (400, 0),
        _ => (400, 396),
    };
    RunResult {
        service,
        sent: 22_776,
        lost_direct,
        repaired_in_time,
        late: 1,
        unrepaired: 3,
        lost_by_machine: 0,
        duplicates_delivered: 0,
        app_bytes: 29_973_216,
        relay_egress_bytes: if service == RunKind::Forwarding { 64_000_000 } else { 16_000_000 },
        uplink_bytes: 63_000_000,
        repair_ms: RepairTimes { p50: Some(41.0), p95: Some(60.0), p99: Some(80.0) },
        psnr_db: Psnr { mean: Some(38.9), p5: Some(36.8) },
        repaired_by: RepairedBy::default(),
        after_kill: (service == RunKind::RelaysKilled).then_some(AFTER_KILL),
    }
}

fn run(service: RunKind) -> RunReport {
    let is_alone = service == RunKind::Internet;
    let frame = |frame: u32| if is_alone && (100..225).contains(&frame) { 17.0 } else { 38.0 };
    let freezes = if is_alone { vec![Freeze { from: 4.0, seconds: 5.2 }] } else { Vec::new() };
    RunReport {
        traffic: Traffic {
            direct: 31_000_000,
            senders_to_relays: 32_000_000,
            receivers_to_relays: 1_000_000,
            between_relays: 12_000_000,
            relays_to_agents: 4_000_000,
        },
        score: Score { psnr_db: (0..500).map(frame).collect(), shown: (0..500).collect(), freezes },
        picture: (!is_alone).then(|| vec![0xff, 0xd8, 0xff]),
        bins: (0..40)
            .map(|position| LossBin { repaired: position, late: 1, missing: u32::from(is_alone) * 30 })
            .collect(),
        repairs_ms: (30..90).map(f64::from).collect(),
        within_rtt: Some(0.99),
        lateness: LatenessSummary { p99_us: 128, ..LatenessSummary::default() },
        drops: Vec::new(),
        notes: if service == RunKind::Lone { vec!["nobody <here>: use caching".into()] } else { Vec::new() },
    }
}

fn report() -> ReportData {
    let runs = RunKind::ALL.map(result).to_vec();
    ReportData {
        result: DemoResult { seed: 1, rtt_ms: 100.0, floor_ms: 42.0, runs, failed: Vec::new() },
        footage: "made up".into(),
        has_real_footage: true,
        pairs: 8,
        pairs_wanted: 8,
        seconds: 20.0,
        outage: (4.0, 9.0),
        picture_at: 7.0,
        original: vec![0xff, 0xd8, 0xff],
        runs: RunKind::ALL.map(run).to_vec(),
        added_delay: Some(AddedDelay { plain_p50: 52.5, plain_p99: 55.0, byway_p50: 52.7, byway_p99: 55.25 }),
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&report());
    for outside in ["http:", "https:", "<script", "<link", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    assert!(page.contains("data:image/jpeg;base64,/9j/"));
}

#[test]
fn the_page_tells_every_run_and_escapes_what_programs_say() {
    let page = page(&report());
    for words in
        ["Internet alone", "Coding, relays killed", "frozen for 3.0 s", "99.0 %", "25.0 %", "0.25 ms"]
    {
        assert!(page.contains(words), "{words} is missing");
    }
    assert!(page.contains("nobody &lt;here&gt;: use caching"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<section>").count(), page.matches("</section>").count());
}

#[test]
fn a_test_picture_is_never_taken_for_a_video() {
    let warning = "<p class=\"notice\">No real footage found";
    assert!(!page(&report()).contains(warning));
    assert!(page(&ReportData { has_real_footage: false, ..report() }).contains(warning));
}

#[test]
fn a_story_without_repairs_or_pictures_can_be_told() {
    let mut report = report();
    for run in &mut report.runs {
        *run = RunReport {
            bins: Vec::new(),
            repairs_ms: Vec::new(),
            within_rtt: None,
            picture: None,
            ..run.clone()
        };
        run.score = Score::default();
    }
    assert!(page(&report).contains("no picture"));
    assert!(!page(&report).contains("NaN"));
}

#[test]
fn the_table_has_a_row_for_each_run_and_what_a_lone_pair_is_told() {
    let table = table(&report());
    assert_eq!(table.lines().count(), 2 + 7 + 4);
    assert!(table.contains("Coding: relays send 25.0 % of the bytes"), "{table}");
    assert!(table.contains("adds 0.25 ms") && table.contains("byway status: nobody <here>"), "{table}");
}

#[test]
fn a_run_that_fails_is_a_row_with_its_reason() {
    let mut report = report();
    let position =
        report.result.runs.iter().position(|run| run.service == RunKind::Caching).expect("there is one");
    report.result.runs.remove(position);
    report.runs.remove(position);
    let error = "pair <2> was not heard".to_owned();
    report.result.failed.push(FailedRun { service: RunKind::Caching, error });
    let (table, page) = (table(&report), page(&report));
    assert!(table.lines().any(|line| line.starts_with("Caching ") && line.contains(" failed ")), "{table}");
    assert!(table.contains("Caching failed: pair <2> was not heard"), "{table}");
    assert!(page.contains("<tr><th>Caching</th><td>failed</td>"));
    assert!(page.contains("Caching failed: pair &lt;2&gt; was not heard"));
}

#[test]
fn figures_that_the_machine_spoiled_are_named() {
    let mut report = report();
    assert!(!table(&report).contains('*'));
    report.pairs = 4;
    report.runs[2].lateness.p99_us = 8_000;
    report.runs[3].lateness.p99_us = 2_000;
    report.result.runs[3].lost_by_machine = 3;
    report.runs[3].drops = vec![("the agent of sender 2, from its application".to_owned(), 3)];
    let table = table(&report);
    for words in [
        "Coding * ",
        "Caching * ",
        "is too slow for 8 calls: 4 ran",
        "Coding: the emulator was up to 8 ms late (p99): its times are invalid",
        "Caching: the emulator was up to 2.0 ms late (p99): repair times",
        "3 of 22,776 datagrams never reached the network (dropped at full sockets: the agent of sender 2, from its application: 3)",
    ] {
        assert!(table.contains(words), "{words:?} is not in {table}");
    }
    assert!(page(&report).contains("3 of 22,776 datagrams never reached the network"));
    assert!(!table.contains("Forwarding *") && !table.contains("Forwarding: "), "{table}");
}

#[test]
fn relays_that_die_are_judged_for_better_and_for_worse() {
    let mut report = report();
    let good = "the direct paths lost 112 and the applications 109: no more than on the Internet alone";
    assert!(table(&report).contains(good), "{}", table(&report));
    assert!(page(&report).contains("No application lost more packets than on the Internet alone"));
    report.result.runs[5].after_kill = Some(AfterKill { late: 7, pairs_worse: 1, ..AFTER_KILL });
    let bad =
        "the direct paths lost 112 and the applications 116: MORE than on the Internet alone, 1 of 8 pairs";
    assert!(table(&report).contains(bad), "{}", table(&report));
    assert!(page(&report).contains("1 of 8 pairs lost more packets than on the Internet alone"));
}

#[test]
fn the_result_has_the_keys_that_are_promised() {
    let written = serde_json::to_value(report().result).expect("JSON");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    assert_eq!(keys(&written), ["failed", "floor_ms", "rtt_ms", "runs", "seed"]);
    let expected = [
        "app_bytes",
        "duplicates_delivered",
        "late",
        "lost_by_machine",
        "lost_direct",
        "psnr_db",
        "relay_egress_bytes",
        "repair_ms",
        "repaired_by",
        "repaired_in_time",
        "sent",
        "service",
        "unrepaired",
        "uplink_bytes",
    ];
    assert_eq!(keys(&written["runs"][0]), expected);
    assert_eq!(
        keys(&written["runs"][5]["after_kill"]),
        ["killed_ms", "late", "lost_direct", "pairs_worse", "sent", "unrepaired"]
    );
    assert_eq!(keys(&written["runs"][0]["repair_ms"]), ["p50", "p95", "p99"]);
    assert_eq!(keys(&written["runs"][0]["psnr_db"]), ["mean", "p5"]);
    assert_eq!(keys(&written["runs"][0]["repaired_by"]), ["cache", "cooperative", "forward", "in_stream"]);
}

#[test]
fn bins_sort_by_the_time_of_sending() {
    let fate = |sent_ms: f64, is_lost: bool, delivered_ms: Option<f64>| DatagramOutcome {
        sent_ms,
        due_ms: sent_ms + 50.0,
        is_lost,
        delivered_ms,
        duplicates: 0,
        repair_method: None,
        is_spoiled: false,
    };
    let fates = [
        fate(0.0, true, Some(100.0)),
        fate(499.0, true, Some(800.0)),
        fate(500.0, true, None),
        fate(600.0, false, Some(650.0)),
        fate(9_999.0, true, None),
    ];
    let expected =
        [LossBin { repaired: 1, late: 1, missing: 0 }, LossBin { repaired: 0, late: 0, missing: 1 }];
    assert_eq!(bins(&[fates.into()], 1.0), expected);
}

//! Tests of whole scenarios: their outcomes, and that these are the same each time.

use std::ops::ControlFlow;

use byway_scenario::{BuildError, CaptureFilter, Outcome, RecordOptions, Scenario, StopReason};
use byway_units::{Bytes, Duration};

/// Four calls; one path has an outage of two seconds.
const CALLS: &str = r#"
title = "Four calls"
length = "20 s"

[[node]]
name = "alice"
role = "agent"
count = 4

[[node]]
name = "bob"
role = "agent"
count = 4

[[node]]
name = "east"
role = "relay"

[[node]]
name = "west"
role = "relay"

[[link]]
between = ["alice", "bob"]
delay = { from = "40 ms", to = "60 ms" }
loss = [{ share = "1 %", burst = 3.0, every = "10 ms" }]
outage = [{ at = "8 s", for = "2 s", link = 2 }]

[[link]]
between = ["alice", "east"]
delay = "7500 us"

[[link]]
between = ["bob", "west"]
delay = "7500 us"

[[link]]
between = ["east", "west"]
delay = "35 ms"

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "coding"
batch = "4+1"
in_stream = "16+1"

[flow.sends]
kind = "steady"
every = "10 ms"
bytes = 500

[[expect]]
flow = "call"
measure = "repaired-within-rtt"
at_least = "98 %"

[[expect]]
flow = "call"
measure = "relay-bytes"
at_most = "60 %"
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|problem| panic!("{problem}"))
}

fn run(text: &str, seed: u64) -> Outcome {
    scenario(text).run(seed).expect("all machines are joined")
}

#[test]
fn calls_survive_an_outage_and_without_the_overlay_they_do_not() {
    let coded = run(CALLS, 1);
    let call = &coded.flows[0];
    assert!(coded.is_met(), "{coded:#?}");
    assert!(call.lost_direct > 250 && call.repaired_by.cooperative > 50, "{call:#?}");
    assert_eq!((call.flows, call.sent, call.duplicates), (4, 6_800, 0));
    let alone = run(&CALLS.replace("service = \"coding\"", "service = \"internet\""), 1);
    assert_eq!(alone.flows[0].lost_direct, alone.flows[0].missing);
    assert_eq!(alone.flows[0].lost_direct, call.lost_direct, "each service meets the same losses");
    assert!(!alone.is_met() && alone.expectations[1].is_met);
}

#[test]
fn one_seed_gives_one_outcome() {
    let [first, again, other] = [7, 7, 8].map(|seed| run(CALLS, seed));
    assert_eq!(first, again);
    assert_ne!(first.digest, other.digest);
}

#[test]
fn a_relay_that_stops_and_starts_repairs_again() {
    let steps = "\n[[step]]\nat = \"5 s\"\ndo = \"stop\"\nnode = \"west\"\n\n[[step]]\nat = \"6 s\"\ndo = \"start\"\nnode = \"west\"\n";
    let outcome = run(&format!("{CALLS}{steps}"), 1);
    let call = &outcome.flows[0];
    assert!(call.repaired_by.cooperative > 100, "{call:#?}");
    assert!(call.missing < call.lost_direct / 4, "{call:#?}");
}

#[test]
fn an_agent_that_starts_again_goes_on() {
    let steps = "\n[[step]]\nat = \"5 s\"\ndo = \"stop\"\nnode = \"bob.1\"\n\n[[step]]\nat = \"6 s\"\ndo = \"start\"\nnode = \"bob.1\"\n";
    let outcome = run(&format!("{CALLS}{steps}"), 1);
    let call = &outcome.flows[0];
    assert!((80..400).contains(&call.missing), "a second and the time to begin anew: {call:#?}");
}

#[test]
fn paths_through_a_router_share_its_losses() {
    let routed = r#"
title = "One link of all"
length = "10 s"
node = [
    { name = "alice", role = "agent", count = 3 },
    { name = "bob", role = "agent", count = 3 },
    { name = "near", role = "router" },
    { name = "far", role = "router" },
]
link = [
    { between = ["alice", "near"], delay = "5 ms" },
    { between = ["near", "far"], delay = "20 ms", outage = [{ at = "5 s", for = "1 s" }] },
    { between = ["far", "bob"], delay = "5 ms" },
]

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "steady", every = "10 ms", bytes = 100 }
"#;
    let call = run(routed, 1).flows.remove(0);
    assert_eq!((call.lost_direct, call.missing), (300, 300));
    let delay = call.delay_ms.expect("packets came").p50;
    assert!((29.9..30.1).contains(&delay), "{delay} ms");
}

#[test]
fn packets_take_the_shortest_way_through_a_ring_of_routers() {
    let ring = r#"
title = "Three routers in a ring, whose links take no time"
length = "5 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "north", role = "router" },
    { name = "west", role = "router" },
    { name = "south", role = "router" },
]
link = [
    { between = ["alice", "north"], delay = "5 ms" },
    { between = ["north", "west"] },
    { between = ["west", "south"] },
    { between = ["south", "north"] },
    { between = ["south", "bob"], delay = "5 ms" },
]

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "steady", every = "10 ms", bytes = 100 }
"#;
    let outcome = run(ring, 1);
    let call = &outcome.flows[0];
    assert_eq!((call.sent, call.missing, outcome.unroutable), (200, 0, 0));
    let sent = |from: &str, to: &str| {
        outcome.links.iter().find(|link| link.from == from && link.to == to).map(|link| link.sent)
    };
    assert!(sent("north", "south") >= Some(200));
    assert_eq!((sent("north", "west"), sent("west", "south")), (Some(0), Some(0)), "no packet goes around");
}

#[test]
fn machines_that_are_not_joined_are_named() {
    let apart = CALLS.replace("between = [\"alice\", \"bob\"]", "between = [\"alice\", \"west\"]");
    let error = scenario(&apart).run(1).expect_err("no path leads from alice to bob");
    assert!(
        matches!(&error, BuildError::NoRoute { from, to, .. } if from == "alice.1" && to == "bob.1"),
        "{error}"
    );
    let far = CALLS.replace("between = [\"bob\", \"west\"]", "between = [\"alice\", \"west\"]");
    let error = scenario(&far).run(1).expect_err("bob has no relay");
    assert!(error.to_string().contains("no relay near bob.1"), "{error}");
}

#[test]
fn talk_and_frames_and_pauses_are_sent() {
    for sends in [
        "kind = \"voice\"",
        "kind = \"frames\"\nevery = \"40 ms\"\nbytes = 1_200\npackets = 6",
        "kind = \"on-off\"\nevery = \"10 ms\"\nbytes = 200\non = \"2 s\"\noff = \"1 s\"",
    ] {
        let steady = "kind = \"steady\"\nevery = \"10 ms\"\nbytes = 500";
        let call = run(&CALLS.replace(steady, sends), 3).flows.remove(0);
        assert!(call.sent > 800 && call.missing < call.sent / 50, "{sends}: {call:#?}");
    }
}

/// Returns the outcome of two calls without the overlay, over links with these properties and with
/// these steps.
fn bare(link: &str, rest: &str) -> byway_scenario::FlowOutcome {
    run(&bare_text(link, rest), 1).flows.remove(0)
}

fn bare_text(link: &str, rest: &str) -> String {
    format!(
        r#"
title = "Two calls"
length = "20 s"
node = [{{ name = "alice", role = "agent", count = 2 }}, {{ name = "bob", role = "agent", count = 2 }}]

[[link]]
between = ["alice", "bob"]
delay = "30 ms"
{link}

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = {{ kind = "steady", every = "10 ms", bytes = 100 }}
{rest}
"#
    )
}

fn step(at: &str, action: &str, node: &str) -> String {
    format!("[[step]]\nat = \"{at}\"\ndo = \"{action}\"\nnode = \"{node}\"\n")
}

#[test]
fn without_the_overlay_whatever_is_lost_is_missing_and_nothing_else() {
    for (link, rest) in [
        ("loss = [{ share = \"2 %\" }]", String::new()),
        ("corruption = \"2 %\"", String::new()),
        ("loss = [{ share = \"5 %\" }]\nduplication = \"50 %\"", String::new()),
        (
            "loss = [{ share = \"2 %\" }]",
            step("5 s", "freeze", "alice.1") + &step("6 s", "resume", "alice.1"),
        ),
        ("loss = [{ share = \"2 %\" }]", step("5 s", "stop", "alice.1") + &step("6 s", "start", "alice.1")),
    ] {
        let call = bare(link, &rest);
        assert_eq!(call.repaired, 0, "{link} {rest}: {call:#?}");
        assert!(call.lost_direct > 20 && call.missing >= call.lost_direct, "{link} {rest}: {call:#?}");
        let unsent = if rest.is_empty() { 0 } else { 140 };
        assert!(call.missing <= call.lost_direct + unsent, "{link} {rest}: {call:#?}");
        assert!(call.duplicates == 0 && call.late == 0, "{link} {rest}: {call:#?}");
    }
}

#[test]
fn who_is_not_at_home_loses_nothing_on_the_way() {
    let call = bare("", &(step("5 s", "stop", "bob.2") + &step("6 s", "start", "bob.2")));
    assert_eq!(call.lost_direct, 0);
    assert!((90..250).contains(&call.missing), "{call:#?}");
}

#[test]
fn links_of_one_recording_do_not_lose_together() {
    let text = CALLS
        .replace(
            "loss = [{ share = \"1 %\", burst = 3.0, every = \"10 ms\" }]",
            "loss = [{ trace = \"t\", every = \"100 ms\" }]",
        )
        .replace("outage = [{ at = \"8 s\", for = \"2 s\", link = 2 }]", "");
    let read = |file: &std::path::Path| match file.to_str() {
        Some("s") => Ok(text.clone()),
        _ => Ok("1".to_owned() + &"0".repeat(49)),
    };
    let scenario = Scenario::read(std::path::Path::new("s"), &read).expect("it is right");
    let call = scenario.run(1).expect("all are joined").flows.remove(0);
    // Each path has an outage of 100 ms in 5 s, at a time when the others have none.
    assert!(call.lost_direct > 100 && call.repaired_by.cooperative > 60, "{call:#?}");
}

#[test]
fn all_services_of_the_overlay_bridge_an_outage() {
    for (service, least) in [("caching", 250), ("both", 250), ("forwarding", 0)] {
        let text = CALLS.replace("service = \"coding\"", &format!("service = \"{service}\""));
        let call = run(&text, 2).flows.remove(0);
        assert!(call.lost_direct >= least && call.missing < 10, "{service}: {call:#?}");
        assert!(call.relay_share > Some(0.05), "{service}: {call:#?}");
    }
}

#[test]
fn relays_that_are_named_are_taken_and_have_to_be_joined() {
    let named = CALLS.replace("service = \"coding\"", "service = \"caching\"\nvia = [\"west\", \"west\"]");
    let error = scenario(&named).check().expect_err("alice does not reach west");
    assert!(
        error.to_string().starts_with("scenario.toml:41: flow[0]: no route from alice.1 to west"),
        "{error}"
    );
    let apart = CALLS.replace("[[link]]\nbetween = [\"east\", \"west\"]\ndelay = \"35 ms\"\n", "");
    let error = scenario(&apart).check().expect_err("the relays do not reach each other");
    assert!(error.to_string().contains("no route from east to west"), "{error}");
}

#[test]
fn too_much_at_once_stops_a_run_with_what_it_has() {
    let text = r#"
title = "A flood"
length = "30 s"
node = [{ name = "alice", role = "agent" }, { name = "bob", role = "agent" }]
link = [{ between = ["alice", "bob"], delay = "50 s" }]

[[flow]]
name = "flood"
from = "alice"
to = "bob"
service = "internet"
count = 2
sends = { kind = "steady", every = "20 us", bytes = 16 }
"#;
    // No session is set up over 50 s: nothing is in flight, and nothing arrives.
    let outcome = run(text, 1);
    assert_eq!((outcome.stopped.is_some(), outcome.flows[0].delivered), (false, 0));
    let near = text.replace("\"50 s\"", "\"10 ms\", rate = \"10 Mbit/s\", queue = \"1 GB\"");
    let outcome = run(&near, 1);
    let why = outcome.stopped.as_ref().map(|stopped| stopped.why.as_str()).unwrap_or_default();
    assert!(why.contains("too many packets are in flight") && !outcome.is_met(), "{outcome:#?}");
    assert!(outcome.flows[0].in_flight + outcome.flows[0].missing > 500_000, "{outcome:#?}");
}

/// Returns the types of the blocks in a capture, and their bodies.
fn blocks(capture: &[u8]) -> Vec<(u32, &[u8])> {
    let mut rest = capture;
    let mut blocks = Vec::new();
    while let Some((head, _)) = rest.split_first_chunk::<8>() {
        let word = |from: usize| u32::from_le_bytes(head[from..from + 4].try_into().expect("four bytes"));
        let length = word(4) as usize;
        assert_eq!(rest[length - 4..length], head[4..], "a block ends with its length");
        blocks.push((word(0), &rest[8..length - 4]));
        rest = &rest[length..];
    }
    blocks
}

#[test]
fn a_capture_has_all_that_is_sent_over_a_link_and_says_what_is_lost() {
    let link = |ends: [&str; 2]| RecordOptions {
        capture: CaptureFilter::Links(vec![ends.map(str::to_owned)]),
        ..RecordOptions::default()
    };
    let mut capture = Vec::new();
    let watched = scenario(CALLS).run_observed(1, &link(["alice.2", "bob.2"]), |progress| {
        capture.extend(progress.capture);
        ControlFlow::Continue(())
    });
    assert_eq!(watched, scenario(CALLS).run(1), "watching changes nothing");
    let blocks = blocks(&capture);
    let of_kind = |kind| blocks.iter().filter(move |block| block.0 == kind);
    assert_eq!((blocks[0].0, of_kind(1).count()), (0x0A0D_0D0A, 2), "a header, and both directions");
    let lost = of_kind(6).filter(|(_, body)| body.windows(6).any(|words| words == b"lost: ")).count();
    let outage_losses =
        of_kind(6).filter(|(_, body)| body.windows(12).any(|words| words == b"lost: outage")).count();
    // 1,700 packets in one direction, and handshakes and reports.
    assert!((1_710..2_200).contains(&of_kind(6).count()), "{}", of_kind(6).count());
    assert!(
        lost > outage_losses && (200..260).contains(&outage_losses),
        "{lost} lost, {outage_losses} in the outage"
    );
    let error = scenario(CALLS).run_observed(1, &link(["alice.1", "bob.2"]), |_| ControlFlow::Continue(()));
    assert!(error.is_err_and(|error| error.to_string().contains("no link between alice.1 and bob.2")));
}

#[test]
fn a_run_that_is_stopped_says_so_and_has_met_nothing() {
    let mut looks = 0;
    let stopped = scenario(CALLS).run_observed(1, &RecordOptions::default(), |_| {
        looks += 1;
        if looks == 90 { ControlFlow::Break(StopReason::Cancelled) } else { ControlFlow::Continue(()) }
    });
    let stopped = stopped.expect("all machines are joined");
    assert_eq!(
        (stopped.stopped.as_ref().map(|stopped| stopped.seconds), stopped.is_met()),
        (Some(9.0), false)
    );
    let call = &stopped.flows[0];
    assert_eq!((call.sent, call.missing), (4 * 700, 0));
    assert!(call.in_flight > 10, "packets are under way: {call:#?}");
}

/// Stops a run after a second.
fn halted(halt: StopReason) -> Outcome {
    let watch = |progress: byway_scenario::Progress| match progress.now.as_millis() {
        1_000 => ControlFlow::Break(halt),
        _ => ControlFlow::Continue(()),
    };
    scenario(CALLS).run_observed(1, &RecordOptions::default(), watch).expect("all machines are joined")
}

#[test]
fn a_clock_that_stops_a_run_is_named_and_is_not_the_same_each_time() {
    let by_clock = halted(StopReason::RealTime(Duration::from_secs(60))).stopped.expect("it was stopped");
    assert_eq!((by_clock.seconds, by_clock.is_repeatable), (1.0, false));
    assert!(by_clock.why.contains("60 s of real time"), "{}", by_clock.why);
    let by_size = halted(StopReason::Memory(Bytes::new(5_000_000))).stopped.expect("it was stopped");
    assert_eq!((by_size.seconds, by_size.is_repeatable), (1.0, true));
    assert!(by_size.why.contains("5 MB"), "{}", by_size.why);
}

#[test]
fn what_is_held_grows_with_records_and_without_them_only_with_what_is_kept_open() {
    let memory = |records| {
        let (mut memory, watching) = (Vec::new(), RecordOptions { records, ..RecordOptions::default() });
        let outcome = scenario(CALLS).run_observed(1, &watching, |progress| {
            memory.push((progress.now.as_millis(), progress.memory.count()));
            ControlFlow::Continue(())
        });
        assert!(outcome.is_ok());
        let at = |millis| memory.iter().find(|(now, _)| *now == millis).map_or(0, |(_, memory)| *memory);
        (at(12_000), at(18_000))
    };
    let (before, after) = memory(false);
    // The ledger stores packets of the last 5.2 s of four calls, at 32 bytes each, and some are in
    // flight. A repair that takes 100 ms longer than those before takes 40,000 bytes of a
    // histogram; packets of six seconds would take 76,800.
    assert!((66_000..160_000).contains(&before) && after.abs_diff(before) < 60_000, "{before}, {after}");
    let (before, after) = memory(true);
    assert!(after > before + 4 * 550 * 32, "{before}, {after}");
}

/// Returns a step of the links between alice and bob.
fn link_step(at: &str, action: &str) -> String {
    format!("[[step]]\nat = \"{at}\"\n{action}\nbetween = [\"alice.1\", \"bob.1\"]\n")
}

#[test]
fn links_are_cut_mended_and_changed() {
    let cut = bare("", &(link_step("5 s", "do = \"cut\"") + &link_step("6 s", "do = \"mend\"")));
    assert_eq!((cut.lost_direct, cut.missing), (100, 100));
    let lossy = "do = \"change\"\nloss = [{ share = \"50 %\" }]";
    let lossy = bare("", &(link_step("5 s", lossy) + &link_step("6 s", "do = \"change\"\nloss = []")));
    assert!((30..70).contains(&lossy.lost_direct), "half of 100: {lossy:#?}");
    let longer = bare("", &link_step("5 s", "do = \"change\"\ndelay = \"80 ms\""));
    let delays = longer.delay_ms.expect("packets came");
    assert_eq!((delays.p50, delays.p99), (30.0, 80.0));
    // IP packets of 1,232 bytes take 100 ms.
    let slower = bare("", &link_step("5 s", "do = \"change\"\nrate = \"50 kbit/s\""));
    assert!(
        slower.lost_direct > 300 && slower.delay_ms.is_some_and(|delays| delays.p99 > 100.0),
        "{slower:#?}"
    );
}

#[test]
fn a_link_that_becomes_slower_keeps_its_queue() {
    // 100 packets of 1,000 bytes in a second are more than twice the capacity.
    let slower = link_step("5 s", "do = \"change\"\nrate = \"400 kbit/s\"");
    let held_max = |queue: &str| {
        let text = bare_text(&format!("rate = \"10 Mbit/s\"{queue}"), &slower);
        let outcome = run(&text.replace("bytes = 100 ", "bytes = 1000 "), 1);
        let changed = outcome.links.iter().find(|link| (&*link.from, &*link.to) == ("alice.1", "bob.1"));
        changed.and_then(|link| link.queue_bytes_max).expect("it has a rate")
    };
    let backlog = held_max("\nqueue = \"60 kB\"");
    assert!((58_500..=60_000).contains(&backlog), "{backlog}");
    let usual = held_max("");
    assert!((3_500..=5_000).contains(&usual), "100 ms of the new rate: {usual}");
}

#[test]
fn a_path_of_two_states_loses_in_its_bad_ones() {
    let states = "good = { share = \"0 %\", for = \"900 ms\" }, bad = { share = \"50 %\", for = \"100 ms\" }";
    let call = bare(&format!("loss = [{{ {states} }}]"), "");
    // 5 % of 3,400 packets, in about 34 bad times: 170, with a standard deviation of some 35.
    assert!((60..300).contains(&call.lost_direct), "{call:#?}");
    assert_eq!(call.missing, call.lost_direct);
}

#[test]
fn what_is_damaged_on_one_link_and_lost_on_the_next_counts_once() {
    let text = r#"
title = "Damaged, then lost"
length = "20 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "near", role = "router" },
]
link = [
    { between = ["alice", "near"], delay = "5 ms", corruption = "30 %" },
    { between = ["near", "bob"], delay = "5 ms", loss = [{ share = "30 %" }] },
]

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "steady", every = "1 ms", bytes = 16, begin = "8 s" }
"#;
    let call = run(text, 3).flows.remove(0);
    // 51 % of 11,000.
    assert!((5_300..5_900).contains(&call.missing), "{call:#?}");
    assert_eq!(call.lost_direct, call.missing);
}

//! Tests of paths that reorder packets, such as several links or aggregated Wi-Fi frames: nothing
//! is lost, and relays soon send almost no repairs.

use byway_scenario::{FlowOutcome, Scenario};

/// A call with `{share}` of the packets delayed by another `{by}`, and `{loss}` lost.
const CALL: &str = r#"
title = "A call over a path on which packets overtake others"
length = "60 s"
node = [
    { name = "caller", role = "agent" },
    { name = "friend", role = "agent" },
    { name = "near", role = "relay" },
    { name = "far", role = "relay" },
]

[[link]]
between = ["caller", "friend"]
delay = "40 ms"
detours = "{share}"
detour = "{by}"
loss = [{ share = "{loss}" }]

[[link]]
between = ["caller", "near"]
delay = "5 ms"

[[link]]
between = ["near", "far"]
delay = "30 ms"

[[link]]
between = ["far", "friend"]
delay = "5 ms"

[[flow]]
name = "call"
from = "caller"
to = "friend"
budget = "250 ms"
service = "{service}"
sends = { kind = "steady", every = "{every}", bytes = 500 }
"#;

/// A path: the shares of reordered and of lost packets, and the additional delay of the reordered
/// ones.
#[derive(Clone, Copy)]
struct OvertakingPath {
    share: &'static str,
    by: &'static str,
    loss: &'static str,
}

fn run(service: &str, every: &str, path: OvertakingPath) -> FlowOutcome {
    let text = CALL.replace("{service}", service).replace("{every}", every);
    let text = text.replace("{share}", path.share).replace("{by}", path.by).replace("{loss}", path.loss);
    let scenario = Scenario::parse(&text).unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(1).expect("all machines are joined").flows.remove(0)
}

fn relay_share(call: &FlowOutcome) -> f64 {
    call.relay_share.expect("packets were sent")
}

/// Calls `check` for all services, rates and paths that reorder packets.
fn on_each_path(loss: &'static str, check: impl Fn(&str, &FlowOutcome, &FlowOutcome)) {
    for service in ["caching", "coding"] {
        for every in ["5 ms", "10 ms", "20 ms"] {
            let in_order = run(service, every, OvertakingPath { share: "0 %", by: "10 ms", loss });
            for share in ["20 %", "40 %"] {
                for by in ["10 ms", "20 ms", "30 ms"] {
                    let call = run(service, every, OvertakingPath { share, by, loss });
                    check(&format!("{service}, every {every}, {share} by {by}: {call:#?}"), &call, &in_order);
                }
            }
        }
    }
}

#[test]
fn packets_that_others_overtake_are_soon_waited_for() {
    on_each_path("0 %", |case, call, in_order| {
        assert!(relay_share(call) - relay_share(in_order) <= 0.03, "{case}");
        assert_eq!((call.missing, call.late), (0, 0), "{case}");
    });
}

#[test]
fn losses_among_packets_that_others_overtake_are_repaired_in_time() {
    on_each_path("2 %", |case, call, in_order| {
        let repaired = |call: &FlowOutcome| call.repaired * 100 / call.lost_direct;
        assert!(call.lost_direct > 40 && repaired(call) + 3 >= repaired(in_order), "{case}");
        assert!(repaired(in_order) >= 75 && relay_share(call) - relay_share(in_order) <= 0.03, "{case}");
    });
}

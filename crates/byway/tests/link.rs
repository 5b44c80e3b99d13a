//! `byway link` at devices of the kernel, each test in a network namespace of its own. Skipped if
//! the kernel refuses one to this process, or tc is missing.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

#[path = "link/bench.rs"]
mod bench;
mod names;
#[path = "link/network_state.rs"]
mod network_state;

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use bench::Bench;
use names::Stranger;
use rustix::process::Signal;
use serde_json::Value;

fn send(flows: &[(UdpSocket, SocketAddr)]) {
    for (socket, to) in flows {
        // A link that is down refuses packets.
        let _ = socket.send_to(&[7; 400], to);
    }
}

const BOTH: [&str; 2] = ["10.1.0.2", "fd01::2"];

#[test]
fn what_was_there_is_back_after_a_detach_a_signal_and_a_kill() {
    let Some(bench) = Bench::new() else { return };
    let (filters, u32_filter) = (
        "tc qdisc add dev v0 clsact",
        "tc filter add dev v0 egress pref 1 protocol ip u32 match u32 0 0 flowid 1:1",
    );
    let before = [
        String::new(),
        "tc qdisc add dev v0 root handle 5: pfifo limit 77".into(),
        "tc qdisc replace dev v0 root bfifo limit 33333".into(),
        "tc qdisc replace dev v0 root pfifo_fast".into(),
        format!("tc qdisc del dev v0 root; {filters}"),
        u32_filter.into(),
        "ip link set v0 gso_max_segs 44".into(),
        "tc qdisc replace dev v0 root fq_codel target 3ms interval 77ms ce_threshold 1ms".into(),
        "tc qdisc replace dev v0 root codel target 3ms interval 77ms ce_threshold 1ms".into(),
    ];
    for prepare in before {
        let message = bench.shell(&prepare);
        if message.contains("kind is unknown") {
            eprintln!("skipped: this kernel has not what it takes: {prepare}");
            continue;
        }
        assert_eq!(message, "", "{prepare}");
        let seen = bench.seen("v0");
        for way in ["detach", "signal", "hangup", "kill"] {
            let attached = bench.attach(&["v0", "--rate", "100 Mbit/s", "--replace"]);
            assert!(bench.seen("v0").contains("htb"));
            match way {
                "detach" => {
                    bench.expect_success(&["detach", "v0"]);
                    assert_eq!(attached.ended().0, Some(0));
                }
                "signal" | "hangup" => {
                    attached.signal(if way == "signal" { Signal::TERM } else { Signal::HUP });
                    assert_eq!(attached.ended().0, Some(0));
                }
                _ => {
                    attached.signal(Signal::KILL);
                    attached.ended();
                    assert!(bench.expect_success(&["detach", "v0"]).contains("restored"));
                }
            }
            assert_eq!(bench.seen("v0"), seen, "{prepare} {way}");
            assert_eq!(std::fs::read_dir(bench.folder.path()).expect("a folder").count(), 0, "no file stays");
        }
    }
    let (code, said) = bench.expect_failure(&["detach", "v0"]);
    assert!(code == Some(2) && said.contains("v0 not attached"), "{said}");
}

#[test]
fn whoever_ignores_that_terminals_close_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_byway")]);
    command.args(["link", "attach", "v0", "--rate", "1 Mbit/s", "--state"]).arg(bench.folder.path());
    let attached = bench.attach_by(command);
    attached.signal(Signal::HUP);
    assert_eq!(bench.status()["state"], "attached");
    attached.signal(Signal::TERM);
    assert_eq!(attached.ended().0, Some(0));
}

#[test]
fn records_that_another_user_could_have_written_are_refused() {
    let Some(bench) = Bench::new() else { return };
    let seen = bench.seen("v0");
    let folder = bench.folder.path();
    let refused_all = |expected: &str| {
        for words in [&["attach", "v0", "--rate", "1 Mbit/s"][..], &["status"], &["detach", "v0"]] {
            let (code, message) = bench.expect_failure(words);
            assert!(code == Some(3) && message.contains(expected), "{words:?}: {message}");
        }
        assert_eq!(bench.seen("v0"), seen);
    };
    let attached = bench.usual();
    attached.signal(Signal::KILL);
    attached.ended();
    let entry = std::fs::read_dir(folder).expect("a folder").flatten().next().expect("a record");
    bench.expect_success(&["detach", "v0"]);
    let (record, shown) = (entry.path(), folder.display());
    bench.shell(&format!("mkfifo '{}'", record.display()));
    refused_all("not a regular file");
    bench.shell(&format!("rm '{0}'; ln -s /etc/passwd '{0}'", record.display()));
    refused_all("is a symbolic link");
    std::fs::remove_file(&record).expect("it is ours");
    bench.shell(&format!("echo '{{}}' > '{}'; chmod o+w '{shown}'", record.display()));
    refused_all("chmod go-w");
    bench.shell(&format!("chmod o-w '{shown}'; chown 65534 '{}'", record.display()));
    if bench.shell(&format!("stat -c %u '{}'", record.display())).trim() != "65534" {
        eprintln!("skipped: this user cannot give files away");
        return;
    }
    refused_all("belongs to user 65534");
    bench.shell(&format!("chown 65534 '{shown}'; chown 0 '{}'", record.display()));
    refused_all("belongs to user 65534");
}

#[test]
fn with_shares_by_flows_guaranteed_rates_follow_the_flows_down_to_the_floor() {
    let Some(bench) = Bench::new() else { return };
    let words = ["v0", "--rate", "10 Mbit/s", "--share", "flows", "--floor", "20%"];
    let _attached = bench.attach(&words);
    let low = bench.flows(45 << 2, &BOTH[..1], 1);
    let high = bench.flows(0, &BOTH[..1], 10);
    let rate_of =
        |status: &Value, class: &str| status[class]["rate_bits_per_second"].as_u64().expect("a rate");
    // One flow alone is guaranteed two thirds, and may count on nearly all.
    let status = bench.status_when(|status| {
        send(&low);
        rate_of(status, "low_delay") > 6_600_000
    });
    assert_eq!((&status["low_delay"]["flows"], &status["high_rate"]["flows"]), (&1.into(), &0.into()));
    assert!(status["by_flows"]["shown_bits_per_second"].as_u64() > Some(9_500_000), "{status}");
    assert!(status["delay_promised_us"].is_null());
    // Beside ten: 2/13 are less than the floor.
    let status = bench.status_when(|status| {
        send(&low);
        send(&high);
        rate_of(status, "low_delay") < 2_010_000
    });
    assert!(rate_of(&status, "low_delay") >= 2_000_000, "{status}");
    assert_eq!(rate_of(&status, "low_delay") + rate_of(&status, "high_rate"), 10_000_000);
    // 250 ms in each queue.
    assert_eq!(status["low_delay"]["buffer_bytes"], 312_500);
    assert!(bench.expect_success(&["change", "v0", "--floor", "30 %"]).contains("at least 30 %"));
    bench.status_when(|status| rate_of(status, "low_delay") >= 2_990_000);
    let (code, message) = bench.expect_failure(&["change", "v0", "--delay", "5 ms"]);
    assert!(code == Some(2) && message.contains("--delay has no effect with --share flows"), "{message}");
}

#[test]
fn a_registered_flow_is_low_delay_whatever_its_dscp_and_dscps_alone_are_not() {
    let Some(bench) = Bench::new() else { return };
    let register = |port: u16| {
        let from = format!("10.1.0.1:{port}");
        bench.run(&["register", "v0", "--from", &from, "--to", "10.1.0.2:9"])
    };
    let usual = bench.usual();
    let refused = register(1);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("without --registered"), "{refused:?}");
    bench.expect_success(&["detach", "v0"]);
    usual.ended();
    let words = ["v0", "--rate", "10 Mbit/s", "--share", "flows", "--registered"];
    let _attached = bench.attach(&words);
    let mut flows = bench.flows(0, &BOTH[..1], 1);
    let port = flows[0].0.local_addr().expect("it is bound").port();
    flows.extend(bench.flows(45 << 2, &BOTH[..1], 1));
    bench.status_when(|status| {
        send(&flows);
        status["high_rate"]["flows"] == 2
    });
    let done = register(port);
    assert!(String::from_utf8_lossy(&done.stdout).contains("flow registered for 60 s"), "{done:?}");
    let status = bench.status_when(|status| {
        send(&flows);
        status["low_delay"]["flows"] == 1 && status["high_rate"]["flows"] == 1
    });
    assert_eq!(status["accepts_registrations"], true);
    assert_eq!(status["dscps"].as_array().map(Vec::len), Some(0), "no DSCP was typed");
}

#[test]
fn packets_are_classified_and_classes_share_the_link_by_their_flows() {
    let Some(bench) = Bench::new() else { return };
    let _attached = bench.usual();
    // DSCP 45 and 4, with any ECN field, are low-delay; best effort and CS5, which is not mapped,
    // are high-rate.
    let mut low = bench.flows(45 << 2, &BOTH, 2);
    low.extend(bench.flows(4 << 2 | 2, &BOTH, 1));
    let mut high = bench.flows(0, &BOTH, 1);
    high.extend(bench.flows(40 << 2, &BOTH[..1], 1));
    let status = bench.status_when(|status| {
        send(&low);
        send(&high);
        status["high_rate"]["flows"] == 3 && status["low_delay"]["flows"] == 6
    });
    let rate = |class: &str| status[class]["rate_bits_per_second"].as_u64().expect("a rate");
    // The ratio of the rates is 2, and that of the flows three to six.
    assert_eq!((rate("high_rate"), rate("low_delay")), (50_000_000, 50_000_000));
    assert_eq!(status["low_delay"]["max_packet_bytes"], 400 + 8 + 40 + 14);
    assert_eq!((&status["delay_us"], &status["delay_promised_us"]), (&10_000.into(), &10_000.into()));
    let shown = bench.shell("tc class show dev v0");
    for class in ["htb 6277:10", "htb 6277:20"] {
        let line = shown.lines().find(|line| line.contains(class)).expect("it is there");
        assert!(line.contains("rate 50Mbit ceil 100Mbit"), "{shown}");
    }
    // Each packet is counted in its own class.
    let sent = || bench.status()["low_delay"]["sent_packets"].as_u64().expect("a number");
    let before = sent();
    (0..5).for_each(|_| send(&low));
    assert_eq!(sent() - before, 30);
}

#[test]
fn other_marks_choose_if_they_are_named() {
    let Some(bench) = Bench::new() else { return };
    for (flags, marked, unmarked) in
        [(&["--dscp", "10,12"][..], 10 << 2, 46 << 2), (&["--tos", "0x12"], 0x12, 0x10)]
    {
        let attached = bench.attach(&[&["v0", "--rate", "10 Mbit/s"], flags].concat());
        let sent = || bench.status()["low_delay"]["sent_packets"].as_u64().expect("a number");
        send(&bench.flows(marked, &BOTH, 1));
        assert_eq!(sent(), 2, "{flags:?}");
        send(&bench.flows(unmarked, &BOTH, 1));
        assert_eq!(sent(), 2, "{flags:?}");
        drop(attached);
        bench.expect_success(&["detach", "v0"]);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let Some(bench) = Bench::new() else { return };
    let seen = bench.seen("v0");
    let refusals: [(&[&str], &str); 10] = [
        (&["nowhere0", "--rate", "1 Mbit/s"], "network device not found"),
        (&["much-too-long-a-name", "--rate", "1 Mbit/s"], "network device not found"),
        (&["lo", "--rate", "1 Mbit/s"], "is a loopback device"),
        (&["v0", "--rate", "0 bit/s"], "is 0 bit/s"),
        (&["v0", "--rate", "101 Gbit/s"], "give at most 100 Gbit/s"),
        (&["v0", "--rate", "1 Mbit/s", "--delay", "10 ms"], "give at least that much, or --raise"),
        (&["v0", "--rate", "50 kbit/s"], "give at least 60.72 kbit/s"),
        (&["v0", "--rate", "1 Mbit/s", "--ratio", "1"], "give more than 1"),
        (&["v0", "--rate", "1 Mbit/s", "--dscp", "64"], "64"),
        (&["v0", "--rate", "1 Mbit/s", "--tos", "0x10"], "--dscp"),
    ];
    for (words, expected) in refusals {
        let (code, message) = bench.expect_failure(&[&["attach"], words].concat());
        assert!(code == Some(2) && message.contains(expected), "{words:?}: {message}");
    }
    assert_eq!(bench.seen("v0"), seen);
    for (foreign, flags, expected) in [
        ("pfifo limit 9", &[][..], "--replace replaces it"),
        ("tbf rate 1mbit burst 10k latency 10ms", &["--replace"], "which has classes"),
        ("htb", &["--replace"], "which has classes"),
        ("stab overhead 9 linklayer atm pfifo", &["--replace"], "cannot be restored"),
    ] {
        assert_eq!(bench.shell(&format!("tc qdisc replace dev v0 root handle 7: {foreign}")), "");
        let seen = bench.seen("v0");
        let (code, message) =
            bench.expect_failure(&[&["attach", "v0", "--rate", "1 Mbit/s"], flags].concat());
        assert!(
            code == Some(3) && message.contains(expected) && message.contains(" 7:"),
            "{foreign}: {message}"
        );
        assert_eq!(bench.seen("v0"), seen, "{foreign}");
        bench.shell("tc qdisc del dev v0 root");
    }
    bench.shell("tc qdisc add dev v0 ingress");
    let (code, message) = bench.expect_failure(&["attach", "v0", "--rate", "1 Mbit/s"]);
    assert!(code == Some(3) && message.contains("ingress") && message.contains("clsact"), "{message}");
}

#[test]
fn names_that_a_local_user_holds_keep_no_link_from_being_shared_and_answer_nobody() {
    let Some(bench) = Bench::new() else { return };
    let names: Vec<String> = (1..20).map(|index| format!("byway-link-{index}-00")).collect();
    let hold_queues = move || Stranger::hold(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(_stranger) = bench.machine.run(hold_queues) else { return };
    let seen = bench.seen("v0");
    let attached = bench.usual();
    assert_eq!(bench.status()["device"], "v0");
    attached.signal(Signal::TERM);
    let (code, message) = attached.ended();
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(bench.seen("v0"), seen);
}

#[test]
fn it_takes_two_capabilities_and_says_which_it_lacks() {
    let Some(bench) = Bench::new() else { return };
    if !Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no setpriv (Debian: apt install util-linux)");
        return;
    }
    let with = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set=-all{capabilities}")).arg(env!("CARGO_BIN_EXE_byway"));
        command.args(["link", "attach", "v0", "--rate", "1 Mbit/s", "--state"]).arg(bench.folder.path());
        command
    };
    let seen = bench.seen("v0");
    for (own, lacks) in [
        (",+net_admin", "needs CAP_BPF:"),
        (",+bpf", "needs CAP_NET_ADMIN:"),
        ("", "CAP_NET_ADMIN and CAP_BPF"),
    ] {
        let mut command = with(own);
        let output = bench.machine.run(move || command.output().expect("it starts"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && message.contains(lacks), "{own}: {message}");
    }
    assert_eq!(bench.seen("v0"), seen);
    let attached = bench.attach_by(with(",+net_admin,+bpf"));
    attached.signal(Signal::TERM);
    assert_eq!(attached.ended().0, Some(0));
    assert_eq!(bench.seen("v0"), seen);
}

#[test]
fn a_link_is_changed_while_it_works_and_only_to_what_can_be() {
    let Some(bench) = Bench::new() else { return };
    let (code, message) = bench.expect_failure(&["change", "v0", "--rate", "1 Mbit/s"]);
    assert!(
        code == Some(2)
            && message.ends_with("because it is not attached; run byway link attach v0 --rate RATE\n"),
        "{message}"
    );
    let _attached = bench.usual();
    let (code, message) = bench.expect_failure(&["attach", "v0", "--rate", "1 Mbit/s"]);
    assert!(code == Some(2) && message.contains("already attached"), "{message}");
    let message =
        bench.expect_success(&["change", "v0", "--rate", "40 Gbit/s", "--delay", "5 ms", "--ratio", "2.5"]);
    assert_eq!(
        message,
        "v0: 40 Gbit/s; a high-rate flow gets 2.5 times the rate of a low-delay one; low-delay sojourn time at most 5 ms\n"
    );
    let status = bench.status();
    assert_eq!(status["rate_bits_per_second"], 40_000_000_000_u64);
    assert_eq!((&status["delay_us"], &status["ratio"]), (&5_000.into(), &2.5.into()));
    assert!(bench.shell("tc class show dev v0").contains("rate 40Gbit ceil 40Gbit"));
    let (code, message) = bench.expect_failure(&["change", "v0", "--rate", "1 Mbit/s"]);
    assert!(code == Some(2) && message.contains("--raise"), "the delay of 5 ms stays wanted: {message}");
    assert_eq!(bench.status()["rate_bits_per_second"], 40_000_000_000_u64);
    bench.expect_success(&["change", "v0", "--rate", "1 Mbit/s", "--raise"]);
    assert!(bench.shell("tc class show dev v0").contains("rate 1Mbit ceil 1Mbit"));
    assert!(bench.expect_success(&["status"]).contains("v0: attached\n"));
}

#[test]
fn after_a_kill_it_is_said_and_the_next_one_begins_anew() {
    let Some(bench) = Bench::new() else { return };
    let seen = bench.seen("v0");
    let attached = bench.usual();
    attached.signal(Signal::KILL);
    attached.ended();
    let status = bench.status();
    assert_eq!(status["state"], "unattended");
    assert!(
        status["low_delay"]["flows"].is_null() && status["low_delay"]["buffer_bytes"].is_u64(),
        "{status}"
    );
    assert!(bench.expect_success(&["status"]).starts_with("v0: attached, but its controller is not running"));
    // The kernel's queues still work.
    send(&bench.flows(45 << 2, &BOTH, 1));
    assert_eq!(bench.status()["low_delay"]["sent_packets"], 2);
    let attached = bench.usual();
    assert!(attached.startup_log.contains("restoring the device first"), "{}", attached.startup_log);
    assert_eq!(bench.status()["state"], "attached");
    attached.signal(Signal::TERM);
    attached.ended();
    assert_eq!(bench.seen("v0"), seen);
}

#[test]
fn without_its_record_a_device_is_left_alone_until_somebody_says_so() {
    let Some(bench) = Bench::new() else { return };
    let seen = bench.seen("v0");
    let forget = || {
        let attached = bench.usual();
        attached.signal(Signal::KILL);
        attached.ended();
        for entry in std::fs::read_dir(bench.folder.path()).expect("a folder").flatten() {
            std::fs::remove_file(entry.path()).expect("it is ours");
        }
    };
    forget();
    let left = bench.seen("v0");
    assert!(left.contains("htb") && left.contains("gso_max_segs 1 "), "{left}");
    let folder = bench.folder.path().to_string_lossy();
    for words in [&["detach", "v0"][..], &["status", "v0"], &["change", "v0", "--rate", "1 Mbit/s"]] {
        let (code, message) = bench.expect_failure(words);
        assert!(
            code == Some(3) && message.contains(&*folder) && message.contains("--state"),
            "{words:?}: {message}"
        );
        assert!(message.contains("byway link detach v0 --without-record"), "{words:?}: {message}");
    }
    assert_eq!(bench.seen("v0"), left);
    let message = bench.expect_success(&["detach", "v0", "--without-record"]);
    assert_eq!(message, "v0: Byway's queues removed; the former qdisc is unknown\n");
    // The former state had no user's settings.
    assert_eq!(bench.seen("v0"), seen);
    assert_eq!(bench.expect_failure(&["detach", "v0", "--without-record"]).0, Some(2));
    // The next attachment starts from the kernel's defaults.
    forget();
    let attached = bench.usual();
    assert!(attached.startup_log.contains("which have no record"), "{}", attached.startup_log);
    attached.signal(Signal::TERM);
    assert_eq!(attached.ended().0, Some(0));
    assert_eq!(bench.seen("v0"), seen);
}

#[test]
fn a_link_that_goes_down_and_up_works_on() {
    let Some(bench) = Bench::new() else { return };
    let _attached = bench.usual();
    for _ in 0..3 {
        bench.shell("ip link set v0 down");
        bench.status_when(|status| status["is_up"] == false && status["state"] == "attached");
        bench.shell("ip link set v0 up; ip address add fd01::1/64 dev v0 nodad");
        bench.shell("ip neighbour replace 10.1.0.2 lladdr 02:00:00:00:00:02 dev v0");
        bench.status_when(|status| status["is_up"] == true && status["state"] == "attached");
        let low = bench.flows(45 << 2, &BOTH[..1], 4);
        let sent = bench.status()["low_delay"]["sent_packets"].as_u64().expect("a number");
        send(&low);
        assert_eq!(bench.status()["low_delay"]["sent_packets"].as_u64(), Some(sent + 4));
    }
    bench.shell("ip link set v0 mtu 9000");
    bench.status_when(|status| status["state"] == "attached");
}

#[test]
fn longer_packets_raise_the_delay_and_that_is_said() {
    let Some(bench) = Bench::new() else { return };
    let _attached = bench.attach(&["v0", "--rate", "100 Mbit/s", "--delay", "2 ms"]);
    assert_eq!(bench.status()["delay_promised_us"], 2_000);
    bench.shell("ip link set v0 mtu 9000");
    let status = bench.status_when(|status| status["delay_promised_us"].as_u64() > Some(2_000));
    assert_eq!(status["delay_us"], 2_000);
    assert!(bench.expect_success(&["status", "v0"]).contains("above the requested 2 ms"));
    let message = bench.expect_success(&["change", "v0", "--ratio", "3"]);
    assert!(message.contains("3 times") && message.contains("above the requested 2 ms"), "{message}");
    let (code, message) = bench.expect_failure(&["change", "v0", "--delay", "1 ms"]);
    assert!(code == Some(2) && message.contains("--raise"), "{message}");
}

#[test]
fn a_bound_that_is_longer_than_asked_for_is_warned_of_at_once() {
    let Some(bench) = Bench::new() else { return };
    let asked = ["v0", "--rate", "1 Mbit/s", "--delay", "10 ms", "--raise"];
    let warned = |words: &[&str]| bench.attach(words).startup_log.contains("above the requested delay");
    assert!(warned(&asked) && warned(&asked[..3]));
    assert!(!warned(&["v0", "--rate", "100 Mbit/s"]));
    bench.expect_success(&["detach", "v0"]);
}

#[test]
fn at_the_slowest_rate_the_longest_packets_of_both_classes_pass() {
    let Some(bench) = Bench::new() else { return };
    let _attached = bench.attach(&["v0", "--rate", "61 kbit/s"]);
    let flows = [bench.flows(0, &BOTH[..1], 1), bench.flows(45 << 2, &BOTH[..1], 1)];
    for (socket, to) in flows.iter().flatten() {
        socket.send_to(&[7; 1_472], to).expect("it is sent");
    }
    let sent = |status: &Value, class: &str| status[class]["sent_bytes"].as_u64() >= Some(1_514);
    let status = bench.status_when(|status| sent(status, "high_rate") && sent(status, "low_delay"));
    assert_eq!(status["low_delay"]["dropped_full_packets"], 0);
}

#[test]
fn what_somebody_else_puts_there_stays_and_is_said() {
    let Some(bench) = Bench::new() else { return };
    let seen = bench.seen("v0");
    let attached = bench.usual();
    bench.shell("tc qdisc del dev v0 root");
    let status = bench.status_when(|status| status["state"] == "displaced");
    assert!(status["note"].as_str().is_some_and(|note| note.contains("kernel's own")), "{status}");
    let (code, message) = bench.expect_failure(&["change", "v0", "--rate", "9 Mbit/s"]);
    assert!(code == Some(3) && message.contains("attach it again"), "{message}");
    bench.expect_success(&["detach", "v0"]);
    assert_eq!(attached.ended().0, Some(0));
    assert_eq!(bench.seen("v0"), seen);
    let attached = bench.usual();
    bench.shell("tc qdisc replace dev v0 root handle 9: pfifo limit 5; tc filter add dev v0 ingress pref 3 protocol ip u32 match u32 0 0 flowid 1:1");
    bench.status_when(|status| status["note"].as_str().is_some_and(|note| note.contains("pfifo 9:")));
    let message = bench.expect_success(&["detach", "v0"]);
    assert!(
        message.contains("root qdisc, which stays") && message.contains("filters: they stay"),
        "{message}"
    );
    assert_eq!(attached.ended().0, Some(0));
    let left = bench.shell("tc qdisc show dev v0; tc filter show dev v0 egress");
    assert!(left.contains("pfifo 9:") && left.contains("clsact") && !left.contains("byway"), "{left}");
}

#[test]
fn what_the_kernel_refuses_is_no_change() {
    let Some(bench) = Bench::new() else { return };
    let attached = bench.usual();
    bench.shell("tc qdisc del dev v0 root");
    let (code, message) = bench.expect_failure(&["change", "v0", "--rate", "20 Mbit/s"]);
    assert!(code == Some(3) && message.contains("attach it again"), "{message}");
    assert_eq!(bench.status()["rate_bits_per_second"], 100_000_000);
    attached.signal(Signal::KILL);
    attached.ended();
    assert_eq!(bench.status()["rate_bits_per_second"], 100_000_000, "nor has the record another rate");
    bench.expect_success(&["detach", "v0"]);
    // The queue of a class is missing, which only the kernel reports.
    let _attached = bench.usual();
    bench.shell("tc qdisc replace dev v0 parent 6277:20 handle 99: pfifo limit 9");
    let (code, message) = bench.expect_failure(&["change", "v0", "--rate", "20 Mbit/s"]);
    assert!(code == Some(3) && message.contains("v0: "), "{message}");
    assert_eq!(bench.status()["rate_bits_per_second"], 100_000_000);
    assert!(bench.shell("tc class show dev v0").contains("rate 100Mbit ceil 100Mbit"));
}

#[test]
fn a_device_that_was_renamed_is_detached_by_its_old_name_too() {
    let Some(bench) = Bench::new() else { return };
    let attached = bench.usual();
    bench.shell("ip link set v0 down; ip link set v0 name w0; ip link set w0 up");
    let message = bench.expect_success(&["detach", "v0"]);
    assert_eq!(message, "w0 (attached as v0): former qdisc restored\n");
    assert_eq!(attached.ended().0, Some(0));
    assert!(!bench.seen("w0").contains("htb"));
}

#[test]
fn a_device_that_goes_ends_it_and_is_forgotten() {
    let Some(bench) = Bench::new() else { return };
    let attached = bench.usual();
    bench.shell("ip link delete v0");
    let (code, message) = attached.ended();
    assert!(code == Some(3) && message.contains("v0 was removed"), "{message}");
    assert_eq!(std::fs::read_dir(bench.folder.path()).expect("a folder").count(), 0);
    // After a kill, another device may have the name.
    bench.make_link("v0");
    let attached = bench.usual();
    attached.signal(Signal::KILL);
    attached.ended();
    bench.shell("ip link delete v0");
    assert!(bench.expect_success(&["status"]).contains("the device was removed"));
    bench.make_link("v0");
    let seen = bench.seen("v0");
    assert!(bench.expect_success(&["detach", "v0"]).contains("device was removed"));
    assert_eq!(bench.seen("v0"), seen);
    assert_eq!(bench.expect_failure(&["detach", "v0"]).0, Some(2));
    // After a kill, the same device may have another name.
    let attached = bench.usual();
    attached.signal(Signal::KILL);
    attached.ended();
    bench.shell("ip link set v0 down; ip link set v0 name w0; ip link set w0 up");
    bench.expect_success(&["detach", "w0"]);
    assert!(!bench.seen("w0").contains("htb"));
}

#[test]
fn devices_without_ethernet_and_with_odd_names_are_devices() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(bench.shell("ip link add 'we\"ird-☃' type veth peer name w1; ip link set 'we\"ird-☃' up"), "");
    for name in ["wan0", "we\"ird-☃"] {
        let seen = bench.seen(name);
        let attached = bench.attach(&[name, "--rate", "50 Mbit/s"]);
        let status: Value =
            serde_json::from_str(&bench.expect_success(&["status", name, "--json"])).expect("JSON");
        assert_eq!((status["device"].as_str(), &status["state"]), (Some(name), &"attached".into()));
        bench.expect_success(&["detach", name]);
        assert_eq!(attached.ended().0, Some(0));
        assert_eq!(bench.seen(name), seen);
    }
}

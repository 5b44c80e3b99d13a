//! Capture of the packets of programs without Byway by real agents, in machines of their own, over
//! emulated links. Skipped if the kernel refuses namespaces to this process.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]

mod counters;
mod machines;
mod names;

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use byway_lab::addresses;

use machines::{ALICE, BOB, Lab, NAMES, OTHER_PORT, PORT, PUSH, PUSHED, TIMEOUT, talk};
use names::Stranger;

#[test]
fn programs_talk_through_agents_that_they_do_not_know_and_losses_are_repaired() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for address in addresses(BOB) {
        lab.serve(address, PORT);
        let mut stream = lab.connect(address, PORT);
        assert_eq!(stream.local_addr().expect("it has one").ip().is_ipv4(), address.is_ipv4());
        talk(&mut stream, 200_000);
    }
    let (accepted, delivered) =
        (lab.counter(ALICE, "proxy_accepted_bytes"), lab.counter(BOB, "proxy_delivered_bytes"));
    assert!(accepted > 400_000 && delivered > 400_000, "{accepted} bytes accepted, {delivered} delivered");
    // Bursts occur several times a second, so the wait is short.
    let until = Instant::now() + TIMEOUT;
    while lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk(&mut lab.connect(addresses(BOB)[0], PORT), 200_000);
    }
    let accepted = lab.counter(ALICE, "proxy_accepted_bytes");
    // Packets that are not captured use the ordinary path.
    lab.serve(addresses(BOB)[0], OTHER_PORT);
    talk(&mut lab.connect(addresses(BOB)[0], OTHER_PORT), 1_000);
    assert!(lab.counter(ALICE, "proxy_accepted_bytes") < accepted + 1_000);
}

#[test]
fn datagrams_go_both_ways_and_keep_their_addresses() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for (own, there) in addresses(ALICE).into_iter().zip(addresses(BOB)) {
        let bob = lab.machines[BOB].run(move || UdpSocket::bind((there, PORT)).expect("it is bob's"));
        let alice = lab.machines[ALICE].run(move || UdpSocket::bind((own, 0)).expect("it is alice's"));
        for socket in [&alice, &bob] {
            socket.set_read_timeout(Some(Duration::from_secs(2))).expect("more than nothing");
        }
        let (mut buffer, mut answered) = ([0; 2_000], 0);
        // The longest payload of an Ethernet becomes two packets of the device.
        for length in [4, 1_326, 1_472].into_iter().cycle().take(60) {
            alice.send_to(&vec![7; length], (there, PORT)).expect("it is sent");
            let Ok((arrived, from)) = bob.recv_from(&mut buffer) else { continue };
            assert_eq!((arrived, from.ip()), (length, own));
            bob.send_to(&buffer[..arrived], from).expect("it is sent");
            answered += u32::from(alice.recv(&mut buffer).is_ok_and(|arrived| arrived == length));
        }
        assert!(answered >= 50, "{answered} of 60 came back");
    }
    assert!(lab.repaired(BOB) > 0, "nothing was repaired");
    assert!(lab.counter(ALICE, "proxy_accepted") >= 120 && lab.counter(ALICE, "proxy_delivered") >= 100);
}

#[test]
fn after_a_kill_connections_go_on_without_byway_and_nothing_is_left() {
    for killed in [ALICE, BOB] {
        let Some(mut lab) = Lab::new() else { return };
        lab.start_all();
        let address = addresses(BOB)[0];
        lab.serve(address, PORT);
        let mut stream = lab.connect(address, PORT);
        talk(&mut stream, 10_000);
        lab.kill(killed);
        talk(&mut stream, 10_000);
        talk(&mut lab.connect(address, PORT), 10_000);
        let until = Instant::now() + TIMEOUT;
        while !String::from_utf8_lossy(&lab.run(killed, &["uncapture"]).stdout).starts_with("0 rules") {
            assert!(Instant::now() < until, "rules are left of {}", NAMES[killed]);
        }
        // After its return, the agent captures again; a one-way transfer continues meanwhile.
        let mut pushed = lab.connect(address, PORT);
        pushed.write_all(PUSH).expect("it is taken");
        lab.start(killed);
        lab.wait(killed, "agent started");
        pushed.read_exact(&mut vec![0; PUSHED * 1_000]).expect("all of it comes");
        let accepted = lab.counter(ALICE, "proxy_accepted");
        let until = Instant::now() + TIMEOUT;
        while lab.counter(ALICE, "proxy_accepted") == accepted {
            talk(&mut lab.connect(address, PORT), 1_000);
            assert!(Instant::now() < until, "nothing is captured after {} is back", NAMES[killed]);
        }
    }
}

/// Reloads an agent's settings, with these tables inserted before its first one of this kind.
fn reload(lab: &Lab, index: usize, first: &str, kind: &str, tables: &str) {
    std::fs::write(lab.file(index), first.replacen(kind, &format!("{tables}{kind}"), 1))
        .expect("space on the disk");
    let reloaded = lab.run(index, &["reload"]);
    let log =
        std::fs::read_to_string(lab.folder.path().join(format!("agent-{index}.log"))).unwrap_or_default();
    assert!(reloaded.status.success(), "{}\n{log}", String::from_utf8_lossy(&reloaded.stderr));
}

/// Opens connections until one is captured.
fn until_captured(lab: &Lab, port: u16) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let accepted = lab.counter(ALICE, "proxy_accepted_bytes");
        talk(&mut lab.connect(addresses(BOB)[0], port), 10_000);
        if lab.counter(ALICE, "proxy_accepted_bytes") >= accepted + 10_000 {
            return;
        }
        assert!(Instant::now() < until, "nothing is captured to port {port}");
    }
}

/// Returns the flows of an agent to this service of the other agent.
fn flows(lab: &Lab, name: &str) -> Vec<u64> {
    let output = lab.run(ALICE, &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mappings = status["mappings"].as_array().expect("a list").iter();
    mappings.filter(|mapping| mapping["to"] == name).filter_map(|mapping| mapping["flow"].as_u64()).collect()
}

#[test]
fn a_capture_keeps_its_flows_while_others_come_and_go_and_the_last_one_takes_the_device_along() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    let [address, _] = addresses(BOB);
    for port in [PORT, OTHER_PORT] {
        lab.serve(address, port);
    }
    let mut stream = lab.connect(address, PORT);
    talk(&mut stream, 10_000);
    let first = [ALICE, BOB].map(|index| std::fs::read_to_string(lab.file(index)).expect("it was written"));
    let flows_before = flows(&lab, "all");
    assert_eq!(flows_before.len(), 2, "one of TCP, and one of all else");
    let own = addresses(ALICE)[0];
    let expose = format!(
        "[[expose]]\nname = \"more\"\nnetworks = [\"{address}\"]\nsources = [\"{own}\"]\nports = [\"tcp:{OTHER_PORT}\"]\n"
    );
    let capture = format!(
        "[[capture]]\npeer = \"bob\"\nto = \"more\"\ncopies = \"all\"\ndestinations = [\"{address}\"]\nports = [\"tcp:{OTHER_PORT}\"]\n"
    );
    for _ in 0..2 {
        reload(&lab, BOB, &first[1], "[[expose]]", &expose);
        reload(&lab, ALICE, &first[0], "[[capture]]", &capture);
        until_captured(&lab, OTHER_PORT);
        talk(&mut stream, 10_000);
        reload(&lab, ALICE, &first[0], "[[capture]]", "");
        reload(&lab, BOB, &first[1], "[[expose]]", "");
        talk(&mut stream, 10_000);
        let accepted = lab.counter(ALICE, "proxy_accepted_bytes");
        talk(&mut lab.connect(address, OTHER_PORT), 10_000);
        assert!(lab.counter(ALICE, "proxy_accepted_bytes") < accepted + 10_000, "it is captured still");
        assert_eq!((flows(&lab, "all"), flows(&lab, "more")), (flows_before.clone(), vec![]));
    }
    let (before, rest) = first[0].split_once("[[capture]]").expect("there is one");
    let (_, after) = rest.split_once("[observe]").expect("it has one");
    reload(&lab, ALICE, &format!("{before}[observe]{after}"), "[observe]", "");
    let left = lab.run(ALICE, &["uncapture"]);
    assert!(String::from_utf8_lossy(&left.stdout).starts_with("0 rules"), "{left:?}");
    talk(&mut stream, 10_000);
    reload(&lab, ALICE, &first[0], "[[capture]]", "");
    until_captured(&lab, PORT);
    talk(&mut stream, 10_000);
}

#[test]
fn an_agent_that_ends_as_asked_leaves_nothing() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    let node = lab.nodes[ALICE].take().expect("it works");
    let pid = rustix::process::Pid::from_child(&node);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    let ended = node.wait_with_output().expect("it was ours");
    assert!(ended.status.success(), "{:?}", ended.status);
    let left = lab.run(ALICE, &["uncapture"]);
    assert!(String::from_utf8_lossy(&left.stdout).starts_with("0 rules"), "{left:?}");
}

#[test]
fn names_that_a_local_user_holds_keep_no_agent_from_its_table() {
    let Some(mut lab) = Lab::new() else { return };
    let names = ["byway-capture-4600", "byway-capture-4600-00", "byway-capture-4601-00"];
    let Some(_stranger) = lab.machines[ALICE].run(move || Stranger::hold(&names)) else { return };
    lab.start(ALICE);
    lab.wait(ALICE, "(python3) of user 65534: it has bound the name @byway-capture-4600-00");
    lab.wait(ALICE, "agent started");
}

#[test]
fn what_an_agent_may_not_or_cannot_do_is_said() {
    let Some(mut lab) = Lab::new() else { return };
    let file = lab.file(ALICE);
    let file = file.to_str().expect("text");
    // A dry run needs no rights.
    let shown = lab.run(ALICE, &["agent", "--config", file, "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let [ipv4, ipv6] = addresses(BOB);
    for rule in [
        format!("ip rule add pref 4601 to {ipv4}/32 ipproto tcp dport {PORT}-{PORT} lookup 4600"),
        format!("ip -6 rule add pref 4601 to {ipv6}/128 ipproto udp dport {PORT}-{PORT} lookup 4600"),
    ] {
        assert!(shown.contains(&rule), "{rule} is not in {shown}");
    }
    if let Some(refused) = lab.run_as_nobody(ALICE) {
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(3) && message.contains("CAP_NET_ADMIN"), "{message}");
    }
    lab.start(ALICE);
    lab.wait(ALICE, "agent started");
    // A second agent has the same table, or its rules would be among those of the first.
    for (table, says) in
        [("", "another agent of this machine uses the routing table 4600"), ("table = 4650", "table = 4750")]
    {
        let text = std::fs::read_to_string(file).expect("it was written");
        let other = lab.folder.path().join("other.toml");
        std::fs::write(&other, format!("{text}\n[tunnel]\n{table}\n")).expect("space on the disk");
        let other = other.to_str().expect("text");
        let ports = ["--observe", "127.0.0.1:4690", "--listen", "127.0.0.1:0"];
        let second = lab.run(ALICE, &[&["agent", "--config", other], &ports[..]].concat());
        let message = String::from_utf8_lossy(&second.stderr);
        assert!(second.status.code() == Some(2) && message.contains(says), "{message}");
    }
}

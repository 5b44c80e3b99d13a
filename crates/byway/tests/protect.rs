//! Tunnels of `WireGuard` that `byway protect` protects, in machines of their own, over emulated links. `WireGuard` itself is not needed: a program
//! in its tool's place says what there is, and plain datagrams go from endpoint to endpoint. Where the kernel makes no namespaces for
//! this process, it says so.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

mod tunnels;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use byway_lab::addresses;

use tunnels::{ALICE, BOB, CAPTURED, Lab, NAMES, PATIENCE, PORTS, Pin, RELAY, SCENARIO, endpoint, talk};

#[test]
fn what_a_tunnel_sends_is_captured_whole_at_both_ends_and_losses_are_repaired() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    lab.wait(BOB, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60) + talk([bob, alice], BOB, 60);
    assert!(answered >= 110, "{answered} of 120 were answered");
    for place in [ALICE, BOB] {
        let (taken, delivered) = (lab.counted(place, "proxy_taken"), lab.counted(place, "proxy_delivered"));
        // Not as fragments.
        assert!((100..=120).contains(&taken) && (100..=120).contains(&delivered), "{taken}, {delivered}");
    }
    let until = Instant::now() + PATIENCE;
    while lab.repaired(ALICE) + lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk([alice, bob], ALICE, 10);
    }
}

#[test]
fn an_end_that_learns_its_peers_endpoint_answers_by_byway() {
    let Some(mut lab) = Lab::new() else { return };
    lab.says(BOB, &["(none)"]);
    lab.start_all();
    lab.wait(BOB, "WireGuard learns it when the peer sends");
    lab.wait(ALICE, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60);
    let taken = lab.counted(BOB, "proxy_taken");
    assert!(answered >= 50 && taken >= 50, "{answered} of 60 were answered, {taken} of them by Byway");
}

#[test]
fn with_a_controller_agents_find_out_themselves_who_has_the_address_that_the_other_sends_to() {
    let Some(mut lab) = Lab::managed() else { return };
    // Bob knows alice by the address of a NAT, which is not her machine's.
    lab.says(BOB, &["198.51.100.21:40001"]);
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    lab.wait(BOB, "does not have 198.51.100.21 itself");
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60);
    assert!(answered >= 50, "{answered} of 60 were answered");
    for place in [ALICE, BOB] {
        let taken = lab.counted(place, "proxy_taken");
        assert!(taken >= 50, "{taken} of 60 went by Byway from {}", NAMES[place]);
    }
    let until = Instant::now() + PATIENCE;
    while lab.repaired(ALICE) + lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk([alice, bob], ALICE, 10);
    }
}

#[test]
fn what_a_program_pins_to_a_device_is_captured_where_iptables_has_it_routed_anew() {
    let Some(mut lab) = Lab::new() else { return };
    let rules = || Command::new("iptables").args(["-t", "mangle", "-S", "OUTPUT"]).output();
    let marks = move |lab: &Lab| {
        let rules = lab.machines[ALICE].run(rules).ok().filter(|rules| rules.status.success())?;
        Some(String::from_utf8_lossy(&rules.stdout).contains("byway-4600"))
    };
    if marks(&lab).is_none() {
        eprintln!("skipped: no iptables, or none that this kernel knows");
        return;
    }
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let ends = lab.ends();
    let until = Instant::now() + PATIENCE;
    while lab.counted(ALICE, "proxy_taken") < 20 {
        assert!(Instant::now() < until, "what is pinned is not captured");
        lab.send_by_tunnel(&ends, Pin::Packets);
    }
    lab.kill(ALICE);
    while marks(&lab) == Some(true) {
        assert!(Instant::now() < until + PATIENCE, "rules of the firewall are left");
    }
}

#[test]
fn a_tunnel_of_which_nothing_is_captured_is_said_with_a_remedy_until_it_is() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let ends = lab.ends();
    let until = Instant::now() + PATIENCE;
    while lab.notes(ALICE).is_empty() {
        assert!(Instant::now() < until, "nobody says that nothing is captured: {}", lab.status(ALICE));
        lab.send_by_tunnel(&ends, Pin::Socket);
    }
    assert_eq!(lab.counted(ALICE, "proxy_taken"), 0, "nothing was captured");
    let [note] = &lab.notes(ALICE)[..] else { panic!("one is enough") };
    assert!(note.contains("pins them to a device") && note.contains("[[forward]]"), "{note}");
    let page = String::from_utf8(lab.run(ALICE, &["status"]).stdout).expect("text");
    assert!(page.contains(&format!("note: {note}")) && page.contains("takes packets, 0 taken"), "{page}");
    lab.wait(ALICE, "WARN");
    assert!(lab.metrics(ALICE).contains("byway_capture_blind{} 1.0"));
    // At the other end, nothing is sent and nothing is missed.
    assert!(lab.notes(BOB).is_empty());
    let until = Instant::now() + PATIENCE;
    while !lab.notes(ALICE).is_empty() {
        assert!(Instant::now() < until, "it is captured, and the note stays");
        lab.send_by_tunnel(&ends, Pin::Nothing);
    }
    assert!(lab.metrics(ALICE).contains("byway_capture_blind{} 0.0"));
}

#[test]
fn a_device_that_is_removed_ends_its_agent_with_a_remedy_and_the_next_start_captures_again() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let ip = |lab: &Lab, arguments: &'static [&'static str]| {
        let output = lab.machines[ALICE].run(move || Command::new("ip").args(arguments).output());
        String::from_utf8(output.expect("ip is there").stdout).expect("text")
    };
    let before = ip(&lab, &["rule"]);
    assert!(before.contains("lookup 4600"), "{before}");
    let removed_at = Instant::now();
    ip(&lab, &["link", "del", "byway0"]);
    assert_eq!(lab.exit_code(ALICE), Some(3));
    assert!(removed_at.elapsed() < Duration::from_secs(1), "{:?}", removed_at.elapsed());
    lab.wait(ALICE, "packets go without Byway: start the node again");
    let after = ip(&lab, &["rule"]);
    assert!(!after.contains("4600"), "rules are left: {after}");
    lab.start(ALICE);
    lab.wait(ALICE, CAPTURED);
    let ends = lab.ends();
    talk([&ends[0], &ends[1]], ALICE, 20);
    assert!(lab.counted(ALICE, "proxy_taken") > 0, "the new device takes packets");
}

#[test]
fn a_device_that_is_set_down_is_left_by_both_ends_and_captures_again_once_it_is_up() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for place in [ALICE, BOB] {
        lab.wait(place, CAPTURED);
    }
    let ends = lab.ends();
    let [alice, bob] = &ends;
    let both_ways = || [talk([alice, bob], ALICE, 20), talk([bob, alice], BOB, 20)];
    for place in [ALICE, BOB] {
        let set = |state: &'static str| {
            let set = move || Command::new("ip").args(["link", "set", "byway0", state]).status();
            assert!(lab.machines[place].run(set).expect("ip is there").success());
        };
        both_ways();
        set("down");
        lab.wait(place, "the device byway0 is down: packets go without Byway until it is up");
        // A packet or two are lost before the peer knows, and the path loses a fifth of questions and answers.
        let answered = [talk([alice, bob], ALICE, 60), talk([bob, alice], BOB, 60)];
        assert!(
            answered.iter().all(|answered| *answered >= 36),
            "{answered:?} of 60, {} is down",
            NAMES[place]
        );
        let taken = [ALICE, BOB].map(|place| lab.counted(place, "proxy_taken"));
        both_ways();
        assert_eq!([ALICE, BOB].map(|place| lab.counted(place, "proxy_taken")), taken, "nothing is captured");
        set("up");
        lab.wait(place, "the device byway0 is up again");
        let until = Instant::now() + PATIENCE;
        while [ALICE, BOB]
            .iter()
            .zip(taken)
            .any(|(place, taken)| lab.counted(*place, "proxy_taken") < taken + 5)
        {
            assert!(Instant::now() < until, "{} is up, and packets are not captured", NAMES[place]);
            both_ways();
        }
    }
}

/// A port that bob's tunnel has once it was taken down and up.
const NEW_PORT: u16 = 51_900;

#[test]
fn a_tunnel_that_is_taken_down_and_up_with_another_port_is_captured_again_at_both_ends() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for place in [ALICE, BOB] {
        lab.wait(place, CAPTURED);
        lab.take_down(place);
        lab.wait(place, "the device wg0 is gone");
        let notes = lab.notes(place);
        assert!(notes.iter().any(|note| note.contains("wg-quick up wg0")), "{notes:?}");
    }
    let to = SocketAddr::new(addresses(BOB)[0], NEW_PORT);
    lab.says(ALICE, &[&to.to_string()]);
    lab.says_of_port(BOB, NEW_PORT, &[&endpoint(ALICE)]);
    for place in [ALICE, BOB] {
        lab.take_up(place);
        lab.wait(place, "the device wg0 is there again");
        assert!(lab.notes(place).is_empty());
    }
    let [alice, _] = &lab.ends();
    let bob = lab.machines[BOB].run(move || UdpSocket::bind(to).expect("nobody has it"));
    bob.set_read_timeout(Some(Duration::from_millis(100))).expect("more than nothing");
    let until = Instant::now() + PATIENCE;
    let goes_by_byway = |lab: &Lab, place| {
        lab.counted(place, "proxy_taken") >= 20 && lab.counted(place, "proxy_delivered") >= 20
    };
    while ![ALICE, BOB].into_iter().all(|place| goes_by_byway(&lab, place)) {
        assert!(Instant::now() < until, "the tunnel is up, and its packets are not captured");
        alice.send_to(&[7; 500], to).expect("it is sent");
        if let Ok((length, from)) = bob.recv_from(&mut [0; 2_000]) {
            bob.send_to(&vec![7; length], from).expect("it is sent");
        }
    }
}

/// The tables of the guide's recipe for a tunnel through a forward: bob's, then alice's.
fn recipe() -> Vec<String> {
    let guide = include_str!("../../../docs/guide.md");
    let (_, recipe) = guide.split_once("### Through a forward").expect("the guide has it");
    let blocks = recipe.split("```toml ").skip(1).take(2);
    let tables = |block: &str| {
        let block = block.split("```").next().unwrap_or_default();
        block.split_once('\n').map_or_else(String::new, |(_, tables)| tables.to_owned())
    };
    blocks.map(tables).collect()
}

/// What the scenario has between the two.
const LOSSES: &str = r#"loss = [{ share = "10 %", burst = 3.0, every = "10 ms" }]"#;

/// Losses one by one and, a second after its begin, an outage.
const BAD_PATH: &str = r#"loss = [{ share = "4 %" }], outage = [{ at = "1 s", for = "2 s" }]"#;

/// Has the two agents forward a tunnel as the guide does, until a relay takes its flow.
fn forward_tunnel(lab: &mut Lab) -> impl Fn() + use<> {
    for (place, tables) in [(BOB, &recipe()[0]), (ALICE, &recipe()[1])] {
        lab.append(place, tables);
        lab.spawn_agent(place);
    }
    lab.start(RELAY);
    let to = SocketAddr::from(([127, 0, 0, 1], PORTS[BOB]));
    let bob = lab.machines[BOB].run(move || UdpSocket::bind(to).expect("nobody has it"));
    bob.set_read_timeout(Some(Duration::from_millis(500))).expect("more than nothing");
    let alice = lab.machines[ALICE].run(|| UdpSocket::bind("127.0.0.1:51821").expect("nobody has it"));
    let send = move || {
        alice.send_to(&[7; 1_320 + 32], to).expect("it is sent");
    };
    let until = Instant::now() + PATIENCE;
    loop {
        send();
        let comes = bob.recv(&mut [0; 2_000]).is_ok();
        if comes && lab.mapping(ALICE)["paths"][0]["state"] == "accepted" {
            return send;
        }
        assert!(Instant::now() < until, "the ends do not find each other, or no relay takes the flow");
    }
}

/// Waits until the direct path to bob has not delivered so many packets of the tunnel, and the right share of them is
/// lost for good. What a relay delivers before it is missed counts, too: so an outage is bridged.
fn wait_for_losses(lab: &Lab, least: u64, is_right: impl Fn(u64, u64) -> bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let received = lab.mapping(BOB)["received"].clone();
        let [lost, forwarded, unrepaired] =
            ["lost_direct", "forwarded", "unrepaired"].map(|fate| received[fate].as_u64().unwrap_or(0));
        let missed = lost + forwarded;
        if missed >= least && is_right(missed, unrepaired) {
            return;
        }
        assert!(Instant::now() < until, "of {missed} packets, {unrepaired} never came: {received}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_guides_forward_of_a_tunnel_repairs_its_losses_and_bridges_an_outage() {
    let Some(mut lab) = Lab::of(&SCENARIO.replace(LOSSES, BAD_PATH)) else { return };
    let send = forward_tunnel(&mut lab);
    lab.carrier.begin().expect("it carries");
    for _ in 0..600 {
        send();
        std::thread::sleep(Duration::from_millis(10));
    }
    wait_for_losses(&lab, 150, |lost, unrepaired| unrepaired * 20 <= lost);
}

#[test]
fn what_a_full_path_drops_of_a_tunnel_stays_lost() {
    let Some(mut lab) = Lab::of(&SCENARIO.replace(LOSSES, "rate = \"4 Mbit/s\"")) else { return };
    let send = forward_tunnel(&mut lab);
    let until = Instant::now() + PATIENCE;
    // More than the path carries, on a slow machine too.
    while lab.counted(BOB, "flow_congestion_losses") < 100 {
        assert!(Instant::now() < until, "nothing is left to congestion: {}", lab.mapping(BOB));
        for _ in 0..300 {
            send();
            send();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // What was lost at the end of each row was followed by silence.
    wait_for_losses(&lab, 100, |lost, unrepaired| unrepaired * 2 >= lost);
    assert_ne!(lab.mapping(BOB)["leaves_losses"], true, "what is left on purpose is no alarm");
}

#[test]
fn a_flow_whose_losses_all_stay_unrepaired_is_said_with_a_remedy() {
    let Some(mut lab) = Lab::new() else { return };
    // What is marked are key frames, and there are none.
    let forward =
        recipe()[1].replace("traffic = \"mixture\"", "copies = \"marked\"\nmarks = [\"rtp-vp8-key-frames\"]");
    lab.append(ALICE, &forward);
    lab.append(BOB, &recipe()[0]);
    lab.spawn_agent(BOB);
    lab.spawn_agent(ALICE);
    lab.start(RELAY);
    let alice = lab.machines[ALICE].run(|| UdpSocket::bind("127.0.0.1:51821").expect("nobody has it"));
    let until = Instant::now() + PATIENCE;
    while lab.mapping(ALICE)["leaves_losses"] != true {
        assert!(Instant::now() < until, "nobody says that nothing is repaired: {}", lab.mapping(ALICE));
        alice.send_to(&[7; 500], ("127.0.0.1", PORTS[BOB])).expect("it is sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mapping = lab.mapping(ALICE);
    let note = mapping["note"].as_str().unwrap_or_default();
    assert!(note.contains("were not repaired") && note.contains("copies = \"usual\""), "{mapping}");
    assert_eq!(mapping["sent"]["lost_direct"], mapping["sent"]["unrepaired"]);
    assert!(lab.metrics(ALICE).contains("byway_unrepaired_flows{} 1.0"));
    lab.wait(ALICE, "were not repaired");
}

#[test]
fn after_a_kill_the_tunnel_goes_on_without_byway_and_nothing_is_left() {
    for killed in [ALICE, BOB] {
        let Some(mut lab) = Lab::new() else { return };
        lab.start_all();
        lab.wait(ALICE, CAPTURED);
        lab.wait(BOB, CAPTURED);
        let [alice, bob] = &lab.ends();
        assert!(talk([alice, bob], ALICE, 20) >= 15);
        lab.kill(killed);
        lab.wait(1 - killed, "packets go without Byway");
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&lab.run(killed, &["uncapture"]).stdout).starts_with("0 rules") {
            assert!(Instant::now() < until, "rules are left of {}", NAMES[killed]);
        }
        let taken = lab.counted(1 - killed, "proxy_taken");
        let answered = talk([alice, bob], ALICE, 40);
        assert!(answered >= 20, "{answered} of 40 were answered without Byway");
        assert_eq!(lab.counted(1 - killed, "proxy_taken"), taken, "nothing is captured");
    }
}

#[test]
fn what_would_be_done_may_be_written_into_the_file() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.file(ALICE);
    let path = config.to_str().expect("text");
    let shown = lab.run(ALICE, &["protect", "wg0", "--config", path, "--copies", "all", "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let bob = addresses(BOB)[0];
    let rule = format!("ip rule add pref 4601 to {bob}/32 ipproto udp dport 51820-51820 lookup 4600");
    assert!(shown.contains(&rule), "{rule} is not in {shown}");
    let (tables, _) = shown.split_once("While the agent works").expect("settings, then changes");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, format!("{text}{tables}")).expect("room on the disk");
    let checked = lab.run(ALICE, &["config", "check", path]);
    assert!(checked.status.success(), "{tables}\n{checked:?}");
    let by_file = lab.run(ALICE, &["agent", "--config", path, "--dry-run"]);
    assert!(shown.ends_with(&String::from_utf8_lossy(&by_file.stdout).into_owned()), "{shown}\n{by_file:?}");
    let json = lab.run(
        BOB,
        &["protect", "wg0", "--config", lab.file(BOB).to_str().expect("text"), "--dry-run", "--json"],
    );
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(
        (&json["device"], &json["settings"]["tunnel"]["mtu"]),
        (&"wg0".into(), &1_480.into()),
        "{json}"
    );
    assert_eq!(json["settings"]["capture"][0]["ports"][0], "udp:51821", "{json}");
}

#[test]
fn a_tunnel_that_takes_everything_does_not_take_byways_own_packets() {
    let Some(mut lab) = Lab::new() else { return };
    // As wg-quick does.
    let full = "ip route add default dev wg0 table 51820 && ip rule add not fwmark 51820 table 51820";
    let made =
        lab.machines[ALICE].run(move || Command::new("sh").args(["-c", full]).output().expect("a shell"));
    if !made.status.success() {
        eprintln!("skipped: no iproute2: {made:?}");
        return;
    }
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let [alice, bob] = &lab.ends();
    // What WireGuard sends has its mark.
    socket2::SockRef::from(alice).set_mark(51_820).expect("this process may");
    assert!(talk([alice, bob], ALICE, 40) >= 30, "it is not carried");
}

#[test]
fn what_cannot_be_protected_says_why_and_what_to_do() {
    let Some(lab) = Lab::new() else { return };
    lab.says(ALICE, &[&endpoint(BOB), "(none)"]);
    let list = "Unable to access interface: Operation not supported";
    for (arguments, code, words) in [
        (&["wg7"][..], 2, &["no device \"wg7\"", "wg-quick up wg7"][..]),
        (&["wan0"], 2, &["wan0 is no device of WireGuard"]),
        (&["wg0"], 2, &["by the beginning of its public key", "--peer bob=a2V50AAA", "no endpoint yet"]),
        (&["wg0", "--peer", "eve"], 2, &["nobody called \"eve\""]),
        (&["wg0", "--peer", "bob=a2V50", "--from", "here"], 2, &["is no prefix"]),
        (&["wg0", "--peer", "bob=a2V50", "--rate", "4 Mbps"], 2, &["is no rate"]),
    ] {
        let (ended, said) = lab.refusal(arguments);
        assert!(ended == Some(code) && words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
    lab.tool(ALICE, &format!("echo '{list}' >&2\nexit 1\n"));
    assert!(lab.refusal(&["wg0"]).1.contains(list));
    let mut without = lab.command(ALICE, &["protect", "wg0", "--dry-run"]);
    without.env("PATH", lab.folder.path());
    let output = lab.machines[ALICE].run(move || without.output().expect("it starts"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("apt install wireguard-tools"), "{said}");
}

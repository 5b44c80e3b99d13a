//! `WireGuard` tunnels protected by `byway protect`, in machines of their own, over emulated links.
//! `WireGuard` itself is not needed: a program in place of its tool reports the tunnel, and plain
//! datagrams travel between the endpoints. Skipped if the kernel refuses namespaces to this
//! process.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

mod counters;
mod tunnels;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use byway_lab::addresses;

use tunnels::{ALICE, BOB, CAPTURED, Lab, NAMES, PORTS, Pin, RELAY, SCENARIO, TIMEOUT, endpoint, talk};

#[test]
fn what_a_tunnel_sends_is_captured_whole_at_both_ends_and_losses_are_repaired() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    lab.wait(BOB, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60) + talk([bob, alice], BOB, 60);
    assert!(answered >= 110, "{answered} of 120 were answered");
    for index in [ALICE, BOB] {
        let (accepted, delivered) =
            (lab.counter(index, "proxy_accepted"), lab.counter(index, "proxy_delivered"));
        // The packets are not fragmented.
        assert!(
            (100..=120).contains(&accepted) && (100..=120).contains(&delivered),
            "{accepted}, {delivered}"
        );
    }
    let until = Instant::now() + TIMEOUT;
    while lab.repaired(ALICE) + lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk([alice, bob], ALICE, 10);
    }
}

#[test]
fn an_end_that_learns_its_peers_endpoint_answers_by_byway() {
    let Some(mut lab) = Lab::new() else { return };
    lab.set_wg_output(BOB, &["(none)"]);
    lab.start_all();
    lab.wait(BOB, "WireGuard learns it from the peer's first packet");
    lab.wait(ALICE, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60);
    let accepted = lab.counter(BOB, "proxy_accepted");
    assert!(answered >= 50 && accepted >= 50, "{answered} of 60 were answered, {accepted} of them by Byway");
}

#[test]
fn with_a_controller_agents_find_out_themselves_who_has_the_address_that_the_other_sends_to() {
    let Some(mut lab) = Lab::managed() else { return };
    // Bob knows alice by the address of a NAT, which is not her machine's.
    lab.set_wg_output(BOB, &["198.51.100.21:40001"]);
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    lab.wait(BOB, "does not have 198.51.100.21, as behind");
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60);
    assert!(answered >= 50, "{answered} of 60 were answered");
    for index in [ALICE, BOB] {
        let accepted = lab.counter(index, "proxy_accepted");
        assert!(accepted >= 50, "{accepted} of 60 went by Byway from {}", NAMES[index]);
    }
    let until = Instant::now() + TIMEOUT;
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
    let until = Instant::now() + TIMEOUT;
    while lab.counter(ALICE, "proxy_accepted") < 20 {
        assert!(Instant::now() < until, "what is pinned is not captured");
        lab.send_by_tunnel(&ends, Pin::Packets);
    }
    lab.kill(ALICE);
    while marks(&lab) == Some(true) {
        assert!(Instant::now() < until + TIMEOUT, "rules of the firewall are left");
    }
}

#[test]
fn a_tunnel_of_which_nothing_is_captured_is_said_with_a_remedy_until_it_is() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let ends = lab.ends();
    let until = Instant::now() + TIMEOUT;
    while lab.notes(ALICE).is_empty() {
        assert!(Instant::now() < until, "nobody says that nothing is captured: {}", lab.status(ALICE));
        lab.send_by_tunnel(&ends, Pin::Socket);
    }
    assert_eq!(lab.counter(ALICE, "proxy_accepted"), 0, "nothing was captured");
    let [note] = &lab.notes(ALICE)[..] else { panic!("one is enough") };
    assert!(note.contains("binds its socket to a device") && note.contains("[[forward]]"), "{note}");
    let page = String::from_utf8(lab.run(ALICE, &["status"]).stdout).expect("text");
    assert!(page.contains(&format!("note: {note}")) && page.contains("active, 0 captured"), "{page}");
    lab.wait(ALICE, "WARN");
    assert!(lab.metrics(ALICE).contains("byway_capture_blind{} 1.0"));
    // The other end sends nothing, so no packets are missing there.
    assert!(lab.notes(BOB).is_empty());
    let until = Instant::now() + TIMEOUT;
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
    lab.wait(ALICE, "packets bypass Byway: start the node again");
    let after = ip(&lab, &["rule"]);
    assert!(!after.contains("4600"), "rules are left: {after}");
    lab.start(ALICE);
    lab.wait(ALICE, CAPTURED);
    let ends = lab.ends();
    talk([&ends[0], &ends[1]], ALICE, 20);
    assert!(lab.counter(ALICE, "proxy_accepted") > 0, "the new device captures packets");
}

#[test]
fn a_device_that_is_set_down_is_left_by_both_ends_and_captures_again_once_it_is_up() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for index in [ALICE, BOB] {
        lab.wait(index, CAPTURED);
    }
    let ends = lab.ends();
    let [alice, bob] = &ends;
    let both_ways = || [talk([alice, bob], ALICE, 20), talk([bob, alice], BOB, 20)];
    for index in [ALICE, BOB] {
        let set = |state: &'static str| {
            let set = move || Command::new("ip").args(["link", "set", "byway0", state]).status();
            assert!(lab.machines[index].run(set).expect("ip is there").success());
        };
        both_ways();
        set("down");
        lab.wait(index, "device byway0 is down: packets bypass Byway until it is up");
        // A packet or two are lost until the peer is informed, and the path loses a fifth of
        // requests and answers.
        let answered = [talk([alice, bob], ALICE, 60), talk([bob, alice], BOB, 60)];
        assert!(
            answered.iter().all(|answered| *answered >= 36),
            "{answered:?} of 60, {} is down",
            NAMES[index]
        );
        let accepted = [ALICE, BOB].map(|index| lab.counter(index, "proxy_accepted"));
        both_ways();
        assert_eq!(
            [ALICE, BOB].map(|index| lab.counter(index, "proxy_accepted")),
            accepted,
            "nothing is captured"
        );
        set("up");
        lab.wait(index, "device byway0 is up again");
        let until = Instant::now() + TIMEOUT;
        while [ALICE, BOB]
            .iter()
            .zip(accepted)
            .any(|(index, accepted)| lab.counter(*index, "proxy_accepted") < accepted + 5)
        {
            assert!(Instant::now() < until, "{} is up, and packets are not captured", NAMES[index]);
            both_ways();
        }
    }
}

/// Port of bob's tunnel after it was taken down and up.
const NEW_PORT: u16 = 51_900;

#[test]
fn a_tunnel_that_is_taken_down_and_up_with_another_port_is_captured_again_at_both_ends() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for place in [ALICE, BOB] {
        lab.wait(place, CAPTURED);
        lab.remove_tunnel_device(place);
        lab.wait(place, "device wg0 not found");
        let notes = lab.notes(place);
        assert!(notes.iter().any(|note| note.contains("wg-quick up wg0")), "{notes:?}");
    }
    let to = SocketAddr::new(addresses(BOB)[0], NEW_PORT);
    lab.set_wg_output(ALICE, &[&to.to_string()]);
    lab.set_wg_output_of_port(BOB, NEW_PORT, &[&endpoint(ALICE)]);
    for index in [ALICE, BOB] {
        lab.add_tunnel_device(index);
        lab.wait(index, "device wg0 exists again");
        assert!(lab.notes(index).is_empty());
    }
    let [alice, _] = &lab.ends();
    let bob = lab.machines[BOB].run(move || UdpSocket::bind(to).expect("nobody has it"));
    bob.set_read_timeout(Some(Duration::from_millis(100))).expect("more than nothing");
    let until = Instant::now() + TIMEOUT;
    let goes_by_byway = |lab: &Lab, index| {
        lab.counter(index, "proxy_accepted") >= 20 && lab.counter(index, "proxy_delivered") >= 20
    };
    while ![ALICE, BOB].into_iter().all(|index| goes_by_byway(&lab, index)) {
        assert!(Instant::now() < until, "the tunnel is up, and its packets are not captured");
        alice.send_to(&[7; 500], to).expect("it is sent");
        if let Ok((length, from)) = bob.recv_from(&mut [0; 2_000]) {
            bob.send_to(&vec![7; length], from).expect("it is sent");
        }
    }
}

/// Returns the tables of the guide's recipe for a tunnel through a forward: bob's, then alice's.
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

/// Losses between the two in the scenario.
const LOSSES: &str = r#"loss = [{ share = "10 %", burst = 3.0, every = "10 ms" }]"#;

/// Independent losses and, a second after the begin, an outage.
const BAD_PATH: &str = r#"loss = [{ share = "4 %" }], outage = [{ at = "1 s", for = "2 s" }]"#;

/// Delay of the path in the scenario, and one with which repairs arrive within a quarter of the
/// round trip even on a busy machine.
const DELAYS: [&str; 2] = [r#"["alice", "bob"], delay = "20 ms""#, r#"["alice", "bob"], delay = "60 ms""#];

/// Sets up a forward of a tunnel as in the guide, and waits until a relay accepts its flow.
fn forward_tunnel(lab: &mut Lab) -> impl Fn() + use<> {
    for (index, tables) in [(BOB, &recipe()[0]), (ALICE, &recipe()[1])] {
        lab.append(index, tables);
        lab.spawn_agent(index);
    }
    lab.start(RELAY);
    let to = SocketAddr::from(([127, 0, 0, 1], PORTS[BOB]));
    let bob = lab.machines[BOB].run(move || UdpSocket::bind(to).expect("nobody has it"));
    bob.set_read_timeout(Some(Duration::from_millis(500))).expect("more than nothing");
    let alice = lab.machines[ALICE].run(|| UdpSocket::bind("127.0.0.1:51821").expect("nobody has it"));
    let send = move || {
        alice.send_to(&[7; 1_320 + 32], to).expect("it is sent");
    };
    let until = Instant::now() + TIMEOUT;
    loop {
        send();
        let comes = bob.recv(&mut [0; 2_000]).is_ok();
        if comes && lab.mapping(ALICE)["paths"][0]["state"] == "accepted" {
            return send;
        }
        assert!(Instant::now() < until, "the ends do not find each other, or no relay takes the flow");
    }
}

/// Waits until the direct path to bob has failed to deliver `least` packets of the tunnel, and the
/// unrepaired share is right. Packets that a relay forwards before they are detected as lost count
/// as well, because they bridge an outage.
fn wait_for_losses(lab: &Lab, least: u64, is_right: impl Fn(u64, u64) -> bool) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let received = lab.mapping(BOB)["received"].clone();
        let [lost, forwarded, unrepaired] =
            ["lost_direct", "forwarded", "unrepaired"].map(|fate| received[fate].as_u64().unwrap_or(0));
        let missed = lost + forwarded;
        if missed >= least && is_right(missed, unrepaired) {
            return;
        }
        assert!(Instant::now() < until, "of {missed} packets, {unrepaired} never arrived: {received}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_guides_forward_of_a_tunnel_repairs_its_losses_and_bridges_an_outage() {
    let Some(mut lab) = Lab::of(&SCENARIO.replace(LOSSES, BAD_PATH).replace(DELAYS[0], DELAYS[1])) else {
        return;
    };
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
    let until = Instant::now() + TIMEOUT;
    // The load exceeds the path's rate even on a slow machine.
    while lab.counter(BOB, "flow_congestion_losses") < 100 {
        assert!(Instant::now() < until, "nothing is left to congestion: {}", lab.mapping(BOB));
        for _ in 0..300 {
            send();
            send();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // Silence followed the losses at the end of each series of 600 packets.
    wait_for_losses(&lab, 100, |lost, unrepaired| unrepaired * 2 >= lost);
    assert_ne!(lab.mapping(BOB)["losses_unrepaired"], true, "what is left on purpose is no alarm");
}

#[test]
fn a_flow_whose_losses_all_stay_unrepaired_is_said_with_a_remedy() {
    let Some(mut lab) = Lab::new() else { return };
    // The selected packets are key frames, and the flow has none.
    let forward =
        recipe()[1].replace("traffic = \"mixture\"", "copies = \"marked\"\nmarks = [\"rtp-vp8-key-frames\"]");
    lab.append(ALICE, &forward);
    lab.append(BOB, &recipe()[0]);
    lab.spawn_agent(BOB);
    lab.spawn_agent(ALICE);
    lab.start(RELAY);
    let alice = lab.machines[ALICE].run(|| UdpSocket::bind("127.0.0.1:51821").expect("nobody has it"));
    let until = Instant::now() + TIMEOUT;
    while lab.mapping(ALICE)["losses_unrepaired"] != true {
        assert!(Instant::now() < until, "nobody says that nothing is repaired: {}", lab.mapping(ALICE));
        alice.send_to(&[7; 500], ("127.0.0.1", PORTS[BOB])).expect("it is sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mapping = lab.mapping(ALICE);
    let note = mapping["note"].as_str().unwrap_or_default();
    assert!(note.contains("was repaired") && note.contains("copies = \"usual\""), "{mapping}");
    assert_eq!(mapping["sent"]["lost_direct"], mapping["sent"]["unrepaired"]);
    assert!(lab.metrics(ALICE).contains("byway_unrepaired_flows{} 1.0"));
    lab.wait(ALICE, "was repaired");
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
        lab.wait(1 - killed, "capture inactive");
        let until = Instant::now() + TIMEOUT;
        while !String::from_utf8_lossy(&lab.run(killed, &["uncapture"]).stdout).starts_with("0 rules") {
            assert!(Instant::now() < until, "rules are left of {}", NAMES[killed]);
        }
        let accepted = lab.counter(1 - killed, "proxy_accepted");
        let answered = talk([alice, bob], ALICE, 40);
        assert!(answered >= 20, "{answered} of 40 were answered without Byway");
        assert_eq!(lab.counter(1 - killed, "proxy_accepted"), accepted, "nothing is captured");
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
    let (tables, _) = shown.split_once("While the agent runs").expect("settings, then changes");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, format!("{text}{tables}")).expect("space on the disk");
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
    // These are wg-quick's commands.
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
    // WireGuard's own packets have its mark.
    socket2::SockRef::from(alice).set_mark(51_820).expect("this process may");
    assert!(talk([alice, bob], ALICE, 40) >= 30, "Byway does not accept it");
}

#[test]
fn what_cannot_be_protected_says_why_and_what_to_do() {
    let Some(lab) = Lab::new() else { return };
    lab.set_wg_output(ALICE, &[&endpoint(BOB), "(none)"]);
    let list = "Unable to access interface: Operation not supported";
    for (arguments, code, words) in [
        (&["wg7"][..], 2, &["device \"wg7\" not found", "wg-quick up wg7"][..]),
        (&["wan0"], 2, &["wan0 is not a WireGuard device"]),
        (
            &["wg0"],
            2,
            &["by the first characters of its public key", "--peer bob=a2V50AAA", "no endpoint yet"],
        ),
        (&["wg0", "--peer", "eve"], 2, &["no pair of this agent with \"eve\""]),
        (&["wg0", "--peer", "bob=a2V50", "--from", "here"], 2, &["invalid prefix"]),
        (&["wg0", "--peer", "bob=a2V50", "--rate", "4 Mbps"], 2, &["invalid rate"]),
    ] {
        let (ended, message) = lab.refusal(arguments);
        assert!(
            ended == Some(code) && words.iter().all(|word| message.contains(word)),
            "{arguments:?}: {message}"
        );
    }
    lab.tool(ALICE, &format!("echo '{list}' >&2\nexit 1\n"));
    assert!(lab.refusal(&["wg0"]).1.contains(list));
    let mut without = lab.command(ALICE, &["protect", "wg0", "--dry-run"]);
    without.env("PATH", lab.folder.path());
    let output = lab.machines[ALICE].run(move || without.output().expect("it starts"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && message.contains("apt install wireguard-tools"), "{message}");
}

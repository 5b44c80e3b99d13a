//! Capture of packets that firewall rules put into a queue (NFQUEUE), by real agents in machines of
//! their own, over emulated links. Skipped if the kernel refuses namespaces to this process, or has
//! no such queues.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

mod counters;
mod machines;

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use byway_lab::addresses;
use byway_net::{PacketQueues, QueueError};
use rustix::net::sockopt::set_socket_send_buffer_size_force;
use rustix::process::{Pid, Signal, kill_process};

use machines::{ALICE, BOB, Lab, PORT, RELAY, TIMEOUT, talk};

const QUEUE: u16 = 7;

/// Mark of Byway's own packets: the number of its routing table.
const OWN: u32 = 4_600;

/// Makes machines on which alice's packets to bob all enter a queue, including Byway's own packets
/// and those from its device. Reverse-path filtering is strict on her machine and loose on his.
fn lab() -> Option<Lab> {
    let [ipv4, ipv6] = addresses(BOB).map(|address| address.to_string());
    lab_with(
        "",
        &[
            ("iptables", &["OUTPUT", "-d", &ipv4]),
            ("ip6tables", &["OUTPUT", "-d", &ipv6]),
            ("iptables", &["PREROUTING", "-i", "byway0"]),
        ],
    )
}

/// Makes the machines with more keys of alice's capture, and with other rules for the queue.
fn lab_with(keys: &str, rules: &[(&str, &[&str])]) -> Option<Lab> {
    let lab = Lab::capturing(&format!("queue = {QUEUE}\n{keys}"))?;
    for &(program, chosen) in rules {
        let mut command = Command::new(program);
        command.args(["-w", "1", "-t", "mangle", "-A"]).args(chosen);
        command.args(["-j", "NFQUEUE", "--queue-num", &QUEUE.to_string(), "--queue-bypass"]);
        let made = lab.machines[ALICE].run(move || command.output());
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            eprintln!("skipped: {program} makes no rule with NFQUEUE: {made:?}");
            return None;
        }
    }
    match lab.machines[ALICE].run(|| PacketQueues::bind(&[QUEUE])) {
        Ok(_) => {}
        Err(QueueError::Unsupported(error)) => {
            eprintln!("skipped: the kernel has no queues of packets: {error}");
            return None;
        }
        Err(other) => panic!("{other}"),
    }
    for (index, check) in [(ALICE, "1"), (BOB, "2")] {
        let set =
            lab.machines[index].run(move || std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", check));
        set.expect("the machine has the switch");
    }
    Some(lab)
}

/// Counts the packets of the queue that alice's agent has consumed, and those that it has accepted.
fn queued(lab: &Lab) -> [u64; 2] {
    ["proxy_queued_captured", "proxy_queued_accepted"].map(|name| lab.counter(ALICE, name))
}

/// Opens IPv4 sockets of alice and bob.
fn sockets(lab: &Lab) -> [UdpSocket; 2] {
    let socket = |index: usize, port: u16| {
        let address = addresses(index)[0];
        let socket =
            lab.machines[index].run(move || UdpSocket::bind((address, port)).expect("it is its own"));
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("more than nothing");
        socket
    };
    [socket(ALICE, 0), socket(BOB, PORT)]
}

/// Sends a datagram until it arrives, at most 50 times, because the path loses some. True if one
/// arrives.
fn reaches([alice, bob]: &[UdpSocket; 2], length: usize) -> bool {
    let to = SocketAddr::new(addresses(BOB)[0], PORT);
    let mut buffer = [0; 4_000];
    (0..50).any(|_| {
        alice.send_to(&vec![7; length], to).expect("it is sent");
        bob.recv(&mut buffer).is_ok_and(|arrived| arrived == length)
    })
}

#[test]
fn connections_go_by_a_queue_and_their_answers_by_the_device_and_losses_are_repaired() {
    let Some(mut lab) = lab() else { return };
    lab.start_all();
    for address in addresses(BOB) {
        lab.serve(address, PORT);
        talk(&mut lab.connect(address, PORT), 200_000);
    }
    let (taken, delivered) =
        (lab.counter(ALICE, "proxy_accepted_bytes"), lab.counter(BOB, "proxy_delivered_bytes"));
    assert!(taken > 400_000 && delivered > 400_000, "{taken} bytes taken, {delivered} delivered");
    let answers = lab.counter(ALICE, "proxy_delivered_bytes");
    assert!(answers > 400_000, "{answers} bytes came back");
    let until = Instant::now() + TIMEOUT;
    while lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk(&mut lab.connect(addresses(BOB)[0], PORT), 200_000);
    }
    let (packets, [taken, accepted]) = (lab.counter(ALICE, "proxy_accepted"), queued(&lab));
    assert!(packets <= taken, "{packets} packets went by Byway, {taken} of them out of the queue");
    // Byway's own packets and those from its device were accepted.
    assert!(accepted > 0, "nothing was let go on");
    assert_eq!(lab.counter(ALICE, "proxy_queue_overruns"), 0);
}

#[test]
fn datagrams_go_both_ways_and_what_is_byways_or_too_long_goes_on() {
    let Some(mut lab) = lab() else { return };
    lab.start_all();
    let sockets = sockets(&lab);
    let [alice, bob] = &sockets;
    let (mut buffer, mut answered) = ([0; 2_000], 0);
    // The longest payload of an Ethernet becomes two packets of Byway.
    for length in [4, 1_326, 1_472].into_iter().cycle().take(60) {
        alice.send_to(&vec![7; length], (addresses(BOB)[0], PORT)).expect("it is sent");
        let Ok((arrived, from)) = bob.recv_from(&mut buffer) else { continue };
        assert_eq!((arrived, from.ip()), (length, addresses(ALICE)[0]));
        bob.send_to(&buffer[..arrived], from).expect("it is sent");
        answered += u32::from(alice.recv(&mut buffer).is_ok_and(|arrived| arrived == length));
    }
    assert!(answered >= 50, "{answered} of 60 came back");
    assert!(lab.counter(ALICE, "proxy_accepted") >= 60 && lab.counter(ALICE, "proxy_delivered") >= 50);
    let [accepted, _] = queued(&lab);
    assert!(reaches(&sockets, 2_000), "no datagram of 2,000 bytes came");
    socket2::SockRef::from(alice).set_mark(OWN).expect("root may");
    assert!(reaches(&sockets, 4), "no datagram with Byway's mark came");
    assert_eq!(queued(&lab)[0], accepted, "that was not for the agent");
    socket2::SockRef::from(alice).set_mark(OWN + 1).expect("root may");
    assert!(reaches(&sockets, 4), "no datagram with another mark came");
    assert!(queued(&lab)[0] > accepted, "that was");
}

#[test]
fn without_the_peer_and_without_the_agent_packets_go_on_at_once() {
    let Some(mut lab) = lab() else { return };
    let address = addresses(BOB)[0];
    lab.serve(address, PORT);
    // No program has opened the queue.
    let mut stream = lab.connect(address, PORT);
    talk(&mut stream, 10_000);
    // The peer is not reachable yet.
    lab.start(RELAY);
    lab.start(ALICE);
    lab.wait(ALICE, "agent started");
    talk(&mut stream, 10_000);
    talk(&mut lab.connect(address, PORT), 10_000);
    let [taken, accepted] = queued(&lab);
    assert!(taken == 0 && accepted > 0, "{taken} packets taken, {accepted} let go on");
    lab.start(BOB);
    lab.wait(ALICE, "capture active");
    talk(&mut stream, 10_000);
    assert!(queued(&lab)[0] > 0, "a connection that is there goes by Byway");
    for killed in [BOB, ALICE] {
        lab.kill(killed);
        talk(&mut stream, 10_000);
        talk(&mut lab.connect(address, PORT), 10_000);
        lab.start(killed);
        let until = Instant::now() + TIMEOUT;
        lab.wait(killed, "agent started");
        let [taken, _] = queued(&lab);
        while queued(&lab)[0] == taken {
            talk(&mut lab.connect(address, PORT), 1_000);
            assert!(Instant::now() < until, "nothing is taken after the agent is back");
        }
        talk(&mut stream, 10_000);
    }
}

#[test]
fn what_finds_no_room_in_a_queue_goes_on_and_is_counted() {
    let Some(mut lab) = lab() else { return };
    lab.start_all();
    let [alice, bob] = sockets(&lab);
    // Queued packets occupy the sender's socket buffer.
    set_socket_send_buffer_size_force(&alice, 64 << 20).expect("root may");
    let pid = Pid::from_child(lab.nodes[ALICE].as_ref().expect("it works"));
    kill_process(pid, Signal::STOP).expect("it is ours");
    let until = Instant::now() + TIMEOUT;
    loop {
        for _ in 0..5_000 {
            alice.send_to(&[7; 1_000], (addresses(BOB)[0], PORT)).expect("it is sent");
        }
        // The path's bursts of losses may be as long.
        if bob.recv(&mut [0; 2_000]).is_ok() {
            break;
        }
        assert!(Instant::now() < until, "nothing went on");
    }
    kill_process(pid, Signal::CONT).expect("it is ours");
    while lab.counter(ALICE, "proxy_queue_overruns") == 0 {
        assert!(Instant::now() < until, "nothing is counted");
    }
    lab.serve(addresses(BOB)[0], PORT);
    let [accepted, _] = queued(&lab);
    while queued(&lab)[0] == accepted {
        talk(&mut lab.connect(addresses(BOB)[0], PORT), 1_000);
        assert!(Instant::now() < until, "nothing is taken any more");
    }
}

#[test]
fn what_stands_in_the_way_is_said_and_nothing_is_half_done() {
    let Some(mut lab) = lab() else { return };
    let file = lab.file(ALICE);
    let file = file.to_str().expect("text");
    let shown = lab.run(ALICE, &["agent", "--config", file, "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    for words in ["-m mark ! --mark 0x11f8 -j NFQUEUE --queue-num 7 --queue-bypass", "-i byway0"] {
        assert!(shown.contains(words) && !shown.contains("rule add"), "{words} is not in {shown}");
    }
    if let Some(refused) = lab.run_as_nobody(ALICE) {
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(3) && message.contains("CAP_NET_ADMIN"), "{message}");
    }
    let queues = lab.machines[ALICE].run(|| PacketQueues::bind(&[QUEUE]).expect("nobody has it"));
    let refused = lab.run(ALICE, &["agent", "--config", file]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && message.contains("packet queue 7 in use by another process"),
        "{message}"
    );
    let left = lab.run(ALICE, &["uncapture"]);
    assert!(String::from_utf8_lossy(&left.stdout).starts_with("0 rules"), "{left:?}");
    let device = lab.machines[ALICE].run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    assert!(!device.expect("a list").contains("byway0"), "the device is still there");
    drop(queues);
    lab.start(ALICE);
    lab.wait(ALICE, "agent started");
}

#[test]
fn packets_of_a_dscp_are_of_low_delay_at_the_uplinks_of_relays() {
    let to = SocketAddr::new(addresses(BOB)[0], PORT);
    let there = to.ip().to_string();
    let rule: &[&str] = &["OUTPUT", "-d", &there, "-m", "dscp", "--dscp", "45"];
    let Some(mut lab) = lab_with("latency_budget = \"150 ms\"", &[("iptables", rule)]) else { return };
    let file = lab.file(RELAY);
    let relay = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(file, relay + "[uplink]\nrate = \"50 Mbit/s\"\n").expect("space on the disk");
    lab.start_all();
    let sockets = sockets(&lab);
    assert!(reaches(&sockets, 500), "what is not marked goes its own way");
    assert_eq!(queued(&lab)[0], 0);
    let [alice, bob] = &sockets;
    rustix::net::sockopt::set_ip_tos(alice, 45 << 2).expect("a sender says what it wants");
    let until = Instant::now() + TIMEOUT;
    while lab.repaired(BOB) < 10 {
        assert!(Instant::now() < until, "nothing was repaired");
        for _ in 0..50 {
            alice.send_to(&[7; 500], to).expect("it is sent");
            let _ = bob.recv(&mut [0; 2_000]);
        }
    }
    let [high_rate, low_delay] =
        ["uplink_high_rate_bytes", "uplink_low_delay_bytes"].map(|name| lab.counter(RELAY, name));
    assert_eq!(high_rate, 0, "nothing here is of high rate");
    assert!(low_delay > 10 * 500, "{low_delay} bytes: ten repaired packets, at the least");
}

//! The guide, executed: its literal commands and files, on machines with its names and addresses,
//! over a direct path with losses and outages. In each section, its service repairs the losses.
//! Skipped if the kernel refuses namespaces to this process.

#![allow(dead_code, unreachable_pub, reason = "modules of tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped, and what nodes logged when a test fails")]

mod counters;
#[path = "guide/page.rs"]
mod page;
#[path = "guide/pages.rs"]
mod pages;
#[path = "guide/script.rs"]
mod script;
#[path = "guide/services.rs"]
mod services;
#[path = "guide/shape.rs"]
mod shape;
#[path = "guide/stand_ins.rs"]
mod stand_ins;
#[path = "guide/traffic.rs"]
mod traffic;
#[path = "guide/units.rs"]
mod units;
#[path = "guide/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use byway_net::{Device, DeviceSettings};
use page::{Block, commands, table};
use script::{Guide, headings, read};
use services::{Mode, alternatives};
use traffic::{Caller, Listener, call_through_an_outage, call_through_losses, flow_counts, total_counts};
use world::{Impairments, Sites, World};

/// Longest time of any step: a guard, not a measure.
pub const TIMEOUT: Duration = Duration::from_secs(30);

const GUIDE: &str = "docs/guide.md";

/// Headings of the guide with blocks, by the test that executes them.
const MANAGED: [&str; 10] = [
    "Install",
    "2. Start the controller, on `east`",
    "3. Make tokens, on `east`",
    "4. Start the relays",
    "5. Start the agents",
    "6. Call",
    "See a repair happen",
    "Upgrades",
    "Change settings without a restart",
    "Changes",
];
const STATIC: [&str; 2] = ["B. Without a controller", "Through a forward"];
const PROTECTED: [&str; 1] = ["A tunnel that is there already"];
const CAPTURED: [&str; 2] =
    ["D. Applications that know nothing of Byway", "Packets that rules of the firewall choose"];

/// Returns the block with other words, at other machines.
fn analogous(block: &Block, words: &[(&str, &str)], targets: &[&str]) -> Block {
    let replaced = |text: &str| words.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    Block { text: replaced(&block.text), targets, ..block.clone() }
}

/// Replacements that turn the guide's example of East into West.
const WEST: [(&str, &str); 2] = [("east", "west"), ("203.0.113.11", "203.0.113.12")];

#[test]
fn every_block_of_the_guide_is_played_by_a_test() {
    let played = MANAGED.iter().chain(&STATIC).chain(&PROTECTED).chain(&CAPTURED);
    let played: BTreeSet<String> = played.map(|heading| (*heading).to_owned()).collect();
    assert_eq!(headings(&read(GUIDE)), played);
}

#[test]
fn the_table_of_features_names_a_test_for_each_line_that_works() {
    let features = read("docs/features.md");
    for row in table(&features, "What works today") {
        let [part, state, shown] = &row[..] else { panic!("three cells: {row:?}") };
        let links: Vec<(&str, &str)> = shown
            .split("[`")
            .skip(1)
            .map(|link| link.split_once("`](").expect("a name and a link"))
            .map(|(name, rest)| (name, rest.split(')').next().expect("the link's end")))
            .map(|(name, path)| (name, path.trim_start_matches("../")))
            .collect();
        assert!(!links.is_empty() || state == "not yet", "{part}: nothing shows it");
        for (name, path) in links {
            assert!(script::root().join(path).exists(), "{part}: {path}");
            let is_file = path.ends_with(&format!("/{name}")) || script::root().join(path).is_dir();
            let is_shown = is_file || read(path).contains(&format!("fn {name}("));
            assert!(is_shown, "{part}: {name} is not in {path}");
        }
    }
}

/// Runs the README's quick start, in terminals, with one relay that is also the controller.
#[test]
fn the_quick_start_of_the_readme_protects_a_call() {
    let Some(mut guide) = Guide::new("README.md", Sites::Homes) else { return };
    guide.install();
    let block = guide.blocks_of("Quick start").remove(0);
    for command in commands(&block) {
        let host = if command.host.as_deref() == Some("relay") {
            "east"
        } else {
            command.host.as_deref().expect("a name")
        };
        for line in command.line.split("; ") {
            guide.type_in(
                host,
                &page::ConsoleCommand { host: None, line: line.to_owned(), shown: Vec::new() },
            );
        }
    }
    let _application = Listener::new(&guide.world, "bob", "127.0.0.1:6000", true);
    let caller = Caller::new(&guide.world, "alice", "127.0.0.1:5000");
    caller.reach();
    call_through_an_outage(&guide.world, &[&caller]);
    Mode::Automatic.check(flow_counts(&guide.world, &caller));
}

#[test]
fn with_a_controller_what_a_call_loses_is_repaired() {
    let Some(mut guide) = Guide::new(GUIDE, Sites::Homes) else { return };
    for heading in &MANAGED[..3] {
        guide.run_section(heading);
    }
    let relay = guide.blocks_of("4. Start the relays");
    let [file, start] = &relay[..] else { panic!("a file and its start: {relay:?}") };
    let west = [analogous(file, &WEST, &["west:/etc/byway/relay.toml"]), analogous(start, &WEST, &["west"])];
    for block in relay.iter().chain(&west) {
        guide.run_block(block, &mut |_, _| {});
    }
    guide.run_section("5. Start the agents");
    guide.run_section("6. Call");
    let caller = Caller::new(&guide.world, "alice", "127.0.0.1:5000");
    caller.reach();
    call_through_an_outage(&guide.world, &[&caller]);
    Mode::Automatic.check(flow_counts(&guide.world, &caller));
    see_a_repair(&mut guide);
    guide.run_section("Upgrades");
    let before = flow_counts(&guide.world, &caller);
    call_through_an_outage(&guide.world, &[&caller]);
    Mode::Automatic.check(flow_counts(&guide.world, &caller).since(before));
    change_settings(&mut guide);
    let before = flow_counts(&guide.world, &caller);
    caller.call(50);
    let after = flow_counts(&guide.world, &caller).since(before);
    assert!(after.direct >= 45, "the flow goes on where it was: {after:?}");
    guide.run_section("Changes");
}

/// Adds a forward and reloads the unit, then runs the section with another forward in its place.
fn change_settings(guide: &mut Guide) {
    let with =
        |port: u16| format!("[[forward]]\nlisten = \"127.0.0.1:{port}\"\npeer = \"bob\"\nto = \"call\"\n");
    let before = read_file(guide, "alice");
    guide.write("alice:/etc/byway/agent.toml+", &with(5_002));
    let line = "sudo systemctl reload byway-agent".to_owned();
    guide.type_in("alice", &page::ConsoleCommand { host: None, line, shown: Vec::new() });
    let agent = &guide.running[&("alice".to_owned(), "byway-agent".to_owned())];
    units::wait_for(agent, "127.0.0.1:5002");
    let forwards = guide.world.status("alice")["forwards"].to_string();
    assert!(forwards.contains("127.0.0.1:5002"), "{forwards}");
    // The unit's node reads its own copy of the file.
    guide.write("alice:/run/byway-agent/agent.toml", &format!("{before}\n{}", with(5_001)));
    guide.run_section("Change settings without a restart");
}

/// Packets of a call in 250 ms: the most that an outage takes which begins while the flow pauses.
/// Its receiver expects no packets, so its sender notices it first, and within that time.
const MISSING_MAX: u64 = 13;

/// Runs the section with a call in the background, then the outage that it describes, and removes
/// the rule.
fn see_a_repair(guide: &mut Guide) {
    let caller = Caller::new(&guide.world, "alice", "127.0.0.1:5000");
    caller.reach();
    guide.run_section_with("See a repair happen", |_, command| {
        if command.line.contains("iptables") {
            caller.call(traffic::PACKETS);
        }
    });
    let lossy = flow_counts(&guide.world, &caller);
    assert!(lossy.lost > 0 && lossy.cached + lossy.resent > 0, "{lossy:?}");
    let block = guide.blocks_of("See a repair happen").remove(0);
    let mut rule = commands(&block).remove(0);
    let always = rule.line.replace("-m statistic --mode random --probability 0.05 ", "");
    assert_ne!(rule.line, always, "the page says how to have it drop everything");
    for (line, packets) in [(always.clone(), 100), (always.replace("-A INPUT", "-D INPUT"), 20)] {
        rule.line = line;
        guide.type_in("bob", &rule);
        caller.call(packets);
    }
    let dark = flow_counts(&guide.world, &caller).since(lossy);
    assert!(dark.lost >= 80 && dark.missing <= MISSING_MAX, "{dark:?}");
}

/// Most additional calls, of two seconds, until an isolated loss occurs.
const LOSSY_CALLS_MAX: usize = 20;

#[test]
fn without_a_controller_each_service_repairs_what_it_stands_for() {
    let Some(mut guide) = Guide::new(GUIDE, Sites::Homes) else { return };
    guide.install();
    let blocks = guide.blocks_of("B. Without a controller");
    let [keys, network, files, start] = &blocks[..] else { panic!("{blocks:?}") };
    let agents = [("relay", "agent")];
    let at_agents = |block: &Block| analogous(block, &agents, &["bob", "alice"]);
    for block in [keys, &at_agents(keys), network] {
        guide.run_block(block, &mut |_, _| {});
    }
    let rows = own_files(&mut guide);
    for block in [files, &analogous(files, &[("east", "west"), ("bob", "alice")], &[])] {
        guide.run_block(block, &mut |_, _| {});
    }
    guide.run_section("Through a forward");
    for block in [start, &at_agents(start)] {
        guide.run_block(block, &mut |_, _| {});
    }
    let world = &guide.world;
    let _applications =
        ["127.0.0.1:6000", "127.0.0.1:51820"].map(|address| Listener::new(world, "bob", address, true));
    let tunnel = ("127.0.0.1:51820".to_owned(), Mode::Caching);
    let flows: Vec<(Caller, Mode)> = rows
        .into_iter()
        .chain([tunnel])
        .flat_map(|(address, mode)| (0..mode.flows()).map(move |_| (address.clone(), mode)))
        .map(|(address, mode)| (Caller::new(world, "alice", &address), mode))
        .collect();
    for (caller, _) in &flows {
        caller.reach();
    }
    call_through_an_outage(world, &flows.iter().map(|(caller, _)| caller).collect::<Vec<_>>());
    let fates = || flows.iter().map(|(caller, mode)| (*mode, flow_counts(world, caller))).collect::<Vec<_>>();
    let mut seen = fates();
    // A call has few isolated losses, possibly none that a block of sixteen repairs.
    for _ in 0..LOSSY_CALLS_MAX {
        if seen.iter().all(|(mode, fate)| *mode != Mode::SenderFec || fate.in_stream > 0) {
            break;
        }
        let own = flows.iter().filter(|(_, mode)| *mode == Mode::SenderFec);
        call_through_losses(world, &own.map(|(caller, _)| caller).collect::<Vec<_>>());
        seen = fates();
    }
    services::check_all(&seen, || world.status("alice").to_string());
}

/// Writes `own.toml` of Bob and Alice. Alice's has a forward for each choice in the guide's table
/// of services. Returns the forwards' addresses and modes.
fn own_files(guide: &mut Guide) -> Vec<(String, Mode)> {
    let own = guide.blocks_of("5. Start the agents");
    let without_token = |block: &Block| {
        let lines = block.text.lines().filter(|line| !line.starts_with("token = "));
        lines.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    guide.write("bob:own.toml", &without_token(&own[0]));
    let alice = without_token(&own[1]);
    let (_, forward) = alice.split_once("[[forward]]").expect("a forward");
    let (mut text, mut rows) = (alice.clone(), Vec::new());
    for row in table(&guide.text, "Choose a service") {
        for settings in alternatives(&row[1]) {
            let address = format!("127.0.0.1:{}", 5_001 + rows.len());
            let forward = forward.replace("127.0.0.1:5000", &address);
            text.extend(["\n[[forward]]", &forward, &settings.join("\n"), "\n"]);
            rows.push((address, Mode::of(&settings)));
        }
    }
    guide.write("alice:own.toml", &text);
    rows
}

#[test]
fn where_no_direct_path_opens_relays_carry_a_call() {
    let Some(mut guide) = Guide::new(GUIDE, Sites::Homes) else { return };
    guide.world.set_impairments(Impairments::Outage);
    static_network(&mut guide, "");
    let own = guide.blocks_of("5. Start the agents");
    for (host, block) in ["bob", "alice"].into_iter().zip(&own) {
        let (_, flows) = block.text.split_once("[[").expect("a table of flows");
        guide.write(&format!("{host}:/etc/byway/agent.toml+"), &format!("[[{flows}"));
        guide.start(host, "byway-agent");
    }
    let application = Listener::new(&guide.world, "bob", "127.0.0.1:6000", true);
    let caller = Caller::new(&guide.world, "alice", "127.0.0.1:5000");
    caller.reach();
    let before = application.count();
    caller.call(200);
    let arrived = traffic::settled(|| application.count()) - before;
    let peer = guide.world.status("alice")["peers"][0].clone();
    assert!(peer["is_relayed"] == true && arrived >= 198, "{arrived} of 200 arrived: {peer}");
}

/// Sets up a network without a controller, with running relays. Each agent's file follows the guide
/// except for flows; Bob's entry may have an address.
fn static_network(guide: &mut Guide, of_bob: &str) {
    guide.install();
    let blocks = guide.blocks_of("B. Without a controller");
    let [keys, network, files, start] = &blocks[..] else { panic!("{blocks:?}") };
    let at_agents = analogous(keys, &[("relay", "agent")], &["bob", "alice"]);
    let bob = format!("name = \"bob\"\n{of_bob}");
    let network = Block { text: network.text.replace("name = \"bob\"\n", &bob), ..network.clone() };
    for block in [keys, &at_agents, &network] {
        guide.run_block(block, &mut |_, _| {});
    }
    let listen = if of_bob.is_empty() { "" } else { "listen = [\"0.0.0.0:4600\"]\n" };
    guide.write("bob:own.toml", &format!("[agent]\nname = \"bob\"\n{listen}"));
    guide.write("alice:own.toml", "[agent]\nname = \"alice\"\n");
    for block in [files, &analogous(files, &[("east", "west"), ("bob", "alice")], &[]), start] {
        guide.run_block(block, &mut |_, _| {});
    }
}

#[test]
fn a_tunnel_that_is_there_already_has_its_losses_repaired_from_the_cache() {
    let Some(mut guide) = Guide::new(GUIDE, Sites::OneHome) else { return };
    static_network(&mut guide, "addresses = [\"203.0.113.9:4600\"]\n");
    let ends = [("alice", 51_821, "203.0.113.9:51820", 1), ("bob", 51_820, "198.51.100.21:51821", 2)];
    let _devices = ends.map(|(host, port, peer, number)| tunnel(&guide.world, host, port, peer, number));
    guide.run_section("A tunnel that is there already");
    units::wait_for(&guide.running[&("alice".to_owned(), "protect".to_owned())], "capture active");
    let world = &guide.world;
    let _far = Listener::new(world, "bob", "0.0.0.0:51820", true);
    let near = Caller::from_port(world, "alice", 51_821, "203.0.113.9:51820");
    near.reach();
    call_through_an_outage(world, &[&near]);
    Mode::Caching.check(total_counts(world, "bob"));
    let answers = total_counts(world, "alice");
    assert!(answers.lost > 0 && answers.repaired() >= 0.9, "{answers:?}");
    let accepted = ["alice", "bob"].map(|host| traffic::counter(world, host, "proxy_accepted"));
    assert!(
        accepted.iter().all(|accepted| *accepted >= u64::from(traffic::PACKETS)),
        "{accepted:?} packets captured"
    );
}

/// Makes a tunnel's device, and a program in place of `wg` that reports it.
fn tunnel(world: &World, host: &str, port: u16, peer: &str, number: u8) -> Device {
    let dump = format!(
        "cHJpdmF0ZQ==\tcHVibGlj\t{port}\toff\na2V5AAAAAAA=\t(none)\t{peer}\t10.7.0.0/24\t0\t0\t0\toff"
    );
    world.tool(host, "wg", &format!("[ \"$*\" = 'show wg0 dump' ] || exit 1\ncat <<'END'\n{dump}\nEND\n"));
    let inside = std::net::IpAddr::from([10, 7, 0, number]);
    let settings = DeviceSettings { name: "wg0".into(), mtu: 1_420, addresses: vec![(inside, 24)] };
    world.at(host, move || Device::create(&settings).expect("a machine has devices"))
}

#[test]
fn applications_that_know_nothing_of_byway_have_their_losses_repaired() {
    let Some(mut guide) = Guide::new(GUIDE, Sites::Public) else { return };
    static_network(&mut guide, "");
    let without = read_file(&guide, "alice");
    guide.run_section("D. Applications that know nothing of Byway");
    start_capturing(&mut guide);
    let world = &guide.world;
    let server = Listener::new(world, "bob", "203.0.113.9:443", true);
    let client = Caller::new(world, "alice", "203.0.113.9:443");
    client.reach();
    call_through_an_outage(world, &[&client]);
    let fate = total_counts(world, "bob");
    assert!(fate.lost >= 45 && fate.repaired() >= 0.9 && fate.cached * 10 >= fate.lost * 9, "{fate:?}");
    let arrived = server.count();
    assert!(arrived * 100 >= traffic::PACKETS as usize * 99, "{arrived} packets arrived: {fate:?}");
    assert!(traffic::counter(world, "alice", "proxy_accepted") >= u64::from(traffic::PACKETS));
    capture_by_a_queue(&mut guide, &without);
}

/// Reads an agent's file.
fn read_file(guide: &Guide, host: &str) -> String {
    std::fs::read_to_string(guide.world.path(host, "/etc/byway/agent.toml")).expect("it was written")
}

/// Starts both agents, Alice's by a unit with the right to capture, and waits until it captures.
fn start_capturing(guide: &mut Guide) {
    for host in ["bob", "alice"] {
        let more = "mkdir -p /etc/systemd/system/byway-agent.service.d && \
                    cp packaging/systemd/byway-agent.service.d/capture.conf /etc/systemd/system/byway-agent.service.d/";
        guide.world.shell(host, more);
        guide.world.shell(host, "byway config check /etc/byway/agent.toml");
        guide.start(host, "byway-agent");
    }
    let rules = guide.world.shell("alice", "byway agent --config /etc/byway/agent.toml --dry-run");
    assert!(rules.contains("203.0.113.9"), "{rules}");
    let agent = &guide.running[&("alice".to_owned(), "byway-agent".to_owned())];
    units::wait_for(agent, "capture active");
}

/// Tests capture by firewall rules with a queue, if the system has such rules.
fn capture_by_a_queue(guide: &mut Guide, without: &str) {
    guide.write("alice:/etc/byway/agent.toml", without);
    let blocks = guide.blocks_of("Packets that rules of the firewall choose");
    let [settings, rules] = &blocks[..] else { panic!("{blocks:?}") };
    guide.run_block(settings, &mut |_, _| {});
    guide.world.shell("alice", "byway config check /etc/byway/agent.toml");
    let rule = rules.text.lines().find(|line| line.starts_with("iptables ")).expect("a rule");
    let made = guide.world.try_shell("alice", rule);
    if !made.status.success() {
        eprintln!("skipped: iptables makes no such rule: {}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    guide.start("alice", "byway-agent");
    let before = total_counts(&guide.world, "bob");
    guide.world.set_impairments(Impairments::Lossy(traffic::LOSS));
    let until = std::time::Instant::now() + TIMEOUT;
    traffic::serve_tcp(&guide.world, "bob", "203.0.113.9:443");
    while total_counts(&guide.world, "bob").since(before).cached < 5 {
        traffic::fetch_tcp(&guide.world, "alice", "203.0.113.9:443");
        assert!(std::time::Instant::now() < until, "nothing was repaired");
    }
    assert!(traffic::counter(&guide.world, "alice", "proxy_queued_captured") > 0);
}

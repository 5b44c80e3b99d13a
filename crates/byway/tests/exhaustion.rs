//! Nodes without free file descriptors, and bounded logs under load, with real processes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests use files, sockets and processes"
)]

mod counters;
mod support;

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{App, ManagedNetwork, Node, TIMEOUT, TwoSites, byway, echo, path, text};

/// Returns the command of a node with 64 file descriptors.
fn with_few_files(arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    let limits = "ulimit -n 64; exec \"$0\" \"$@\"";
    shell.args(["-c", limits, env!("CARGO_BIN_EXE_byway")]).args(arguments);
    shell
}

/// Starts bob again with few file descriptors; his first start wrote his settings.
fn bob_with_few_files(sites: &TwoSites) -> Node {
    drop(sites.bob());
    let file = sites.bench.path("bob.toml");
    let command = with_few_files(&["agent", "--config", path(&file)]);
    let bob = sites.bench.spawn_command("bob", command);
    bob.wait_until_ready();
    bob
}

/// Returns how often a log has these words.
fn times(node: &Node, words: &str) -> usize {
    node.log().matches(words).count()
}

#[test]
fn an_agent_without_file_descriptors_answers_about_itself_and_says_so_once() {
    let sites = TwoSites::new();
    let (bob, alice) = (bob_with_few_files(&sites), sites.alice("internet"));
    echo(sites.echo());
    let first = App::at(sites.bench.at(30, 9_999));
    first.call(sites.forward());
    // Active mappings, which are not evicted for others.
    let apps: Vec<App> = (0..150).map(|number| App::at(sites.bench.at(30, 10_000 + number))).collect();
    let begun = Instant::now();
    while times(&bob, "cannot open a socket to the exposed target") == 0 {
        for app in &apps {
            app.send(b"hello", sites.forward());
            app.receive_within(Duration::from_millis(1));
        }
        assert!(begun.elapsed() < TIMEOUT, "{}", bob.log());
    }
    let observe = sites.observe(12).to_string();
    for _ in 0..3 {
        let asked = Instant::now();
        let status = byway(&["status", "--at", &observe, "--json"]);
        assert!(status.status.success(), "{}", text(&status.stderr));
        assert!(asked.elapsed() < TIMEOUT / 4, "it takes {:?}", asked.elapsed());
        for app in &apps {
            app.send(b"again", sites.forward());
        }
    }
    assert!(first.call(sites.forward()) < TIMEOUT, "the first one is served as before");
    assert_eq!(times(&bob, "cannot open a socket to the exposed target"), 1, "{}", bob.log());
    assert!(times(&alice, "mapping table of the peer full") <= 1, "{}", alice.log());
}

#[test]
fn a_controller_without_file_descriptors_serves_its_administrator_and_its_members() {
    let (network, mut controller) = ManagedNetwork::new();
    assert_eq!(controller.stop(), Some(0));
    let file = network.bench.path("controller.toml");
    let command = with_few_files(&["controller", "--config", path(&file)]);
    let controller = network.bench.spawn_command("controller", command);
    controller.wait_until_ready();
    let _relay = network.relay(1);
    let address = network.bench.at(9, 4_443);
    let silent: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(address).ok()).collect();
    assert!(silent.len() > 100, "{} connections", silent.len());
    let state = network.bench.path("controller");
    let members = byway(&["node", "list", "--state", path(&state)]);
    assert!(text(&members.stdout).contains("east"), "{}", text(&members.stderr));
    let observe = network.observe(9).to_string();
    let status = byway(&["status", "--at", &observe]);
    let message = text(&status.stdout);
    assert!(
        status.status.success() && message.contains("address share"),
        "{message}: {}",
        text(&status.stderr)
    );
    let silent: Vec<TcpStream> =
        (0..100).filter_map(|_| TcpStream::connect(network.observe(9)).ok()).collect();
    let status = byway(&["status", "--at", &observe]);
    assert!(status.status.success(), "beside {}: {}", silent.len(), text(&status.stderr));
}

#[test]
fn clients_of_what_is_not_exposed_make_one_line_of_the_log() {
    let sites = TwoSites::new();
    drop(sites.bob());
    let file = sites.bench.path("bob.toml");
    let settings = std::fs::read_to_string(&file).expect("it was written").replace("\"echo\"", "\"other\"");
    sites.bench.write("bob.toml", &settings);
    let bob = sites.bench.start("bob", &["agent", "--config", path(&file)]);
    let alice = sites.alice("internet");
    let refused = "peer refused the mapping";
    for number in 0..188 {
        App::at(sites.bench.at(30, 10_000 + number)).send(b"hello", sites.forward());
    }
    alice.wait_for(refused, 1);
    let last = App::at(sites.bench.at(30, 9_999));
    let count = || counters::counter(&support::status(sites.observe(11)), "drops", "proxy_refused_by_peer");
    let begun = Instant::now();
    // Its offer follows all others, and so does the answer.
    while count() == 0 {
        last.send(b"hello", sites.forward());
        last.receive_within(Duration::from_millis(20));
        assert!(begun.elapsed() < TIMEOUT, "{}", alice.log());
    }
    assert_eq!(times(&alice, refused), 1, "{}", alice.log());
    assert_eq!(times(&bob, "refused a mapping that the peer offered"), 1, "{}", bob.log());
}

//! Prices, costs and explanations, with real processes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program change files that it reads, and wait for it"
)]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{App, ManagedNetwork, TIMEOUT, TwoSites, byway, echo, text};

/// Runs the program with the address of a node; returns its standard output.
fn shown(arguments: &[&str], at: SocketAddr) -> String {
    let at = at.to_string();
    let output = byway(&[arguments, &["--at", &at]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str], at: SocketAddr) -> Value {
    serde_json::from_str(&shown(&[arguments, &["--json"]].concat(), at)).expect("JSON")
}

/// Runs the program, which has to fail; returns its exit code and its error.
fn failure(arguments: &[&str], at: SocketAddr) -> (Option<i32>, String) {
    let at = at.to_string();
    let output = byway(&[arguments, &["--at", &at]].concat());
    assert!(!output.status.success(), "{}", text(&output.stdout));
    (output.status.code(), text(&output.stderr))
}

/// Waits until `query` returns a value.
fn wait_for<T>(what: &str, query: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = query() {
            return found;
        }
        assert!(Instant::now() < until, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends datagrams of 1,000 bytes through a forward, each after the answer to the one before.
fn exchange(app: &App, to: SocketAddr, count: u16) {
    for number in 0..count {
        let mut datagram = [0; 1_000];
        datagram[..2].copy_from_slice(&number.to_be_bytes());
        app.send(&datagram, to);
        app.receive();
        // Relays drop copies beyond the registered rate, which is 4 Mbit/s.
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// Adds the prices of both relays to a static network: relay east's price to other providers.
fn priced(network: &str, cents: u8) -> String {
    let east = format!(
        "[[network.relays]]\nprices = {{ provider = \"acme\", region = \"one\", machine = \"0.05/h\", \
         egress = [{{ price = \"0.{cents:02}/GB\" }}] }}\nname = \"east\""
    );
    let west =
        "[[network.relays]]\nprices = { provider = \"aws\", region = \"eu-central-1\" }\nname = \"west\"";
    let network = network.replace("[[network.relays]]\nname = \"east\"", &east);
    network.replace("[[network.relays]]\nname = \"west\"", west)
}

/// Returns the bytes that relay east has sent to relay west, by its cost report.
fn to_west(relay: &Value) -> u64 {
    let sent = relay["sent"].as_array().expect("a list");
    let to_west = sent.iter().find(|sent| sent["to"] == "west");
    to_west.and_then(|sent| sent["bytes"].as_u64()).unwrap_or(0)
}

/// Returns the bytes between relays, by an agent's cost report.
fn between_relays(cost: &Value) -> u64 {
    cost["total"]["between_relays_bytes"].as_u64().expect("a number")
}

#[test]
fn the_costs_of_an_agent_and_of_its_relays_agree_and_a_reload_changes_the_prices() {
    let mut sites = TwoSites::new();
    let unpriced = sites.network.clone();
    sites.network = priced(&unpriced, 10);
    echo(sites.echo());
    let _nodes = [sites.relay(1), sites.relay(2), sites.bob(), sites.alice("both")];
    let [alice, east] = [sites.observe(11), sites.observe(1)];
    let app = App::at(sites.bench.at(11, 6_000));
    app.call(sites.forward());
    wait_for("a relay path is in use", || {
        let cost = json(&["cost"], alice);
        cost["flows"][0]["relays"].is_array().then_some(())
    });
    // A relay that has just started accepts flows before it knows their receivers.
    wait_for("the relays forward", || {
        exchange(&app, sites.forward(), 20);
        (to_west(&json(&["cost"], east)) > 20_000).then_some(())
    });
    let before = [between_relays(&json(&["cost"], alice)), to_west(&json(&["cost"], east))];
    exchange(&app, sites.forward(), 500);
    let cost = json(&["cost"], alice);
    let relay = json(&["cost"], east);
    let [between, sent_west] = [between_relays(&cost) - before[0], to_west(&relay) - before[1]];
    assert!(between > 50_000, "{cost}");
    // The relay also counts registrations and other messages.
    let is_near = sent_west + 20_000 >= between && sent_west < between + between / 10 + 20_000;
    assert!(is_near, "{sent_west}, {between}: {relay} {cost}");
    let sent = relay["sent"].as_array().expect("a list");
    let items = relay["bill"]["items"].as_array().expect("a list");
    let egress = items.iter().find(|item| item["name"] == "egress to Internet").expect("it is billed");
    let all: u64 = sent.iter().filter_map(|sent| sent["bytes"].as_u64()).sum();
    assert_eq!((egress["bytes"].as_u64(), egress["nanounits"].as_u64()), (Some(all), Some((all + 5) / 10)));
    assert_eq!(cost["currency"], "USD");
    let page = shown(&["cost"], alice);
    assert!(
        page.contains("agent alice") && page.contains("east, west") && page.contains("all relayed"),
        "{page}"
    );
    assert!(shown(&["cost"], east).contains("egress to Internet"), "the bill is in the text");
    // Twice the price of relay east.
    let before = cost["flows"][0]["nanounits"].as_u64().expect("a number");
    sites.network = priced(&unpriced, 99);
    let file = std::fs::read_to_string(sites.bench.path("alice.toml")).expect("the agent has one");
    sites.bench.write("alice.toml", &file.replace("0.10/GB", "0.20/GB"));
    let reloaded = json(&["reload"], alice);
    assert_eq!(reloaded["changes"][0]["setting"], "[network.relays.prices]", "{reloaded}");
    assert_eq!(reloaded["needs_restart"], serde_json::json!([]));
    let after = json(&["cost"], alice)["flows"][0]["nanounits"].as_u64().expect("a number");
    let (more, between) = (after - before, between_relays(&cost));
    assert!(more.abs_diff(between / 10) <= between / 100, "{before} {after} {between}");
    // What is no price changes nothing.
    sites.bench.write("alice.toml", &file.replace("0.10/GB", "-0.20/GB"));
    let (code, error) = failure(&["reload"], alice);
    assert!(code == Some(2) && error.contains("relay \"east\": negative price"), "{error}");
    assert_eq!(json(&["cost"], alice)["flows"][0]["nanounits"].as_u64(), Some(after));
}

#[test]
fn an_explanation_has_every_candidate_with_its_cost_and_predicts_what_relays_then_send() {
    let mut sites = TwoSites::new();
    sites.network = priced(&sites.network, 10);
    echo(sites.echo());
    let _nodes = [sites.relay(1), sites.relay(2), sites.bob(), sites.alice("both")];
    let alice = sites.observe(11);
    assert!(shown(&["explain"], alice).starts_with("no flows"));
    let app = App::at(sites.bench.at(11, 6_000));
    app.call(sites.forward());
    wait_for("a relay path is in use", || {
        json(&["cost"], alice)["flows"][0]["relays"].is_array().then_some(())
    });
    exchange(&app, sites.forward(), 300);
    let id = json(&["explain"], alice)["flows"][0]["id"].as_str().expect("a text").to_owned();
    assert!(id.starts_with("bob:"), "{id}");
    let explanation = wait_for("the delays are measured", || {
        let explanation = json(&["explain", &id], alice);
        (!explanation["candidates"].as_array().is_none_or(Vec::is_empty)).then_some(explanation)
    });
    let names: Vec<_> = explanation["candidates"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|known| known["service"].clone())
        .collect();
    assert_eq!(names.len(), 7, "{explanation}");
    let measured = &explanation["measured"];
    assert_eq!([&measured["ingress"], &measured["egress"], &measured["currency"]], ["east", "west", "USD"]);
    let reason = explanation["reason"].as_str().expect("a text");
    assert!(reason.starts_with("named in the settings"), "{reason}");
    let both =
        explanation["candidates"].as_array().and_then(|all| all.iter().find(|one| one["service"] == "both"));
    let both = both.expect("it is a candidate");
    assert_eq!(both["is_in_force"], true);
    let page = shown(&["explain", &id], alice);
    for words in ["both *", "why not", "What would change the choice:", "Last changes:", "list prices in USD"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    // All packets go through both relays: 10 cents between them, and 9 to the receiver.
    let predicted = both["cents_per_hour"].as_f64().expect("a number");
    let rate = measured["rate_bits_per_second"].as_f64().expect("a number");
    let expected = rate / 8.0 * 3_600.0 * (0.10 + 0.09) / 1e9 * 100.0;
    assert!((predicted / expected - 1.0).abs() < 0.05, "{predicted} {expected}");
    let (code, error) = failure(&["explain", "bob:65535"], alice);
    assert!(code == Some(5) && error.contains("`byway explain` lists"), "{error}");
    let (code, error) = failure(&["explain", "bob"], alice);
    assert!(code == Some(2) && error.contains("as in bob:7"), "{error}");
    let (code, error) = failure(&["explain"], sites.observe(1));
    assert!(code == Some(2) && error.contains("no flows"), "{error}");
}

#[test]
fn a_controller_sends_prices_to_agents_and_bills_its_relays() {
    let (managed, _controller) = ManagedNetwork::new();
    echo(managed.echo());
    let _nodes = [managed.relay(1), managed.relay(2), managed.bob(), managed.alice("both")];
    let [alice, controller] = [managed.observe(11), managed.observe(9)];
    let app = App::at(managed.bench.at(11, 6_000));
    app.call(managed.forward());
    assert_eq!(json(&["cost"], alice)["currency"], Value::Null);
    let file = std::fs::read_to_string(managed.bench.path("controller.toml")).expect("it has one");
    let relay = |name: &str, egress: &str| {
        format!(
            "\n[[controller.relays]]\nname = \"{name}\"\n[controller.relays.prices]\nprovider = \"acme\"\n\
             region = \"one\"\ncurrency = \"EUR\"\negress = [{egress}]\n"
        )
    };
    let tiers = "{ to = \"10 TB\", price = \"0.09/GB\" }, { from = \"20 TB\", price = \"0.08/GB\" }";
    managed.bench.write("controller.toml", &(file.clone() + &relay("east", tiers)));
    let (code, error) = failure(&["reload"], controller);
    assert!(
        code == Some(2) && error.contains("egress[1].from") && error.contains("no price from 10 TB"),
        "{error}"
    );
    let price = "{ price = \"0.09/GB\" }";
    managed.bench.write("controller.toml", &(file + &relay("east", price) + &relay("west", price)));
    let reloaded = json(&["reload"], controller);
    assert_eq!(reloaded["changes"][0]["setting"], "[[controller.relays]]", "{reloaded}");
    wait_for("the agent's map has prices", || (json(&["cost"], alice)["currency"] == "EUR").then_some(()));
    let cost = wait_for("both relays have reported", || {
        let cost = json(&["cost"], controller);
        (cost["relays"].as_array().is_some_and(|relays| relays.len() == 2)).then_some(cost)
    });
    assert!(
        cost["relays"].as_array().is_some_and(|relays| relays.iter().all(|relay| relay["bill"].is_object())),
        "{cost}"
    );
    assert!(shown(&["cost"], controller).contains("for 2 of 2 relays"), "the sum is in the text");
    let relay = json(&["cost"], managed.observe(1));
    assert!(relay["note"].as_str().is_some_and(|note| note.contains("controller")), "{relay}");
}

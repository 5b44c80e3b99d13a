//! Machines as others reach them: behind a router that translates addresses, by a port of that.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddrV4};

use byway_lab::addresses;
use byway_lab::emulation::ForwardedPort;
use byway_scenario::{Network, NetworkFlow, NetworkTraffic};

use super::configuration::target;

/// The addresses at which the sender of a flow reaches its receiver without Byway.
pub(super) fn addresses_for(network: &Network, flow: &NetworkFlow) -> [IpAddr; 2] {
    addresses(router_between(network, flow).unwrap_or(flow.to))
}

/// The router that translates the address of a flow's receiver for its sender.
fn router_between(network: &Network, flow: &NetworkFlow) -> Option<usize> {
    let behind = |place: usize| network.machines[place].behind;
    behind(flow.to).filter(|router| behind(flow.from) != Some(*router))
}

/// The ports that routers forward where Byway is not in use, as people set it up for those who are to be reached: those of the targets of
/// flows.
pub(super) fn forwarded(network: &Network) -> Vec<ForwardedPort> {
    let targets = (0..network.flows.len()).filter_map(|nth| forwarded_of(network, nth));
    let mut forwarded: Vec<ForwardedPort> = Vec::new();
    for port in targets {
        // Several flows may have a target in common.
        if !forwarded.contains(&port) {
            forwarded.push(port);
        }
    }
    forwarded
}

fn forwarded_of(network: &Network, nth: usize) -> Option<ForwardedPort> {
    let flow = &network.flows[nth];
    let router = router_between(network, flow)?;
    let port = match &flow.traffic {
        NetworkTraffic::Datagrams(_) => target(nth).port(),
        NetworkTraffic::Programs(ends) => ends.target.port(),
        NetworkTraffic::Tcp | NetworkTraffic::Captured(_) => return None,
    };
    match addresses(flow.to) {
        [IpAddr::V4(address), _] => Some(ForwardedPort { router, inside: SocketAddrV4::new(address, port) }),
        _ => None,
    }
}

/// What is not possible behind routers that translate addresses.
pub(super) fn check(network: &Network) -> Result<(), String> {
    let name = |place: usize| &network.machines[place].name;
    let mut taken: BTreeMap<(usize, u16), usize> = BTreeMap::new();
    for (nth, flow) in network.flows.iter().enumerate() {
        let Some(router) = router_between(network, flow) else {
            continue;
        };
        let (flow_name, receiver, router_name) = (&flow.name, name(flow.to), name(router));
        match &flow.traffic {
            NetworkTraffic::Captured(_) => {
                return Err(format!(
                    "flow {flow_name:?} is captured by the addresses of {receiver}, which mean nothing outside {router_name}: use kind \"command\""
                ));
            }
            NetworkTraffic::Programs(ends) if ends.target.is_ipv6() => {
                return Err(format!(
                    "the target of flow {flow_name:?} has an IPv6 address, and no IPv6 passes {router_name}: use an IPv4 one"
                ));
            }
            _ => {}
        }
        let Some(forwarded) = forwarded_of(network, nth) else {
            continue;
        };
        let other = *taken.entry((router, forwarded.inside.port())).or_insert(flow.to);
        if other != flow.to {
            let port = forwarded.inside.port();
            return Err(format!(
                "flow {flow_name:?}: without Byway, {router_name} would forward port {port} to {receiver}, and forwards it to {} already: take another one",
                name(other)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use byway_scenario::Scenario;

    use super::*;

    const SCENARIO: &str = r#"
title = "A tunnel into a home"
length = "4 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent", count = 2 },
    { name = "home", role = "router", nat = true },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], delay = "40 ms" },
    { between = ["gate", "home"] },
    { between = ["bob", "home"] },
]
[[flow]]
name = "tunnel"
from = "alice"
to = "bob.1"
service = "internet"
sends = { kind = "command", listen = "127.0.0.1:5000", target = "127.0.0.1:51820" }
"#;

    const BOB: usize = 1;
    const HOME: usize = 3;

    fn network(scenario: &str) -> Network {
        Scenario::parse(scenario).expect("a scenario").network(1).expect("they are joined")
    }

    #[test]
    fn whoever_is_behind_a_router_is_reached_at_its_address_and_a_forwarded_port() {
        let network = network(SCENARIO);
        assert_eq!(check(&network), Ok(()));
        assert_eq!(addresses_for(&network, &network.flows[0]), addresses(HOME));
        let inside = "10.77.0.2:51820".parse().expect("an address");
        assert_eq!(forwarded(&network), [ForwardedPort { router: HOME, inside }]);
    }

    #[test]
    fn who_is_behind_the_same_router_is_reached_as_without_it() {
        let network = network(&SCENARIO.replace("from = \"alice\"", "from = \"bob.2\""));
        assert_eq!(addresses_for(&network, &network.flows[0]), addresses(BOB));
        assert_eq!(forwarded(&network), []);
    }

    #[test]
    fn what_does_not_work_behind_one_is_refused_with_a_remedy() {
        let captured = SCENARIO
            .replace("listen = \"127.0.0.1:5000\", target = \"127.0.0.1:51820\"", "ports = [\"tcp:80\"]")
            .replace("\"command\"", "\"captured\"");
        let ipv6 = SCENARIO.replace("target = \"127.0.0.1:51820\"", "target = \"[::1]:51820\"");
        let (_, flow) = SCENARIO.split_once("[[flow]]").expect("a flow");
        let second =
            flow.replace("bob.1", "bob.2").replace("\"tunnel\"", "\"other\"").replace("5000", "5001");
        let taken = format!("{SCENARIO}\n[[flow]]{second}");
        for (scenario, said) in
            [(captured, "use kind"), (ipv6, "use an IPv4 one"), (taken, "take another one")]
        {
            let error = check(&network(&scenario)).expect_err(said);
            assert!(error.contains(said) && error.contains("home"), "{error}");
        }
    }
}

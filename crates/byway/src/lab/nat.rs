//! NAT in a lab: the address and port at which a machine behind a NAT router is reachable.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddrV4};

use byway_lab::addresses;
use byway_lab::emulation::ForwardedPort;
use byway_scenario::{Network, NetworkFlow, NetworkTraffic};

use super::configuration::target;

/// Returns the IPv4 and IPv6 address at which the sender of a flow reaches its receiver without
/// Byway.
pub(super) fn addresses_for(network: &Network, flow: &NetworkFlow) -> [IpAddr; 2] {
    addresses(router_between(network, flow).unwrap_or(flow.to))
}

/// Returns the NAT router that hides a flow's receiver from its sender; `None` if the sender
/// reaches the receiver directly.
fn router_between(network: &Network, flow: &NetworkFlow) -> Option<usize> {
    let router_of = |index: usize| network.machines[index].behind;
    router_of(flow.to).filter(|router| router_of(flow.from) != Some(*router))
}

/// Returns the ports that NAT routers forward in runs without Byway, as users configure them for
/// reachable hosts. These are the ports of the flows' targets.
pub(super) fn port_forwards(network: &Network) -> Vec<ForwardedPort> {
    let targets = (0..network.flows.len()).filter_map(|nth| port_forward_of(network, nth));
    let mut forwarded: Vec<ForwardedPort> = Vec::new();
    for port in targets {
        // Several flows may share a target.
        if !forwarded.contains(&port) {
            forwarded.push(port);
        }
    }
    forwarded
}

fn port_forward_of(network: &Network, nth: usize) -> Option<ForwardedPort> {
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

/// Rejects flows that cannot pass NAT routers: captured ones, IPv6 targets, and ports that two
/// receivers need.
pub(super) fn check(network: &Network) -> Result<(), String> {
    let name = |index: usize| &network.machines[index].name;
    let mut receivers: BTreeMap<(usize, u16), usize> = BTreeMap::new();
    for (nth, flow) in network.flows.iter().enumerate() {
        let Some(router) = router_between(network, flow) else {
            continue;
        };
        let (flow_name, receiver, router_name) = (&flow.name, name(flow.to), name(router));
        match &flow.traffic {
            NetworkTraffic::Captured(_) => {
                return Err(format!(
                    "flow {flow_name:?} is captured by the addresses of {receiver}, which are not \
                     reachable outside {router_name}: use kind \"command\""
                ));
            }
            NetworkTraffic::Programs(ends) if ends.target.is_ipv6() => {
                return Err(format!(
                    "the target of flow {flow_name:?} has an IPv6 address, but {router_name} forwards \
                     no IPv6: use an IPv4 address"
                ));
            }
            _ => {}
        }
        let Some(forwarded) = port_forward_of(network, nth) else {
            continue;
        };
        let other = *receivers.entry((router, forwarded.inside.port())).or_insert(flow.to);
        if other != flow.to {
            let port = forwarded.inside.port();
            return Err(format!(
                "flow {flow_name:?}: without Byway, {router_name} would forward port {port} to \
                 {receiver}, but forwards it to {} already; use another port",
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
        assert_eq!(port_forwards(&network), [ForwardedPort { router: HOME, inside }]);
    }

    #[test]
    fn who_is_behind_the_same_router_is_reached_as_without_it() {
        let network = network(&SCENARIO.replace("from = \"alice\"", "from = \"bob.2\""));
        assert_eq!(addresses_for(&network, &network.flows[0]), addresses(BOB));
        assert_eq!(port_forwards(&network), []);
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
        let port_in_use = format!("{SCENARIO}\n[[flow]]{second}");
        for (scenario, advice) in
            [(captured, "use kind"), (ipv6, "use an IPv4 address"), (port_in_use, "use another port")]
        {
            let error = check(&network(&scenario)).expect_err(advice);
            assert!(error.contains(advice) && error.contains("home"), "{error}");
        }
    }
}

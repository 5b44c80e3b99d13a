//! Who is behind routers that translate addresses.

use std::collections::BTreeSet;

use byway_typed::Problem;

use super::names::Names;
use super::{Reader, element};
use crate::scenario::{LinkPlan, Role};

impl Reader<'_> {
    /// Puts the agents that are linked with a router which translates addresses, and with nothing else, behind it.
    pub(super) fn put_behind_nats(&self, names: &mut Names, links: &[LinkPlan]) -> Result<(), Problem> {
        if names.all().iter().all(|node| node.nat.is_none()) {
            return Ok(());
        }
        // By machine: those that it is linked with.
        let mut neighbours = vec![BTreeSet::new(); names.all().len()];
        for link in links {
            neighbours[link.from].insert(link.to);
            neighbours[link.to].insert(link.from);
        }
        for link in links {
            for (agent, router) in [(link.from, link.to), (link.to, link.from)] {
                if names.role(agent) != Role::Agent || names.all()[router].nat.is_none() {
                    continue;
                }
                if let Some(other) = neighbours[agent].iter().find(|other| **other != router) {
                    let [agent, router, other] = [agent, router, *other].map(|place| names.name(place));
                    let message = format!(
                        "{agent} is linked with {router}, which translates addresses, and with {other}: take {other} away to have {agent} behind \
                         {router}, or put a router between the two to have {agent} outside"
                    );
                    return Err(self.problem(&element("link", link.shape), message));
                }
                names.put_behind(agent, router);
            }
        }
        for (place, router) in names.all().iter().enumerate() {
            let is_empty = || names.all().iter().all(|node| node.behind != Some(place));
            if let Some(at) = router.nat.as_ref().filter(|_| is_empty()) {
                let name = &router.name;
                return Err(Problem::nowhere(format!(
                    "{at}nobody is behind {name}: link agents with it and with nothing else, or leave `nat` out"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    /// Alice and Anne in a home, and Bob and a relay outside.
    const HOME: &str = r#"
title = "A home"
length = "10 s"
node = [
    { name = "home", role = "router", nat = true },
    { name = "alice", role = "agent" },
    { name = "anne", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
    { name = "east", role = "relay" },
]
link = [
    { between = ["alice", "home"], delay = "1 ms" },
    { between = ["anne", "home"], delay = "1 ms" },
    { between = ["home", "gate"], delay = "10 ms" },
    { between = ["home", "east"], delay = "10 ms" },
    { between = ["gate", "east"], delay = "50 ms" },
    { between = ["gate", "bob"], delay = "10 ms" },
]
flow = [
    { name = "call", from = "bob", to = "alice", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
"#;

    #[test]
    fn agents_that_are_linked_with_a_router_that_translates_alone_are_behind_it() {
        let network = Scenario::parse(HOME).expect("it is right").network(1).expect("all are joined");
        let behind: Vec<Option<usize>> = network.machines.iter().map(|machine| machine.behind).collect();
        assert_eq!(behind, [None, Some(0), Some(0), None, None, None]);
        assert_eq!((network.next_hop(3, 0), network.next_hop(4, 0)), (Some(4), Some(0)), "it has an address");
        assert_eq!(
            (network.next_hop(4, 5), network.next_hop(1, 5)),
            (Some(5), Some(0)),
            "others go round it"
        );
    }

    #[test]
    fn what_is_unclear_about_routers_that_translate_is_refused_with_its_place_and_a_remedy() {
        let also_linked = HOME.replace("[\"gate\", \"bob\"]", "[\"gate\", \"anne\"]");
        let nobody = HOME
            .replace("[\"alice\", \"home\"]", "[\"alice\", \"gate\"]")
            .replace("[\"anne\", \"home\"]", "[\"anne\", \"gate\"]");
        let no_router = HOME
            .replace("{ name = \"bob\", role = \"agent\"", "{ name = \"bob\", role = \"agent\", nat = true");
        for (scenario, said) in [
            (
                also_linked,
                "scenario.toml:14: link[1]: anne is linked with home, which translates addresses, and with gate: take gate away",
            ),
            (nobody, "scenario.toml:5: node[0].nat: nobody is behind home: link agents with it"),
            (no_router, "scenario.toml:8: node[3].nat: an agent translates no addresses: routers alone do"),
        ] {
            let error = Scenario::parse(&scenario).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn nothing_simulated_translates_addresses() {
        let error = Scenario::parse(HOME).expect("it is right").run(1).expect_err("a lab has it").to_string();
        assert!(error.starts_with("scenario.toml:5: node[0].nat: home translates addresses"), "{error}");
        let none = HOME.replace("nat = true", "nat = false");
        assert!(Scenario::parse(&none).expect("it is right").run(1).is_ok(), "a router like others");
    }
}

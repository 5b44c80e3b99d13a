//! Validation of routers with address translation.

use std::collections::BTreeSet;

use byway_config_types::Problem;

use super::names::Names;
use super::{Reader, element};
use crate::scenario::{LinkPlan, Role};

impl Reader<'_> {
    /// Puts agents behind a router with address translation if they have links to it alone.
    pub(super) fn put_behind_nats(&self, names: &mut Names, links: &[LinkPlan]) -> Result<(), Problem> {
        if names.all().iter().all(|node| node.nat.is_none()) {
            return Ok(());
        }
        // By machine: its neighbours.
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
                    let [agent, router, other] = [agent, router, *other].map(|index| names.name(index));
                    let message = format!(
                        "{agent} has a link to {router}, which translates addresses, and to {other}: \
                         remove the link to {other} to place {agent} behind {router}; otherwise, \
                         {agent} needs a router between the two"
                    );
                    return Err(self.problem(&element("link", link.shape), message));
                }
                names.put_behind(agent, router);
            }
        }
        for (index, router) in names.all().iter().enumerate() {
            let is_empty = || names.all().iter().all(|node| node.behind != Some(index));
            if let Some(at) = router.nat.as_ref().filter(|_| is_empty()) {
                let name = &router.name;
                return Err(Problem::without_location(format!(
                    "{at}no agent behind {name}: link agents to it alone, or omit `nat`"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    /// Alice and Anne behind a home router, and Bob and a relay outside.
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
                "scenario.toml:14: link[1]: anne has a link to home, which translates addresses, and to gate: remove the link to gate",
            ),
            (nobody, "scenario.toml:5: node[0].nat: no agent behind home: link agents to it"),
            (
                no_router,
                "scenario.toml:8: node[3].nat: not allowed for an agent: only routers translate addresses",
            ),
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

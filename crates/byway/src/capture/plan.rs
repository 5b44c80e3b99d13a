//! Plan of an agent's changes to the system's routing, made before they are applied.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use byway_config_types::{PortsSetting, Protocol};
use ipnet::IpNet;

use crate::agent::CaptureState;
use crate::settings::{Capture, ExposedKind, ExposedResource, Selection, Tunnel};

/// Priorities of rules, as offsets from the routing table's number. The first rules let Byway's own
/// packets skip the others, to the last one. Captures of all destinations follow the rule for
/// destinations on the machine's own links.
const OWN: u32 = 0;
const CAPTURED: u32 = 1;
const ON_LINK: u32 = 2;
const ANYWHERE: u32 = 3;
const PASSED: u32 = PRIORITIES - 1;

/// Offset of a firewall mark from the routing table's number. Firewall rules set it on captured
/// packets that their programs pin to a device.
const PINNED: u32 = PASSED - 1;

/// Number of priorities that the agent's rules occupy, from the routing table's number on.
pub(super) const PRIORITIES: u32 = 100;

/// Maximum number of rules of a plan. The system searches them for each packet that this machine
/// sends, and the end of a capture needs a message for each.
pub(crate) const RULES_MAX: usize = 256;

/// Destinations on one link, and multicast groups (RFC 3927, 5771, 919; 4291). A capture of all
/// destinations does not include them.
const LINK_SCOPE_PREFIXES: [&str; 5] =
    ["169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"];

/// Condition under which a routing rule exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleCondition {
    /// The rule exists while the agent runs.
    Always,
    /// The rule exists while the peer of the capture with this index is present.
    Capture(usize),
    /// The rule exists while a peer is present behind which a source has sent to the exposed
    /// network with this index. It applies only to answers to that source.
    Exposed(usize),
}

/// Action of a routing rule on the packets that match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Route the packet into the TUN device, by the agent's table.
    Lookup,
    /// Route the packet as without Byway, if it stays on a link of this machine.
    LookupOnLink,
    /// Look the packet up in this table instead of the agent's.
    LookupIn(u32),
    /// Skip all rules before the one of this priority, for packets that are not captured.
    PassTo(u32),
    /// No action: the rule is the target of [`Action::PassTo`].
    Nothing,
}

/// Routing rule of the system, as `ip rule` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The agent's table, in which [`Action::Lookup`] looks packets up.
    pub(crate) table: u32,
    pub(crate) priority: u32,
    pub(crate) is_ipv6: bool,
    pub(crate) action: Action,
    /// Destination prefix of the packets; `None` for any.
    pub(crate) to: Option<IpNet>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) source_ports: Option<RangeInclusive<u16>>,
    pub(crate) destination_ports: Option<RangeInclusive<u16>>,
    pub(crate) users: Option<RangeInclusive<u32>>,
    pub(crate) mark: Option<u32>,
}

/// Route in the agent's table: packets to this prefix go into the TUN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: IpNet,
    /// True if packets of this machine use the route, and so need a source address.
    pub(crate) is_captured: bool,
}

/// Firewall mark on a control group's packets, by which routing rules match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupMark {
    pub(crate) path: String,
    pub(crate) mark: u32,
}

/// Firewall rule for packets that programs pin to a device. It sets a mark, which triggers another
/// routing decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) to: IpNet,
    pub(crate) ports: PortsSetting,
    pub(crate) mark: u32,
}

/// Rules, routes and marks that an agent's captures and exposed networks need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoutingPlan {
    pub(crate) table: u32,
    /// Routing rules, each with the condition under which it exists.
    pub(crate) rules: Vec<(RuleCondition, Rule)>,
    pub(crate) routes: Vec<Route>,
    pub(crate) groups: Vec<CgroupMark>,
    /// Firewall rules for pinned packets, each with the index of its capture.
    pub(crate) pins: Vec<(usize, Pin)>,
}

impl RoutingPlan {
    /// Plans the routing for a tunnel's captures and for exposed networks.
    pub(crate) fn new(tunnel: &Tunnel, exposed: &[ExposedResource]) -> Self {
        let mut plan = Self { table: tunnel.table, ..Self::default() };
        let is_answered = exposed.iter().any(|exposed| matches!(exposed.at, ExposedKind::Network(_)));
        let is_routed = tunnel.captures.iter().any(|capture| capture.queue.is_none());
        if !is_answered && !is_routed && tunnel.own_table.is_none() {
            // The firewall's rules choose the packets to capture.
            return plan;
        }
        for is_ipv6 in [false, true] {
            let own = plan.rule(OWN, is_ipv6, Action::PassTo(tunnel.table + PASSED));
            plan.add(RuleCondition::Always, Rule { mark: Some(tunnel.table), ..own });
            plan.add(RuleCondition::Always, plan.rule(PASSED, is_ipv6, Action::Nothing));
            if let Some(own_table) = tunnel.own_table {
                for mark in [tunnel.table, tunnel.table + PINNED] {
                    let own = plan.rule(PASSED, is_ipv6, Action::LookupIn(own_table));
                    plan.add(RuleCondition::Always, Rule { mark: Some(mark), ..own });
                }
            }
        }
        for near in LINK_SCOPE_PREFIXES {
            let to: IpNet = near.parse().expect("it is a prefix");
            let rule = plan.rule(OWN, is_ipv6(&to), Action::PassTo(tunnel.table + PASSED));
            plan.add(RuleCondition::Always, Rule { to: Some(to), ..rule });
        }
        for (index, capture) in tunnel.captures.iter().enumerate() {
            plan.add_capture(index, capture);
        }
        for (index, exposed) in exposed.iter().enumerate() {
            if let ExposedKind::Network(network) = &exposed.at {
                plan.add_return_rules(index, &network.sources, &network.selection);
            }
        }
        plan
    }

    fn add(&mut self, condition: RuleCondition, rule: Rule) {
        self.rules.push((condition, rule));
    }

    fn rule(&self, priority: u32, is_ipv6: bool, action: Action) -> Rule {
        Rule {
            table: self.table,
            priority: self.table + priority,
            is_ipv6,
            action,
            to: None,
            protocol: None,
            source_ports: None,
            destination_ports: None,
            users: None,
            mark: None,
        }
    }

    fn add_capture(&mut self, index: usize, capture: &Capture) {
        let Capture { selection, users, cgroups, firewall_marks, .. } = capture;
        let mut marks = firewall_marks.clone();
        for path in cgroups {
            let before = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
            let mark = self.table.saturating_add(1).saturating_add(before);
            self.groups.push(CgroupMark { path: path.clone(), mark });
            marks.push(mark);
        }
        for to in &selection.prefixes {
            self.add_route(*to, true);
            let priority = if to.prefix_len() == 0 { ANYWHERE } else { CAPTURED };
            if priority == ANYWHERE {
                self.add(
                    RuleCondition::Capture(index),
                    self.rule(ON_LINK, is_ipv6(to), Action::LookupOnLink),
                );
            }
            if capture.pinned {
                self.add_pins(index, *to, &selection.ports);
            }
            for ports in or_any(&selection.ports) {
                for users in or_any(users) {
                    for mark in or_any(&marks) {
                        let rule = Rule {
                            to: Some(*to),
                            protocol: ports.map(|ports| ports.protocol),
                            destination_ports: ports.and_then(|ports| ports.ports.clone()),
                            users: users.cloned(),
                            mark: mark.copied(),
                            ..self.rule(priority, is_ipv6(to), Action::Lookup)
                        };
                        self.add(RuleCondition::Capture(index), rule);
                    }
                }
            }
        }
    }

    /// Adds firewall rules for packets that programs pin to a device. The system then routes a
    /// marked packet again by its destination and mark alone, regardless of ports.
    fn add_pins(&mut self, index: usize, to: IpNet, ports: &[PortsSetting]) {
        let mark = self.table + PINNED;
        let pin = |ports: &PortsSetting| (index, Pin { to, ports: ports.clone(), mark });
        self.pins.extend(ports.iter().map(pin));
        let rule = self.rule(CAPTURED, is_ipv6(&to), Action::Lookup);
        self.add(RuleCondition::Capture(index), Rule { to: Some(to), mark: Some(mark), ..rule });
    }

    /// Adds the routing rules for answers to the sources of peers' packets.
    fn add_return_rules(&mut self, index: usize, sources: &[IpNet], selection: &Selection) {
        for to in sources {
            self.add_route(*to, false);
            for ports in or_any(&selection.ports) {
                let rule = Rule {
                    to: Some(*to),
                    protocol: ports.map(|ports| ports.protocol),
                    source_ports: ports.and_then(|ports| ports.ports.clone()),
                    ..self.rule(CAPTURED, is_ipv6(to), Action::Lookup)
                };
                self.add(RuleCondition::Exposed(index), rule);
            }
        }
    }

    fn add_route(&mut self, to: IpNet, is_captured: bool) {
        match self.routes.iter_mut().find(|route| route.to == to) {
            Some(route) => route.is_captured |= is_captured,
            None => self.routes.push(Route { to, is_captured }),
        }
    }

    /// Returns the routing rules for a state of the captures, each once, in an order that is safe
    /// to add. Rules that exclude Byway's own packets come first, preceded only by the target of
    /// their skip.
    pub(crate) fn active_rules(&self, state: &CaptureState) -> Vec<Rule> {
        let mut active: Vec<Rule> = Vec::new();
        let mut add = |rule: Rule| {
            if !active.contains(&rule) {
                active.push(rule);
            }
        };
        let (always, conditional) =
            self.rules.iter().partition::<Vec<_>, _>(|(condition, _)| *condition == RuleCondition::Always);
        for (condition, rule) in always.into_iter().rev().chain(conditional) {
            match condition {
                RuleCondition::Always => add(rule.clone()),
                RuleCondition::Capture(index) if state.captures.get(*index) == Some(&true) => {
                    add(rule.clone());
                }
                RuleCondition::Capture(_) => {}
                RuleCondition::Exposed(index) => {
                    let answered =
                        state.exposed.iter().filter(|(exposed, _)| exposed == index).map(|(_, to)| *to);
                    let answered = answered.filter(|to| rule.to.is_some_and(|prefix| prefix.contains(to)));
                    answered.for_each(|to| add(Rule { to: Some(to.into()), ..rule.clone() }));
                }
            }
        }
        active
    }

    /// Returns the plan without the parts that need IPv6, for a machine without it.
    pub(crate) fn without_ipv6(mut self) -> Self {
        self.rules.retain(|(_, rule)| !rule.is_ipv6);
        self.routes.retain(|route| !is_ipv6(&route.to));
        self.pins.retain(|(_, pin)| !is_ipv6(&pin.to));
        self
    }

    /// Returns the firewall rules for pinned packets of the active captures.
    pub(crate) fn active_pins<'a>(&'a self, state: &'a CaptureState) -> impl Iterator<Item = &'a Pin> {
        let is_active = |index: usize| state.captures.get(index) == Some(&true);
        self.pins.iter().filter(move |(index, _)| is_active(*index)).map(|(_, pin)| pin)
    }

    /// True if the plan needs firewall rules that mark packets.
    pub(crate) fn uses_marks(&self) -> bool {
        !self.groups.is_empty() || !self.pins.is_empty()
    }

    /// True if a routing rule matches pinned packets, which firewall rules have marked.
    pub(crate) fn is_of_pins(&self, rule: &Rule) -> bool {
        rule.mark == Some(self.table + PINNED)
    }

    /// Returns the priorities that belong to this plan's rules alone.
    pub(crate) fn priorities(&self) -> RangeInclusive<u32> {
        priorities(self.table)
    }
}

/// Returns the priorities of the routing rules that belong to a table.
pub(crate) fn priorities(table: u32) -> RangeInclusive<u32> {
    table.saturating_add(OWN)..=table.saturating_add(PASSED)
}

/// Returns each element of a list; one `None`, which matches anything, if the list is empty.
fn or_any<T>(all: &[T]) -> impl Iterator<Item = Option<&T>> {
    let any = all.is_empty().then_some(None);
    all.iter().map(Some).chain(any)
}

const fn is_ipv6(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V6(_))
}

/// Returns an address within a prefix, to look up its route. For the prefix of all addresses, it is
/// one that stands for the Internet (RFC 5737, 3849).
pub(crate) fn sample_address(prefix: &IpNet) -> IpAddr {
    match prefix {
        IpNet::V4(_) if prefix.prefix_len() == 0 => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpNet::V6(_) if prefix.prefix_len() == 0 => Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1).into(),
        _ => prefix.hosts().next().unwrap_or_else(|| prefix.addr()),
    }
}

impl fmt::Display for Rule {
    /// Formats the rule as a command of `ip rule`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip {}rule add pref {}", if self.is_ipv6 { "-6 " } else { "" }, self.priority)?;
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if let Some(protocol) = self.protocol {
            write!(f, " ipproto {protocol}")?;
        }
        for (name, ports) in [("sport", &self.source_ports), ("dport", &self.destination_ports)] {
            if let Some(ports) = ports {
                write!(f, " {name} {}-{}", ports.start(), ports.end())?;
            }
        }
        if let Some(users) = &self.users {
            write!(f, " uidrange {}-{}", users.start(), users.end())?;
        }
        if let Some(mark) = self.mark {
            write!(f, " fwmark {mark:#x}")?;
        }
        match self.action {
            Action::Lookup => write!(f, " lookup {}", self.table),
            Action::LookupOnLink => write!(f, " lookup main suppress_prefixlength 0"),
            Action::LookupIn(table) => write!(f, " lookup {table}"),
            Action::PassTo(priority) => write!(f, " goto {priority}"),
            Action::Nothing => write!(f, " nop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use byway_proto::agent::Terms;

    use super::*;
    use crate::settings::FlowSpec;

    fn capture(prefixes: &[&str], ports: &[&str]) -> Capture {
        let wanted = FlowSpec {
            peer: "bob".into(),
            to: "all".into(),
            terms: Terms::default(),
            traffic: None,
            marks: vec![],
        };
        let prefixes = prefixes.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
        let ports = ports.iter().map(|ports| ports.parse().expect("ports")).collect();
        let selection = Selection { prefixes, ports };
        Capture {
            selection,
            users: vec![],
            cgroups: vec![],
            firewall_marks: vec![],
            queue: None,
            pinned: false,
            spec: wanted,
        }
    }

    fn tunnel(captures: Vec<Capture>) -> Tunnel {
        let device = "byway0".to_owned();
        Tunnel {
            device,
            table: 4_600,
            mtu: 1_354,
            own_table: None,
            addresses: vec![],
            watched_device: None,
            captures,
        }
    }

    fn plan(captures: Vec<Capture>) -> RoutingPlan {
        RoutingPlan::new(&tunnel(captures), &[])
    }

    fn captured(plan: &RoutingPlan) -> Vec<String> {
        let rules = plan.rules.iter().filter(|(condition, _)| *condition != RuleCondition::Always);
        rules.map(|(_, rule)| rule.to_string().replacen("ip rule add pref 4601 ", "", 1)).collect()
    }

    #[test]
    fn each_selection_is_a_rule() {
        let plan = plan(vec![Capture {
            users: vec![33..=33, 1_000..=1_999],
            ..capture(&["10.0.0.0/24"], &["tcp:80", "udp"])
        }]);
        assert_eq!(
            captured(&plan),
            [
                "to 10.0.0.0/24 ipproto tcp dport 80-80 uidrange 33-33 lookup 4600",
                "to 10.0.0.0/24 ipproto tcp dport 80-80 uidrange 1000-1999 lookup 4600",
                "to 10.0.0.0/24 ipproto udp uidrange 33-33 lookup 4600",
                "to 10.0.0.0/24 ipproto udp uidrange 1000-1999 lookup 4600",
            ]
        );
        assert_eq!(plan.routes.len(), 1);
    }

    #[test]
    fn byways_own_packets_pass_over_all_rules_in_both_versions() {
        let plan = plan(vec![capture(&["0.0.0.0/0", "::/0"], &[])]);
        for is_ipv6 in [false, true] {
            let passes = plan
                .rules
                .iter()
                .map(|(_, rule)| rule)
                .find(|rule| rule.is_ipv6 == is_ipv6 && rule.mark == Some(4_600));
            let passes = passes.expect("a rule for marked packets");
            let rest = plan
                .rules
                .iter()
                .map(|(_, rule)| rule)
                .filter(|rule| rule.is_ipv6 == is_ipv6 && rule.action == Action::Lookup);
            assert!(rest.clone().count() > 0 && rest.into_iter().all(|rule| rule.priority > passes.priority));
            let Action::PassTo(end) = passes.action else { panic!("it passes") };
            assert!(plan.rules.iter().any(|(_, rule)| rule.is_ipv6 == is_ipv6 && rule.priority == end));
        }
    }

    #[test]
    fn byways_own_packets_go_by_another_table_where_that_is_wanted() {
        let wanted = Tunnel { own_table: Some(254), ..tunnel(vec![capture(&["10.0.0.1/32"], &[])]) };
        let rules = RoutingPlan::new(&wanted, &[]).active_rules(&CaptureState::default());
        let shown: Vec<String> = rules.iter().map(ToString::to_string).collect();
        for rule in [
            "ip rule add pref 4699 fwmark 0x11f8 lookup 254",
            "ip -6 rule add pref 4699 fwmark 0x11f8 lookup 254",
        ] {
            assert!(shown.iter().any(|shown| shown == rule), "{rule} is not in {shown:?}");
        }
    }

    #[test]
    fn queues_take_no_rules_and_no_routes() {
        let queue = || Capture { queue: Some(7), ..capture(&[], &[]) };
        assert_eq!(plan(vec![queue()]), RoutingPlan { table: 4_600, ..RoutingPlan::default() });
        let both = plan(vec![queue(), capture(&["10.0.0.1/32"], &[])]);
        assert_eq!((captured(&both).len(), both.routes.len()), (1, 1));
        let active =
            both.active_rules(&CaptureState { captures: vec![false, true], ..CaptureState::default() });
        assert!(active.iter().any(|rule| rule.action == Action::Lookup), "each has its own condition");
    }

    #[test]
    fn control_groups_have_marks_of_their_own() {
        let group = |path: &str| Capture { cgroups: vec![path.to_owned()], ..capture(&["10.0.0.1/32"], &[]) };
        let plan = plan(vec![group("a"), group("b")]);
        let marks: Vec<u32> = plan.groups.iter().map(|group| group.mark).collect();
        assert_eq!(marks, [4_601, 4_602]);
        assert_eq!(captured(&plan)[1], "to 10.0.0.1/32 fwmark 0x11fa lookup 4600");
    }

    #[test]
    fn what_is_captured_anywhere_leaves_the_machines_own_links_alone() {
        let plan = plan(vec![capture(&["0.0.0.0/0"], &[]), capture(&["10.0.0.1/32"], &[])]);
        let of = |action: Action| {
            plan.rules.iter().map(|(_, rule)| rule).filter(move |rule| rule.action == action)
        };
        let on_link = of(Action::LookupOnLink).next().expect("links go first").priority;
        let priorities: Vec<bool> = of(Action::Lookup).map(|rule| rule.priority > on_link).collect();
        assert_eq!(priorities, [true, false], "who names an address means it");
    }

    #[test]
    fn doors_open_rules_and_what_two_of_them_want_is_there_while_one_is_open() {
        let same = || capture(&["10.0.0.1/32"], &[]);
        let plan = plan(vec![same(), same()]);
        let active_count = |captures: [bool; 2]| {
            let state = CaptureState { captures: captures.to_vec(), ..CaptureState::default() };
            plan.active_rules(&state).iter().filter(|rule| rule.action == Action::Lookup).count()
        };
        assert_eq!(
            [[false, false], [true, false], [false, true], [true, true]].map(active_count),
            [0, 1, 1, 1]
        );
    }

    #[test]
    fn what_leaves_byways_own_packets_alone_is_added_before_what_captures() {
        let rules = plan(vec![capture(&["0.0.0.0/0", "::/0"], &[])])
            .active_rules(&CaptureState { captures: vec![true], ..CaptureState::default() });
        let own = rules.iter().rposition(|rule| rule.mark == Some(4_600)).expect("it is there");
        let first = rules.iter().position(|rule| rule.action == Action::Lookup).expect("it captures");
        assert!(own < first && rules[0].action != Action::Lookup, "{own} and {first}");
    }

    #[test]
    fn answers_go_back_to_those_alone_who_have_sent() {
        let mut plan = plan(vec![]);
        let selection = Selection { prefixes: vec![], ports: vec!["tcp:80".parse().expect("ports")] };
        plan.add_return_rules(0, &["10.0.0.0/24".parse().expect("a prefix")], &selection);
        let peer_address: IpAddr = [10, 0, 0, 7].into();
        let active = |exposed: BTreeSet<(usize, IpAddr)>| {
            let rules = plan.active_rules(&CaptureState { exposed, ..CaptureState::default() });
            let rules = rules.into_iter().filter(|rule| rule.action == Action::Lookup);
            rules.map(|rule| rule.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(active(BTreeSet::new()), [""; 0]);
        assert_eq!(active(BTreeSet::from([(1, peer_address)])), [""; 0], "that is of something else");
        let expected = "ip rule add pref 4601 to 10.0.0.7/32 ipproto tcp sport 80-80 lookup 4600";
        assert_eq!(active(BTreeSet::from([(0, peer_address), (0, [10, 0, 1, 7].into())])), [expected]);
    }
}

//! What an agent changes about the system's routing, before it is done.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use byway_typed::{Protocol, TypedPorts};
use ipnet::IpNet;

use crate::agent::Doors;
use crate::settings::{Capture, Exposed, ExposedAt, Selection, Tunnel};

/// Priorities from that of the table on: Byway's own packets pass over the rest, to the last one. What is captured wherever it goes
/// comes behind what the machine's links reach by themselves.
const OWN: u32 = 0;
const CAPTURED: u32 = 1;
const ON_LINK: u32 = 2;
const ANYWHERE: u32 = 3;
const PASSED: u32 = PRIORITIES - 1;

/// What rules of the firewall mark captured packets with that their programs pin to a device, from the table's number on.
const PINNED: u32 = PASSED - 1;

/// How many priorities rules take, from the table's number on.
pub(super) const PRIORITIES: u32 = 100;

/// Most rules of a plan: the system looks through them for each packet that begins here, and closing a capture takes a message for each.
pub(crate) const RULES_MAX: usize = 256;

/// What is for this link alone, or for groups (RFC 3927, 5771, 919; 4291): whoever captures everything does not mean it.
const NEAR: [&str; 5] = ["169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"];

/// What lets a rule be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    /// The agent works.
    Always,
    /// The peer of this capture is there.
    Capture(usize),
    /// A peer is there behind which somebody has sent to this: the rule is for answers to them alone.
    Exposed(usize),
}

/// What a rule does with what fits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is routed into the device.
    Lookup,
    /// It goes as without Byway, if it has not to leave the links of this machine.
    LookupOnLink,
    /// It is looked up in another table than the agent's.
    LookupIn(u32),
    /// It passes over the rules that do so.
    PassTo(u32),
    /// Where that ends.
    Nothing,
}

/// A rule of the system's routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The table into which it has packets looked up.
    pub(crate) table: u32,
    pub(crate) priority: u32,
    pub(crate) is_ipv6: bool,
    pub(crate) action: Action,
    /// Where packets go.
    pub(crate) to: Option<IpNet>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) source_ports: Option<RangeInclusive<u16>>,
    pub(crate) destination_ports: Option<RangeInclusive<u16>>,
    pub(crate) users: Option<RangeInclusive<u32>>,
    pub(crate) mark: Option<u32>,
}

/// A route in the table: what goes there goes into the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: IpNet,
    /// Whether packets of this machine begin here, and have to be given an address.
    pub(crate) is_captured: bool,
}

/// What a control group's packets are marked with, so that rules know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) path: String,
    pub(crate) mark: u32,
}

/// Packets of programs that pin them to a device: those are routed anew once they are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) to: IpNet,
    pub(crate) ports: TypedPorts,
    pub(crate) mark: u32,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) table: u32,
    /// Each with what lets it be.
    pub(crate) rules: Vec<(Gate, Rule)>,
    pub(crate) routes: Vec<Route>,
    pub(crate) groups: Vec<Group>,
    /// Each with the capture that lets it be.
    pub(crate) pins: Vec<(usize, Pin)>,
}

impl Plan {
    /// What a tunnel needs.
    pub(crate) fn new(tunnel: &Tunnel, exposed: &[Exposed]) -> Self {
        let mut plan = Self { table: tunnel.table, ..Self::default() };
        let is_answered = exposed.iter().any(|exposed| matches!(exposed.at, ExposedAt::Network(_)));
        let is_routed = tunnel.captures.iter().any(|capture| capture.queue.is_none());
        if !is_answered && !is_routed && tunnel.own_table.is_none() {
            // Rules of the firewall choose what is captured.
            return plan;
        }
        for is_ipv6 in [false, true] {
            let own = plan.rule(OWN, is_ipv6, Action::PassTo(tunnel.table + PASSED));
            plan.add(Gate::Always, Rule { mark: Some(tunnel.table), ..own });
            plan.add(Gate::Always, plan.rule(PASSED, is_ipv6, Action::Nothing));
            if let Some(own_table) = tunnel.own_table {
                for mark in [tunnel.table, tunnel.table + PINNED] {
                    let own = plan.rule(PASSED, is_ipv6, Action::LookupIn(own_table));
                    plan.add(Gate::Always, Rule { mark: Some(mark), ..own });
                }
            }
        }
        for near in NEAR {
            let to: IpNet = near.parse().expect("it is a prefix");
            let rule = plan.rule(OWN, is_ipv6(&to), Action::PassTo(tunnel.table + PASSED));
            plan.add(Gate::Always, Rule { to: Some(to), ..rule });
        }
        for (place, capture) in tunnel.captures.iter().enumerate() {
            plan.add_capture(place, capture);
        }
        for (place, exposed) in exposed.iter().enumerate() {
            if let ExposedAt::Network(network) = &exposed.at {
                plan.add_answers(place, &network.sources, &network.selection);
            }
        }
        plan
    }

    fn add(&mut self, gate: Gate, rule: Rule) {
        self.rules.push((gate, rule));
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

    fn add_capture(&mut self, place: usize, capture: &Capture) {
        let Capture { selection, users, cgroups, firewall_marks, .. } = capture;
        let mut marks = firewall_marks.clone();
        for path in cgroups {
            let before = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
            let mark = self.table.saturating_add(1).saturating_add(before);
            self.groups.push(Group { path: path.clone(), mark });
            marks.push(mark);
        }
        for to in &selection.prefixes {
            self.add_route(*to, true);
            let priority = if to.prefix_len() == 0 { ANYWHERE } else { CAPTURED };
            if priority == ANYWHERE {
                self.add(Gate::Capture(place), self.rule(ON_LINK, is_ipv6(to), Action::LookupOnLink));
            }
            if capture.pinned {
                self.add_pins(place, *to, &selection.ports);
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
                        self.add(Gate::Capture(place), rule);
                    }
                }
            }
        }
    }

    /// What is marked is routed anew by its address and mark alone: the system looks at no ports then.
    fn add_pins(&mut self, place: usize, to: IpNet, ports: &[TypedPorts]) {
        let mark = self.table + PINNED;
        let pin = |ports: &TypedPorts| (place, Pin { to, ports: ports.clone(), mark });
        self.pins.extend(ports.iter().map(pin));
        let rule = self.rule(CAPTURED, is_ipv6(&to), Action::Lookup);
        self.add(Gate::Capture(place), Rule { to: Some(to), mark: Some(mark), ..rule });
    }

    /// What goes back to where peers' packets come from.
    fn add_answers(&mut self, place: usize, sources: &[IpNet], selection: &Selection) {
        for to in sources {
            self.add_route(*to, false);
            for ports in or_any(&selection.ports) {
                let rule = Rule {
                    to: Some(*to),
                    protocol: ports.map(|ports| ports.protocol),
                    source_ports: ports.and_then(|ports| ports.ports.clone()),
                    ..self.rule(CAPTURED, is_ipv6(to), Action::Lookup)
                };
                self.add(Gate::Exposed(place), rule);
            }
        }
    }

    fn add_route(&mut self, to: IpNet, is_captured: bool) {
        match self.routes.iter_mut().find(|route| route.to == to) {
            Some(route) => route.is_captured |= is_captured,
            None => self.routes.push(Route { to, is_captured }),
        }
    }

    /// The rules that are to be while these doors are open, each once, in the order in which they are safe to add: what leaves Byway's own
    /// packets alone comes first, and before that where it passes to.
    pub(crate) fn open(&self, doors: &Doors) -> Vec<Rule> {
        let mut open: Vec<Rule> = Vec::new();
        let mut add = |rule: Rule| {
            if !open.contains(&rule) {
                open.push(rule);
            }
        };
        let (always, gated) = self.rules.iter().partition::<Vec<_>, _>(|(gate, _)| *gate == Gate::Always);
        for (gate, rule) in always.into_iter().rev().chain(gated) {
            match gate {
                Gate::Always => add(rule.clone()),
                Gate::Capture(place) if doors.captures.get(*place) == Some(&true) => add(rule.clone()),
                Gate::Capture(_) => {}
                Gate::Exposed(place) => {
                    let answered =
                        doors.exposed.iter().filter(|(exposed, _)| exposed == place).map(|(_, to)| *to);
                    let answered = answered.filter(|to| rule.to.is_some_and(|prefix| prefix.contains(to)));
                    answered.for_each(|to| add(Rule { to: Some(to.into()), ..rule.clone() }));
                }
            }
        }
        open
    }

    /// What of it a machine can do that does not speak IPv6.
    pub(crate) fn without_ipv6(mut self) -> Self {
        self.rules.retain(|(_, rule)| !rule.is_ipv6);
        self.routes.retain(|route| !is_ipv6(&route.to));
        self.pins.retain(|(_, pin)| !is_ipv6(&pin.to));
        self
    }

    /// The pins that are to be while these doors are open.
    pub(crate) fn open_pins<'a>(&'a self, doors: &'a Doors) -> impl Iterator<Item = &'a Pin> {
        let is_open = |place: usize| doors.captures.get(place) == Some(&true);
        self.pins.iter().filter(move |(place, _)| is_open(*place)).map(|(_, pin)| pin)
    }

    /// Whether rules of the firewall mark packets.
    pub(crate) fn marks(&self) -> bool {
        !self.groups.is_empty() || !self.pins.is_empty()
    }

    /// Whether a rule is for packets that rules of the firewall have marked.
    pub(crate) fn is_of_pins(&self, rule: &Rule) -> bool {
        rule.mark == Some(self.table + PINNED)
    }

    /// The priorities that are the plan's alone.
    pub(crate) fn priorities(&self) -> RangeInclusive<u32> {
        priorities(self.table)
    }
}

/// The priorities of rules that belong to a table.
pub(crate) fn priorities(table: u32) -> RangeInclusive<u32> {
    table.saturating_add(OWN)..=table.saturating_add(PASSED)
}

/// Each of them, or nothing in particular.
fn or_any<T>(all: &[T]) -> impl Iterator<Item = Option<&T>> {
    let any = all.is_empty().then_some(None);
    all.iter().map(Some).chain(any)
}

const fn is_ipv6(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V6(_))
}

/// An address with this prefix that stands for all of them; of all addresses, one of the Internet (RFC 5737, 3849).
pub(crate) fn example(prefix: &IpNet) -> IpAddr {
    match prefix {
        IpNet::V4(_) if prefix.prefix_len() == 0 => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpNet::V6(_) if prefix.prefix_len() == 0 => Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1).into(),
        _ => prefix.hosts().next().unwrap_or_else(|| prefix.addr()),
    }
}

impl fmt::Display for Rule {
    /// As `ip rule` takes it.
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
    use crate::settings::Wanted;

    fn capture(prefixes: &[&str], ports: &[&str]) -> Capture {
        let wanted = Wanted {
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
            wanted,
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
            watches: None,
            captures,
        }
    }

    fn plan(captures: Vec<Capture>) -> Plan {
        Plan::new(&tunnel(captures), &[])
    }

    fn captured(plan: &Plan) -> Vec<String> {
        let rules = plan.rules.iter().filter(|(gate, _)| *gate != Gate::Always);
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
        let rules = Plan::new(&wanted, &[]).open(&Doors::default());
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
        assert_eq!(plan(vec![queue()]), Plan { table: 4_600, ..Plan::default() });
        let both = plan(vec![queue(), capture(&["10.0.0.1/32"], &[])]);
        assert_eq!((captured(&both).len(), both.routes.len()), (1, 1));
        let open = both.open(&Doors { captures: vec![false, true], ..Doors::default() });
        assert!(open.iter().any(|rule| rule.action == Action::Lookup), "each has its own door");
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
        let open = |captures: [bool; 2]| {
            let doors = Doors { captures: captures.to_vec(), ..Doors::default() };
            plan.open(&doors).iter().filter(|rule| rule.action == Action::Lookup).count()
        };
        assert_eq!([[false, false], [true, false], [false, true], [true, true]].map(open), [0, 1, 1, 1]);
    }

    #[test]
    fn what_leaves_byways_own_packets_alone_is_added_before_what_captures() {
        let rules = plan(vec![capture(&["0.0.0.0/0", "::/0"], &[])])
            .open(&Doors { captures: vec![true], ..Doors::default() });
        let own = rules.iter().rposition(|rule| rule.mark == Some(4_600)).expect("it is there");
        let first = rules.iter().position(|rule| rule.action == Action::Lookup).expect("it captures");
        assert!(own < first && rules[0].action != Action::Lookup, "{own} and {first}");
    }

    #[test]
    fn answers_go_back_to_those_alone_who_have_sent() {
        let mut plan = plan(vec![]);
        let selection = Selection { prefixes: vec![], ports: vec!["tcp:80".parse().expect("ports")] };
        plan.add_answers(0, &["10.0.0.0/24".parse().expect("a prefix")], &selection);
        let asked: IpAddr = [10, 0, 0, 7].into();
        let open = |exposed: BTreeSet<(usize, IpAddr)>| {
            let rules = plan.open(&Doors { exposed, ..Doors::default() });
            let rules = rules.into_iter().filter(|rule| rule.action == Action::Lookup);
            rules.map(|rule| rule.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(open(BTreeSet::new()), [""; 0]);
        assert_eq!(open(BTreeSet::from([(1, asked)])), [""; 0], "that is of something else");
        let expected = "ip rule add pref 4601 to 10.0.0.7/32 ipproto tcp sport 80-80 lookup 4600";
        assert_eq!(open(BTreeSet::from([(0, asked), (0, [10, 0, 1, 7].into())])), [expected]);
    }
}

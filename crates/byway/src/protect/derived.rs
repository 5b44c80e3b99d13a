//! From what `WireGuard` tells of itself to what an agent captures and exposes.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use byway_proto::limits::{DATAGRAM_BYTES_MAX, PIECE_BYTES_MAX};
use byway_typed::Problem;

use super::wireguard::{Dump, Peer};
use crate::capture::{is_of_a_link, priorities};
use crate::settings::{Other, Surroundings};

/// What `WireGuard` puts around a packet: its header of 16 bytes and a tag of 16, in a datagram of UDP.
const WIREGUARD_BYTES: u32 = 32 + 8;

/// And around that the headers of IPv4 and IPv6.
const IP_HEADER_BYTES: [u32; 2] = [20, 40];

/// The system's main routing table.
pub(super) const MAIN_TABLE: u32 = 254;

/// How much of a public key people are shown to know it again.
const KEY_SHOWN: usize = 8;

/// A device of `WireGuard`, and this machine as far as it matters.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) device: String,
    /// The longest packet that goes into the tunnel.
    pub(super) mtu: u32,
    pub(super) dump: Dump,
    /// The addresses of this machine, but those inside the tunnel.
    pub(super) own: Vec<IpAddr>,
    /// Whether what this machine sends goes into the tunnel unless something is done about it.
    pub(super) takes_everything: bool,
}

/// What the command was asked for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) peers: Vec<NamedPeer>,
    /// What both ends call the tunnel.
    pub(super) name: String,
    /// Where the peers' packets may come from; empty: from anywhere.
    pub(super) from: Vec<String>,
    pub(super) behind_nat: bool,
    /// Keys and values of a capture, beside where packets go.
    pub(super) terms: Vec<(&'static str, String)>,
}

/// An agent, and the peer of the tunnel that is on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPeer {
    name: String,
    /// How the peer's public key begins; `None`: there is one peer.
    key: Option<String>,
}

impl FromStr for NamedPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, key) = match text.split_once('=') {
            Some((name, key)) => (name, Some(key.to_owned())),
            None => (text, None),
        };
        if name.is_empty() || key.as_deref() == Some("") {
            return Err("write NAME, or NAME=KEY with the beginning of a public key".to_owned());
        }
        Ok(Self { name: name.to_owned(), key })
    }
}

/// What an agent is to capture and expose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Derived {
    /// As TOML.
    pub(super) tables: String,
    /// What people are to know of it.
    pub(super) notes: Vec<String>,
}

/// A peer of the tunnel with the agent beside it.
struct Pair<'a> {
    agent: &'a str,
    peer: &'a Peer,
}

/// Derives it.
///
/// # Errors
/// If it is not clear which agent is beside which peer, or the device and the agent's settings do not go together.
pub(super) fn derive(facts: &Facts, wish: &Wish, around: &Surroundings) -> Result<Derived, Problem> {
    check(facts, around)?;
    let pairs = pairs(facts, wish, around)?;
    let mut derived = Derived { tables: String::new(), notes: Vec::new() };
    let mut captured = Vec::new();
    for pair in &pairs {
        match endpoint(pair, wish) {
            Ok(endpoint) => {
                captured.push(endpoint);
                derived.tables.push_str(&capture(pair.agent, endpoint, wish));
            }
            Err(note) => derived.notes.push(note),
        }
    }
    derived.tables.push_str(&expose(&pairs, facts, wish));
    derived.tables.push_str(&tunnel(facts, &captured, around, &mut derived.notes));
    Ok(derived)
}

fn check(facts: &Facts, around: &Surroundings) -> Result<(), Problem> {
    let Facts { device, dump, own, .. } = facts;
    if dump.port == 0 {
        return Err(Problem::nowhere(format!(
            "{device} has no port yet: take it up first (ip link set {device} up, or wg-quick up {device})"
        )));
    }
    if dump.port == u16::MAX {
        return Err(Problem::nowhere(format!(
            "{device} has the port {}, which rules of routing cannot name: set another ListenPort",
            dump.port
        )));
    }
    let taken = priorities(around.table);
    if let Some(mark) = dump.mark.filter(|mark| taken.contains(mark)) {
        return Err(Problem::nowhere(format!(
            "{device} marks its packets with {mark}, and {} to {} are Byway's own marks: set another table in [tunnel]",
            taken.start(),
            taken.end()
        )));
    }
    if own.is_empty() {
        return Err(Problem::nowhere(format!(
            "this machine has no address beside those of {device} and its loopback (ip address shows all)"
        )));
    }
    Ok(())
}

/// Which agent is beside which peer.
fn pairs<'a>(facts: &'a Facts, wish: &'a Wish, around: &'a Surroundings) -> Result<Vec<Pair<'a>>, Problem> {
    if facts.dump.peers.is_empty() {
        return Err(Problem::nowhere(format!(
            "{} has no peers (wg show {0}): nothing goes through it",
            facts.device
        )));
    }
    if wish.peers.is_empty() {
        let agent = only_other(around)?;
        return Ok(vec![Pair { agent, peer: peer_of(agent, None, facts)? }]);
    }
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for NamedPeer { name, key } in &wish.peers {
        known(name, around)?;
        let peer = peer_of(name, key.as_deref(), facts)?;
        if let Some(other) = pairs.iter().find(|pair| pair.peer.key == peer.key) {
            let message = format!(
                "the peer {} is on the machine of {} already, and not on that of {name}",
                shown(peer),
                other.agent
            );
            return Err(Problem::flag("--peer", message));
        }
        pairs.push(Pair { agent: name, peer });
    }
    Ok(pairs)
}

/// The agent at the other end, where there is one alone.
fn only_other(around: &Surroundings) -> Result<&str, Problem> {
    let Some(others) = &around.others else {
        let message = "name the agent at the other end, as in --peer bob: there is no [network] that would say which it is";
        return Err(Problem::flag("--peer", message));
    };
    match others.as_slice() {
        [only] => Ok(&only.name),
        [] => Err(Problem::flag(
            "--peer",
            "[[network.pairs]] has this agent with nobody: add a pair with the agent at the other end",
        )),
        several => Err(Problem::flag(
            "--peer",
            format!("name the agent at the other end: one of {}", names(several)),
        )),
    }
}

/// Whether the network has such an agent, as far as that is known.
fn known(name: &str, around: &Surroundings) -> Result<(), Problem> {
    match &around.others {
        Some(others) if others.iter().all(|other| other.name != name) => Err(Problem::flag(
            "--peer",
            format!(
                "[[network.pairs]] has this agent with nobody called {name:?}, but with {}",
                names(others)
            ),
        )),
        _ => Ok(()),
    }
}

fn names(others: &[Other]) -> String {
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
}

fn peer_of<'a>(agent: &str, key: Option<&str>, facts: &'a Facts) -> Result<&'a Peer, Problem> {
    let fits = |peer: &&Peer| key.is_none_or(|key| peer.key.starts_with(key));
    let found: Vec<&Peer> = facts.dump.peers.iter().filter(fits).collect();
    if let [only] = found.as_slice() {
        return Ok(only);
    }
    let all = if found.is_empty() { facts.dump.peers.iter().collect() } else { found };
    let (device, which) =
        (&facts.device, if key.is_some() { "of this key" } else { "that is on the machine" });
    let list: Vec<String> = all
        .iter()
        .map(|peer| {
            format!(
                "\n  --peer {agent}={}  {}",
                shown(peer),
                peer.endpoint.map_or("no endpoint yet".to_owned(), |at| at.to_string())
            )
        })
        .collect();
    Err(Problem::flag(
        "--peer",
        format!(
            "name the peer of {device} {which} of {agent}, by the beginning of its public key:{}",
            list.concat()
        ),
    ))
}

fn shown(peer: &Peer) -> &str {
    peer.key.get(..KEY_SHOWN).unwrap_or(&peer.key)
}

/// Where packets to a peer are captured, or why none are. Whether its machine has that address, or a NAT before it, the agent there
/// says when it is asked to take them.
fn endpoint(pair: &Pair<'_>, wish: &Wish) -> Result<SocketAddr, String> {
    let Pair { agent, peer } = pair;
    let key = shown(peer);
    let Some(endpoint) = peer.endpoint else {
        return Err(format!(
            "the peer {key} has no endpoint: WireGuard learns it when the peer sends. What {agent} sends by Byway is answered by Byway; what begins \
             here before is not captured"
        ));
    };
    if is_of_a_link(endpoint.ip()) || endpoint.ip().is_loopback() {
        return Err(format!(
            "the endpoint {endpoint} of the peer {key} is on a link of this machine: what goes there is not captured"
        ));
    }
    if [0, u16::MAX].contains(&endpoint.port()) {
        return Err(format!(
            "the endpoint {endpoint} of the peer {key} has a port that rules of routing cannot name: what goes there is not captured"
        ));
    }
    if wish.behind_nat {
        return Err(format!(
            "{agent} is behind a NAT: what it sends by Byway is answered by Byway; what begins here before is not captured"
        ));
    }
    Ok(endpoint)
}

fn capture(agent: &str, endpoint: SocketAddr, wish: &Wish) -> String {
    let mut table = String::from("[[capture]]\n");
    add(&mut table, "peer", agent);
    add(&mut table, "to", wish.name.as_str());
    add(&mut table, "destinations", vec![endpoint.ip().to_string()]);
    add(&mut table, "ports", vec![format!("udp:{}", endpoint.port())]);
    add(&mut table, "pinned", true);
    for (name, value) in &wish.terms {
        add(&mut table, name, value.as_str());
    }
    table.push('\n');
    table
}

fn expose(pairs: &[Pair<'_>], facts: &Facts, wish: &Wish) -> String {
    let any = |prefix: &str, is_ipv4: bool| {
        facts.own.iter().any(|own| own.is_ipv4() == is_ipv4).then(|| prefix.to_owned())
    };
    let anywhere = || [any("0.0.0.0/0", true), any("::/0", false)].into_iter().flatten().collect();
    let mut table = String::from("[[expose]]\n");
    add(&mut table, "name", wish.name.as_str());
    add(&mut table, "networks", facts.own.iter().map(IpAddr::to_string).collect::<Vec<_>>());
    add(&mut table, "sources", if wish.from.is_empty() { anywhere() } else { wish.from.clone() });
    add(&mut table, "ports", vec![format!("udp:{}", facts.dump.port)]);
    add(&mut table, "peers", pairs.iter().map(|pair| pair.agent.to_owned()).collect::<Vec<_>>());
    table.push('\n');
    table
}

/// The device: it takes the longest packet that `WireGuard` sends as it is.
fn tunnel(facts: &Facts, captured: &[SocketAddr], around: &Surroundings, notes: &mut Vec<String>) -> String {
    let is_ipv6 = captured.is_empty() || captured.iter().any(SocketAddr::is_ipv6);
    let outside = WIREGUARD_BYTES + IP_HEADER_BYTES[usize::from(is_ipv6)];
    let longest = facts.mtu + outside;
    let [least, most] =
        [PIECE_BYTES_MAX, DATAGRAM_BYTES_MAX].map(|bytes| u32::try_from(bytes).expect("it is a packet"));
    let mtu = longest.clamp(least, most);
    let taken = around.mtu.map_or(mtu, u32::from);
    if longest > taken {
        notes.push(format!(
            "packets of {} have up to {longest} bytes outside, and Byway's device takes {taken}: longer ones go as fragments, and not at all from programs \
             that have the system cut their packets (wireguard-go). Set the tunnel's MTU to {} on both ends (ip link set {} mtu {})",
            facts.device,
            taken.saturating_sub(outside),
            facts.device,
            taken.saturating_sub(outside)
        ));
    }
    let mut table = String::from("[tunnel]\n");
    add(&mut table, "mtu", i64::from(taken));
    add(&mut table, "watches", facts.device.as_str());
    if facts.takes_everything {
        add(&mut table, "own_table", i64::from(MAIN_TABLE));
    }
    table
}

fn add(table: &mut String, key: &str, value: impl Into<toml::Value>) {
    let _ = writeln!(table, "{key} = {}", value.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "203.0.113.9:51820";

    fn peer(key: &str, endpoint: Option<&str>) -> Peer {
        let endpoint = endpoint.map(|endpoint| endpoint.parse().expect("an endpoint"));
        Peer { key: key.to_owned(), endpoint }
    }

    fn facts(peers: Vec<Peer>) -> Facts {
        Facts {
            device: "wg0".to_owned(),
            mtu: 1_420,
            dump: Dump { port: 51_821, mark: None, peers },
            own: vec!["198.51.100.7".parse().expect("an address")],
            takes_everything: false,
        }
    }

    fn wish(peers: &[&str]) -> Wish {
        Wish {
            peers: peers.iter().map(|peer| peer.parse().expect("a peer")).collect(),
            name: "wireguard".to_owned(),
            from: vec![],
            behind_nat: false,
            terms: vec![("service", "caching".to_owned())],
        }
    }

    const MANAGED: Surroundings = Surroundings { others: None, table: 4_600, mtu: None };

    /// A file that pairs the agent with these.
    fn paired(others: &[&str]) -> Surroundings {
        let other = |name: &&str| Other { name: (*name).to_owned() };
        Surroundings { others: Some(others.iter().map(other).collect()), ..MANAGED }
    }

    /// What is derived, with what differs alone.
    fn captured(derived: &Derived) -> Vec<&str> {
        derived.tables.lines().filter(|line| line.starts_with("destinations")).collect()
    }

    fn value(derived: &Derived, key: &str) -> String {
        let start = format!("{key} = ");
        derived.tables.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_tunnel_is_captured_on_its_way_out_and_exposed_on_its_way_in() {
        let derived = derive(&facts(vec![peer("a2V5", Some(ENDPOINT))]), &wish(&["bob"]), &MANAGED);
        let expected = "\
[[capture]]
peer = \"bob\"
to = \"wireguard\"
destinations = [\"203.0.113.9\"]
ports = [\"udp:51820\"]
pinned = true
service = \"caching\"

[[expose]]
name = \"wireguard\"
networks = [\"198.51.100.7\"]
sources = [\"0.0.0.0/0\"]
ports = [\"udp:51821\"]
peers = [\"bob\"]

[tunnel]
mtu = 1480
watches = \"wg0\"
";
        assert_eq!(derived, Ok(Derived { tables: expected.to_owned(), notes: vec![] }));
    }

    #[test]
    fn the_only_other_agent_of_the_network_is_the_peer() {
        let facts = facts(vec![peer("a2V5", Some(ENDPOINT))]);
        let derived = derive(&facts, &wish(&[]), &paired(&["bob"])).expect("it is bob");
        assert_eq!(value(&derived, "peer"), "\"bob\"");
        for (around, expected) in [
            (MANAGED, "--peer bob"),
            (paired(&[]), "with nobody: add a pair"),
            (paired(&["bob", "carol"]), "one of bob, carol"),
        ] {
            let problem = derive(&facts, &wish(&[]), &around).expect_err("it is not clear").to_string();
            assert!(problem.starts_with("--peer: ") && problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn several_peers_are_told_apart_by_their_keys() {
        let facts = facts(vec![
            peer("b25lb25lb25l", Some(ENDPOINT)),
            peer("dHdvdHdvdHdv", Some("203.0.113.10:7")),
            peer("dHdvdGhyZWU=", None),
        ]);
        let derived =
            derive(&facts, &wish(&["bob=b25", "carol=dHdvdHdv"]), &MANAGED).expect("they are told apart");
        assert_eq!(
            captured(&derived),
            ["destinations = [\"203.0.113.9\"]", "destinations = [\"203.0.113.10\"]"]
        );
        assert_eq!(value(&derived, "peers"), "[\"bob\", \"carol\"]");
        for (wanted, expected) in [
            (
                &["bob"][..],
                &[
                    "that is on the machine of bob",
                    "--peer bob=b25lb25l  203.0.113.9:51820",
                    "no endpoint yet",
                ][..],
            ),
            (&["bob=dHdv"], &["of this key", "--peer bob=dHdvdHdv", "--peer bob=dHdvdGhy"]),
            (&["bob=xxx"], &["of this key", "--peer bob=b25lb25l"]),
            (&["bob=b25", "carol=b25"], &["on the machine of bob already"]),
        ] {
            let problem = derive(&facts, &wish(wanted), &MANAGED).expect_err("it is not clear").to_string();
            assert!(expected.iter().all(|words| problem.contains(words)), "{problem}");
        }
        for text in ["", "=key", "bob="] {
            assert!(text.parse::<NamedPeer>().expect_err(text).contains("NAME=KEY"));
        }
    }

    #[test]
    fn what_is_not_captured_is_exposed_and_said() {
        let nat = |behind_nat| Wish { behind_nat, ..wish(&["bob"]) };
        for (endpoint, wish, expected) in [
            (None, nat(false), "has no endpoint: WireGuard learns it when the peer sends"),
            (Some("[fe80::1]:7"), nat(false), "is on a link of this machine"),
            (Some("203.0.113.9:65535"), nat(false), "cannot name"),
            (Some(ENDPOINT), nat(true), "bob is behind a NAT"),
        ] {
            let derived = derive(&facts(vec![peer("a2V5", endpoint)]), &wish, &paired(&["bob"]))
                .expect("it is exposed");
            assert_eq!(captured(&derived), [""; 0]);
            assert!(derived.notes.len() == 1 && derived.notes[0].contains(expected), "{:?}", derived.notes);
            assert_eq!(value(&derived, "ports"), "[\"udp:51821\"]");
        }
        // Whether it is bob's own, his agent is asked, with a controller too.
        for around in [MANAGED, paired(&["bob"])] {
            let derived = derive(&facts(vec![peer("a2V5", Some(ENDPOINT))]), &nat(false), &around);
            assert_eq!(captured(&derived.expect("it is a peer")).len(), 1);
        }
    }

    #[test]
    fn the_device_takes_the_longest_packet_as_far_as_byway_does() {
        let with = |endpoint: &str, mtu: u32, set: Option<u16>| {
            let facts = Facts { mtu, ..facts(vec![peer("a2V5", Some(endpoint))]) };
            let derived =
                derive(&facts, &wish(&["bob"]), &Surroundings { mtu: set, ..MANAGED }).expect("a tunnel");
            (value(&derived, "mtu"), derived.notes)
        };
        let taken = |mtu: &str| (mtu.to_owned(), vec![]);
        assert_eq!(with(ENDPOINT, 1_420, None), taken("1480"));
        assert_eq!(with("[2001:db8::9]:7", 1_420, None), taken("1500"));
        assert_eq!(with(ENDPOINT, 1_280, None), taken("1354"), "no less than is usual");
        assert_eq!(with(ENDPOINT, 1_420, Some(1_500)), taken("1500"), "what somebody has set stays");
        for (endpoint, mtu, set, expected) in [
            (ENDPOINT, 8_920, None, "MTU to 1440"),
            ("[2001:db8::9]:7", 1_440, None, "MTU to 1420"),
            (ENDPOINT, 1_420, Some(1_354), "MTU to 1294"),
        ] {
            let (_, notes) = with(endpoint, mtu, set);
            assert!(notes.len() == 1 && notes[0].contains(expected), "{notes:?}");
        }
    }

    #[test]
    fn byways_own_packets_do_not_go_into_a_tunnel_that_takes_everything() {
        let facts = Facts { takes_everything: true, ..facts(vec![peer("a2V5", Some(ENDPOINT))]) };
        assert_eq!(value(&derive(&facts, &wish(&["bob"]), &MANAGED).expect("a tunnel"), "own_table"), "254");
    }

    #[test]
    fn what_cannot_be_protected_says_why() {
        let whole = || facts(vec![peer("a2V5", Some(ENDPOINT))]);
        let dump = |port, mark| Dump { port, mark, ..whole().dump };
        for (facts, expected) in [
            (facts(vec![]), "wg0 has no peers"),
            (Facts { dump: dump(0, None), ..whole() }, "wg-quick up wg0"),
            (Facts { dump: dump(u16::MAX, None), ..whole() }, "another ListenPort"),
            (Facts { dump: dump(7, Some(4_650)), ..whole() }, "Byway's own marks"),
            (Facts { own: vec![], ..whole() }, "no address"),
        ] {
            let problem = derive(&facts, &wish(&["bob"]), &MANAGED).expect_err(expected).to_string();
            assert!(problem.contains(expected), "{problem}");
        }
        let problem = derive(&whole(), &wish(&["bop"]), &paired(&["bob"])).expect_err("nobody").to_string();
        assert!(problem.contains("nobody called \"bop\", but with bob"), "{problem}");
    }
}

//! Derivation of an agent's captures and exposed networks from a `WireGuard` device, for
//! `byway protect`.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use byway_config_types::Problem;
use byway_proto::limits::{DATAGRAM_BYTES_MAX, FRAGMENT_BYTES_MAX};

use super::wireguard::{Dump, Peer};
use crate::capture::{is_link_local, priorities};
use crate::settings::{AgentContext, OtherAgent};

/// Bytes that `WireGuard` adds to a packet: its header of 16 bytes and a tag of 16, in a UDP
/// datagram.
const WIREGUARD_BYTES: u32 = 32 + 8;

/// Lengths of the outer IPv4 and IPv6 header of a tunnel's packet, in bytes.
const IP_HEADER_BYTES: [u32; 2] = [20, 40];

/// Number of the system's main routing table.
pub(super) const RT_TABLE_MAIN: u32 = 254;

/// Number of characters of a public key that identify it to people.
const KEY_SHOWN: usize = 8;

/// State of a `WireGuard` device, and the properties of this machine that its captures depend on.
#[derive(Clone, Debug)]
pub(super) struct TunnelFacts {
    pub(super) device: String,
    /// Longest packet that programs send into the tunnel, in bytes: the device's MTU.
    pub(super) mtu: u32,
    pub(super) dump: Dump,
    /// Addresses of this machine, except those inside the tunnel.
    pub(super) own: Vec<IpAddr>,
    /// True if packets to the Internet, or to a peer's endpoint, go into the tunnel unless a rule
    /// excludes them.
    pub(super) is_default_route: bool,
}

/// Request of `byway protect`, from its flags.
#[derive(Clone, Debug)]
pub(super) struct ProtectRequest {
    pub(super) peers: Vec<NamedPeer>,
    /// Name of the tunnel's resource, the same at both ends.
    pub(super) name: String,
    /// Source addresses of the peers' packets; empty for any.
    pub(super) from: Vec<String>,
    pub(super) behind_nat: bool,
    /// Keys and values that every capture gets, besides the destinations.
    pub(super) terms: Vec<(&'static str, String)>,
}

/// Agent's name as `--peer` gives it, and the key of the tunnel's peer on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPeer {
    name: String,
    /// First characters of the peer's public key; `None` if the tunnel has only one peer.
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
            return Err("write NAME, or NAME=KEY with the first characters of a public key".to_owned());
        }
        Ok(Self { name: name.to_owned(), key })
    }
}

/// Captures and exposed networks that `byway protect` adds to an agent's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DerivedConfig {
    /// Tables to add to the agent's file, as TOML.
    pub(super) tables: String,
    /// Notes for people, such as why a peer's packets are not captured.
    pub(super) notes: Vec<String>,
}

/// Peer of the tunnel, and the name of the agent on its machine.
struct PeerPair<'a> {
    agent: &'a str,
    peer: &'a Peer,
}

/// Derives the captures and exposed networks for a tunnel.
///
/// # Errors
/// If the agent of a peer is ambiguous, or the device conflicts with the agent's settings.
pub(super) fn derive(
    facts: &TunnelFacts,
    request: &ProtectRequest,
    context: &AgentContext,
) -> Result<DerivedConfig, Problem> {
    check(facts, context)?;
    let pairs = pairs(facts, request, context)?;
    let mut derived = DerivedConfig { tables: String::new(), notes: Vec::new() };
    let mut captured = Vec::new();
    for pair in &pairs {
        match endpoint(pair, request) {
            Ok(endpoint) => {
                captured.push(endpoint);
                derived.tables.push_str(&capture(pair.agent, endpoint, request));
            }
            Err(note) => derived.notes.push(note),
        }
    }
    derived.tables.push_str(&expose(&pairs, facts, request));
    derived.tables.push_str(&tunnel(facts, &captured, context, &mut derived.notes));
    Ok(derived)
}

fn check(facts: &TunnelFacts, context: &AgentContext) -> Result<(), Problem> {
    let TunnelFacts { device, dump, own, .. } = facts;
    if dump.port == 0 {
        return Err(Problem::without_location(format!(
            "{device} has no port yet: take it up first (ip link set {device} up, or wg-quick up {device})"
        )));
    }
    if dump.port == u16::MAX {
        return Err(Problem::without_location(format!(
            "{device} has the port {}, which routing rules cannot match: set another ListenPort",
            dump.port
        )));
    }
    let own_marks = priorities(context.table);
    if let Some(mark) = dump.mark.filter(|mark| own_marks.contains(mark)) {
        return Err(Problem::without_location(format!(
            "{device} uses the firewall mark {mark}, but {} to {} are Byway's own marks: set another \
             `table` in [tunnel]",
            own_marks.start(),
            own_marks.end()
        )));
    }
    if own.is_empty() {
        return Err(Problem::without_location(format!(
            "no address found on this machine except those of {device} and its loopback (ip address \
             shows all)"
        )));
    }
    Ok(())
}

/// Returns the peers of the tunnel that have an agent, each with the agent.
fn pairs<'a>(
    facts: &'a TunnelFacts,
    request: &'a ProtectRequest,
    context: &'a AgentContext,
) -> Result<Vec<PeerPair<'a>>, Problem> {
    if facts.dump.peers.is_empty() {
        return Err(Problem::without_location(format!(
            "{} has no peers (wg show {0}): add a peer to the tunnel first",
            facts.device
        )));
    }
    if request.peers.is_empty() {
        let agent = only_other(context)?;
        return Ok(vec![PeerPair { agent, peer: peer_of(agent, None, facts)? }]);
    }
    let mut pairs: Vec<PeerPair<'_>> = Vec::new();
    for NamedPeer { name, key } in &request.peers {
        check_known(name, context)?;
        let peer = peer_of(name, key.as_deref(), facts)?;
        if let Some(other) = pairs.iter().find(|pair| pair.peer.key == peer.key) {
            let message = format!(
                "--peer names two agents for the peer {} of the tunnel, {} and {name}: each agent has \
                 its own machine",
                short_key(peer),
                other.agent
            );
            return Err(Problem::flag("--peer", message));
        }
        pairs.push(PeerPair { agent: name, peer });
    }
    Ok(pairs)
}

/// Returns the name of the agent at the other end, if this agent has only one pair in the file.
fn only_other(context: &AgentContext) -> Result<&str, Problem> {
    let Some(others) = &context.others else {
        let message = "agent at the other end unknown, because [network] is missing: name it, as in \
                       --peer bob";
        return Err(Problem::flag("--peer", message));
    };
    match others.as_slice() {
        [only] => Ok(&only.name),
        [] => Err(Problem::flag(
            "--peer",
            "no pair of this agent in [[network.pairs]]: add one with the agent at the other end",
        )),
        several => Err(Problem::flag(
            "--peer",
            format!(
                "this agent has several pairs: name the agent at the other end, one of {}",
                names(several)
            ),
        )),
    }
}

/// Checks that this agent is paired with the agent `name`, if the file lists the network's pairs.
fn check_known(name: &str, context: &AgentContext) -> Result<(), Problem> {
    match &context.others {
        Some(others) if others.iter().all(|other| other.name != name) => Err(Problem::flag(
            "--peer",
            format!("no pair of this agent with {name:?} in [[network.pairs]], only with {}", names(others)),
        )),
        _ => Ok(()),
    }
}

fn names(others: &[OtherAgent]) -> String {
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn peer_of<'a>(agent: &str, key: Option<&str>, facts: &'a TunnelFacts) -> Result<&'a Peer, Problem> {
    let fits = |peer: &&Peer| key.is_none_or(|key| peer.key.starts_with(key));
    let found: Vec<&Peer> = facts.dump.peers.iter().filter(fits).collect();
    if let [only] = found.as_slice() {
        return Ok(only);
    }
    let all = if found.is_empty() { facts.dump.peers.iter().collect() } else { found };
    let (device, which) = (&facts.device, if key.is_some() { "with this key" } else { "on the machine" });
    let list: Vec<String> = all
        .iter()
        .map(|peer| {
            format!(
                "\n  --peer {agent}={}  {}",
                short_key(peer),
                peer.endpoint.map_or("no endpoint yet".to_owned(), |at| at.to_string())
            )
        })
        .collect();
    Err(Problem::flag(
        "--peer",
        format!(
            "cannot choose a peer of {device} {which} of {agent}: name it by the first characters of \
             its public key:{}",
            list.concat()
        ),
    ))
}

fn short_key(peer: &Peer) -> &str {
    peer.key.get(..KEY_SHOWN).unwrap_or(&peer.key)
}

/// Returns the address to which packets of a peer are captured, or the reason why none are. The
/// peer's agent later reveals whether its machine has that address or a NAT before it, when it
/// answers the capture's offer.
fn endpoint(pair: &PeerPair<'_>, request: &ProtectRequest) -> Result<SocketAddr, String> {
    let PeerPair { agent, peer } = pair;
    let key = short_key(peer);
    let Some(endpoint) = peer.endpoint else {
        return Err(format!(
            "peer {key} has no endpoint yet: WireGuard learns it from the peer's first packet. \
             Replies to packets of {agent} are captured; packets sent from here before that are not"
        ));
    };
    if is_link_local(endpoint.ip()) || endpoint.ip().is_loopback() {
        return Err(format!(
            "endpoint {endpoint} of peer {key} is on a link of this machine: packets to it are not captured"
        ));
    }
    if [0, u16::MAX].contains(&endpoint.port()) {
        return Err(format!(
            "endpoint {endpoint} of peer {key} has a port that routing rules cannot match: packets to \
             it are not captured"
        ));
    }
    if request.behind_nat {
        return Err(format!(
            "{agent} is behind a NAT: replies to its packets are captured; packets sent from here \
             before that are not"
        ));
    }
    Ok(endpoint)
}

fn capture(agent: &str, endpoint: SocketAddr, request: &ProtectRequest) -> String {
    let mut table = String::from("[[capture]]\n");
    add(&mut table, "peer", agent);
    add(&mut table, "to", request.name.as_str());
    add(&mut table, "destinations", vec![endpoint.ip().to_string()]);
    add(&mut table, "ports", vec![format!("udp:{}", endpoint.port())]);
    add(&mut table, "pinned", true);
    for (name, value) in &request.terms {
        add(&mut table, name, value.as_str());
    }
    table.push('\n');
    table
}

fn expose(pairs: &[PeerPair<'_>], facts: &TunnelFacts, request: &ProtectRequest) -> String {
    let any = |prefix: &str, is_ipv4: bool| {
        facts.own.iter().any(|own| own.is_ipv4() == is_ipv4).then(|| prefix.to_owned())
    };
    let anywhere = || [any("0.0.0.0/0", true), any("::/0", false)].into_iter().flatten().collect();
    let mut table = String::from("[[expose]]\n");
    add(&mut table, "name", request.name.as_str());
    add(&mut table, "networks", facts.own.iter().map(IpAddr::to_string).collect::<Vec<_>>());
    add(&mut table, "sources", if request.from.is_empty() { anywhere() } else { request.from.clone() });
    add(&mut table, "ports", vec![format!("udp:{}", facts.dump.port)]);
    add(&mut table, "peers", pairs.iter().map(|pair| pair.agent.to_owned()).collect::<Vec<_>>());
    table.push('\n');
    table
}

/// Returns the `[tunnel]` table. Its MTU is the longest packet that `WireGuard` sends; a note
/// reports if that exceeds the maximum.
fn tunnel(
    facts: &TunnelFacts,
    captured: &[SocketAddr],
    context: &AgentContext,
    notes: &mut Vec<String>,
) -> String {
    let is_ipv6 = captured.is_empty() || captured.iter().any(SocketAddr::is_ipv6);
    let overhead = WIREGUARD_BYTES + IP_HEADER_BYTES[usize::from(is_ipv6)];
    let longest = facts.mtu + overhead;
    let [least, most] =
        [FRAGMENT_BYTES_MAX, DATAGRAM_BYTES_MAX].map(|bytes| u32::try_from(bytes).expect("it is a packet"));
    let mtu = longest.clamp(least, most);
    let effective_mtu = context.mtu.map_or(mtu, u32::from);
    if longest > effective_mtu {
        notes.push(format!(
            "packets of {} have up to {longest} bytes with outer headers, but the MTU of Byway's \
             device is {effective_mtu}: longer ones are fragmented, or dropped if their program uses \
             segmentation offload (wireguard-go). Set the tunnel's MTU to {} on both ends (ip link set \
             {} mtu {})",
            facts.device,
            effective_mtu.saturating_sub(overhead),
            facts.device,
            effective_mtu.saturating_sub(overhead)
        ));
    }
    let mut table = String::from("[tunnel]\n");
    add(&mut table, "mtu", i64::from(effective_mtu));
    add(&mut table, "watched_device", facts.device.as_str());
    if facts.is_default_route {
        add(&mut table, "own_table", i64::from(RT_TABLE_MAIN));
    }
    table
}

fn add(table: &mut String, key: &str, value: impl Into<toml::Value>) {
    let _ = writeln!(table, "{key} = {}", value.into());
}

#[cfg(test)]
mod tests {
    use byway_plan::LatencyTerms;
    use byway_units::Duration;
    use clap::Parser;

    use super::*;
    use crate::protect::ProtectFlags;
    use crate::settings::agent_of;

    const ENDPOINT: &str = "203.0.113.9:51820";

    fn peer(key: &str, endpoint: Option<&str>) -> Peer {
        let endpoint = endpoint.map(|endpoint| endpoint.parse().expect("an endpoint"));
        Peer { key: key.to_owned(), endpoint }
    }

    fn facts(peers: Vec<Peer>) -> TunnelFacts {
        TunnelFacts {
            device: "wg0".to_owned(),
            mtu: 1_420,
            dump: Dump { port: 51_821, mark: None, peers },
            own: vec!["198.51.100.7".parse().expect("an address")],
            is_default_route: false,
        }
    }

    fn request(peers: &[&str]) -> ProtectRequest {
        ProtectRequest {
            peers: peers.iter().map(|peer| peer.parse().expect("a peer")).collect(),
            name: "wireguard".to_owned(),
            from: vec![],
            behind_nat: false,
            terms: vec![("service", "caching".to_owned())],
        }
    }

    const MANAGED: AgentContext = AgentContext { others: None, table: 4_600, mtu: None };

    /// Returns the context of a file that pairs the agent with these.
    fn paired(others: &[&str]) -> AgentContext {
        let other = |name: &&str| OtherAgent { name: (*name).to_owned() };
        AgentContext { others: Some(others.iter().map(other).collect()), ..MANAGED }
    }

    /// Returns the lines of the derived settings that differ between the cases.
    fn captured(derived: &DerivedConfig) -> Vec<&str> {
        derived.tables.lines().filter(|line| line.starts_with("destinations")).collect()
    }

    fn value(derived: &DerivedConfig, key: &str) -> String {
        let start = format!("{key} = ");
        derived.tables.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_tunnel_is_captured_on_its_way_out_and_exposed_on_its_way_in() {
        let derived = derive(&facts(vec![peer("a2V5", Some(ENDPOINT))]), &request(&["bob"]), &MANAGED);
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
watched_device = \"wg0\"
";
        assert_eq!(derived, Ok(DerivedConfig { tables: expected.to_owned(), notes: vec![] }));
    }

    /// Command line of `byway protect`.
    #[derive(Debug, Parser)]
    struct ProtectCommand {
        #[command(flatten)]
        flags: ProtectFlags,
    }

    #[test]
    fn the_flags_of_delays_are_the_limits_of_the_capture() {
        let limits = |gain| {
            let acceptable = Duration::from_millis(50);
            Some(LatencyTerms { acceptable, gain: Duration::from_millis(gain) })
        };
        for (flags, expected) in [
            (vec![], None),
            (vec!["--acceptable-delay", "50 ms"], limits(10)),
            (vec!["--acceptable-delay", "50 ms", "--delay-gain", "7 ms"], limits(7)),
        ] {
            let words = ["protect", "wg0", "--peer", "bob"].into_iter().chain(flags.iter().copied());
            let command = ProtectCommand::parse_from(words);
            let facts = facts(vec![peer("a2V5", Some(ENDPOINT))]);
            let derived = derive(&facts, &command.flags.request(), &MANAGED).expect("one peer");
            let settings = agent_of(&format!("[agent]\nname = \"alice\"\n\n{}", derived.tables));
            let settings = settings.unwrap_or_else(|problem| panic!("{problem}"));
            let tunnel = settings.tunnel.expect("it captures");
            assert_eq!(tunnel.captures[0].spec.terms.latency, expected, "{flags:?}");
        }
        let alone = ProtectCommand::try_parse_from(["protect", "wg0", "--delay-gain", "7 ms"]);
        assert!(alone.is_err(), "a gain needs an acceptable delay");
    }

    #[test]
    fn the_only_other_agent_of_the_network_is_the_peer() {
        let facts = facts(vec![peer("a2V5", Some(ENDPOINT))]);
        let derived = derive(&facts, &request(&[]), &paired(&["bob"])).expect("it is bob");
        assert_eq!(value(&derived, "peer"), "\"bob\"");
        for (context, expected) in [
            (MANAGED, "--peer bob"),
            (paired(&[]), "in [[network.pairs]]: add one"),
            (paired(&["bob", "carol"]), "one of bob, carol"),
        ] {
            let problem = derive(&facts, &request(&[]), &context).expect_err("it is not clear").to_string();
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
            derive(&facts, &request(&["bob=b25", "carol=dHdvdHdv"]), &MANAGED).expect("the keys differ");
        assert_eq!(
            captured(&derived),
            ["destinations = [\"203.0.113.9\"]", "destinations = [\"203.0.113.10\"]"]
        );
        assert_eq!(value(&derived, "peers"), "[\"bob\", \"carol\"]");
        for (wanted, expected) in [
            (
                &["bob"][..],
                &["on the machine of bob", "--peer bob=b25lb25l  203.0.113.9:51820", "no endpoint yet"][..],
            ),
            (&["bob=dHdv"], &["with this key", "--peer bob=dHdvdHdv", "--peer bob=dHdvdGhy"]),
            (&["bob=xxx"], &["with this key", "--peer bob=b25lb25l"]),
            (&["bob=b25", "carol=b25"], &["names two agents for the peer"]),
        ] {
            let problem =
                derive(&facts, &request(wanted), &MANAGED).expect_err("it is not clear").to_string();
            assert!(expected.iter().all(|words| problem.contains(words)), "{problem}");
        }
        for text in ["", "=key", "bob="] {
            assert!(text.parse::<NamedPeer>().expect_err(text).contains("NAME=KEY"));
        }
    }

    #[test]
    fn what_is_not_captured_is_exposed_and_said() {
        let nat = |behind_nat| ProtectRequest { behind_nat, ..request(&["bob"]) };
        for (endpoint, request, expected) in [
            (None, nat(false), "has no endpoint yet: WireGuard learns it"),
            (Some("[fe80::1]:7"), nat(false), "is on a link of this machine"),
            (Some("203.0.113.9:65535"), nat(false), "cannot match"),
            (Some(ENDPOINT), nat(true), "bob is behind a NAT"),
        ] {
            let derived = derive(&facts(vec![peer("a2V5", endpoint)]), &request, &paired(&["bob"]))
                .expect("it is exposed");
            assert_eq!(captured(&derived), [""; 0]);
            assert!(derived.notes.len() == 1 && derived.notes[0].contains(expected), "{:?}", derived.notes);
            assert_eq!(value(&derived, "ports"), "[\"udp:51821\"]");
        }
        // Bob's agent knows whether the address is its own, with a controller too.
        for context in [MANAGED, paired(&["bob"])] {
            let derived = derive(&facts(vec![peer("a2V5", Some(ENDPOINT))]), &nat(false), &context);
            assert_eq!(captured(&derived.expect("it is a peer")).len(), 1);
        }
    }

    #[test]
    fn the_device_takes_the_longest_packet_as_far_as_byway_does() {
        let with = |endpoint: &str, mtu: u32, set: Option<u16>| {
            let facts = TunnelFacts { mtu, ..facts(vec![peer("a2V5", Some(endpoint))]) };
            let derived =
                derive(&facts, &request(&["bob"]), &AgentContext { mtu: set, ..MANAGED }).expect("a tunnel");
            (value(&derived, "mtu"), derived.notes)
        };
        let with_mtu = |mtu: &str| (mtu.to_owned(), vec![]);
        assert_eq!(with(ENDPOINT, 1_420, None), with_mtu("1480"));
        assert_eq!(with("[2001:db8::9]:7", 1_420, None), with_mtu("1500"));
        assert_eq!(with(ENDPOINT, 1_280, None), with_mtu("1354"), "no less than is usual");
        assert_eq!(with(ENDPOINT, 1_420, Some(1_500)), with_mtu("1500"), "what somebody has set stays");
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
        let facts = TunnelFacts { is_default_route: true, ..facts(vec![peer("a2V5", Some(ENDPOINT))]) };
        assert_eq!(
            value(&derive(&facts, &request(&["bob"]), &MANAGED).expect("a tunnel"), "own_table"),
            "254"
        );
    }

    #[test]
    fn what_cannot_be_protected_says_why() {
        let whole = || facts(vec![peer("a2V5", Some(ENDPOINT))]);
        let dump = |port, mark| Dump { port, mark, ..whole().dump };
        for (facts, expected) in [
            (facts(vec![]), "wg0 has no peers"),
            (TunnelFacts { dump: dump(0, None), ..whole() }, "wg-quick up wg0"),
            (TunnelFacts { dump: dump(u16::MAX, None), ..whole() }, "another ListenPort"),
            (TunnelFacts { dump: dump(7, Some(4_650)), ..whole() }, "Byway's own marks"),
            (TunnelFacts { own: vec![], ..whole() }, "no address"),
        ] {
            let problem = derive(&facts, &request(&["bob"]), &MANAGED).expect_err(expected).to_string();
            assert!(problem.contains(expected), "{problem}");
        }
        let problem =
            derive(&whole(), &request(&["bop"]), &paired(&["bob"])).expect_err("nobody").to_string();
        assert!(problem.contains("\"bop\" in [[network.pairs]], only with bob"), "{problem}");
    }
}

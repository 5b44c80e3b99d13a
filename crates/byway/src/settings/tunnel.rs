//! What is captured, and where it may go at the other end, as meant.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use byway_proto::limits::{DATAGRAM_BYTES_MAX, PIECE_BYTES_MAX};
use byway_proto::marking::Mark;
use byway_typed::{KeyPath, Problem, Protocol, Source, TypedPorts};
use byway_units::Rate;
use byway_wire::ip::Headers;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::flows::{Defaults, Wanted, wanted};
use super::selectors::TypedPrefix;
use super::typed::{TypedCapture, TypedExpose, TypedTunnel};
use crate::capture::priorities;

/// The least MTU of IPv6 (RFC 8200, section 5).
pub(crate) const MTU_MIN: u16 = 1_280;

/// The routing table and so on, unless a file says otherwise.
pub(super) const TABLE: u32 = 4_600;

/// Tables and priorities that are the system's own: main is 254, and its priority 32,766.
const TABLES: RangeInclusive<u32> = 256..=32_000;

/// The bytes of a device's name (Linux, `IFNAMSIZ` with its end).
const DEVICE_BYTES_MAX: usize = 15;

/// What a capture asks for: all TCP connections share one flow.
const OF_CAPTURES: Defaults<'_> =
    Defaults { rate: Rate::from_megabits_per_second(100), traffic: None, marks: &MARKS };

/// What is marked of captured packets: what is not bulk.
const MARKS: [Mark; 3] = [Mark::TcpHandshakes, Mark::TcpEnds, Mark::ShortFlows];

/// The device of an agent that captures packets, or exposes networks.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    pub(crate) device: String,
    /// The number of the routing table, of the first priority of rules, and the mark of Byway's own packets.
    pub(crate) table: u32,
    pub(crate) mtu: u16,
    /// By which Byway's own packets go; `None`: as all others.
    pub(crate) own_table: Option<u32>,
    pub(crate) addresses: Vec<IpNet>,
    /// A device whose packets captures carry.
    pub(crate) watches: Option<String>,
    pub(crate) captures: Vec<Capture>,
}

/// Packets that go to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) selection: Selection,
    /// Of which users; empty: of all.
    pub(crate) users: Vec<RangeInclusive<u32>>,
    /// Of which control groups; empty: of all.
    pub(crate) cgroups: Vec<String>,
    /// With which firewall marks; empty: with any and none.
    pub(crate) firewall_marks: Vec<u32>,
    /// What rules of the firewall put there, and nothing else.
    pub(crate) queue: Option<u16>,
    /// Whether programs pin packets to a device, for which rules of routing do not count.
    pub(crate) pinned: bool,
    pub(crate) wanted: Wanted,
}

impl Capture {
    /// The address that all packets go to, if there is one alone.
    pub(crate) fn only_destination(&self) -> Option<IpAddr> {
        match &self.selection.prefixes[..] {
            [only] => (only.prefix_len() == only.max_prefix_len()).then(|| only.addr()),
            _ => None,
        }
    }
}

/// Where packets go, as far as they show it themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) prefixes: Vec<IpNet>,
    /// Empty: all packets.
    pub(crate) ports: Vec<TypedPorts>,
}

/// Where packets of peers may go here, and where they may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) selection: Selection,
    pub(crate) sources: Vec<IpNet>,
    /// Which packets of the way back are marked.
    pub(crate) marks: Vec<Mark>,
}

/// Whether a packet is of the protocol, and has this port. Of later fragments, ports are unknown: without their first one, they
/// are of no use.
fn have(ports: &TypedPorts, headers: &Headers, port: Option<u16>) -> bool {
    let is_of_protocol = match ports.protocol {
        Protocol::Tcp => headers.is_tcp(),
        Protocol::Udp => headers.is_udp(),
    };
    let has_port = |ports: &RangeInclusive<u16>| port.is_none_or(|port| ports.contains(&port));
    is_of_protocol && ports.ports.as_ref().is_none_or(has_port)
}

/// Whether a port may be one of both.
fn overlap(one: &TypedPorts, other: &TypedPorts) -> bool {
    let ends = |ports: &Option<RangeInclusive<u16>>| {
        ports.as_ref().map_or((0, u16::MAX), |ports| (*ports.start(), *ports.end()))
    };
    let ((first, last), (other_first, other_last)) = (ends(&one.ports), ends(&other.ports));
    one.protocol == other.protocol && first <= other_last && other_first <= last
}

impl Selection {
    /// Whether a packet goes there.
    pub(crate) fn has(&self, headers: &Headers) -> bool {
        self.has_end(headers, headers.destination, headers.ports.map(|ports| ports.destination))
    }

    /// Whether a packet comes from there.
    pub(crate) fn is_source_of(&self, headers: &Headers) -> bool {
        self.has_end(headers, headers.source, headers.ports.map(|ports| ports.source))
    }

    fn has_end(&self, headers: &Headers, address: IpAddr, port: Option<u16>) -> bool {
        let has_port = self.ports.is_empty() || self.ports.iter().any(|ports| have(ports, headers, port));
        has_port && contains(&self.prefixes, address)
    }

    /// Whether a packet may go to both.
    fn overlaps(&self, other: &Self) -> bool {
        let is_within = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
        let prefixes =
            self.prefixes.iter().any(|one| other.prefixes.iter().any(|other| is_within(one, other)));
        let is_any = self.ports.is_empty() || other.ports.is_empty();
        prefixes
            && (is_any || self.ports.iter().any(|one| other.ports.iter().any(|other| overlap(one, other))))
    }
}

/// Whether an address has one of these prefixes.
pub(crate) fn contains(prefixes: &[IpNet], address: IpAddr) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(&address))
}

impl Network {
    /// Whether a packet of a peer may go through here.
    pub(crate) fn permits(&self, headers: &Headers) -> bool {
        self.selection.has(headers) && self.is_source(headers.source)
    }

    /// Whether packets may come from an address: of all addresses, from those that are not the networks' own.
    fn is_source(&self, address: IpAddr) -> bool {
        contains(&self.sources, address) && !contains(&self.selection.prefixes, address)
    }

    /// Whether a packet may be the answer to one of a peer.
    pub(crate) fn answers(&self, headers: &Headers) -> bool {
        self.selection.is_source_of(headers) && self.is_source(headers.destination)
    }
}

/// The device, if anything needs it.
pub(super) fn tunnel(
    typed: Option<&TypedTunnel>,
    captures: &[TypedCapture],
    exposed: &[TypedExpose],
    source: &Source,
) -> Result<Option<Tunnel>, Problem> {
    let root = KeyPath::of("tunnel");
    let is_needed = !captures.is_empty() || exposed.iter().any(|exposed| !exposed.networks.is_empty());
    let Some(typed) = typed.cloned().or_else(|| is_needed.then(TypedTunnel::default)) else {
        return Ok(None);
    };
    if !is_needed {
        let message = "nothing uses it: there is no [[capture]], and no [[expose]] has networks";
        return Err(source.problem(&root, message));
    }
    let device = device(typed.device, &root.key("device"), source)?;
    let table = typed.table.unwrap_or(TABLE);
    if !TABLES.contains(&table) {
        let message = format!("{table} is out of range: {} to {}", TABLES.start(), TABLES.end());
        return Err(source.problem(&root.key("table"), message));
    }
    let mtu = mtu(typed.mtu, &root.key("mtu"), source)?;
    if let Some(own) = typed.own_table.filter(|own| *own == 0 || *own == table) {
        let message = format!(
            "{own} is none, or the agent's own table: name the system's main one, 254, or another that has a way out"
        );
        return Err(source.problem(&root.key("own_table"), message));
    }
    let addresses: Vec<IpNet> = typed.addresses.iter().map(|inside| inside.0).collect();
    let of_family =
        |is_ipv4: bool| addresses.iter().filter(|inside| inside.addr().is_ipv4() == is_ipv4).count();
    if of_family(true) > 1 || of_family(false) > 1 {
        return Err(
            source.problem(&root.key("addresses"), "name one IPv4 address, one IPv6 address, or one of each")
        );
    }
    let is_late = |capture: &TypedCapture| {
        !capture.cgroups.is_empty() || !capture.firewall_marks.is_empty() || capture.queue.is_some()
    };
    if !addresses.is_empty() && captures.iter().any(is_late) {
        let message = "packets of control groups and queues, and those with firewall marks, have their address before they are captured: leave it \
                       out, or capture by destinations, ports and users";
        return Err(source.problem(&root.key("addresses"), message));
    }
    let captures = all_captures(captures, source)?;
    let taken = priorities(table);
    if let Some(place) =
        captures.iter().position(|capture| capture.firewall_marks.iter().any(|mark| taken.contains(mark)))
    {
        let message = format!(
            "{} to {} are Byway's own marks: take others, or another table in [tunnel]",
            taken.start(),
            taken.end()
        );
        return Err(source.problem(&KeyPath::of("capture").place(place).key("firewall_marks"), message));
    }
    Ok(Some(Tunnel {
        device,
        table,
        mtu,
        own_table: typed.own_table,
        addresses,
        watches: typed.watches,
        captures,
    }))
}

/// The device's longest packet.
fn mtu(typed: Option<u16>, path: &KeyPath, source: &Source) -> Result<u16, Problem> {
    let mtu = typed.unwrap_or(u16::try_from(PIECE_BYTES_MAX).expect("a packet is shorter than 2^16"));
    if !(MTU_MIN..=u16::try_from(DATAGRAM_BYTES_MAX).expect("so is this")).contains(&mtu) {
        let message =
            format!("{mtu} is out of range: {MTU_MIN}, the least of IPv6, to {DATAGRAM_BYTES_MAX} bytes");
        return Err(source.problem(path, message));
    }
    Ok(mtu)
}

/// The device's name.
fn device(typed: Option<String>, path: &KeyPath, source: &Source) -> Result<String, Problem> {
    let device = typed.unwrap_or_else(|| "byway0".to_owned());
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if device.is_empty()
        || device.len() > DEVICE_BYTES_MAX
        || !device.bytes().all(is_fit)
        || device.starts_with('.')
    {
        let message = format!(
            "{device:?} is no name of a device: up to {DEVICE_BYTES_MAX} letters, digits, \"-\" and \"_\""
        );
        return Err(source.problem(path, message));
    }
    Ok(device)
}

fn all_captures(typed: &[TypedCapture], source: &Source) -> Result<Vec<Capture>, Problem> {
    let root = KeyPath::of("capture");
    let mut found: Vec<Capture> = Vec::new();
    for (place, typed) in typed.iter().enumerate() {
        let here = root.place(place);
        let capture = capture(&here, typed, source)?;
        if let Some(other) = found.iter().position(|other| other.selection.overlaps(&capture.selection)) {
            let message = format!(
                "some packets fit this and the capture number {}: what reaches the device shows where it goes and not whose it is, so \
                 captures must differ in destinations or ports",
                other + 1
            );
            return Err(source.problem(&here, message));
        }
        let has_same = |other: &Capture| other.queue.is_some() && other.queue == capture.queue;
        if let Some(other) = found.iter().position(has_same) {
            let message =
                format!("the capture number {} has this queue: each takes one of its own", other + 1);
            return Err(source.problem(&here.key("queue"), message));
        }
        found.push(capture);
    }
    Ok(found)
}

fn capture(here: &KeyPath, typed: &TypedCapture, source: &Source) -> Result<Capture, Problem> {
    for (number, group) in typed.cgroups.iter().enumerate() {
        if group.is_empty() || group.split('/').any(|part| part == ".." || part.contains(char::is_whitespace))
        {
            let message = format!(
                "{group:?} is no path of a control group: write it as below /sys/fs/cgroup, without \"..\""
            );
            return Err(source.problem(&here.key("cgroups").place(number), message));
        }
    }
    if typed.firewall_marks.contains(&0) {
        return Err(source.problem(&here.key("firewall_marks"), "0 is the mark of packets that have none"));
    }
    usable(&here.key("ports"), &typed.ports, source)?;
    let queue = queue(here, typed, source)?;
    let prefixes = match &typed.destinations[..] {
        [] if queue.is_some() => vec![],
        [] => anywhere(),
        destinations => prefixes(destinations),
    };
    Ok(Capture {
        selection: Selection { prefixes, ports: typed.ports.clone() },
        users: typed.users.iter().map(|users| users.0.clone()).collect(),
        cgroups: typed.cgroups.clone(),
        firewall_marks: typed.firewall_marks.clone(),
        queue,
        pinned: typed.pinned,
        wanted: wanted(here, &typed.wish(), &OF_CAPTURES, source)?,
    })
}

/// The queue of a capture, in whose rules everything is said that chooses packets.
fn queue(here: &KeyPath, typed: &TypedCapture, source: &Source) -> Result<Option<u16>, Problem> {
    let Some(queue) = typed.queue else {
        return Ok(None);
    };
    let chooses = [
        ("destinations", !typed.destinations.is_empty()),
        ("ports", !typed.ports.is_empty()),
        ("users", !typed.users.is_empty()),
        ("cgroups", !typed.cgroups.is_empty()),
        ("firewall_marks", !typed.firewall_marks.is_empty()),
        ("pinned", typed.pinned),
    ];
    if let Some((key, _)) = chooses.into_iter().find(|(_, is_there)| *is_there) {
        let message = "what is captured of a queue is for the firewall's rules to say that put packets there: leave this out, or the queue";
        return Err(source.problem(&here.key(key), message));
    }
    let number = u16::try_from(queue).map_err(|_| {
        source.problem(&here.key("queue"), format!("{queue} is out of range: 0 to {}", u16::MAX))
    })?;
    Ok(Some(number))
}

/// Where packets may go that come for what is exposed.
pub(super) fn network(here: &KeyPath, typed: &TypedExpose, source: &Source) -> Result<Network, Problem> {
    if typed.sources.is_empty() {
        let message = "say where the packets may come from, as in sources = [\"192.0.2.7\"]: what goes there goes back through the device";
        return Err(source.problem(&here.key("networks"), message));
    }
    usable(&here.key("ports"), &typed.ports, source)?;
    let (networks, sources) = (prefixes(&typed.networks), prefixes(&typed.sources));
    // Anywhere is meant as anywhere else.
    let has = |from: &IpNet, to: &IpNet| from.prefix_len() > 0 && from.contains(to);
    if let Some(both) =
        sources.iter().find(|from| networks.iter().any(|to| to.contains(*from) || has(from, to)))
    {
        let message =
            format!("{both} is one of the networks, or has one of them in it: packets come from elsewhere");
        return Err(source.problem(&here.key("sources"), message));
    }
    let marks = typed.marks.as_ref().map(|marks| marks.iter().map(|mark| mark.0).collect());
    Ok(Network {
        selection: Selection { prefixes: networks, ports: typed.ports.clone() },
        sources,
        marks: marks.unwrap_or_else(|| MARKS.to_vec()),
    })
}

fn prefixes(typed: &[TypedPrefix]) -> Vec<IpNet> {
    typed.iter().map(|prefix| prefix.0).collect()
}

/// Ports that rules of the system can name.
fn usable(path: &KeyPath, ports: &[TypedPorts], source: &Source) -> Result<(), Problem> {
    let is_usable = |ports: &TypedPorts| {
        ports.ports.as_ref().is_none_or(|ports| *ports.start() > 0 && *ports.end() < u16::MAX)
    };
    if ports.iter().all(is_usable) {
        return Ok(());
    }
    Err(source
        .problem(path, "ports of rules are 1 to 65534: leave 0 and 65535 out, or name the protocol alone"))
}

fn anywhere() -> Vec<IpNet> {
    vec![Ipv4Net::default().into(), Ipv6Net::default().into()]
}

#[cfg(test)]
mod tests {
    use super::super::flows::{ExposedAt, exposed};
    use super::super::typed::TypedFile;
    use super::*;

    /// What a file says of captures and networks.
    fn read(text: &str) -> Result<Option<Tunnel>, String> {
        let file: TypedFile = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let source = Source::default();
        exposed(&file.expose, &source).map_err(|problem| problem.to_string())?;
        let read = tunnel(file.tunnel.as_ref(), &file.capture, &file.expose, &source);
        read.map_err(|problem| problem.to_string())
    }

    fn packet(protocol: u8, destination: [u8; 4], port: u16) -> Headers {
        let [high, low] = port.to_be_bytes();
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1];
        packet.extend(destination);
        packet.extend([0x0F, 0xA0, high, low, 0, 20, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        Headers::parse(&packet).expect("a packet")
    }

    #[test]
    fn what_has_no_captures_needs_no_device_and_what_has_gets_the_usual_one() {
        assert!(read("").expect("nothing").is_none());
        let tunnel = read("[[capture]]\npeer = \"bob\"\nto = \"all\"").expect("a capture").expect("a device");
        assert_eq!((tunnel.device.as_str(), tunnel.table, tunnel.mtu), ("byway0", 4_600, 1_354));
        let capture = &tunnel.captures[0];
        assert!(capture.selection.has(&packet(6, [192, 0, 2, 1], 80)), "it takes everything");
        assert_eq!((capture.wanted.traffic, capture.wanted.marks.len()), (None, 3));
        let exposing = "[[expose]]\nname = \"all\"\nnetworks = [\"10.0.0.2\"]\nsources = [\"10.0.0.1\"]";
        assert!(read(exposing).expect("a network").is_some());
    }

    #[test]
    fn queues_stand_beside_each_other_and_beside_what_the_device_takes() {
        const CAPTURE: &str = "[[capture]]\npeer = \"bob\"\nto = \"all\"\n";
        let text = format!("{CAPTURE}queue = 0\n{CAPTURE}queue = 65535\n{CAPTURE}");
        let captures = read(&text).expect("captures").expect("a device").captures;
        assert_eq!(
            captures.iter().map(|capture| capture.queue).collect::<Vec<_>>(),
            [Some(0), Some(65_535), None]
        );
        let packet = packet(6, [192, 0, 2, 1], 80);
        let takes: Vec<bool> = captures.iter().map(|capture| capture.selection.has(&packet)).collect();
        assert_eq!(takes, [false, false, true], "of the device");
    }

    #[test]
    fn a_selection_has_what_all_of_it_fits() {
        let tunnel = read(
            "[[capture]]\npeer = \"bob\"\nto = \"all\"\ndestinations = [\"10.0.0.0/24\"]\nports = [\"tcp:80-81\", \"udp\"]",
        );
        let selection = tunnel.expect("a capture").expect("a device").captures[0].selection.clone();
        for (protocol, destination, port, expected) in [
            (6, [10, 0, 0, 9], 81, true),
            (6, [10, 0, 0, 9], 82, false),
            (6, [10, 0, 1, 9], 80, false),
            (17, [10, 0, 0, 9], 5_000, true),
            (1, [10, 0, 0, 9], 80, false),
        ] {
            assert_eq!(
                selection.has(&packet(protocol, destination, port)),
                expected,
                "{protocol} {destination:?} {port}"
            );
        }
    }

    #[test]
    fn packets_from_anywhere_come_from_elsewhere() {
        let text = "[[expose]]\nname = \"all\"\nnetworks = [\"10.0.0.2\"]\nsources = [\"0.0.0.0/0\"]\nports = [\"udp:7\"]";
        let file: TypedFile = toml::from_str(text).expect("it is right");
        let exposed = exposed(&file.expose, &Source::default()).expect("anywhere is anywhere else");
        let ExposedAt::Network(network) = &exposed[0].at else { panic!("it has networks") };
        let packet = packet(17, [10, 0, 0, 2], 7);
        assert!(network.permits(&packet), "10.0.0.1 is not 10.0.0.2");
        assert!(!network.permits(&Headers { source: [10, 0, 0, 2].into(), ..packet }));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_remedy() {
        const CAPTURE: &str = "[[capture]]\npeer = \"bob\"\nto = \"all\"\n";
        const EXPOSE: &str = "[[expose]]\nname = \"all\"\n";
        for (text, expected) in [
            (format!("[tunnel]\nmtu = 1279\n{CAPTURE}"), "out of range: 1280"),
            (format!("[tunnel]\nmtu = 1501\n{CAPTURE}"), "to 1500"),
            (format!("[tunnel]\nown_table = 4600\n{CAPTURE}"), "the agent's own table"),
            (format!("[tunnel]\ntable = 254\n{CAPTURE}"), "out of range: 256"),
            (format!("[tunnel]\ndevice = \"a device\"\n{CAPTURE}"), "no name of a device"),
            ("[tunnel]\nmtu = 1300".to_owned(), "nothing uses it"),
            (format!("{CAPTURE}{CAPTURE}"), "must differ in destinations or ports"),
            (format!("{CAPTURE}cgroups = [\"../x\"]"), "no path of a control group"),
            (format!("{CAPTURE}firewall_marks = [0]"), "packets that have none"),
            (format!("{CAPTURE}ports = [\"80\"]"), "are no ports"),
            (format!("{CAPTURE}ports = [\"udp:49152-65535\"]"), "are 1 to 65534"),
            (format!("{CAPTURE}firewall_marks = [4601]"), "Byway's own marks"),
            (
                format!("[tunnel]\naddresses = [\"10.9.0.1/24\", \"10.9.0.2/24\"]\n{CAPTURE}"),
                "one IPv4 address",
            ),
            (
                format!("[tunnel]\naddresses = [\"10.9.0.1/24\"]\n{CAPTURE}firewall_marks = [7]"),
                "before they are captured",
            ),
            (format!("{CAPTURE}queue = 65536"), "65536 is out of range: 0 to 65535"),
            (format!("{CAPTURE}queue = 7\nports = [\"tcp:80\"]"), "for the firewall's rules to say"),
            (format!("{CAPTURE}queue = 7\nfirewall_marks = [9]"), "firewall_marks"),
            (format!("{CAPTURE}queue = 7\n{CAPTURE}queue = 7"), "number 1 has this queue"),
            (
                format!("[tunnel]\naddresses = [\"10.9.0.1/24\"]\n{CAPTURE}queue = 7"),
                "before they are captured",
            ),
            (format!("{CAPTURE}destinations = [\"10.0.0.1/8\"]"), "is no prefix"),
            (format!("{CAPTURE}marks = [\"ends\"]"), "marks nothing"),
            (EXPOSE.to_owned(), "say where"),
            (format!("{EXPOSE}networks = [\"10.0.0.2\"]"), "say where the packets may come from"),
            (
                format!("{EXPOSE}networks = [\"10.0.0.0/8\"]\nsources = [\"10.0.0.1\"]"),
                "is one of the networks",
            ),
            (
                format!("{EXPOSE}networks = [\"0.0.0.0/0\"]\nsources = [\"0.0.0.0/0\"]"),
                "is one of the networks",
            ),
            (
                format!("{EXPOSE}target = \"127.0.0.1:1\"\nnetworks = [\"10.0.0.2\"]"),
                "there are networks too",
            ),
        ] {
            let problem = read(&text).expect_err(&text);
            assert!(problem.contains(expected), "{problem}");
        }
        let apart = format!("{CAPTURE}ports = [\"tcp:80\"]\n{CAPTURE}ports = [\"tcp:81\", \"udp\"]");
        assert_eq!(read(&apart).expect("they differ").expect("a device").captures.len(), 2);
    }
}

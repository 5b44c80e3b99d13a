//! Validated settings of an agent's captures and TUN device, and of exposed networks at the other
//! end.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use byway_config_types::{KeyPath, PortsSetting, Problem, Protocol, Source};
use byway_proto::copy_selection::Mark;
use byway_proto::limits::{DATAGRAM_BYTES_MAX, FRAGMENT_BYTES_MAX};
use byway_units::Rate;
use byway_wire::ip::Headers;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::flows::{FlowDefaults, FlowSpec, flow_spec};
use super::raw::{RawCapture, RawExpose, RawTunnel};
use super::selectors::PrefixSetting;
use crate::capture::priorities;

/// Minimum MTU of IPv6 (RFC 8200, section 5).
pub(crate) const MTU_MIN: u16 = 1_280;

/// Default number of the agent's routing table, of the first rule priority, and of the firewall
/// mark.
pub(super) const TABLE: u32 = 4_600;

/// Permitted numbers of routing tables and rule priorities. The system's own are outside: its main
/// table is 254, and the priority of its rule 32,766.
const TABLES: RangeInclusive<u32> = 256..=32_000;

/// Longest name of a network device, in bytes (Linux, `IFNAMSIZ` without its terminator).
const DEVICE_BYTES_MAX: usize = 15;

/// Default settings of a capture's flows. The rate is higher than a forward's, because all TCP
/// connections share one flow.
const CAPTURE_DEFAULTS: FlowDefaults<'_> =
    FlowDefaults { rate: Rate::from_megabits_per_second(100), traffic: None, marks: &MARKS };

/// Default marks of captured packets, which get a copy: those that are not bulk data.
const MARKS: [Mark; 3] = [Mark::TcpHandshakes, Mark::TcpEnds, Mark::ShortFlows];

/// Validated settings of an agent's TUN device, and of its captures.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    pub(crate) device: String,
    /// Number of the agent's routing table, of the first rule priority, and of the firewall mark on
    /// Byway's own packets.
    pub(crate) table: u32,
    pub(crate) mtu: u16,
    /// Routing table of Byway's own packets; `None` for the same one as of other packets.
    pub(crate) own_table: Option<u32>,
    pub(crate) addresses: Vec<IpNet>,
    /// Device whose packets the captures should transport, which the watchdog observes.
    pub(crate) watched_device: Option<String>,
    pub(crate) captures: Vec<Capture>,
}

/// Validated settings of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) selection: Selection,
    /// Numbers of the users whose packets are captured; empty for all.
    pub(crate) users: Vec<RangeInclusive<u32>>,
    /// Control groups whose packets are captured, by their path; empty for all.
    pub(crate) cgroups: Vec<String>,
    /// Firewall marks whose packets are captured; empty for packets with any mark, or with none.
    pub(crate) firewall_marks: Vec<u32>,
    /// NFQUEUE that the operator's firewall rules fill. It excludes all other selectors.
    pub(crate) queue: Option<u16>,
    /// True if programs pin the packets to a device, which bypasses routing rules.
    pub(crate) pinned: bool,
    pub(crate) spec: FlowSpec,
}

impl Capture {
    /// Returns the only address to which the capture's packets go; `None` if there are several.
    pub(crate) fn only_destination(&self) -> Option<IpAddr> {
        match &self.selection.prefixes[..] {
            [only] => (only.prefix_len() == only.max_prefix_len()).then(|| only.addr()),
            _ => None,
        }
    }
}

/// Selection of packets by their address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) prefixes: Vec<IpNet>,
    /// Protocols with their ports; empty for packets of any protocol.
    pub(crate) ports: Vec<PortsSetting>,
}

/// Network that an agent exposes: destinations and sources of the packets that peers may send to
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExposedNetwork {
    pub(crate) selection: Selection,
    pub(crate) sources: Vec<IpNet>,
    /// Kinds of packets that get a copy in the return direction.
    pub(crate) marks: Vec<Mark>,
}

/// True if a packet has the protocol of `ports`, and `port` is among them. `None` matches, because
/// later fragments have no ports, and are useless without the first one.
fn has_matching_port(ports: &PortsSetting, headers: &Headers, port: Option<u16>) -> bool {
    let is_of_protocol = match ports.protocol {
        Protocol::Tcp => headers.is_tcp(),
        Protocol::Udp => headers.is_udp(),
    };
    let has_port = |ports: &RangeInclusive<u16>| port.is_none_or(|port| ports.contains(&port));
    is_of_protocol && ports.ports.as_ref().is_none_or(has_port)
}

/// True if a packet can have a protocol and port of both.
fn overlap(one: &PortsSetting, other: &PortsSetting) -> bool {
    let ends = |ports: &Option<RangeInclusive<u16>>| {
        ports.as_ref().map_or((0, u16::MAX), |ports| (*ports.start(), *ports.end()))
    };
    let ((first, last), (other_first, other_last)) = (ends(&one.ports), ends(&other.ports));
    one.protocol == other.protocol && first <= other_last && other_first <= last
}

impl Selection {
    /// True if a packet's destination is in the selection.
    pub(crate) fn has(&self, headers: &Headers) -> bool {
        self.has_end(headers, headers.destination, headers.ports.map(|ports| ports.destination))
    }

    /// True if a packet's source is in the selection, as in an answer.
    pub(crate) fn is_source_of(&self, headers: &Headers) -> bool {
        self.has_end(headers, headers.source, headers.ports.map(|ports| ports.source))
    }

    fn has_end(&self, headers: &Headers, address: IpAddr, port: Option<u16>) -> bool {
        let has_port =
            self.ports.is_empty() || self.ports.iter().any(|ports| has_matching_port(ports, headers, port));
        has_port && contains(&self.prefixes, address)
    }

    /// True if a packet can be in both selections.
    fn overlaps(&self, other: &Self) -> bool {
        let is_within = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
        let prefixes =
            self.prefixes.iter().any(|one| other.prefixes.iter().any(|other| is_within(one, other)));
        let is_any = self.ports.is_empty() || other.ports.is_empty();
        prefixes
            && (is_any || self.ports.iter().any(|one| other.ports.iter().any(|other| overlap(one, other))))
    }
}

/// True if one of the prefixes contains the address.
pub(crate) fn contains(prefixes: &[IpNet], address: IpAddr) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(&address))
}

impl ExposedNetwork {
    /// True if a peer may send this packet to the exposed network.
    pub(crate) fn permits(&self, headers: &Headers) -> bool {
        self.selection.has(headers) && self.is_source(headers.source)
    }

    /// True if packets to the network may have this source address. A source of all addresses does
    /// not include the network's own.
    fn is_source(&self, address: IpAddr) -> bool {
        contains(&self.sources, address) && !contains(&self.selection.prefixes, address)
    }

    /// True if a packet of the network may be an answer to a peer's packet.
    pub(crate) fn answers(&self, headers: &Headers) -> bool {
        self.selection.is_source_of(headers) && self.is_source(headers.destination)
    }
}

/// Validates the settings of an agent's TUN device and captures. Returns `None` if no table needs a
/// device.
pub(super) fn tunnel(
    typed: Option<&RawTunnel>,
    captures: &[RawCapture],
    exposed: &[RawExpose],
    source: &Source,
) -> Result<Option<Tunnel>, Problem> {
    let root = KeyPath::of("tunnel");
    let is_needed = !captures.is_empty() || exposed.iter().any(|exposed| !exposed.networks.is_empty());
    let Some(typed) = typed.cloned().or_else(|| is_needed.then(RawTunnel::default)) else {
        return Ok(None);
    };
    if !is_needed {
        let message = "table without use: add a [[capture]], or an [[expose]] with networks";
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
            "invalid table {own}, 0 or the agent's own: name the system's main table, 254, or another \
             with a default route"
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
    let is_late = |capture: &RawCapture| {
        !capture.cgroups.is_empty() || !capture.firewall_marks.is_empty() || capture.queue.is_some()
    };
    if !addresses.is_empty() && captures.iter().any(is_late) {
        let message = "packets of control groups and queues, and those with firewall marks, have a \
                       source address before they are captured: omit this key, or capture by \
                       destinations, ports and users";
        return Err(source.problem(&root.key("addresses"), message));
    }
    let captures = all_captures(captures, source)?;
    let own_marks = priorities(table);
    if let Some(index) =
        captures.iter().position(|capture| capture.firewall_marks.iter().any(|mark| own_marks.contains(mark)))
    {
        let message = format!(
            "{} to {} are Byway's own marks: use others, or set another `table` in [tunnel]",
            own_marks.start(),
            own_marks.end()
        );
        return Err(source.problem(&KeyPath::of("capture").index(index).key("firewall_marks"), message));
    }
    Ok(Some(Tunnel {
        device,
        table,
        mtu,
        own_table: typed.own_table,
        addresses,
        watched_device: typed.watched_device,
        captures,
    }))
}

/// Validates the MTU of the TUN device.
fn mtu(typed: Option<u16>, path: &KeyPath, source: &Source) -> Result<u16, Problem> {
    let mtu = typed.unwrap_or(u16::try_from(FRAGMENT_BYTES_MAX).expect("a packet is shorter than 2^16"));
    if !(MTU_MIN..=u16::try_from(DATAGRAM_BYTES_MAX).expect("so is this")).contains(&mtu) {
        let message =
            format!("{mtu} is out of range: {MTU_MIN}, the minimum of IPv6, to {DATAGRAM_BYTES_MAX} bytes");
        return Err(source.problem(path, message));
    }
    Ok(mtu)
}

/// Validates the name of the TUN device.
fn device(typed: Option<String>, path: &KeyPath, source: &Source) -> Result<String, Problem> {
    let device = typed.unwrap_or_else(|| "byway0".to_owned());
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if device.is_empty()
        || device.len() > DEVICE_BYTES_MAX
        || !device.bytes().all(is_fit)
        || device.starts_with('.')
    {
        let message = format!(
            "invalid device name {device:?}: use up to {DEVICE_BYTES_MAX} letters, digits, \"-\" and \"_\""
        );
        return Err(source.problem(path, message));
    }
    Ok(device)
}

fn all_captures(typed: &[RawCapture], source: &Source) -> Result<Vec<Capture>, Problem> {
    let root = KeyPath::of("capture");
    let mut found: Vec<Capture> = Vec::new();
    for (index, typed) in typed.iter().enumerate() {
        let here = root.index(index);
        let capture = capture(&here, typed, source)?;
        if let Some(other) = found.iter().position(|other| other.selection.overlaps(&capture.selection)) {
            let message = format!(
                "overlaps with the capture number {}: at the device, packets of both look alike; \
                 captures must differ in destinations or ports",
                other + 1
            );
            return Err(source.problem(&here, message));
        }
        let has_same = |other: &Capture| other.queue.is_some() && other.queue == capture.queue;
        if let Some(other) = found.iter().position(has_same) {
            let message =
                format!("queue already used by the capture number {}: give each capture its own", other + 1);
            return Err(source.problem(&here.key("queue"), message));
        }
        found.push(capture);
    }
    Ok(found)
}

fn capture(here: &KeyPath, typed: &RawCapture, source: &Source) -> Result<Capture, Problem> {
    for (number, group) in typed.cgroups.iter().enumerate() {
        if group.is_empty() || group.split('/').any(|part| part == ".." || part.contains(char::is_whitespace))
        {
            let message = format!(
                "invalid path of a control group {group:?}: write it as below /sys/fs/cgroup, without \"..\""
            );
            return Err(source.problem(&here.key("cgroups").index(number), message));
        }
    }
    if typed.firewall_marks.contains(&0) {
        return Err(source.problem(&here.key("firewall_marks"), "0 means no mark: name marks above 0"));
    }
    check_ports(&here.key("ports"), &typed.ports, source)?;
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
        spec: flow_spec(here, &typed.raw_flow(), &CAPTURE_DEFAULTS, source)?,
    })
}

/// Returns the NFQUEUE of a capture, if it has one. Fails if the capture has other selectors,
/// because the queue's firewall rules alone select the packets.
fn queue(here: &KeyPath, typed: &RawCapture, source: &Source) -> Result<Option<u16>, Problem> {
    let Some(queue) = typed.queue else {
        return Ok(None);
    };
    let selectors = [
        ("destinations", !typed.destinations.is_empty()),
        ("ports", !typed.ports.is_empty()),
        ("users", !typed.users.is_empty()),
        ("cgroups", !typed.cgroups.is_empty()),
        ("firewall_marks", !typed.firewall_marks.is_empty()),
        ("pinned", typed.pinned),
    ];
    if let Some((key, _)) = selectors.into_iter().find(|(_, is_set)| *is_set) {
        let message = "not allowed beside `queue`, whose firewall rules select the packets: omit this \
                       key, or the queue";
        return Err(source.problem(&here.key(key), message));
    }
    let number = u16::try_from(queue).map_err(|_| {
        source.problem(&here.key("queue"), format!("{queue} is out of range: 0 to {}", u16::MAX))
    })?;
    Ok(Some(number))
}

/// Validates the settings of an exposed network.
pub(super) fn network(here: &KeyPath, typed: &RawExpose, source: &Source) -> Result<ExposedNetwork, Problem> {
    if typed.sources.is_empty() {
        let message = "sources missing: set them, as in sources = [\"192.0.2.7\"]; packets to them \
                       return through the device";
        return Err(source.problem(&here.key("networks"), message));
    }
    check_ports(&here.key("ports"), &typed.ports, source)?;
    let (networks, sources) = (prefixes(&typed.networks), prefixes(&typed.sources));
    // "Any" means any other address.
    let has = |from: &IpNet, to: &IpNet| from.prefix_len() > 0 && from.contains(to);
    if let Some(both) =
        sources.iter().find(|from| networks.iter().any(|to| to.contains(*from) || has(from, to)))
    {
        let message =
            format!("{both} overlaps with one of the networks: sources must lie outside the networks");
        return Err(source.problem(&here.key("sources"), message));
    }
    let marks = typed.marks.as_ref().map(|marks| marks.iter().map(|mark| mark.0).collect());
    Ok(ExposedNetwork {
        selection: Selection { prefixes: networks, ports: typed.ports.clone() },
        sources,
        marks: marks.unwrap_or_else(|| MARKS.to_vec()),
    })
}

fn prefixes(typed: &[PrefixSetting]) -> Vec<IpNet> {
    typed.iter().map(|prefix| prefix.0).collect()
}

/// Checks that routing rules can match the ports, which excludes 0 and 65535.
fn check_ports(path: &KeyPath, ports: &[PortsSetting], source: &Source) -> Result<(), Problem> {
    let is_usable = |ports: &PortsSetting| {
        ports.ports.as_ref().is_none_or(|ports| *ports.start() > 0 && *ports.end() < u16::MAX)
    };
    if ports.iter().all(is_usable) {
        return Ok(());
    }
    Err(source.problem(
        path,
        "routing rules match ports 1 to 65534 only: omit 0 and 65535, or name the protocol alone",
    ))
}

fn anywhere() -> Vec<IpNet> {
    vec![Ipv4Net::default().into(), Ipv6Net::default().into()]
}

#[cfg(test)]
mod tests {
    use super::super::flows::{ExposedKind, exposed};
    use super::super::raw::RawFile;
    use super::*;

    /// Reads the captures and networks of a file.
    fn read(text: &str) -> Result<Option<Tunnel>, String> {
        let file: RawFile = toml::from_str(text).map_err(|error| error.message().to_owned())?;
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
        assert_eq!((capture.spec.traffic, capture.spec.marks.len()), (None, 3));
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
        let file: RawFile = toml::from_str(text).expect("it is right");
        let exposed = exposed(&file.expose, &Source::default()).expect("anywhere is anywhere else");
        let ExposedKind::Network(network) = &exposed[0].at else { panic!("it has networks") };
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
            (format!("[tunnel]\nown_table = 4600\n{CAPTURE}"), "0 or the agent's own"),
            (format!("[tunnel]\ntable = 254\n{CAPTURE}"), "out of range: 256"),
            (format!("[tunnel]\ndevice = \"a device\"\n{CAPTURE}"), "invalid device name"),
            ("[tunnel]\nmtu = 1300".to_owned(), "table without use"),
            (format!("{CAPTURE}{CAPTURE}"), "must differ in destinations or ports"),
            (format!("{CAPTURE}cgroups = [\"../x\"]"), "invalid path of a control group"),
            (format!("{CAPTURE}firewall_marks = [0]"), "0 means no mark"),
            (format!("{CAPTURE}ports = [\"80\"]"), "invalid ports"),
            (format!("{CAPTURE}ports = [\"udp:49152-65535\"]"), "ports 1 to 65534"),
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
            (format!("{CAPTURE}queue = 7\nports = [\"tcp:80\"]"), "whose firewall rules select"),
            (format!("{CAPTURE}queue = 7\nfirewall_marks = [9]"), "firewall_marks"),
            (format!("{CAPTURE}queue = 7\n{CAPTURE}queue = 7"), "queue already used by the capture number 1"),
            (
                format!("[tunnel]\naddresses = [\"10.9.0.1/24\"]\n{CAPTURE}queue = 7"),
                "before they are captured",
            ),
            (format!("{CAPTURE}destinations = [\"10.0.0.1/8\"]"), "invalid prefix"),
            (format!("{CAPTURE}marks = [\"ends\"]"), "is not a mark"),
            (EXPOSE.to_owned(), "target missing"),
            (format!("{EXPOSE}networks = [\"10.0.0.2\"]"), "sources missing"),
            (
                format!("{EXPOSE}networks = [\"10.0.0.0/8\"]\nsources = [\"10.0.0.1\"]"),
                "overlaps with one of the networks",
            ),
            (
                format!("{EXPOSE}networks = [\"0.0.0.0/0\"]\nsources = [\"0.0.0.0/0\"]"),
                "overlaps with one of the networks",
            ),
            (format!("{EXPOSE}target = \"127.0.0.1:1\"\nnetworks = [\"10.0.0.2\"]"), "`networks` is set too"),
        ] {
            let problem = read(&text).expect_err(&text);
            assert!(problem.contains(expected), "{problem}");
        }
        let apart = format!("{CAPTURE}ports = [\"tcp:80\"]\n{CAPTURE}ports = [\"tcp:81\", \"udp\"]");
        assert_eq!(read(&apart).expect("they differ").expect("a device").captures.len(), 2);
    }
}

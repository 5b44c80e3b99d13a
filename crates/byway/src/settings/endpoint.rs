//! Endpoint in the settings: an address and a port, or a DNS name and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Longest DNS name in characters, without the dot at the end (RFC 1035, section 2.3.4).
const NAME_CHARACTERS_MAX: usize = 253;

/// Longest label of a DNS name, in characters (RFC 1035, section 2.3.4).
const LABEL_CHARACTERS_MAX: usize = 63;

/// An address and a port, or a DNS name and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) enum Endpoint {
    /// Address and port.
    Address(SocketAddr),
    /// Name that the system's resolver knows, and port.
    Name {
        /// Name, in lower case.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Endpoint {
    /// Returns the endpoint's DNS name, which has to be resolved; `None` for an address.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Address(_) => None,
            Self::Name { host, .. } => Some(host),
        }
    }

    /// Returns the endpoint's addresses: its own one, or those of `of_name`, to which its DNS name
    /// resolves, with its port.
    pub(crate) fn addresses(&self, of_name: &[IpAddr]) -> Vec<SocketAddr> {
        match self {
            Self::Address(address) => vec![*address],
            Self::Name { port, .. } => {
                of_name.iter().map(|address| SocketAddr::new(*address, *port)).collect()
            }
        }
    }

    /// Returns the reason why no datagram can be sent to the endpoint, with the remedy.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Address(address) if address.port() == 0 => Some(NO_PORT),
            Self::Name { port: 0, .. } => Some(NO_PORT),
            Self::Address(address) => unicast_problem(address),
            Self::Name { .. } => None,
        }
    }
}

const NO_PORT: &str = "invalid port 0: write the port that the receiver listens on";

/// Returns the reason why an address does not identify a single interface, with the remedy.
pub(super) fn unicast_problem(address: &SocketAddr) -> Option<&'static str> {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_multicast() => Some(A_GROUP),
        SocketAddr::V4(v4) if v4.ip().is_broadcast() => {
            Some("is the broadcast address, which Byway does not support: write the address of one machine")
        }
        SocketAddr::V6(v6) if v6.ip().is_multicast() => Some(A_GROUP),
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => Some(
            "is a link-local address without its interface: write it as in \"[fe80::1%eth0]:5000\" (ip -6 address shows both)",
        ),
        SocketAddr::V4(_) | SocketAddr::V6(_) => None,
    }
}

const A_GROUP: &str = "is a multicast group, which Byway does not support: write the address of one machine";

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = parse(text) {
            return address.map(Self::Address);
        }
        let named = text.rsplit_once(':').filter(|(host, _)| is_name(host));
        let named = named.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = named.ok_or_else(|| {
            format!(
                "invalid endpoint {text:?}: write an address or a DNS name with its port, as in \
                 \"192.0.2.1:5000\", \"[2001:db8::1]:5000\" or \"media.example.org:5000\""
            )
        })?;
        Ok(Self::Name { host: host.to_ascii_lowercase(), port })
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Parses an address and a port. An IPv6 zone may be the name of an interface.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    parse(text).unwrap_or_else(|| {
        Err(format!(
            "invalid address {text:?}: write it with its port, as in \"192.0.2.1:5000\" or \
             \"[2001:db8::1]:5000\""
        ))
    })
}

/// Parses an address like [`address`]. Returns `None` if the text is neither an address nor similar
/// to one.
fn parse(text: &str) -> Option<Result<SocketAddr, String>> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Ok(address));
    }
    let (ip, rest) = text.strip_prefix('[')?.split_once('%')?;
    let (zone, port) = rest.split_once("]:")?;
    let (ip, port) = (ip.parse().ok()?, port.parse().ok()?);
    let index = nix::net::if_::if_nametoindex(zone);
    Some(index.map(|index| SocketAddrV6::new(ip, port, 0, index).into()).map_err(|_| {
        format!("interface of {text:?} not found on this machine (ip link shows all): {zone:?}")
    }))
}

/// True for valid names of hosts (RFC 1123, section 2.1), with underscores allowed. A name that
/// ends in a number is a mistyped address.
fn is_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let is_label = |label: &str| {
        (1..=LABEL_CHARACTERS_MAX).contains(&label.len())
            && label.chars().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= NAME_CHARACTERS_MAX
        && host.split('.').all(is_label)
        && !last.chars().all(|letter| letter.is_ascii_digit())
}

/// Deserializes an address and a port. An IPv6 zone may be the name of an interface.
pub(super) fn read_address<'de, D: Deserializer<'de>>(source: D) -> Result<SocketAddr, D::Error> {
    address(&String::deserialize(source)?).map_err(serde::de::Error::custom)
}

/// Deserializes a list of addresses with ports.
pub(super) fn read_addresses<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(source)?;
    texts.iter().map(|text| address(text).map_err(serde::de::Error::custom)).collect()
}

/// Deserializes a list of addresses with ports, whose key may be absent.
pub(super) fn read_some_addresses<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<Vec<SocketAddr>>, D::Error> {
    read_addresses(source).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_or_names_with_a_port() {
        let parse_and_print = |text: &str| text.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        for text in
            ["192.0.2.1:5000", "[2001:db8::1]:5000", "media.example.org:5000", "nas:9", "a_b.example.:1"]
        {
            assert_eq!(parse_and_print(text).as_deref(), Ok(text));
        }
        assert_eq!(parse_and_print("Media.Example.ORG:1").as_deref(), Ok("media.example.org:1"));
        for text in [
            "",
            ":5000",
            "host",
            "host:",
            "host:70000",
            "192.0.2.300:5000",
            "192.0.2.1",
            "a..b:1",
            "-a:1",
            "2001:db8::1:5000",
            "a b:1",
        ] {
            let error = parse_and_print(text).expect_err(text);
            assert!(error.contains(": write"), "{error}");
        }
    }

    #[test]
    fn a_zone_is_the_number_or_the_name_of_an_interface() {
        let loopback = nix::net::if_::if_nametoindex("lo").expect("every machine has it");
        for text in ["[fe80::1%lo]:5000".to_owned(), format!("[fe80::1%{loopback}]:5000")] {
            let SocketAddr::V6(found) = address(&text).expect("an address") else { panic!("{text}") };
            assert_eq!((found.scope_id(), found.port()), (loopback, 5_000));
        }
        let error = "[fe80::1%no-such0]:5000".parse::<Endpoint>().expect_err("there is none");
        assert!(error.contains("\"no-such0\"") && error.contains("ip link"), "{error}");
    }

    #[test]
    fn nothing_is_sent_to_groups_to_all_to_port_0_or_to_an_interface_that_is_not_named() {
        for (text, expected) in [
            ("239.1.1.1:5000", "multicast group"),
            ("[ff02::1%1]:5000", "multicast group"),
            ("255.255.255.255:5000", "broadcast address"),
            ("192.0.2.1:0", "port 0"),
            ("media.example.org:0", "port 0"),
            ("[fe80::1]:5000", "fe80::1%eth0"),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            let problem = endpoint.problem().expect(text);
            assert!(problem.contains(expected) && problem.contains(": write"), "{problem}");
        }
        for text in ["192.0.2.1:1", "127.0.0.1:1", "[fe80::1%1]:1", "media.example.org:1"] {
            assert_eq!(text.parse::<Endpoint>().expect(text).problem(), None, "{text}");
        }
    }
}

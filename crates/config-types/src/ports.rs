//! Ports and port ranges as written in settings.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

/// Transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Transmission Control Protocol.
    Tcp,
    /// User Datagram Protocol.
    Udp,
}

/// Ports, like `tcp:443` or `udp:5000-5010`; all ports of a protocol, like `tcp`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct PortsSetting {
    /// Transport protocol of the ports.
    pub protocol: Protocol,
    /// Range of port numbers; `None`: all ports of the protocol.
    pub ports: Option<RangeInclusive<u16>>,
}

impl FromStr for PortsSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, ports) = match text.split_once(':') {
            Some((protocol, ports)) => (protocol, Some(range::<u16>(ports))),
            None => (text, None),
        };
        let protocol = match protocol {
            "tcp" => Some(Protocol::Tcp),
            "udp" => Some(Protocol::Udp),
            _ => None,
        };
        let is_wrong = matches!(ports, Some(None));
        protocol.filter(|_| !is_wrong).map(|protocol| Self { protocol, ports: ports.flatten() }).ok_or_else(
            || {
                format!(
                    "invalid ports {text:?}: write \"tcp:443\", \"udp:5000-5010\", or \"tcp\" for all of TCP"
                )
            },
        )
    }
}

impl TryFrom<String> for PortsSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Parses a number, or the first and the last number of a range, as in `5000-5010`. Returns `None`
/// if the text is neither, or the last is below the first.
#[must_use]
pub fn range<T: FromStr + PartialOrd + Copy>(text: &str) -> Option<RangeInclusive<T>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for PortsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, ports } = self;
        match ports.as_ref().map(|ports| (ports.start(), ports.end())) {
            None => write!(f, "{protocol}"),
            Some((first, last)) if first == last => write!(f, "{protocol}:{first}"),
            Some((first, last)) => write!(f, "{protocol}:{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_of_a_protocol() {
        let ports = |text: &str| text.parse::<PortsSetting>().map(|typed| (typed.protocol, typed.ports));
        assert_eq!(ports("tcp:443"), Ok((Protocol::Tcp, Some(443..=443))));
        assert_eq!(ports("udp:5000-5010"), Ok((Protocol::Udp, Some(5_000..=5_010))));
        assert_eq!(ports("udp"), Ok((Protocol::Udp, None)));
        for text in ["443", "tcp:", "tcp:10-9", "tcp:65536", "icmp", "sctp:1"] {
            assert!(ports(text).expect_err(text).contains("invalid ports"), "{text}");
        }
    }
}

//! Parser of `wg show DEVICE dump`. It ignores the secrets.

use std::net::SocketAddr;

/// State of a `WireGuard` device, as `wg show DEVICE dump` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    /// UDP port of the device's packets; 0 while the device is down.
    pub(super) port: u16,
    /// Firewall mark of the device's packets; `None` if they have none.
    pub(super) mark: Option<u32>,
    pub(super) peers: Vec<Peer>,
}

/// Peer of a `WireGuard` device: its public key and its endpoint. The dump's other columns are not
/// kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Public key of the peer, as `WireGuard` writes it.
    pub(super) key: String,
    /// Address to which packets for the peer go; `None` if it is not configured and the peer has
    /// not sent yet.
    pub(super) endpoint: Option<SocketAddr>,
}

/// Parses the output of `wg show DEVICE dump`. The first line has the device's private key, public
/// key, port and mark. Each peer has a line with its public key, the shared secret, its endpoint,
/// its allowed addresses, and counters.
///
/// # Errors
/// If the text has another format.
pub(super) fn parse(dump: &str) -> Result<Dump, String> {
    let mut lines = dump.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let first = lines.next().unwrap_or_default();
    let [_private, _public, port, mark, ..] = first[..] else {
        return Err("first line without the device's keys, port and mark".to_owned());
    };
    let peers =
        lines.zip(2..).map(|(fields, line)| peer(&fields).map_err(|what| format!("line {line}: {what}")));
    Ok(Dump {
        port: port.parse().map_err(|_| format!("invalid port {port:?}"))?,
        mark: parse_mark(mark)?,
        peers: peers.collect::<Result<_, _>>()?,
    })
}

fn peer(fields: &[&str]) -> Result<Peer, String> {
    let &[key, _shared, endpoint, ..] = fields else {
        return Err("line of a peer without key, shared secret and endpoint".to_owned());
    };
    let endpoint = match endpoint {
        "(none)" => None,
        text => Some(parse_endpoint(text).ok_or_else(|| format!("invalid endpoint {text:?}"))?),
    };
    Ok(Peer { key: key.to_owned(), endpoint })
}

/// Parses an IP address with a port; ignores the zone of a link-local address.
fn parse_endpoint(text: &str) -> Option<SocketAddr> {
    let Some((address, rest)) = text.split_once('%') else {
        return text.parse().ok();
    };
    let (_link, port) = rest.split_once(']')?;
    format!("{address}]{port}").parse().ok()
}

fn parse_mark(text: &str) -> Result<Option<u32>, String> {
    let number = match (text, text.strip_prefix("0x")) {
        ("off", _) => return Ok(None),
        (_, Some(digits)) => u32::from_str_radix(digits, 16),
        (_, None) => text.parse(),
    };
    let number = number.map_err(|_| format!("invalid mark {text:?}"))?;
    Ok((number != 0).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: &str = "cHJpdmF0ZQ==\tcHVibGlj\t51820\t0xca6c\n";

    fn endpoint(text: &str) -> Option<SocketAddr> {
        let dump = format!("{DEVICE}a2V5\t(none)\t{text}\t10.7.0.2/32,fd00::2/128\t0\t0\t0\toff\n");
        parse(&dump).expect("a dump").peers[0].endpoint
    }

    #[test]
    fn a_dump_has_a_device_and_its_peers() {
        let dump = format!(
            "{DEVICE}b25l\tc2hhcmVk\t203.0.113.9:51820\t0.0.0.0/0\t1795204948\t148\t92\t25\n\
             dHdv\t(none)\t(none)\t(none)\t0\t0\t0\toff\n"
        );
        let peer = |key: &str, endpoint: Option<&str>| Peer {
            key: key.to_owned(),
            endpoint: endpoint.map(|endpoint| endpoint.parse().expect("an endpoint")),
        };
        let peers = vec![peer("b25l", Some("203.0.113.9:51820")), peer("dHdv", None)];
        assert_eq!(parse(&dump), Ok(Dump { port: 51_820, mark: Some(0xCA6C), peers }));
        assert!(
            !format!("{:?}", parse(&dump)).contains("cHJpdmF0ZQ"),
            "the private key is nobody's business"
        );
    }

    #[test]
    fn a_device_may_be_down_have_no_mark_and_no_peers() {
        let expected = Dump { port: 0, mark: None, peers: vec![] };
        for mark in ["off", "0x0", "0"] {
            assert_eq!(parse(&format!("(none)\t(none)\t0\t{mark}\n")), Ok(expected.clone()), "{mark}");
        }
    }

    #[test]
    fn endpoints_are_of_both_versions_and_may_name_a_link() {
        assert_eq!(endpoint("[2001:db8::9]:51820"), "[2001:db8::9]:51820".parse().ok());
        assert_eq!(endpoint("[fe80::9%eth0]:51820"), "[fe80::9]:51820".parse().ok());
        assert_eq!(endpoint("(none)"), None);
    }

    #[test]
    fn what_is_no_dump_says_so() {
        for (dump, expected) in [
            (String::new(), "first line"),
            ("interface: wg0\n".to_owned(), "first line"),
            ("a\tb\tport\toff\n".to_owned(), "invalid port \"port\""),
            ("a\tb\t1\ton\n".to_owned(), "invalid mark \"on\""),
            (format!("{DEVICE}a2V5\n"), "line 2: line of a peer"),
            (format!("{DEVICE}a2V5\t(none)\there\n"), "line 2: invalid endpoint \"here\""),
        ] {
            let error = parse(&dump).expect_err(&dump);
            assert!(error.contains(expected), "{error}");
        }
    }
}

//! What `wg show DEVICE dump` tells of a device of `WireGuard`, but for its secrets.

use std::net::SocketAddr;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    /// The UDP port of its packets; 0 while it is down.
    pub(super) port: u16,
    /// What marks its packets, if anything does.
    pub(super) mark: Option<u32>,
    pub(super) peers: Vec<Peer>,
}

/// Another end of its tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its public key, as `WireGuard` writes it.
    pub(super) key: String,
    /// Where its packets are sent; `None` before it has sent, where nobody has set it.
    pub(super) endpoint: Option<SocketAddr>,
}

/// Reads a dump: a line of the device with its private key, its public key, its port and its mark; then one for each peer with its public
/// key, the shared secret, its endpoint, what it may send, and what is counted.
///
/// # Errors
/// If it is no dump.
pub(super) fn parse(dump: &str) -> Result<Dump, String> {
    let mut lines = dump.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let first = lines.next().unwrap_or_default();
    let [_private, _public, port, mark, ..] = first[..] else {
        return Err("its first line does not have the device's keys, port and mark".to_owned());
    };
    let peers =
        lines.zip(2..).map(|(fields, line)| peer(&fields).map_err(|what| format!("line {line}: {what}")));
    Ok(Dump {
        port: port.parse().map_err(|_| format!("{port:?} is no port"))?,
        mark: parse_mark(mark)?,
        peers: peers.collect::<Result<_, _>>()?,
    })
}

fn peer(fields: &[&str]) -> Result<Peer, String> {
    let &[key, _shared, endpoint, ..] = fields else {
        return Err("a peer has a key, a shared secret and an endpoint".to_owned());
    };
    let endpoint = match endpoint {
        "(none)" => None,
        text => Some(parse_endpoint(text).ok_or_else(|| format!("{text:?} is no endpoint"))?),
    };
    Ok(Peer { key: key.to_owned(), endpoint })
}

/// An address with a port; the link of an address that is of one alone is left out.
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
    let number = number.map_err(|_| format!("{text:?} is no mark"))?;
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
            ("a\tb\tport\toff\n".to_owned(), "\"port\" is no port"),
            ("a\tb\t1\ton\n".to_owned(), "\"on\" is no mark"),
            (format!("{DEVICE}a2V5\n"), "line 2: a peer has"),
            (format!("{DEVICE}a2V5\t(none)\there\n"), "line 2: \"here\" is no endpoint"),
        ] {
            let error = parse(&dump).expect_err(&dump);
            assert!(error.contains(expected), "{error}");
        }
    }
}

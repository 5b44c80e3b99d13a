//! Classification of captured packets by the kind of their traffic.

use byway_proto::agent::Traffic;
use byway_wire::ip::Headers;

/// UDP port of QUIC with HTTP/3 (RFC 9114, section 3.3).
const QUIC_PORT: u16 = 443;

/// Returns the kinds of traffic for which a capture has mappings of their own. `setting` is the
/// configured kind; `None` if each packet is classified.
pub(super) const fn capture_traffic(setting: Option<Traffic>) -> &'static [Traffic] {
    match setting {
        Some(Traffic::Datagrams) => &[Traffic::Datagrams],
        Some(Traffic::CongestionControlled) => &[Traffic::CongestionControlled],
        Some(Traffic::Mixture) => &[Traffic::Mixture],
        None => &[Traffic::CongestionControlled, Traffic::Datagrams],
    }
}

/// Returns a packet's kind of traffic by its headers. TCP and QUIC are congestion-controlled; all
/// other packets count as datagrams.
pub(super) fn classify_traffic(headers: &Headers) -> Traffic {
    let is_quic = headers.is_udp()
        && headers.ports.is_some_and(|ports| ports.source == QUIC_PORT || ports.destination == QUIC_PORT);
    if headers.is_tcp() || is_quic { Traffic::CongestionControlled } else { Traffic::Datagrams }
}

pub(super) const fn other_traffic(traffic: Traffic) -> Traffic {
    match traffic {
        Traffic::Datagrams | Traffic::Mixture => Traffic::CongestionControlled,
        Traffic::CongestionControlled => Traffic::Datagrams,
    }
}

pub(super) const fn traffic_index(traffic: Traffic) -> usize {
    match traffic {
        Traffic::CongestionControlled => 0,
        Traffic::Datagrams | Traffic::Mixture => 1,
    }
}

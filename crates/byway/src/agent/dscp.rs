//! The DSCP of a forward's datagrams: kept on the way, and put back where they leave for an application or a target.

use byway_wire::TrafficClass;

use super::listeners::Listener;
use super::mappings::Side;
use crate::settings::Exposed;

/// True if the settings at this end of a mapping keep the DSCP. Packets that were captured have theirs inside.
fn keeps_dscp(side: Side, listeners: &[Listener], exposed: &[Exposed]) -> bool {
    match side {
        Side::Forward(place) => listeners.get(place).is_some_and(|listener| listener.forward.keep_dscp),
        Side::Exposed { place, .. } => exposed.get(place).is_some_and(|exposed| exposed.keep_dscp),
        Side::Capture { .. } | Side::Network { .. } => false,
    }
}

/// Returns the traffic class that the peer learns of a datagram that an application or a target sends.
pub(super) fn sent(
    class: TrafficClass,
    side: Side,
    (listeners, exposed): (&[Listener], &[Exposed]),
) -> TrafficClass {
    if keeps_dscp(side, listeners, exposed) { class } else { class.without_dscp() }
}

/// Returns the traffic class with which a peer's datagram leaves here. Peers do not get the DSCPs of network
/// control: routers keep a queue for their own protocols that a stranger must not fill.
pub(super) fn delivered(
    class: TrafficClass,
    side: Side,
    (listeners, exposed): (&[Listener], &[Exposed]),
) -> TrafficClass {
    if class.is_network_control() { class.without_dscp() } else { sent(class, side, (listeners, exposed)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Endpoint, ExposedAt};

    fn exposed(keep_dscp: bool) -> Exposed {
        let target: Endpoint = "127.0.0.1:6000".parse().expect("an address");
        Exposed { name: "video".to_owned(), at: ExposedAt::Target(target), peers: None, keep_dscp }
    }

    fn class(dscp: u8) -> TrafficClass {
        TrafficClass::from_bits(dscp << 2 | 0b10)
    }

    #[test]
    fn a_dscp_is_kept_unless_the_settings_say_otherwise_and_the_ecn_field_always() {
        let exposed = [exposed(true), exposed(false)];
        for (place, dscp, expected) in [(0, 46, 46), (0, 0, 0), (1, 46, 0), (2, 46, 0)] {
            let side = Side::Exposed { place, source: 1 };
            assert_eq!(sent(class(dscp), side, (&[], &exposed)), class(expected), "{place}, {dscp}");
            assert_eq!(delivered(class(dscp), side, (&[], &exposed)), class(expected), "{place}, {dscp}");
        }
    }

    #[test]
    fn the_dscps_of_network_control_are_not_put_back() {
        let (exposed, side) = ([exposed(true)], Side::Exposed { place: 0, source: 1 });
        for dscp in 0..64 {
            let expected = if dscp >= 48 { 0 } else { dscp };
            assert_eq!(delivered(class(dscp), side, (&[], &exposed)), class(expected), "{dscp}");
        }
    }
}

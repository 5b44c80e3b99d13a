//! The DSCP of a forward's datagrams: packets transport it between agents, and the last agent sets
//! it on what it sends to an application or a target.

use byway_wire::TrafficClass;

use super::listeners::Listener;
use super::mappings::Side;
use crate::settings::ExposedResource;

/// True if the settings of the mapping's forward, or of its exposed target, preserve the DSCP.
/// Returns false for captures, because captured packets contain their own header with the DSCP.
fn preserves_dscp(side: Side, listeners: &[Listener], exposed: &[ExposedResource]) -> bool {
    match side {
        Side::Forward(index) => listeners.get(index).is_some_and(|listener| listener.forward.keep_dscp),
        Side::Exposed { index, .. } => exposed.get(index).is_some_and(|exposed| exposed.keep_dscp),
        Side::Capture { .. } | Side::Network { .. } => false,
    }
}

/// Returns the traffic class that the packet to the peer states for a datagram of an application or
/// a target: `class`, without its DSCP unless the settings preserve it.
pub(super) fn outgoing_class(
    class: TrafficClass,
    side: Side,
    (listeners, exposed): (&[Listener], &[ExposedResource]),
) -> TrafficClass {
    if preserves_dscp(side, listeners, exposed) { class } else { class.without_dscp() }
}

/// Returns the traffic class with which a peer's datagram is sent to an application or a target.
/// DSCPs of network control are removed, because routers reserve a queue for them that a peer must
/// not fill.
pub(super) fn delivered_class(
    class: TrafficClass,
    side: Side,
    (listeners, exposed): (&[Listener], &[ExposedResource]),
) -> TrafficClass {
    if class.is_network_control() {
        class.without_dscp()
    } else {
        outgoing_class(class, side, (listeners, exposed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Endpoint, ExposedKind};

    fn exposed(keep_dscp: bool) -> ExposedResource {
        let target: Endpoint = "127.0.0.1:6000".parse().expect("an address");
        ExposedResource { name: "video".to_owned(), at: ExposedKind::Target(target), peers: None, keep_dscp }
    }

    fn class(dscp: u8) -> TrafficClass {
        TrafficClass::from_bits(dscp << 2 | 0b10)
    }

    #[test]
    fn a_dscp_is_kept_unless_the_settings_say_otherwise_and_the_ecn_field_always() {
        let exposed = [exposed(true), exposed(false)];
        for (index, dscp, expected) in [(0, 46, 46), (0, 0, 0), (1, 46, 0), (2, 46, 0)] {
            let side = Side::Exposed { index, source: 1 };
            assert_eq!(
                outgoing_class(class(dscp), side, (&[], &exposed)),
                class(expected),
                "{index}, {dscp}"
            );
            assert_eq!(
                delivered_class(class(dscp), side, (&[], &exposed)),
                class(expected),
                "{index}, {dscp}"
            );
        }
    }

    #[test]
    fn the_dscps_of_network_control_are_not_put_back() {
        let (exposed, side) = ([exposed(true)], Side::Exposed { index: 0, source: 1 });
        for dscp in 0..64 {
            let expected = if dscp >= 48 { 0 } else { dscp };
            assert_eq!(delivered_class(class(dscp), side, (&[], &exposed)), class(expected), "{dscp}");
        }
    }
}

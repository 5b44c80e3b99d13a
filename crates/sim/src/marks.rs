//! Header fields of a packet by which links on its path treat it.

/// A packet's class and flow, as in IPv6. The default is that of most packets: no class, and the
/// only flow between two addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// DSCP, 0 to 63 (RFC 2474), by which links with classes distinguish packets.
    pub dscp: u8,
    /// Label that distinguishes flows between the same two addresses (the flow label of RFC 6437).
    pub flow_label: u32,
}

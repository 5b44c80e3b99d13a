//! What a sender writes into the headers of a packet for the links on its way.

/// A packet's class and flow, as IPv6 has them. The default is that of most packets: no class, and the only flow between two addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The DSCP, 0 to 63 (RFC 2474), by which links that have classes tell them apart.
    pub dscp: u8,
    /// What tells flows between the same two addresses apart (the flow label of RFC 6437).
    pub flow_label: u32,
}

//! Identifiers. Each has a type of its own, so none can be used as another.

/// Defines an identifier: a type of its own over an integer, with `new`, `number` and a `Display`
/// with its kind.
///
/// ```
/// byway_units::identifier! {
///     /// A seat of a theatre.
///     pub SeatId(u16), "seat"
/// }
///
/// assert_eq!(SeatId::new(7).to_string(), "seat 7");
/// ```
#[macro_export]
macro_rules! identifier {
    ($(#[$doc:meta])+ $visibility:vis $name:ident($integer:ty), $word:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name($integer);

        impl $name {
            /// Creates the identifier with this number.
            #[inline]
            #[must_use]
            pub const fn new(number: $integer) -> Self {
                Self(number)
            }

            /// Returns the number of this identifier, for the wire and for logs.
            #[inline]
            #[must_use]
            pub const fn number(self) -> $integer {
                self.0
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

identifier! {
    /// Agent of an endpoint, within one network.
    pub AgentId(u32), "agent"
}
identifier! {
    /// Relay, within one network; it may be ingress relay of one flow and egress relay of another.
    pub RelayId(u32), "relay"
}
identifier! {
    /// Flow: packets of one application in one direction, numbered within one pair of agents.
    pub FlowId(u16), "flow"
}
identifier! {
    /// Batch: source packets that share repair packets, numbered by its encoder.
    pub BatchId(u32), "batch"
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn identifiers_name_their_kind() {
        assert_eq!(AgentId::new(1).to_string(), "agent 1");
        assert_eq!(RelayId::new(2).to_string(), "relay 2");
        assert_eq!(FlowId::new(u16::MAX).to_string(), "flow 65535");
        assert_eq!(BatchId::new(7).to_string(), "batch 7");
        assert_eq!(BatchId::new(7).number(), 7);
    }
}

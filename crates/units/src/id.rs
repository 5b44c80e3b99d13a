//! Identifiers, each its own type: one can never stand for another.

use core::fmt;

macro_rules! identifier {
    ($(#[$doc:meta])+ $name:ident($integer:ty), $word:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($integer);

        impl $name {
            /// The identifier with this number.
            #[must_use]
            pub const fn new(number: $integer) -> Self {
                Self(number)
            }

            /// The number of this identifier, for the wire and for logs.
            #[must_use]
            pub const fn number(self) -> $integer {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

identifier! {
    /// An endpoint's agent, within one network.
    AgentId(u32), "agent"
}
identifier! {
    /// A relay, within one network; whether it is ingress or egress is a matter of each flow.
    RelayId(u32), "relay"
}
identifier! {
    /// A flow: the packets of one application in one direction, within one pair of agents.
    FlowId(u16), "flow"
}
identifier! {
    /// A batch: the source packets that one set of repair packets covers, within one encoder.
    BatchId(u32), "batch"
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

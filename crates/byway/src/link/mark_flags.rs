//! Flags for the marks of a link's low-delay packets.

use std::str::FromStr;

use byway_sched::Marking;
use clap::Args;

/// Marks of low-delay packets as typed.
#[derive(Clone, Debug, Args)]
pub(super) struct MarkFlags {
    /// DSCPs of low-delay packets, 0 to 63 [default: 4, 45, 46].
    ///
    /// 4 is the paper's mark without its ECN bits, 45 is NQB, and 46 is EF.
    #[arg(long, value_name = "DSCP", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Vec<u8>,
    /// Traffic class byte of low-delay packets, ECN bits included: 0x12, as in the paper.
    ///
    /// Without --dscp, it is the only mark.
    #[arg(long, value_name = "BYTE")]
    tos: Option<Tos>,
    /// Serve flows that `byway link register` names with low delay, too.
    ///
    /// Without --dscp and --tos, no other flows.
    #[arg(long)]
    pub(super) registered: bool,
}

impl MarkFlags {
    /// Returns the marks of low-delay packets that the flags select.
    pub(super) fn marking(&self) -> Marking {
        let marked = self.dscp.iter().fold(Marking::NONE, |marking, dscp| marking.with(*dscp));
        match (self.dscp.is_empty(), self.tos) {
            (true, None) if self.registered => Marking::NONE,
            (true, None) => Marking::default(),
            (_, None) => marked,
            (_, Some(Tos)) => marked.with_literal(),
        }
    }
}

/// Traffic class byte of the paper, 0x12, which is the only one accepted.
#[derive(Clone, Copy, Debug)]
struct Tos;

impl FromStr for Tos {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0x12" | "18" => Ok(Self),
            _ => Err(
                "only 0x12 is accepted as a whole byte: name the DSCP with --dscp (the byte divided by four)"
                    .into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_registered_flows_only_dscps_that_are_typed_are_marks() {
        let marks =
            |dscp: &[u8], registered| MarkFlags { dscp: dscp.to_vec(), tos: None, registered }.marking();
        assert_eq!(marks(&[], false), Marking::default());
        assert_eq!(marks(&[], true), Marking::NONE);
        assert_eq!(marks(&[34], true), Marking::NONE.with(34));
    }
}

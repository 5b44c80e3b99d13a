//! Limits of an agent's mappings, with its consent to return packets that it received, for the
//! repairs of other agents' losses.

use byway_config_types::{KeyPath, Problem, ShareSetting, Source};
use byway_proto::consent;
use byway_proto::conventions::PairLimits;
use byway_proto::limits::{CONSENT, FLOW_PAIRS_LIMIT, FLOW_PAIRS_MAX};
use byway_wire::messages::Consent;

use super::raw::RawMappings;

/// Limits of an agent's mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappingLimits {
    /// Limits on the number of mappings.
    pub(crate) number: PairLimits,
    /// Consent to return packets of received flows for other agents' repairs.
    pub(crate) repair_consent: Consent,
}

impl Default for MappingLimits {
    fn default() -> Self {
        Self { number: PairLimits::default(), repair_consent: CONSENT }
    }
}

/// Validates the limits of an agent's mappings.
///
/// # Errors
/// If a limit is out of range.
pub(super) fn mapping_limits(
    typed: RawMappings,
    share: Option<ShareSetting>,
    source: &Source,
) -> Result<MappingLimits, Problem> {
    let repair_consent = share.map_or(CONSENT, |ShareSetting(share)| consent(share));
    Ok(MappingLimits { number: number(typed, source)?, repair_consent })
}

/// Validates the limits on the number of an agent's mappings.
fn number(typed: RawMappings, source: &Source) -> Result<PairLimits, Problem> {
    let root = KeyPath::of("mappings");
    let checked = |key, typed: Option<u32>, default, max| {
        let limit = typed.map_or(default, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let message = || format!("{limit} is out of range: 1 to {max}");
        if (1..=max).contains(&limit) { Ok(limit) } else { Err(source.problem(&root.key(key), message())) }
    };
    let all = checked("max", typed.max, FLOW_PAIRS_MAX, FLOW_PAIRS_LIMIT)?;
    let of_peer = checked("peer_max", typed.peer_max, all.div_ceil(2), all)?;
    Ok(PairLimits { all, of_peer })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Consent {
        let ShareSetting(share) = text.parse().expect("a share");
        consent(share)
    }

    #[test]
    fn a_share_is_what_returns_in_the_long_run_and_zero_is_nothing() {
        assert_eq!(typed("25 %"), CONSENT);
        assert_eq!(typed("100 %"), Consent { average_per_mille: 1_000, ..CONSENT });
        assert_eq!(typed("1.1 %"), Consent { average_per_mille: 11, ..CONSENT });
        assert_eq!(typed("0.01 %"), Consent { average_per_mille: 1, ..CONSENT });
        assert_eq!(typed("0 %"), Consent { burst_percent: 0, average_per_mille: 0, ..CONSENT });
    }
}

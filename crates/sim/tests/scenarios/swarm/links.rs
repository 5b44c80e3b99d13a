//! Links of random worlds: their impairments, and a description of them.

use byway_sim::{GilbertElliott, Jitter, Link, Loss, Random, Reordering};
use byway_units::Duration;

use super::one_in;
use crate::support::{ms, share};

/// Impairments of the links of one kind: a random subset of all kinds.
pub(super) fn random_impairments(random: &mut Random, lossy: f64) -> Link {
    let mut link = Link::default();
    let chance = |random: &mut Random, max: f64| {
        share(max * f64::from(u32::try_from(random.below(101)).expect("at most 100")) / 100.0)
    };
    if one_in(random, 2) {
        link.loss.push(Loss::Independent(chance(random, lossy)));
    }
    if one_in(random, 3) {
        link.loss.push(Loss::GilbertElliott(
            GilbertElliott::bursts(share(lossy / 2.0), 4.0, ms(10)).expect("bursts"),
        ));
    }
    if one_in(random, 3) {
        link.jitter = Jitter { max: ms(1 + random.below(20)), may_reorder: one_in(random, 2) };
    }
    if one_in(random, 4) {
        link.reordering = Reordering { probability: chance(random, 0.05), detour: ms(random.below(200)) };
    }
    if one_in(random, 4) {
        link.duplication = chance(random, 0.3);
    }
    if one_in(random, 4) {
        link.corruption = chance(random, 0.03);
    }
    link
}

/// Returns the link with its own delay and the impairments.
pub(super) fn with_impairments(link: &Link, wrong: &Link) -> Link {
    Link { delay: link.delay, ..wrong.clone() }
}

/// Returns a short description of a link.
pub(super) fn describe_link(link: &Link) -> String {
    let mut words = Vec::new();
    for loss in &link.loss {
        words.push(match loss {
            Loss::Independent(share) => format!("loses {share}"),
            _ => "loses in bursts".into(),
        });
    }
    if link.jitter.max > Duration::ZERO {
        words.push(format!("jitter {} (reorders: {})", link.jitter.max, link.jitter.may_reorder));
    }
    if link.reordering.detour > Duration::ZERO {
        words.push(format!("{} detour {}", link.reordering.probability, link.reordering.detour));
    }
    if link.duplication > share(0.0) {
        words.push(format!("doubles {}", link.duplication));
    }
    if link.corruption > share(0.0) {
        words.push(format!("corrupts {}", link.corruption));
    }
    words.join(", ")
}

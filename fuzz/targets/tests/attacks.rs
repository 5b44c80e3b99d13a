//! No attack of a member harms the flow of another tenant beside it.

use byway_fuzz_targets::attacks::{Size, attacks};

#[test]
fn no_attack_of_a_member_harms_the_flow_beside_it() {
    let (control, outcomes) = attacks(Size::SMALL);
    assert_eq!(control.lost, 0);
    for outcome in &outcomes {
        // The harness shows what is printed if a verdict fails.
        println!("{outcome}");
    }
    let faults: Vec<String> = outcomes.iter().flat_map(|outcome| outcome.faults(&control)).collect();
    assert_eq!(faults, Vec::<String>::new());
    let busy = outcomes.iter().filter(|outcome| outcome.work_per_datagram > control.work_per_datagram);
    assert!(busy.count() >= 5, "attacks cost more than silence: {outcomes:?}");
}

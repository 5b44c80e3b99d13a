//! No attack of a member harms another tenant's flow, and no adversary prevents a restarted agent's
//! session.

use byway_fuzz_targets::attacks::{ATTACKS, Arranged, Arrangement, Size, attacks, restarts};

#[test]
fn no_attack_of_a_member_harms_the_flow_beside_it() {
    let (control, outcomes) = attacks(Size::SMALL);
    assert_eq!(control.lost, 0);
    for outcome in &outcomes {
        // The test harness shows printed text only if a test fails.
        println!("{outcome}");
    }
    let faults: Vec<String> = outcomes.iter().flat_map(|outcome| outcome.faults(&control)).collect();
    assert_eq!(faults, Vec::<String>::new());
    let busy = outcomes.iter().filter(|outcome| outcome.work_per_datagram > control.work_per_datagram);
    assert!(busy.count() >= 5, "attacks cost more than silence: {outcomes:?}");
}

#[test]
fn no_attack_harms_a_flow_of_another_service_or_of_one_relay_or_four() {
    let arrangements: Vec<_> = Arrangement::all().filter(|one| *one != Arrangement::USUAL).collect();
    let mut faults = Vec::new();
    for (number, arrangement) in arrangements.iter().enumerate() {
        // Each attack runs in one arrangement; `make attack` runs all attacks in all arrangements.
        let turn = ATTACKS.iter().skip(number).step_by(arrangements.len());
        let arranged = Arranged::run(*arrangement, turn, Size::SMALL);
        println!("{arranged}");
        faults.extend(arranged.faults());
    }
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn no_forgery_and_no_flood_keeps_a_restarted_agent_from_its_relay() {
    let (control, all) = restarts(3);
    println!("{control}");
    for one in &all {
        println!("{one}");
    }
    let faults: Vec<String> = all.iter().flat_map(|one| one.faults(&control)).collect();
    assert_eq!(faults, Vec::<String>::new());
}

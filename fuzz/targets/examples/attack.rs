//! Runs attacks on a relay at full size and prints the tables of SECURITY.md. Fails if an attack
//! harms the honest flow or the restarting agent.

use std::process::ExitCode;

use byway_fuzz_targets::attacks::{
    ATTACKS, Arranged, Arrangement, Size, attacks, restarts, unpromised_restarts,
};

/// Number of restarts of the honest agent with each adversary.
const RESTARTS: usize = 20;

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "tables, and what is wrong with them")]
fn main() -> ExitCode {
    let mut faults = Vec::new();
    let (control, outcomes) = attacks(Size::LARGE);
    println!(
        "| datagrams full of | lost | p99 | units of work for each datagram | memory more than before |"
    );
    println!("|---|---|---|---|---|");
    println!("{control}");
    for outcome in outcomes {
        println!("{outcome}");
        faults.extend(outcome.faults(&control));
    }
    println!("\n| service | relays | lost in the control | its p99 | lost at most | p99 at most |");
    println!("|---|---|---|---|---|---|");
    for arrangement in Arrangement::all() {
        let arranged = Arranged::run(arrangement, ATTACKS, Size::ARRANGED);
        println!("{arranged}");
        faults.extend(arranged.faults());
    }
    let (control, all) = restarts(RESTARTS);
    println!(
        "\n| beside a restarted agent | sessions | the slowest took | initiations of one start at most |"
    );
    println!("|---|---|---|---|");
    println!("{control}");
    for one in all {
        println!("{one}");
        faults.extend(one.faults(&control));
    }
    for one in unpromised_restarts() {
        println!("{one}");
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

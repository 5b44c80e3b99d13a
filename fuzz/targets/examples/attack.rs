//! Attacks of a member on a relay, at full size: prints what each cost, and fails if one harmed the flow beside it.

use std::process::ExitCode;

use byway_fuzz_targets::attacks::{Size, attacks};

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a table, and what is wrong with it")]
fn main() -> ExitCode {
    let (control, outcomes) = attacks(Size::LARGE);
    println!("| attack | lost | p99 delay | work for each datagram | memory |");
    println!("|---|---|---|---|---|");
    println!("{control}");
    let mut code = ExitCode::SUCCESS;
    for outcome in outcomes {
        println!("{outcome}");
        for fault in outcome.faults(&control) {
            eprintln!("{fault}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

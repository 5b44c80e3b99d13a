//! Machines of a scenario, and the emulator of its links.

use std::net::IpAddr;

use byway_lab::{EmulatorThread, LabError, Machine, addresses};
use byway_net::Clock;
use byway_scenario::Scenario;

/// Makes the first machines of a scenario, and starts its links. Its last nodes are routers, which
/// have no machine. Returns `None` if the kernel refuses machines to this process.
pub fn start_machines(
    scenario: &str,
    machines: usize,
    routers: usize,
) -> Option<(Vec<Machine>, EmulatorThread)> {
    let network = Scenario::parse(scenario).expect("a scenario").network(1).expect("all are joined");
    let (mut made, mut devices) = (Vec::new(), Vec::new());
    for index in 0..machines {
        match Machine::new(addresses(index)) {
            Ok((machine, device)) => {
                made.push(machine);
                devices.push(Some(device));
            }
            Err(LabError::Machine(error)) => {
                eprintln!("skipped: the kernel makes no machine: {error}");
                return None;
            }
            Err(other) => panic!("{other}"),
        }
    }
    devices.extend((0..routers).map(|_| None));
    let all: Vec<Vec<IpAddr>> = (0..devices.len()).map(|index| addresses(index).to_vec()).collect();
    let emulator = EmulatorThread::start(network, devices, &all, &[], 1, Clock::start(), None);
    Some((made, emulator.expect("a thread")))
}

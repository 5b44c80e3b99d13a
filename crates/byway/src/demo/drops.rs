//! Datagrams that the kernel dropped at full sockets: losses by a busy machine, not by the network.

use std::fs;
use std::net::Ipv4Addr;

use super::plan::{DemoNode, DemoPlan};

/// The kernel's list of UDP sockets (proc(5)).
const SOCKETS: &str = "/proc/net/udp";

/// Returns each socket of the demo that dropped datagrams since it was opened: a description of its
/// owner, and the number of drops.
pub(crate) fn at_sockets(plan: &DemoPlan) -> Vec<(String, u64)> {
    // Without the list, the losses still count, but their sockets are unknown.
    dropped(plan, &fs::read_to_string(SOCKETS).unwrap_or_default())
}

fn dropped(plan: &DemoPlan, list: &str) -> Vec<(String, u64)> {
    let sockets = list.lines().skip(1).filter_map(parse_socket);
    let of_plan = sockets.filter(|(address, count)| {
        let [loopback, net, ..] = address.octets();
        (loopback, net) == (127, plan.net) && *count > 0
    });
    of_plan.map(|(address, count)| (owner(address), count)).collect()
}

/// Parses the local address and the number of drops from a line of the list.
fn parse_socket(line: &str) -> Option<(Ipv4Addr, u64)> {
    let mut words = line.split_whitespace();
    let (address, _) = words.nth(1)?.split_once(':')?;
    // The kernel writes the bytes as this processor reads them as a number.
    let address = Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
    Some((address, words.last()?.parse().ok()?))
}

/// Names the owner of a socket by its address, whose third byte is the purpose in the plan.
fn owner(address: Ipv4Addr) -> String {
    let [_, _, purpose, last] = address.octets();
    let number = usize::from(last).saturating_sub(1);
    match purpose {
        1 => format!("{}, from the network", DemoNode::from_index(number).name()),
        2 => format!("the emulator's socket for {}", DemoNode::from_index(number).name()),
        3 => format!("the agent of sender {}, from its application", number + 1),
        4 => format!("the application of receiver {}", number + 1),
        _ => format!("the socket at {address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_by_their_owners() {
        let hex = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let line = |octets, drops: u64| {
            format!(
                "  17: {}:1388 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 9 2 0 {drops}\n",
                hex(octets)
            )
        };
        let list = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
                .to_owned(),
            line([127, 77, 3, 2], 3),
            line([127, 77, 2, 4], 9),
            line([127, 77, 1, 1], 0),
            line([127, 78, 3, 1], 5),
            line([127, 0, 0, 1], 5),
        ]
        .concat();
        let plan = DemoPlan { net: 77, pairs: 8, seed: 1, outage_ms: (0, 0) };
        let expected = [
            ("the agent of sender 2, from its application".to_owned(), 3),
            ("the emulator's socket for receiver-1".to_owned(), 9),
        ];
        assert_eq!(dropped(&plan, &list), expected);
    }
}

//! Firewall rules for packets of programs that pin their socket to a device. Routing rules do not
//! affect such packets until a mark triggers another routing decision.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::cgroups::{rule_tag, run_iptables};
use super::plan::{Pin, RoutingPlan};
use crate::agent::CaptureState;

/// Firewall rules that are in force for pinned packets.
#[derive(Debug)]
pub(super) struct Pins {
    table: u32,
    added: Vec<Pin>,
    /// True if iptables has refused such a rule. The agent then adds no further ones.
    has_failed: bool,
}

impl Pins {
    pub(super) const fn new(table: u32) -> Self {
        Self { table, added: Vec::new(), has_failed: false }
    }

    /// Removes the firewall rules whose captures are not active.
    pub(super) fn retain(&mut self, plan: &RoutingPlan, state: &CaptureState) {
        let table = self.table;
        self.added.retain(|pin| {
            let stays = plan.active_pins(state).any(|active| active == pin);
            // A rule that remains is removed at the end.
            stays || change(pin, table, "-D").is_err()
        });
    }

    /// Adds the missing firewall rules of active captures. If iptables refuses, logs it, and only
    /// pinned packets stay uncaptured.
    pub(super) fn add(&mut self, plan: &RoutingPlan, state: &CaptureState) {
        for pin in plan.active_pins(state) {
            if self.has_failed || self.added.contains(pin) {
                continue;
            }
            match change(pin, self.table, "-A") {
                Ok(()) => self.added.push(pin.clone()),
                Err(error) => {
                    self.has_failed = true;
                    tracing::info!(
                        error,
                        "cannot add firewall rules: packets of programs that bind their socket to a \
                         device, as WireGuard in user space may, are not captured; install iptables"
                    );
                }
            }
        }
    }
}

fn change(pin: &Pin, table: u32, action: &str) -> Result<(), String> {
    let words = command(pin, table, action);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run_iptables(words[0], &words[1..]).map(drop)
}

/// Returns the program and its arguments that add (`-A`) or remove (`-D`) a firewall rule.
pub(super) fn command(pin: &Pin, table: u32, action: &str) -> Vec<String> {
    let Pin { to, ports, mark } = pin;
    let program = if matches!(to, IpNet::V4(_)) { "iptables" } else { "ip6tables" };
    let mut words: Vec<String> =
        [program, "-t", "mangle", action, "OUTPUT", "-d"].map(str::to_owned).to_vec();
    words.extend([to.to_string(), "-p".to_owned(), ports.protocol.to_string()]);
    words.extend(ports.ports.as_ref().map(destination_ports).into_iter().flatten());
    let (own, mark) = (table.to_string(), mark.to_string());
    words.extend(["-m", "mark", "!", "--mark", &own].map(str::to_owned));
    words.extend(
        ["-m", "comment", "--comment", &rule_tag(table), "-j", "MARK", "--set-mark", &mark]
            .map(str::to_owned),
    );
    words
}

fn destination_ports(ports: &RangeInclusive<u16>) -> [String; 2] {
    ["--dport".to_owned(), format!("{}:{}", ports.start(), ports.end())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_a_rule_that_leaves_byways_own_packets_alone() {
        let pin = |to: &str| Pin {
            to: to.parse().expect("a prefix"),
            ports: "udp:51820".parse().expect("ports"),
            mark: 4_698,
        };
        assert_eq!(
            command(&pin("203.0.113.9/32"), 4_600, "-A").join(" "),
            "iptables -t mangle -A OUTPUT -d 203.0.113.9/32 -p udp --dport 51820:51820 -m mark ! --mark 4600 -m comment --comment byway-4600 \
             -j MARK --set-mark 4698"
        );
        assert!(command(&pin("2001:db8::9/128"), 4_600, "-D")[0] == "ip6tables");
    }
}

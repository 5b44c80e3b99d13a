//! Description of an agent's captures and of its changes to the system, for people.

use std::fmt::Write as _;

use super::netlink::PLACEHOLDER_ADDRESS;
use super::pins;
use super::plan::{RoutingPlan, RuleCondition};
use crate::settings::{ExposedKind, ExposedResource, Tunnel};

/// Describes the changes of an agent's captures to the system, as commands that have the same
/// effect.
pub(crate) fn show(tunnel: &Tunnel, exposed: &[ExposedResource]) -> String {
    let plan = RoutingPlan::new(tunnel, exposed);
    let Tunnel { device, table, mtu, addresses, .. } = tunnel;
    let mut text = format!(
        "While the agent runs:\n  ip tuntap add {device} mode tun; ip link set {device} mtu {mtu} up\n"
    );
    for address in addresses {
        let _ = writeln!(text, "  ip address add {address} dev {device}");
    }
    if !addresses.iter().any(|address| address.addr().is_ipv4()) {
        let _ = writeln!(
            text,
            "  ip address add {PLACEHOLDER_ADDRESS}/32 dev {device} scope host (placeholder for \
             reverse-path filtering, never a source)"
        );
    }
    let _ = writeln!(
        text,
        "  sysctl -w net.ipv4.conf.{device}.rp_filter=2 (if reverse-path filtering is strict)"
    );
    for route in &plan.routes {
        let _ = writeln!(text, "  ip route add {} dev {device} table {table}", route.to);
    }
    for (group, program) in plan.groups.iter().flat_map(|group| [(group, "iptables"), (group, "ip6tables")]) {
        let _ = writeln!(
            text,
            "  {program} -t mangle -A OUTPUT -m cgroup --path {} -m mark --mark 0 -j MARK --set-mark {:#x}",
            group.path, group.mark
        );
    }
    add_rules(&mut text, &plan, RuleCondition::Always);
    for (index, capture) in tunnel.captures.iter().enumerate() {
        let wanted = &capture.spec;
        let _ =
            writeln!(text, "\nWhile {} is connected and accepts packets for {:?}:", wanted.peer, wanted.to);
        if let Some(queue) = capture.queue {
            add_queue(&mut text, queue, tunnel);
        }
        add_rules(&mut text, &plan, RuleCondition::Capture(index));
        for pin in plan.pins.iter().filter(|(of, _)| *of == index).map(|(_, pin)| pin) {
            let _ =
                writeln!(text, "  {} (if iptables is installed)", pins::command(pin, *table, "-A").join(" "));
        }
    }
    for (index, exposed) in exposed.iter().enumerate() {
        if matches!(exposed.at, ExposedKind::Network(_)) {
            let _ = writeln!(
                text,
                "\nWhile a connected peer captures packets for {:?}, those addresses of these \
                 prefixes that have sent:",
                exposed.name
            );
            add_rules(&mut text, &plan, RuleCondition::Exposed(index));
        }
    }
    text.push_str(
        "\nAll of this is removed within a second after the agent has ended, even if it was killed.\n",
    );
    text
}

/// Describes the firewall rules that put packets into a capture's queue. The operator adds them,
/// not the agent.
fn add_queue(text: &mut String, queue: u16, tunnel: &Tunnel) {
    let Tunnel { device, table: mark, .. } = tunnel;
    let _ = writeln!(
        text,
        "  packets of the queue {queue} are captured; otherwise, they pass unchanged. Your own rules \
         put them there, such as\n    \
         iptables -t mangle -A OUTPUT -d 192.0.2.1 -m mark ! --mark {mark:#x} -j NFQUEUE --queue-num \
         {queue} --queue-bypass\n  \
         (ip6tables for IPv6). {mark:#x} marks Byway's own packets, which are never captured. Without \
         --queue-bypass, packets are dropped while no agent runs. A firewall that admits only replies \
         has to admit packets of the device: iptables -I INPUT -i {device} -j ACCEPT"
    );
}

fn add_rules(text: &mut String, plan: &RoutingPlan, condition: RuleCondition) {
    for rule in plan.rules.iter().filter(|(of, _)| *of == condition).map(|(_, rule)| rule) {
        let _ = writeln!(text, "  {rule}");
    }
}

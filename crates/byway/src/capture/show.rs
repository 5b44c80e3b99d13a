//! What an agent would capture and change, for people.

use std::fmt::Write as _;

use super::kernel::NOBODY;
use super::pins;
use super::plan::{Gate, Plan};
use crate::settings::{Exposed, ExposedAt, Tunnel};

/// Says it, in the words of the tools that would do the same.
pub(crate) fn show(tunnel: &Tunnel, exposed: &[Exposed]) -> String {
    let plan = Plan::new(tunnel, exposed);
    let Tunnel { device, table, mtu, addresses, .. } = tunnel;
    let mut text = format!(
        "While the agent works:\n  ip tuntap add {device} mode tun; ip link set {device} mtu {mtu} up\n"
    );
    for address in addresses {
        let _ = writeln!(text, "  ip address add {address} dev {device}");
    }
    if !addresses.iter().any(|address| address.addr().is_ipv4()) {
        let _ = writeln!(
            text,
            "  ip address add {NOBODY}/32 dev {device} scope host (which nothing is sent from: the system's check of sources asks for one)"
        );
    }
    let _ = writeln!(
        text,
        "  sysctl -w net.ipv4.conf.{device}.rp_filter=2 (where the system checks sources strictly)"
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
    add_rules(&mut text, &plan, Gate::Always);
    for (place, capture) in tunnel.captures.iter().enumerate() {
        let wanted = &capture.wanted;
        let _ = writeln!(text, "\nWhile {} is there and takes packets for {:?}:", wanted.peer, wanted.to);
        if let Some(queue) = capture.queue {
            add_queue(&mut text, queue, tunnel);
        }
        add_rules(&mut text, &plan, Gate::Capture(place));
        for pin in plan.pins.iter().filter(|(of, _)| *of == place).map(|(_, pin)| pin) {
            let _ = writeln!(text, "  {} (where it is there)", pins::command(pin, *table, "-A").join(" "));
        }
    }
    for (place, exposed) in exposed.iter().enumerate() {
        if matches!(exposed.at, ExposedAt::Network(_)) {
            let _ = writeln!(
                text,
                "\nWhile a peer is there that captures packets for {:?}, of these prefixes the addresses that have sent:",
                exposed.name
            );
            add_rules(&mut text, &plan, Gate::Exposed(place));
        }
    }
    text.push_str("\nAll of it is gone within a second of the agent's end, however it ends.\n");
    text
}

/// What rules have to say that put packets into a queue: they are not the agent's.
fn add_queue(text: &mut String, queue: u16, tunnel: &Tunnel) {
    let Tunnel { device, table: mark, .. } = tunnel;
    let _ = writeln!(
        text,
        "  packets of the queue {queue} are taken, and let go on as they are while not. Rules of yours put them there, such as\n    \
         iptables -t mangle -A OUTPUT -d 192.0.2.1 -m mark ! --mark {mark:#x} -j NFQUEUE --queue-num {queue} --queue-bypass\n  \
         (ip6tables for IPv6). {mark:#x} is the mark of Byway's own packets, which are never taken; without --queue-bypass, packets go nowhere while \
         no agent works. A firewall that lets in answers alone has to let in what comes by the device: iptables -I INPUT -i {device} -j ACCEPT"
    );
}

fn add_rules(text: &mut String, plan: &Plan, gate: Gate) {
    for rule in plan.rules.iter().filter(|(of, _)| *of == gate).map(|(_, rule)| rule) {
        let _ = writeln!(text, "  {rule}");
    }
}

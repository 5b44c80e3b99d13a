//! Routing of applications' packets into an agent's device, as long as the captures' peers are
//! present, and the undoing of all changes.

mod cgroups;
mod claim;
mod device_watch;
mod guard;
mod netlink;
mod pins;
mod plan;
mod renewal;
mod routing_task;
mod show;

use std::io;
use std::net::IpAddr;

use byway_net::{Device, DeviceSettings, PacketQueues, QueueError};
use ipnet::IpNet;

pub(crate) use device_watch::DeviceState;
pub(crate) use guard::{GuardFlags, run as guard};
pub(crate) use netlink::{RouteNetlink, is_link_local};
pub(crate) use plan::priorities;
pub(crate) use renewal::follow_renewals;
pub(crate) use routing_task::RoutingTask;
pub(crate) use show::show;

use crate::agent::CaptureState;
use crate::exit::{Cause, Failure};
use crate::settings::{ExposedResource, Tunnel};
use claim::Claim;
use guard::Guard;
use pins::Pins;
use plan::{Action, RULES_MAX, RoutingPlan, Rule, sample_address};

/// Changes of an agent to the system's routing. A task updates them with the captures' state, and
/// finally undoes them.
pub(crate) struct CaptureRouting {
    kernel: RouteNetlink,
    plan: RoutingPlan,
    device_addresses: Vec<IpNet>,
    device: u32,
    device_name: String,
    state: DeviceState,
    guard: Guard,
    /// Claim to the routing table, as long as rules may exist.
    _claim: Claim,
    capture_state: CaptureState,
    /// State of each capture as the latest log messages report it.
    logged: Vec<bool>,
    /// Routing rules that the task has added to the system.
    applied: Vec<Rule>,
    speaks_ipv6: bool,
    /// Plan for settings that a reload has prepared, and their generation. It replaces `plan` once
    /// the capture state has that generation.
    pending_plan: Option<(u64, RoutingPlan)>,
    pins: Pins,
}

/// Sources of captured packets for the agent's thread. Its answers leave through the same device.
#[derive(Debug)]
pub(crate) struct CaptureSource {
    pub(crate) device: Device,
    /// NFQUEUE queues; `None` if no capture has one.
    pub(crate) queues: Option<PacketQueues>,
    pub(crate) state: DeviceState,
    /// True if the system accepts IPv6 answers from the device.
    pub(crate) speaks_ipv6: bool,
}

/// Creates the TUN device and its routes, with all captures inactive, and binds the queues. Starts
/// the guard that undoes all changes.
///
/// # Errors
/// If the system refuses, or a conflict exists. No change then remains.
pub(crate) async fn start(
    tunnel: &Tunnel,
    exposed: &[ExposedResource],
) -> Result<(CaptureRouting, CaptureSource), Failure> {
    let plan = RoutingPlan::new(tunnel, exposed);
    let kernel =
        RouteNetlink::connect().map_err(|error| system_failure("cannot connect to rtnetlink", &error))?;
    let claim = Claim::acquire(tunnel.table).await?;
    check_conflicts(&kernel, tunnel, &plan).await?;
    let device = create_device(tunnel)?;
    let speaks_ipv6 = speaks_ipv6(&tunnel.device);
    let plan = if speaks_ipv6 { plan } else { plan.without_ipv6() };
    let marks = plan.uses_marks();
    // A former agent of this table has ended, because its device does not exist.
    clean(tunnel.table, marks).await?;
    let guard = Guard::start(tunnel.table, marks, &claim).map_err(|error| {
        Failure::machine(format!("cannot start the process that cleans up after the agent: {error}"))
    })?;
    let mut capturing = CaptureRouting {
        kernel,
        plan,
        device_addresses: tunnel.addresses.clone(),
        device: device.index(),
        device_name: tunnel.device.clone(),
        state: DeviceState::up(),
        guard,
        _claim: claim,
        capture_state: CaptureState::default(),
        logged: Vec::new(),
        applied: Vec::new(),
        speaks_ipv6,
        pending_plan: None,
        pins: Pins::new(tunnel.table),
    };
    // After they are bound, the queues retain packets until the agent's thread reads them. They are
    // therefore bound last.
    let queues = match capturing.prepare(&tunnel.device).await {
        Ok(()) => bind_queues(tunnel),
        Err(failure) => Err(failure),
    };
    match queues {
        Ok(queues) => {
            let state = capturing.state.clone();
            Ok((capturing, CaptureSource { device, queues, state, speaks_ipv6 }))
        }
        Err(failure) => {
            capturing.guard.finish(tunnel.table).await;
            Err(failure)
        }
    }
}

impl CaptureRouting {
    async fn prepare(&mut self, device: &str) -> Result<(), Failure> {
        loosen_source_check(device);
        if !self.device_addresses.iter().any(|inside| inside.addr().is_ipv4()) {
            let added = self.kernel.add_placeholder_address(self.device).await;
            added.map_err(|error| system_failure("cannot assign an address to the device", &error))?;
        }
        cgroups::mark(&self.plan.groups, self.plan.table)?;
        // If Byway's own packets use another table, rules select the source addresses of captured
        // packets.
        self.set_rules(true).await.map_err(|error| system_failure("cannot add a routing rule", &error))?;
        self.set_routes().await.map_err(|error| system_failure("cannot add a route", &error))
    }

    fn log_captures(&mut self) {
        for (index, is_active) in self.capture_state.captures.iter().enumerate() {
            if *is_active != self.logged.get(index).copied().unwrap_or(false) {
                let what = if *is_active {
                    "capture active"
                } else {
                    "capture inactive: the peer is not available, packets bypass Byway"
                };
                tracing::info!(capture = index + 1, "{what}");
            }
        }
        self.logged.clone_from(&self.capture_state.captures);
    }

    /// Sets all addresses, routes and rules of the captures again, because other programs change
    /// them too.
    async fn reapply(&mut self) -> io::Result<()> {
        for address in
            self.device_addresses.iter().filter(|inside| inside.addr().is_ipv4() || self.speaks_ipv6)
        {
            self.kernel.add_address(self.device, *address).await?;
        }
        self.set_routes().await?;
        self.set_rules(true).await
    }

    /// Removes the routing rules that the captures' state does not require. Adds the missing ones,
    /// or all of them again if `all` is true.
    async fn set_rules(&mut self, all: bool) -> io::Result<()> {
        let required = self.plan.active_rules(&self.capture_state);
        // Packets are marked only for rules that exist.
        self.pins.retain(&self.plan, &self.capture_state);
        // A rule that the system does not remove now is removed the next time.
        while let Some(index) = self.applied.iter().position(|rule| !required.contains(rule)) {
            self.kernel.remove_rule(&self.applied[index]).await?;
            self.applied.swap_remove(index);
        }
        for rule in required {
            let is_applied = self.applied.contains(&rule);
            if all || !is_applied {
                self.kernel.add_rule(&rule).await?;
            }
            if !is_applied {
                self.applied.push(rule);
            }
        }
        self.pins.add(&self.plan, &self.capture_state);
        Ok(())
    }

    /// Sets the routes of captured packets. Their source address is the device's, or else the one
    /// that packets have without Byway.
    async fn set_routes(&self) -> io::Result<()> {
        self.set_routes_of(&self.plan).await
    }

    async fn set_routes_of(&self, plan: &RoutingPlan) -> io::Result<()> {
        for route in &plan.routes {
            let source = if route.is_captured { self.source_towards(&route.to).await? } else { None };
            self.kernel.set_route(route.to, source, self.device, plan.table).await?;
        }
        Ok(())
    }

    async fn source_towards(&self, to: &IpNet) -> io::Result<Option<IpAddr>> {
        let to = sample_address(to);
        let device_address =
            self.device_addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == to.is_ipv4());
        match device_address {
            Some(address) => Ok(Some(address)),
            None => Ok(self.kernel.lookup_route(to, self.plan.table).await?.source),
        }
    }
}

/// Undoes the remaining changes of an agent that has ended and used this routing table. Returns the
/// number of removed rules.
///
/// # Errors
/// If an agent runs with this table, or the system refuses.
pub(crate) async fn undo(table: u32) -> Result<usize, Failure> {
    let _claim = Claim::acquire(table).await?;
    clean(table, true).await
}

/// Removes all routing rules of an agent of this routing table, and returns their number. If
/// `marks` is true, first removes the firewall rules that mark packets.
///
/// # Errors
/// If the system refuses.
async fn clean(table: u32, marks: bool) -> Result<usize, Failure> {
    let kernel =
        RouteNetlink::connect().map_err(|error| system_failure("cannot connect to rtnetlink", &error))?;
    if marks {
        cgroups::unmark(table);
    }
    let removed = kernel.remove_all(priorities(table)).await;
    removed.map_err(|error| system_failure("cannot remove routing rules", &error))
}

/// Checks the tunnel's settings for conflicts with existing rules and routes, before an agent
/// starts.
async fn check_conflicts(kernel: &RouteNetlink, tunnel: &Tunnel, plan: &RoutingPlan) -> Result<(), Failure> {
    let netlink_failure = |error: io::Error| system_failure("cannot connect to rtnetlink", &error);
    let settings = |message: String| Err(Failure::new(Cause::Settings, message));
    if let Some(rule) = kernel.foreign_rule(plan).await.map_err(netlink_failure)? {
        let priority = rule.attributes.iter().find_map(|attribute| match attribute {
            rtnetlink::packet_route::rule::RuleAttribute::Priority(priority) => Some(*priority),
            _ => None,
        });
        return settings(format!(
            "a foreign routing rule has the priority {} (ip rule shows it), and the agent needs {} to \
             {}: set another `table` in [tunnel]",
            priority.unwrap_or_default(),
            plan.priorities().start(),
            plan.priorities().end(),
        ));
    }
    if kernel.has_routes(tunnel.table).await.map_err(netlink_failure)? {
        return settings(format!(
            "the routing table {0} is not empty, perhaps used by another agent (ip route show table \
             {0}): set another `table` in [tunnel]",
            tunnel.table
        ));
    }
    check_plan(kernel, tunnel, plan).await
}

/// Checks a plan for conflicts with the system's settings that may occur at the start and at a
/// reload.
async fn check_plan(kernel: &RouteNetlink, tunnel: &Tunnel, plan: &RoutingPlan) -> Result<(), Failure> {
    let netlink_failure = |error: io::Error| system_failure("cannot connect to rtnetlink", &error);
    let settings = |message: String| Err(Failure::new(Cause::Settings, message));
    let rules = plan.rules.len();
    if rules > RULES_MAX {
        return settings(format!(
            "captures and networks need {rules} routing rules, more than {RULES_MAX}: name prefixes \
             instead of single addresses, and ranges of ports"
        ));
    }
    let takes_all_ports = |rule: &Rule| rule.source_ports.is_none() && rule.destination_ports.is_none();
    let is_wide = plan.rules.iter().any(|(_, rule)| {
        rule.action == Action::Lookup && !rule.is_ipv6 && takes_all_ports(rule) && !plan.is_of_pins(rule)
    });
    if let Some(strict) = strict_device().filter(|_| tunnel.own_table.is_some()) {
        return settings(format!(
            "Byway's own packets use another routing table, and reverse-path filtering is strict at \
             {strict}: it would drop their replies. Run sysctl -w net.ipv4.conf.all.rp_filter=2"
        ));
    }
    if let Some(strict) = strict_device().filter(|_| is_wide) {
        return settings(format!(
            "the capture is not limited to ports, and reverse-path filtering is strict at {strict}: \
             it would drop packets from there that arrive outside Byway, and Byway's own. Run sysctl -w \
             net.ipv4.conf.all.rp_filter=2, or name ports"
        ));
    }
    for (index, capture) in tunnel.captures.iter().enumerate() {
        for to in capture.selection.prefixes.iter().filter(|to| to.prefix_len() == to.max_prefix_len()) {
            if kernel.lookup_route(to.addr(), tunnel.table).await.map_err(netlink_failure)?.is_local {
                return settings(format!(
                    "the capture number {} names {}, an address of this machine: packets to it never \
                     leave the machine",
                    index + 1,
                    to.addr()
                ));
            }
        }
    }
    Ok(())
}

fn create_device(tunnel: &Tunnel) -> Result<Device, Failure> {
    let settings = DeviceSettings {
        name: tunnel.device.clone(),
        mtu: tunnel.mtu,
        addresses: tunnel.addresses.iter().map(|inside| (inside.addr(), inside.prefix_len())).collect(),
    };
    Device::create(&settings).map_err(|error| {
        let name = &tunnel.device;
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied
                if error.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error()) =>
            {
                "no permission to open /dev/net/tun: permit everybody, as most systems do (chmod 0666 \
                 /dev/net/tun), and with systemd set PrivateDevices=no; creating devices then needs \
                 CAP_NET_ADMIN, which forwards do not need"
            }
            io::ErrorKind::PermissionDenied => {
                "capturing packets needs CAP_NET_ADMIN: set AmbientCapabilities=CAP_NET_ADMIN with \
                 systemd, otherwise setcap cap_net_admin+ep on the program; forwards need no capability"
            }
            io::ErrorKind::NotFound => {
                "/dev/net/tun not found: load the module (modprobe tun), or give the container the device"
            }
            io::ErrorKind::ResourceBusy => {
                "another program, perhaps another agent, has a device of this name: set another \
                 `device` in [tunnel]"
            }
            _ => "dmesg may show the reason",
        };
        Failure::machine(format!("cannot create device {name}: {error}; {remedy}"))
    })
}

fn bind_queues(tunnel: &Tunnel) -> Result<Option<PacketQueues>, Failure> {
    let queues: Vec<u16> = tunnel.captures.iter().filter_map(|capture| capture.queue).collect();
    let bound = (!queues.is_empty()).then(|| PacketQueues::bind(&queues)).transpose();
    bound.map_err(|error| match error {
        QueueError::InUse { .. } => Failure::new(Cause::Settings, error),
        _ => Failure::machine(error),
    })
}

/// Returns the failure of an operation (`what`) that the system refused, with the remedy.
fn system_failure(what: &str, error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::PermissionDenied {
        "; capturing packets needs CAP_NET_ADMIN (systemd: AmbientCapabilities=CAP_NET_ADMIN)"
    } else {
        ""
    };
    Failure::machine(format!("{what}: {error}{remedy}"))
}

/// True if the device accepts IPv6; otherwise logs that. Some machines, and most containers, have
/// IPv6 disabled.
fn speaks_ipv6(device: &str) -> bool {
    #![allow(clippy::disallowed_methods, reason = "the system's switches are files")]
    let switched_off = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
    let speaks = switched_off.is_ok_and(|value| value.trim() == "0");
    if !speaks {
        tracing::info!(device, "IPv6 is disabled on this machine: IPv6 packets are not captured");
    }
    speaks
}

/// Returns a device with strict reverse-path filtering, if one exists. There, the system drops
/// packets whose answers would leave by another device (RFC 3704).
fn strict_device() -> Option<String> {
    #![allow(clippy::disallowed_methods, reason = "the system's switches are files")]
    let value = |device: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter")).unwrap_or_default()
    };
    // The larger of both values applies: 2 is loose.
    let of_all = value("all");
    if of_all.trim() == "2" {
        return None;
    }
    let devices = std::fs::read_dir("/proc/sys/net/ipv4/conf").ok()?.flatten();
    let mut devices = devices.filter_map(|device| device.file_name().into_string().ok());
    let is_other = |device: &String| !["all", "default", "lo"].contains(&device.as_str());
    devices.find(|device| {
        is_other(device)
            && (value(device).trim() == "1" || of_all.trim() == "1" && value(device).trim() == "0")
    })
}

/// Sets the TUN device's reverse-path filtering to loose. By the system's own routes, the source
/// addresses of peers' packets are not behind the device. Strict filtering would drop such packets
/// (RFC 3704).
fn loosen_source_check(device: &str) {
    #![allow(clippy::disallowed_methods, reason = "the system's switches are files")]
    const STRICT: &str = "1";
    const LOOSE: &str = "2";
    let switch = |of: &str| format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    let is_strict = |of: &str| std::fs::read_to_string(switch(of)).is_ok_and(|value| value.trim() == STRICT);
    if !is_strict("all") && !is_strict(device) {
        return;
    }
    if let Err(error) = std::fs::write(switch(device), LOOSE) {
        tracing::warn!(
            %error,
            "reverse-path filtering is strict, and may drop packets of peers: run sysctl -w \
             net.ipv4.conf.{device}.rp_filter=2"
        );
    }
}

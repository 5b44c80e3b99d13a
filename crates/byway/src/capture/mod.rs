//! Routing applications' packets into an agent's device, as long as their peers are there, and undoing all of it.

mod claim;
mod follow;
mod groups;
mod guard;
mod kernel;
mod pins;
mod plan;
mod renewal;
mod show;
mod watch;

use std::io;
use std::net::IpAddr;

use byway_net::{Device, DeviceSettings, PacketQueues, QueueError};
use ipnet::IpNet;

pub(crate) use follow::Follower;
pub(crate) use guard::{GuardFlags, run as guard};
pub(crate) use kernel::{Kernel, is_of_a_link};
pub(crate) use plan::priorities;
pub(crate) use renewal::follow_renewals;
pub(crate) use show::show;
pub(crate) use watch::DeviceState;

use crate::agent::Doors;
use crate::exit::{Cause, Failure};
use crate::settings::{Exposed, Tunnel};
use claim::Claim;
use guard::Guard;
use pins::Pins;
use plan::{Action, Plan, RULES_MAX, Rule, example};

/// What an agent has changed about the system, and goes on changing.
pub(crate) struct Capturing {
    kernel: Kernel,
    plan: Plan,
    inside: Vec<IpNet>,
    device: u32,
    device_name: String,
    state: DeviceState,
    guard: Guard,
    /// Held for as long as rules may be there.
    _claim: Claim,
    doors: Doors,
    /// Whether captures took packets when that was told last.
    told: Vec<bool>,
    /// The rules that were added.
    applied: Vec<Rule>,
    speaks_ipv6: bool,
    /// The plan of settings that are about to be in force, and their number, which doors name then.
    next: Option<(u64, Plan)>,
    pins: Pins,
}

/// Where captured packets come from, and where their answers go.
#[derive(Debug)]
pub(crate) struct Inlet {
    pub(crate) device: Device,
    /// Of the captures that have one.
    pub(crate) queues: Option<PacketQueues>,
    pub(crate) state: DeviceState,
    /// Whether the system takes answers of IPv6 from the device.
    pub(crate) speaks_ipv6: bool,
}

/// Makes the device and the routes, with all doors closed, and takes the queues: nothing is captured yet.
///
/// # Errors
/// If the system refuses, or something stands in the way; then nothing has been changed.
pub(crate) async fn begin(tunnel: &Tunnel, exposed: &[Exposed]) -> Result<(Capturing, Inlet), Failure> {
    let plan = Plan::new(tunnel, exposed);
    let kernel = Kernel::connect().map_err(|error| refused("its routing cannot be asked for", &error))?;
    let claim = Claim::take(tunnel.table).await?;
    check(&kernel, tunnel, &plan).await?;
    let device = create(tunnel)?;
    let speaks_ipv6 = speaks_ipv6(&tunnel.device);
    let plan = if speaks_ipv6 { plan } else { plan.without_ipv6() };
    let marks = plan.marks();
    // A former agent of this table is gone, as its device is.
    clean(tunnel.table, marks).await?;
    let guard = Guard::start(tunnel.table, marks, &claim)
        .map_err(|error| Failure::machine(format!("no process that cleans up after the agent: {error}")))?;
    let mut capturing = Capturing {
        kernel,
        plan,
        inside: tunnel.addresses.clone(),
        device: device.index(),
        device_name: tunnel.device.clone(),
        state: DeviceState::up(),
        guard,
        _claim: claim,
        doors: Doors::default(),
        told: Vec::new(),
        applied: Vec::new(),
        speaks_ipv6,
        next: None,
        pins: Pins::new(tunnel.table),
    };
    // Packets of queues wait from then on.
    let queues = match capturing.prepare(&tunnel.device).await {
        Ok(()) => bind_queues(tunnel),
        Err(failure) => Err(failure),
    };
    match queues {
        Ok(queues) => {
            let state = capturing.state.clone();
            Ok((capturing, Inlet { device, queues, state, speaks_ipv6 }))
        }
        Err(failure) => {
            capturing.guard.finish(tunnel.table).await;
            Err(failure)
        }
    }
}

impl Capturing {
    async fn prepare(&mut self, device: &str) -> Result<(), Failure> {
        loosen_source_check(device);
        if !self.inside.iter().any(|inside| inside.addr().is_ipv4()) {
            let added = self.kernel.add_nobody(self.device).await;
            added.map_err(|error| refused("the device cannot have an address", &error))?;
        }
        groups::mark(&self.plan.groups, self.plan.table)?;
        // Where Byway's own packets go by another table, rules say which addresses captured ones have.
        self.set_rules(true).await.map_err(|error| refused("a rule cannot be set", &error))?;
        self.set_routes().await.map_err(|error| refused("a route cannot be set", &error))
    }

    fn tell(&mut self) {
        for (place, open) in self.doors.captures.iter().enumerate() {
            if *open != self.told.get(place).copied().unwrap_or(false) {
                let what = if *open {
                    "packets are captured"
                } else {
                    "packets go without Byway: the peer is not there"
                };
                tracing::info!(capture = place + 1, "{what}");
            }
        }
        self.told.clone_from(&self.doors.captures);
    }

    /// Sets everything, whatever was set before: others change the system's routing too, and its addresses.
    async fn set_again(&mut self) -> io::Result<()> {
        for address in self.inside.iter().filter(|inside| inside.addr().is_ipv4() || self.speaks_ipv6) {
            self.kernel.add_address(self.device, *address).await?;
        }
        self.set_routes().await?;
        self.set_rules(true).await
    }

    /// Has the rules be that are to be while these doors are open: others go, and those that are not there are added, or all.
    async fn set_rules(&mut self, all: bool) -> io::Result<()> {
        let open = self.plan.open(&self.doors);
        // What has no rule to go by any more is not marked.
        self.pins.retain(&self.plan, &self.doors);
        // One that the system does not remove now is removed the next time.
        while let Some(place) = self.applied.iter().position(|rule| !open.contains(rule)) {
            self.kernel.remove_rule(&self.applied[place]).await?;
            self.applied.swap_remove(place);
        }
        for rule in open {
            let is_applied = self.applied.contains(&rule);
            if all || !is_applied {
                self.kernel.add_rule(&rule).await?;
            }
            if !is_applied {
                self.applied.push(rule);
            }
        }
        self.pins.add(&self.plan, &self.doors);
        Ok(())
    }

    /// Has captured packets leave with the addresses that they would have without Byway, or with the device's.
    async fn set_routes(&self) -> io::Result<()> {
        self.set_routes_of(&self.plan).await
    }

    async fn set_routes_of(&self, plan: &Plan) -> io::Result<()> {
        for route in &plan.routes {
            let source = if route.is_captured { self.source_towards(&route.to).await? } else { None };
            self.kernel.set_route(route.to, source, self.device, plan.table).await?;
        }
        Ok(())
    }

    async fn source_towards(&self, to: &IpNet) -> io::Result<Option<IpAddr>> {
        let to = example(to);
        let inside = self.inside.iter().map(IpNet::addr).find(|address| address.is_ipv4() == to.is_ipv4());
        match inside {
            Some(address) => Ok(Some(address)),
            None => Ok(self.kernel.way_to(to, self.plan.table).await?.source),
        }
    }
}

/// What an agent that is gone may have left behind is removed; how many rules there were.
///
/// # Errors
/// If an agent is at work with this table, or the system refuses.
pub(crate) async fn undo(table: u32) -> Result<usize, Failure> {
    let _claim = Claim::take(table).await?;
    clean(table, true).await
}

/// Removes all that an agent of this table has changed and not undone, first what marks packets where anything did; how many rules
/// there were.
///
/// # Errors
/// If the system refuses.
async fn clean(table: u32, marks: bool) -> Result<usize, Failure> {
    let kernel = Kernel::connect().map_err(|error| refused("its routing cannot be asked for", &error))?;
    if marks {
        groups::unmark(table);
    }
    let removed = kernel.remove_all(priorities(table)).await;
    removed.map_err(|error| refused("rules cannot be removed", &error))
}

/// What stands in the way.
async fn check(kernel: &Kernel, tunnel: &Tunnel, plan: &Plan) -> Result<(), Failure> {
    let ask = |error: io::Error| refused("its routing cannot be asked for", &error);
    let settings = |message: String| Err(Failure::new(Cause::Settings, message));
    if let Some(rule) = kernel.foreign_rule(plan).await.map_err(ask)? {
        let priority = rule.attributes.iter().find_map(|attribute| match attribute {
            rtnetlink::packet_route::rule::RuleAttribute::Priority(priority) => Some(*priority),
            _ => None,
        });
        return settings(format!(
            "somebody else's rule has the priority {} (ip rule shows it), and the agent takes {} to {}: set another table in [tunnel]",
            priority.unwrap_or_default(),
            plan.priorities().start(),
            plan.priorities().end(),
        ));
    }
    if kernel.has_routes(tunnel.table).await.map_err(ask)? {
        return settings(format!(
            "there are routes in the table {0}, perhaps of another agent (ip route show table {0}): set another table in [tunnel]",
            tunnel.table
        ));
    }
    check_plan(kernel, tunnel, plan).await
}

/// What stands in the way of a plan, wherever it is carried out.
async fn check_plan(kernel: &Kernel, tunnel: &Tunnel, plan: &Plan) -> Result<(), Failure> {
    let ask = |error: io::Error| refused("its routing cannot be asked for", &error);
    let settings = |message: String| Err(Failure::new(Cause::Settings, message));
    let rules = plan.rules.len();
    if rules > RULES_MAX {
        return settings(format!(
            "captures and networks would take {rules} rules, of {RULES_MAX} at most: name prefixes in the place of many addresses, and ranges of ports"
        ));
    }
    let takes_all_ports = |rule: &Rule| rule.source_ports.is_none() && rule.destination_ports.is_none();
    let is_wide = plan.rules.iter().any(|(_, rule)| {
        rule.action == Action::Lookup && !rule.is_ipv6 && takes_all_ports(rule) && !plan.is_of_pins(rule)
    });
    if let Some(strict) = strict_device().filter(|_| tunnel.own_table.is_some()) {
        return settings(format!(
            "Byway's own packets go by another table than others, and the system checks sources strictly at {strict}: it would drop what \
             comes back: sysctl -w net.ipv4.conf.all.rp_filter=2"
        ));
    }
    if let Some(strict) = strict_device().filter(|_| is_wide) {
        return settings(format!(
            "what is captured is not limited to ports, and the system checks sources strictly at {strict}: it would drop what comes from there \
             by other ways, Byway's packets among them: sysctl -w net.ipv4.conf.all.rp_filter=2, or name ports"
        ));
    }
    for (place, capture) in tunnel.captures.iter().enumerate() {
        for to in capture.selection.prefixes.iter().filter(|to| to.prefix_len() == to.max_prefix_len()) {
            if kernel.way_to(to.addr(), tunnel.table).await.map_err(ask)?.is_local {
                return settings(format!(
                    "the capture number {} names {}, which is an address of this machine: what goes there never leaves it",
                    place + 1,
                    to.addr()
                ));
            }
        }
    }
    Ok(())
}

fn create(tunnel: &Tunnel) -> Result<Device, Failure> {
    let settings = DeviceSettings {
        name: tunnel.device.clone(),
        mtu: tunnel.mtu,
        addresses: tunnel.addresses.iter().map(|inside| (inside.addr(), inside.prefix_len())).collect(),
    };
    Device::create(&settings).map_err(|error| {
        let name = &tunnel.device;
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error()) => {
                "/dev/net/tun may not be opened: let everybody open it, as on most systems (chmod 0666 /dev/net/tun), and with systemd set \
                 PrivateDevices=no; making devices then takes CAP_NET_ADMIN, which forwards do not need"
            }
            io::ErrorKind::PermissionDenied => {
                "capturing packets takes CAP_NET_ADMIN: with systemd AmbientCapabilities=CAP_NET_ADMIN, else setcap cap_net_admin+ep on \
                 the program; forwards need none"
            }
            io::ErrorKind::NotFound => {
                "there is no /dev/net/tun: load the module (modprobe tun), or give the container the device"
            }
            io::ErrorKind::ResourceBusy => {
                "another program has a device of this name, perhaps another agent: name another one in [tunnel]"
            }
            _ => "see dmesg for what the system says of it",
        };
        Failure::machine(format!("no device {name}: {error}: {remedy}"))
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

/// What the system refused.
fn refused(what: &str, error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::PermissionDenied {
        ": capturing packets takes CAP_NET_ADMIN (systemd: AmbientCapabilities=CAP_NET_ADMIN)"
    } else {
        ""
    };
    Failure::machine(format!("the system refuses: {what}: {error}{remedy}"))
}

/// Whether the device takes IPv6: on some machines, and in most containers, it is switched off.
fn speaks_ipv6(device: &str) -> bool {
    #![allow(clippy::disallowed_methods, reason = "the system's switches are files")]
    let switched_off = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
    let speaks = switched_off.is_ok_and(|value| value.trim() == "0");
    if !speaks {
        tracing::info!(device, "this machine does not speak IPv6: packets of it are not captured");
    }
    speaks
}

/// A device at which the system drops packets whose answers would not leave by it (RFC 3704, strict), if there is one.
fn strict_device() -> Option<String> {
    #![allow(clippy::disallowed_methods, reason = "the system's switches are files")]
    let value = |device: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter")).unwrap_or_default()
    };
    // The larger of both holds: loose is 2.
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

/// Peers' packets come from addresses that are not behind the device by the system's own routes: a strict check of sources (RFC 3704)
/// would drop them, a loose one does not.
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
            "the system checks sources strictly, and may drop what peers send: sysctl -w net.ipv4.conf.{device}.rp_filter=2"
        );
    }
}

//! Rules and routes of the system, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use byway_config_types::Protocol;
use futures_util::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressScope};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange, RuleUidRange};
use rtnetlink::{Handle, IpVersion, RouteMessageBuilder};
use tokio::task::JoinHandle;

use super::plan::{Action, RoutingPlan, Rule};

/// Origin that the system stores with each rule and route of Byway: a number that no other program
/// uses.
const RTPROT_BYWAY: RouteProtocol = RouteProtocol::Other(98);

/// Address for devices that have none. Even with loose reverse-path filtering, Linux drops packets
/// from a device without an address if it would not send to their source through that device. No
/// packet from another machine has this address.
pub(crate) const PLACEHOLDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 46, 0, 0);

/// Netlink connection to the kernel, for rules, routes, addresses and devices.
pub(crate) struct RouteNetlink {
    handle: Handle,
    connection: JoinHandle<()>,
}

/// Result of a lookup of the system's route to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteLookup {
    /// Source address of this machine's packets to the address; `None` if the route names none.
    pub(crate) source: Option<IpAddr>,
    /// True if the address belongs to this machine.
    pub(crate) is_local: bool,
    /// Interface index of the device by which packets to the address leave.
    pub(crate) device: Option<u32>,
}

/// Network device of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetDevice {
    pub(crate) index: u32,
    /// Longest packet that the device accepts, in bytes, with its IP header.
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
}

impl Drop for RouteNetlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl RouteNetlink {
    pub(crate) fn connect() -> io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        Ok(Self { handle, connection: tokio::spawn(connection) })
    }

    /// Returns the routing rules of these priorities, each with true if it is Byway's own.
    pub(crate) async fn rules(
        &self,
        priorities: RangeInclusive<u32>,
    ) -> io::Result<Vec<(RuleMessage, bool)>> {
        let mut found = Vec::new();
        for version in [IpVersion::V4, IpVersion::V6] {
            let rules = self.handle.rule().get(version).execute();
            let rules: Vec<RuleMessage> = match rules.try_collect().await {
                Ok(rules) => rules,
                // A kernel without this version of IP has no rules for it.
                Err(error) if UNSUPPORTED_FAMILY_ERRNOS.contains(&error_code(&error)) => continue,
                Err(error) => return Err(io_error(&error)),
            };
            let has_priority = |rule: &RuleMessage| {
                rule.attributes.iter().any(|attribute| {
                    matches!(attribute, RuleAttribute::Priority(priority) if priorities.contains(priority))
                })
            };
            let is_ours =
                |rule: &RuleMessage| rule.attributes.contains(&RuleAttribute::Protocol(RTPROT_BYWAY));
            found.extend(rules.into_iter().filter(has_priority).map(|rule| {
                let is_ours = is_ours(&rule);
                (rule, is_ours)
            }));
        }
        Ok(found)
    }

    /// True if a routing table has routes. The routes of an agent that has ended disappeared with
    /// its device.
    pub(crate) async fn has_routes(&self, table: u32) -> io::Result<bool> {
        let is_in_table = |route: &RouteMessage| route.attributes.contains(&RouteAttribute::Table(table));
        Ok(self.routes().await?.iter().any(is_in_table))
    }

    /// Returns the system's routes of all routing tables, for both versions of IP.
    async fn routes(&self) -> io::Result<Vec<RouteMessage>> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let routes = self.handle.route().get(message).execute();
            let routes: Vec<RouteMessage> = routes.try_collect().await.map_err(|error| io_error(&error))?;
            all.extend(routes);
        }
        Ok(all)
    }

    /// True if a routing table routes at least half of the Internet to a device.
    pub(crate) async fn has_broad_route(&self, table: u32, device: u32) -> io::Result<bool> {
        let is_broad = |route: &RouteMessage| {
            route.header.destination_prefix_length <= 1
                && route.attributes.contains(&RouteAttribute::Table(table))
                && route.attributes.contains(&RouteAttribute::Oif(device))
        };
        Ok(self.routes().await?.iter().any(is_broad))
    }

    /// Returns the system's route to an address for packets with this mark; the default value if
    /// there is no route.
    pub(crate) async fn lookup_route(&self, address: IpAddr, mark: u32) -> io::Result<RouteLookup> {
        let length = if address.is_ipv4() { 32 } else { 128 };
        let message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(address, length)
            .map_err(io::Error::other)?;
        let message = message.mark(mark).build();
        let routes = self.handle.route().get(message).execute();
        let Ok(routes) = routes.try_collect::<Vec<RouteMessage>>().await else {
            return Ok(RouteLookup::default());
        };
        let Some(route) = routes.first() else {
            return Ok(RouteLookup::default());
        };
        let source = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(source)) => Some((*source).into()),
            // A link-local address is useless on another link.
            RouteAttribute::PrefSource(RouteAddress::Inet6(source)) if !source.is_unicast_link_local() => {
                Some((*source).into())
            }
            _ => None,
        });
        let device = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(device) => Some(*device),
            _ => None,
        });
        Ok(RouteLookup { source, is_local: route.header.kind == RouteType::Local, device })
    }

    /// Returns the device of this name; `None` if it does not exist.
    pub(crate) async fn device(&self, name: &str) -> io::Result<Option<NetDevice>> {
        let links = self.handle.link().get().match_name(name.to_owned()).execute();
        let links: Vec<_> = match links.try_collect().await {
            Ok(links) => links,
            Err(error) if error_code(&error).is_some_and(|code| NO_DEVICE_ERRNOS.contains(&code)) => {
                return Ok(None);
            }
            Err(error) => return Err(io_error(&error)),
        };
        Ok(links.first().map(|link| {
            let mtu = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
            let is_up = link.header.flags.contains(LinkFlags::Up);
            NetDevice { index: link.header.index, mtu: mtu.unwrap_or_default(), is_up }
        }))
    }

    /// Returns the addresses of this machine that other machines may use: no loopback or link-local
    /// ones, and none of the device `but`.
    pub(crate) async fn addresses(&self, but: u32) -> io::Result<Vec<IpAddr>> {
        let all = self.handle.address().get().execute();
        let all: Vec<_> = all.try_collect().await.map_err(|error| io_error(&error))?;
        let mut found = Vec::new();
        for message in all.into_iter().filter(|message| message.header.index != but) {
            // On a point-to-point link, `Address` is the other end's.
            let of =
                |wanted: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(wanted);
            let local = of(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            let address = local.or_else(|| {
                of(|attribute| match attribute {
                    AddressAttribute::Address(address) => Some(*address),
                    _ => None,
                })
            });
            let is_known = |address: &IpAddr| {
                !address.is_loopback()
                    && !is_link_local(*address)
                    && *address != IpAddr::from(PLACEHOLDER_ADDRESS)
            };
            found.extend(address.filter(is_known));
        }
        Ok(found)
    }

    /// Adds [`PLACEHOLDER_ADDRESS`] to a device. No packet of this machine has it as its source.
    pub(crate) async fn add_placeholder_address(&self, device: u32) -> io::Result<()> {
        let mut request = self.handle.address().add(device, PLACEHOLDER_ADDRESS.into(), 32);
        request.message_mut().header.scope = AddressScope::Host;
        request.execute().await.or_else(|error| ignore_error(&error, EEXIST, io_error(&error)))
    }

    /// Adds an address to a device, unless the device has it already.
    pub(crate) async fn add_address(&self, device: u32, address: IpNet) -> io::Result<()> {
        let request = self.handle.address().add(device, address.addr(), address.prefix_len());
        request.execute().await.or_else(|error| ignore_error(&error, EEXIST, io_error(&error)))
    }

    /// Sets a routing table's route: packets to a prefix go into a device. Replaces the table's
    /// former route to the prefix.
    pub(crate) async fn set_route(
        &self,
        to: IpNet,
        source: Option<IpAddr>,
        device: u32,
        table: u32,
    ) -> io::Result<()> {
        let message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to.addr(), to.prefix_len())
            .map_err(io::Error::other)?;
        let message = match source {
            Some(source) => message.pref_source(source).map_err(io::Error::other)?,
            None => message,
        };
        let message =
            message.output_interface(device).table_id(table).protocol(RTPROT_BYWAY).scope(RouteScope::Link);
        self.handle.route().add(message.build()).replace().execute().await.map_err(|error| io_error(&error))
    }

    pub(crate) async fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = rule_message(rule);
        request.execute().await.or_else(|error| ignore_error(&error, EEXIST, io_error(&error)))
    }

    pub(crate) async fn remove_rule(&self, rule: &Rule) -> io::Result<()> {
        let removed = self.handle.rule().del(rule_message(rule)).execute().await;
        removed.or_else(|error| ignore_error(&error, ENOENT, io_error(&error)))
    }

    /// Removes all of Byway's routing rules of these priorities, and returns their number. Those
    /// that exclude its own packets are the last ones.
    pub(crate) async fn remove_all(&self, priorities: RangeInclusive<u32>) -> io::Result<usize> {
        let mut removed = 0;
        for (rule, is_ours) in self.rules(priorities).await?.into_iter().rev() {
            if is_ours {
                let result = self.handle.rule().del(rule).execute().await;
                result.or_else(|error| ignore_error(&error, ENOENT, io_error(&error)))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns a routing rule of another program that has one of the plan's priorities; `None` if
    /// there is none.
    pub(crate) async fn foreign_rule(&self, plan: &RoutingPlan) -> io::Result<Option<RuleMessage>> {
        let rules = self.rules(plan.priorities()).await?;
        Ok(rules.into_iter().find(|(_, is_ours)| !is_ours).map(|(rule, _)| rule))
    }
}

/// True if an address is link-local, and so valid on one link only.
pub(crate) const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Error numbers of the system for a device that does not exist, or has a name that is too long.
const NO_DEVICE_ERRNOS: [i32; 3] = [
    rustix::io::Errno::NODEV.raw_os_error(),
    rustix::io::Errno::INVAL.raw_os_error(),
    rustix::io::Errno::RANGE.raw_os_error(),
];

/// Error numbers of the system for an object that exists already, and for one that does not exist.
const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();

/// Error numbers of the system for an IP version that it does not support.
const UNSUPPORTED_FAMILY_ERRNOS: [Option<i32>; 2] =
    [Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()), Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())];

fn ignore_error(error: &rtnetlink::Error, expected: i32, otherwise: io::Error) -> io::Result<()> {
    if error_code(error) == Some(expected) { Ok(()) } else { Err(otherwise) }
}

fn error_code(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io().raw_os_error(),
        _ => None,
    }
}

fn io_error(error: &rtnetlink::Error) -> io::Error {
    match error_code(error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    }
}

/// Converts a routing rule into the kernel's message.
fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.table = RouteHeader::RT_TABLE_UNSPEC;
    let attributes = &mut message.attributes;
    attributes.extend([RuleAttribute::Priority(rule.priority), RuleAttribute::Protocol(RTPROT_BYWAY)]);
    header.action = match rule.action {
        Action::Lookup => {
            attributes.push(RuleAttribute::Table(rule.table));
            RuleAction::ToTable
        }
        Action::LookupOnLink => {
            attributes.push(RuleAttribute::Table(u32::from(RouteHeader::RT_TABLE_MAIN)));
            attributes.push(RuleAttribute::SuppressPrefixLen(0));
            RuleAction::ToTable
        }
        Action::LookupIn(table) => {
            attributes.push(RuleAttribute::Table(table));
            RuleAction::ToTable
        }
        Action::PassTo(priority) => {
            attributes.push(RuleAttribute::Goto(priority));
            RuleAction::Goto
        }
        Action::Nothing => RuleAction::Nop,
    };
    if let Some(to) = rule.to.filter(|to| to.prefix_len() > 0) {
        header.dst_len = to.prefix_len();
        attributes.push(RuleAttribute::Destination(to.addr()));
    }
    attributes.extend(rule.mark.map(RuleAttribute::FwMark));
    attributes.extend(
        rule.users
            .as_ref()
            .map(|users| RuleAttribute::UidRange(RuleUidRange { start: *users.start(), end: *users.end() })),
    );
    attributes.extend(rule.protocol.map(|protocol| {
        RuleAttribute::IpProtocol(match protocol {
            Protocol::Tcp => rtnetlink::packet_route::IpProtocol::Tcp,
            Protocol::Udp => rtnetlink::packet_route::IpProtocol::Udp,
        })
    }));
    let range = |ports: &RangeInclusive<u16>| RulePortRange { start: *ports.start(), end: *ports.end() };
    attributes.extend(rule.source_ports.as_ref().map(range).map(RuleAttribute::SourcePortRange));
    attributes.extend(rule.destination_ports.as_ref().map(range).map(RuleAttribute::DestinationPortRange));
    message
}

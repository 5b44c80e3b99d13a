//! The system's routing: rules and routes, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use byway_typed::Protocol;
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

use super::plan::{Action, Plan, Rule};

/// Who made a rule or route, as the system notes it: a number that no other program has taken.
const MADE_BY: RouteProtocol = RouteProtocol::Other(98);

/// The address of devices that have none. Without any, Linux drops what comes by a device from where it would not send by it, also where it
/// checks sources loosely; of this machine's own addresses, nothing comes from elsewhere anyway.
pub(crate) const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 46, 0, 0);

/// A talk with the system about its routing.
pub(crate) struct Kernel {
    handle: Handle,
    connection: JoinHandle<()>,
}

/// Where the system sends packets to an address without Byway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// The address that packets of this machine have then.
    pub(crate) source: Option<IpAddr>,
    /// Whether it is the address of this machine.
    pub(crate) is_local: bool,
    /// By which device.
    pub(crate) device: Option<u32>,
}

/// A network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    /// The longest packet it takes, in bytes with its IP header.
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Kernel {
    pub(crate) fn connect() -> io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        Ok(Self { handle, connection: tokio::spawn(connection) })
    }

    /// The rules of these priorities, and whether Byway made them.
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
                Err(error) if UNSPOKEN.contains(&error_code(&error)) => continue,
                Err(error) => return Err(error_of(&error)),
            };
            let is_there = |rule: &RuleMessage| {
                rule.attributes.iter().any(|attribute| {
                    matches!(attribute, RuleAttribute::Priority(priority) if priorities.contains(priority))
                })
            };
            let is_ours = |rule: &RuleMessage| rule.attributes.contains(&RuleAttribute::Protocol(MADE_BY));
            found.extend(rules.into_iter().filter(is_there).map(|rule| {
                let is_ours = is_ours(&rule);
                (rule, is_ours)
            }));
        }
        Ok(found)
    }

    /// Whether somebody has routes in a table: those of an agent that is gone went with its device.
    pub(crate) async fn has_routes(&self, table: u32) -> io::Result<bool> {
        let is_of_it = |route: &RouteMessage| route.attributes.contains(&RouteAttribute::Table(table));
        Ok(self.routes().await?.iter().any(is_of_it))
    }

    /// All routes of all tables.
    async fn routes(&self) -> io::Result<Vec<RouteMessage>> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let routes = self.handle.route().get(message).execute();
            let routes: Vec<RouteMessage> = routes.try_collect().await.map_err(|error| error_of(&error))?;
            all.extend(routes);
        }
        Ok(all)
    }

    /// Whether a table has what goes to half of the Internet or more leave by a device.
    pub(crate) async fn leads_most_by(&self, table: u32, device: u32) -> io::Result<bool> {
        let is_such = |route: &RouteMessage| {
            route.header.destination_prefix_length <= 1
                && route.attributes.contains(&RouteAttribute::Table(table))
                && route.attributes.contains(&RouteAttribute::Oif(device))
        };
        Ok(self.routes().await?.iter().any(is_such))
    }

    /// Where packets with this mark go to an address; nowhere in particular if there is no route.
    pub(crate) async fn way_to(&self, address: IpAddr, mark: u32) -> io::Result<Way> {
        let length = if address.is_ipv4() { 32 } else { 128 };
        let message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(address, length)
            .map_err(io::Error::other)?;
        let message = message.mark(mark).build();
        let routes = self.handle.route().get(message).execute();
        let Ok(routes) = routes.try_collect::<Vec<RouteMessage>>().await else {
            return Ok(Way::default());
        };
        let Some(route) = routes.first() else {
            return Ok(Way::default());
        };
        let source = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(source)) => Some((*source).into()),
            // That of a link is of no use on another one.
            RouteAttribute::PrefSource(RouteAddress::Inet6(source)) if !source.is_unicast_link_local() => {
                Some((*source).into())
            }
            _ => None,
        });
        let device = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(device) => Some(*device),
            _ => None,
        });
        Ok(Way { source, is_local: route.header.kind == RouteType::Local, device })
    }

    /// The device of a name, if there is one.
    pub(crate) async fn link(&self, name: &str) -> io::Result<Option<Link>> {
        let links = self.handle.link().get().match_name(name.to_owned()).execute();
        let links: Vec<_> = match links.try_collect().await {
            Ok(links) => links,
            Err(error) if error_code(&error).is_some_and(|code| NO_DEVICE.contains(&code)) => {
                return Ok(None);
            }
            Err(error) => return Err(error_of(&error)),
        };
        Ok(links.first().map(|link| {
            let mtu = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
            let is_up = link.header.flags.contains(LinkFlags::Up);
            Link { index: link.header.index, mtu: mtu.unwrap_or_default(), is_up }
        }))
    }

    /// The addresses of this machine that others may know: none of its loopback's or of single links, and none of this device's.
    pub(crate) async fn addresses(&self, but: u32) -> io::Result<Vec<IpAddr>> {
        let all = self.handle.address().get().execute();
        let all: Vec<_> = all.try_collect().await.map_err(|error| error_of(&error))?;
        let mut found = Vec::new();
        for message in all.into_iter().filter(|message| message.header.index != but) {
            // Of a link with two ends, `Address` is the other end's.
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
                !address.is_loopback() && !is_of_a_link(*address) && *address != IpAddr::from(NOBODY)
            };
            found.extend(address.filter(is_known));
        }
        Ok(found)
    }

    /// Gives a device [`NOBODY`], an address that nothing here is sent from.
    pub(crate) async fn add_nobody(&self, device: u32) -> io::Result<()> {
        let mut request = self.handle.address().add(device, NOBODY.into(), 32);
        request.message_mut().header.scope = AddressScope::Host;
        request.execute().await.or_else(|error| unless(&error, EXISTS, error_of(&error)))
    }

    /// Gives a device an address, if it does not have it.
    pub(crate) async fn add_address(&self, device: u32, address: IpNet) -> io::Result<()> {
        let request = self.handle.address().add(device, address.addr(), address.prefix_len());
        request.execute().await.or_else(|error| unless(&error, EXISTS, error_of(&error)))
    }

    /// Has what goes to a prefix go into a device, by a table; in place of how it went before.
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
            message.output_interface(device).table_id(table).protocol(MADE_BY).scope(RouteScope::Link);
        self.handle.route().add(message.build()).replace().execute().await.map_err(|error| error_of(&error))
    }

    pub(crate) async fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = message(rule);
        request.execute().await.or_else(|error| unless(&error, EXISTS, error_of(&error)))
    }

    pub(crate) async fn remove_rule(&self, rule: &Rule) -> io::Result<()> {
        let removed = self.handle.rule().del(message(rule)).execute().await;
        removed.or_else(|error| unless(&error, ABSENT, error_of(&error)))
    }

    /// Removes all of Byway's rules of these priorities, those that keep its own packets out last; how many there were.
    pub(crate) async fn remove_all(&self, priorities: RangeInclusive<u32>) -> io::Result<usize> {
        let mut removed = 0;
        for (rule, is_ours) in self.rules(priorities).await?.into_iter().rev() {
            if is_ours {
                let gone = self.handle.rule().del(rule).execute().await;
                gone.or_else(|error| unless(&error, ABSENT, error_of(&error)))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Rules that others have among those of a plan.
    pub(crate) async fn foreign_rule(&self, plan: &Plan) -> io::Result<Option<RuleMessage>> {
        let rules = self.rules(plan.priorities()).await?;
        Ok(rules.into_iter().find(|(_, is_ours)| !is_ours).map(|(rule, _)| rule))
    }
}

/// Whether an address means something on one link alone.
pub(crate) const fn is_of_a_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// What the system says of devices that are not there, or whose names are too long for one.
const NO_DEVICE: [i32; 3] = [
    rustix::io::Errno::NODEV.raw_os_error(),
    rustix::io::Errno::INVAL.raw_os_error(),
    rustix::io::Errno::RANGE.raw_os_error(),
];

/// What the system says of what is there already, and of what is not there.
const EXISTS: i32 = rustix::io::Errno::EXIST.raw_os_error();
const ABSENT: i32 = rustix::io::Errno::NOENT.raw_os_error();

/// And of a version of IP that it does not speak.
const UNSPOKEN: [Option<i32>; 2] =
    [Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()), Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())];

fn unless(error: &rtnetlink::Error, expected: i32, otherwise: io::Error) -> io::Result<()> {
    if error_code(error) == Some(expected) { Ok(()) } else { Err(otherwise) }
}

fn error_code(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io().raw_os_error(),
        _ => None,
    }
}

fn error_of(error: &rtnetlink::Error) -> io::Error {
    match error_code(error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    }
}

/// A rule as the system takes it.
fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.table = RouteHeader::RT_TABLE_UNSPEC;
    let attributes = &mut message.attributes;
    attributes.extend([RuleAttribute::Priority(rule.priority), RuleAttribute::Protocol(MADE_BY)]);
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

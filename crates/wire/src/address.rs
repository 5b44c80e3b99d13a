//! Network addresses of nodes, as messages announce them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::ParseError;
use crate::reader::Reader;
use crate::writer::Output;

/// Prefix length of an IPv4 network: the longest prefix that is routed on the Internet.
pub const IPV4_NETWORK_BITS: u32 = 24;

/// Prefix length of an IPv6 network: the largest assignment to a site (RFC 6177). One customer thus
/// has up to 65,536 links.
pub const IPV6_NETWORK_BITS: u32 = 48;

/// Length in bytes of the longest address in a message: family, IPv6 address, port.
pub(crate) const ADDRESS_BYTES_MAX: usize = 19;

/// IP address and UDP port: a [`SocketAddr`] without the flow label and scope of IPv6, which have
/// no meaning on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The UDP port.
    pub port: u16,
}

impl Address {
    /// Length of [`Address::mapped`], in bytes.
    pub const MAPPED_BYTES: usize = 18;

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let ip = match reader.u8("family of an address")? {
            4 => Ipv4Addr::from(*reader.array::<4>("IPv4 address")?).into(),
            6 => Ipv6Addr::from(*reader.array::<16>("IPv6 address")?).into(),
            family => return Err(reader.illegal("family of an address", family, "4, 6")),
        };
        Ok(Self { ip, port: reader.u16("port")? })
    }

    pub(crate) fn emit(&self, output: &mut Output<'_>) {
        match self.ip {
            IpAddr::V4(ip) => {
                output.u8(4);
                output.bytes(&ip.octets());
            }
            IpAddr::V6(ip) => {
                output.u8(6);
                output.bytes(&ip.octets());
            }
        }
        output.u16(self.port);
    }

    /// Encodes the address at a fixed length, for cookies: IPv4 in its IPv6-mapped form (RFC 4291
    /// section 2.5.5.2), then the port.
    #[must_use]
    pub fn mapped(&self) -> [u8; Self::MAPPED_BYTES] {
        let ip = match self.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut bytes = [0; Self::MAPPED_BYTES];
        let (ip_bytes, port_bytes) = bytes.split_at_mut(16);
        ip_bytes.copy_from_slice(&ip.octets());
        port_bytes.copy_from_slice(&self.port.to_be_bytes());
        bytes
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port() }
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        Self::new(address.ip, address.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_one_mapped_length() {
        let v4 = Address { ip: Ipv4Addr::new(192, 0, 2, 1).into(), port: 0x1234 };
        assert_eq!(v4.mapped(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1, 0x12, 0x34]);
        let v6 = Address { ip: Ipv6Addr::LOCALHOST.into(), port: 5 };
        assert_eq!(v6.mapped(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5]);
    }

    #[test]
    fn the_scope_of_an_address_stays_on_its_machine() {
        let scoped = core::net::SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5, 7, 9);
        let address = Address::from(SocketAddr::from(scoped));
        assert_eq!(SocketAddr::from(address), SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 5));
    }
}

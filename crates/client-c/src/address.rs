//! Network addresses in the C interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use crate::error::{Error, ErrorDetail};

/// Network address of a datagram's source or destination.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Address {
    /// IP address in network byte order: four bytes followed by zeros, or sixteen bytes.
    pub ip: [u8; 16],
    /// Scope of a link-local IPv6 address, otherwise 0.
    pub scope: u32,
    /// UDP port, in host byte order.
    pub port: u16,
    /// Address family: 4 or 6.
    pub family: u8,
}

impl Address {
    pub(crate) fn socket_address(&self) -> Result<SocketAddr, ErrorDetail> {
        let Self { ip, scope, port, family } = *self;
        let [a, b, c, d, ..] = ip;
        match family {
            4 => Ok((Ipv4Addr::new(a, b, c, d), port).into()),
            6 => Ok(SocketAddrV6::new(ip.into(), port, 0, scope).into()),
            _ => Err(ErrorDetail::about(Error::OutOfRange, "the family of an address is 4 or 6")),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let scope = if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 };
        let mut ip = [0; 16];
        match address.ip() {
            IpAddr::V4(four) => ip[..4].copy_from_slice(&four.octets()),
            IpAddr::V6(six) => ip = six.octets(),
        }
        Self { ip, scope, port: address.port(), family: if address.is_ipv4() { 4 } else { 6 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_others_are_errors() {
        for text in ["192.0.2.1:4600", "[2001:db8::1]:9", "[fe80::1%7]:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(Address::from(address).socket_address().ok(), Some(address));
        }
        for family in [0, 5, 255] {
            assert!(Address { family, ..Address::default() }.socket_address().is_err());
        }
    }
}

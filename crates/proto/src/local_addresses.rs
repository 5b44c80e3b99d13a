//! The addresses of a machine that datagrams come to, for its driver to answer from.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::limits::LOCAL_ADDRESSES_MAX;
use crate::network_path::LocalAddress;

/// An address of this machine, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    address: IpAddr,
    /// True if the kernel refused to send from it, and nothing has come to it since.
    is_gone: bool,
}

/// The addresses of this machine that datagrams came to, by number.
///
/// Of too many, the number of the oldest is given to the newest. Answers to the oldest then leave from another address until its
/// next datagram comes.
#[derive(Debug, Default)]
pub struct LocalAddresses {
    known: Vec<Known>,
    /// The place that was found last: mostly all datagrams come to one address.
    latest: usize,
    /// The place that is given to another address next.
    oldest: usize,
    /// Numbers that were given to another address.
    replaced: u64,
}

impl LocalAddresses {
    /// Returns the number of an address that a datagram came to.
    #[inline]
    #[must_use]
    pub fn number(&mut self, address: IpAddr) -> LocalAddress {
        match self.known.get(self.latest) {
            Some(known) if known.address == address && !known.is_gone => number(self.latest),
            _ => self.find(address),
        }
    }

    #[cold]
    fn find(&mut self, address: IpAddr) -> LocalAddress {
        if !may_be_source(address) {
            return LocalAddress::ANY;
        }
        let known = Known { address, is_gone: false };
        let place = self.known.iter().position(|known| known.address == address);
        let place = place.unwrap_or_else(|| {
            if self.known.len() < LOCAL_ADDRESSES_MAX {
                self.known.push(known);
                return self.known.len() - 1;
            }
            self.replaced += 1;
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % LOCAL_ADDRESSES_MAX;
            oldest
        });
        self.known[place] = known;
        self.latest = place;
        number(place)
    }

    /// Returns the address with a number; `None` if the system chooses, or the address is gone.
    #[inline]
    #[must_use]
    pub fn source(&self, local: LocalAddress) -> Option<IpAddr> {
        let place = usize::from(local.number()).checked_sub(1)?;
        self.known.get(place).filter(|known| !known.is_gone).map(|known| known.address)
    }

    /// Returns how many numbers were given to another address.
    #[must_use]
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Leaves the source to the system until a datagram comes to this address again.
    pub fn note_gone(&mut self, local: LocalAddress) {
        let place = usize::from(local.number()).checked_sub(1);
        if let Some(known) = place.and_then(|place| self.known.get_mut(place)) {
            known.is_gone = true;
        }
    }
}

fn number(place: usize) -> LocalAddress {
    LocalAddress::new(u16::try_from(place + 1).expect("checked where the limit is"))
}

/// Returns false for addresses that no datagram leaves from, and for those that only their interface tells apart.
fn may_be_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn address(number: usize) -> IpAddr {
        let number = u32::try_from(number).expect("few");
        Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + number).into()
    }

    #[test]
    fn each_address_has_a_number_of_its_own_and_keeps_it() {
        let mut addresses = LocalAddresses::default();
        let numbers = [0, 1, 0, 2, 1].map(|number| addresses.number(address(number)));
        assert_eq!(numbers.map(LocalAddress::number), [1, 2, 1, 3, 2]);
        assert_eq!(addresses.source(numbers[3]), Some(address(2)));
        assert_eq!(addresses.source(LocalAddress::ANY), None);
        assert_eq!(addresses.source(LocalAddress::new(9)), None, "nobody has that number");
    }

    #[test]
    fn an_address_that_is_gone_is_no_source_until_a_datagram_comes_to_it() {
        let mut addresses = LocalAddresses::default();
        let local = addresses.number(address(0));
        addresses.note_gone(local);
        assert_eq!(addresses.source(local), None);
        assert_eq!(addresses.number(address(0)), local);
        assert_eq!(addresses.source(local), Some(address(0)));
    }

    #[test]
    fn of_too_many_addresses_the_oldest_gives_way_and_is_counted() {
        let mut addresses = LocalAddresses::default();
        let first = addresses.number(address(0));
        for number in 1..=LOCAL_ADDRESSES_MAX {
            assert!(!addresses.number(address(number)).is_any());
        }
        assert_eq!(addresses.source(first), Some(address(LOCAL_ADDRESSES_MAX)));
        assert_eq!((addresses.known.len(), addresses.replaced), (LOCAL_ADDRESSES_MAX, 1));
    }

    #[test]
    fn nothing_leaves_from_a_group_or_from_an_address_without_its_interface() {
        for address in ["255.255.255.255", "239.1.1.1", "0.0.0.0", "ff02::1", "fe80::1", "::"] {
            let address = address.parse().expect("an address");
            assert_eq!(LocalAddresses::default().number(address), LocalAddress::ANY, "{address}");
        }
    }
}

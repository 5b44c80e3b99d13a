//! Local addresses of a machine that received datagrams: its driver sends answers from them.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::limits::LOCAL_ADDRESSES_MAX;
use crate::network_path::LocalAddress;

/// Local address of this machine that has received a datagram.
#[derive(Clone, Copy, Debug)]
struct KnownAddress {
    address: IpAddr,
    /// True if the kernel refused to send from the address, and it has received no datagram since.
    is_removed: bool,
}

/// Numbered table of this machine's addresses that received datagrams.
///
/// If there are more than [`LOCAL_ADDRESSES_MAX`], the newest replaces the oldest, and gets its
/// number. Answers to datagrams at the oldest then leave from another address until its next
/// datagram.
#[derive(Debug, Default)]
pub struct LocalAddresses {
    entries: Vec<KnownAddress>,
    /// Index of the address found last: usually, all datagrams arrive at one address.
    latest: usize,
    /// Index of the entry that the next new address replaces, if the table is full.
    oldest: usize,
    /// Number of addresses that newer ones have replaced so far.
    replaced: u64,
}

impl LocalAddresses {
    /// Returns the number of a local address that received a datagram; a new address gets one.
    /// Returns [`LocalAddress::ANY`] for an address that no datagram may leave from.
    #[inline]
    #[must_use]
    pub fn number(&mut self, address: IpAddr) -> LocalAddress {
        match self.entries.get(self.latest) {
            Some(known) if known.address == address && !known.is_removed => number(self.latest),
            _ => self.find(address),
        }
    }

    #[cold]
    fn find(&mut self, address: IpAddr) -> LocalAddress {
        if !may_be_source(address) {
            return LocalAddress::ANY;
        }
        let known = KnownAddress { address, is_removed: false };
        let index = self.entries.iter().position(|known| known.address == address);
        let index = index.unwrap_or_else(|| {
            if self.entries.len() < LOCAL_ADDRESSES_MAX {
                self.entries.push(known);
                return self.entries.len() - 1;
            }
            self.replaced += 1;
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % LOCAL_ADDRESSES_MAX;
            oldest
        });
        self.entries[index] = known;
        self.latest = index;
        number(index)
    }

    /// Returns the address with a number; `None` if the system chooses, or the address was removed.
    #[inline]
    #[must_use]
    pub fn source(&self, local: LocalAddress) -> Option<IpAddr> {
        let index = usize::from(local.number()).checked_sub(1)?;
        self.entries.get(index).filter(|known| !known.is_removed).map(|known| known.address)
    }

    /// Returns the number of addresses that newer ones have replaced.
    #[must_use]
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Records that the kernel refuses to send from an address. The system chooses the source until
    /// the address receives a datagram again.
    pub fn note_removed(&mut self, local: LocalAddress) {
        let index = usize::from(local.number()).checked_sub(1);
        if let Some(known) = index.and_then(|index| self.entries.get_mut(index)) {
            known.is_removed = true;
        }
    }
}

fn number(index: usize) -> LocalAddress {
    LocalAddress::new(u16::try_from(index + 1).expect("the table has at most LOCAL_ADDRESSES_MAX entries"))
}

/// Returns false for broadcast, multicast and unspecified addresses, and for link-local ones, which
/// are ambiguous without their interface.
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
        assert_eq!(addresses.source(LocalAddress::new(9)), None, "no address has that number");
    }

    #[test]
    fn an_address_that_is_gone_is_no_source_until_a_datagram_comes_to_it() {
        let mut addresses = LocalAddresses::default();
        let local = addresses.number(address(0));
        addresses.note_removed(local);
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
        assert_eq!((addresses.entries.len(), addresses.replaced), (LOCAL_ADDRESSES_MAX, 1));
    }

    #[test]
    fn nothing_leaves_from_a_group_or_from_an_address_without_its_interface() {
        for address in ["255.255.255.255", "239.1.1.1", "0.0.0.0", "ff02::1", "fe80::1", "::"] {
            let address = address.parse().expect("an address");
            assert_eq!(LocalAddresses::default().number(address), LocalAddress::ANY, "{address}");
        }
    }
}

//! Networks in the C interface.

use std::ffi::c_char;

use byway_client::{NetworkAgent, NetworkPair, NetworkRelay};

use crate::error::{Error, ErrorDetail, guarded};
use crate::memory::{read_mut, text, text_or_none, write};

/// A static network: the [network] table of its nodes' files.
#[derive(Debug, Default)]
pub struct Network(pub(crate) byway_client::Network);

/// Creates an empty network. Free it with byway_network_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_new(network: *mut *mut Network) -> Error {
    // SAFETY: the caller vouches for the pointer.
    guarded(|| unsafe {
        write(network, std::ptr::null_mut())?;
        write(network, Box::into_raw(Box::default()))
    })
}

/// Frees a network. For null, it does nothing. Clients created from the network remain valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_free(network: *mut Network) {
    let _ = guarded(|| {
        if !network.is_null() {
            // SAFETY: the caller vouches that it was made here, and not freed.
            drop(unsafe { Box::from_raw(network) });
        }
        Ok(())
    });
}

/// Adds a relay: its name, number, public key, address and number of shards (the default in files
/// is 1). The address has a form such as 198.51.100.1:4600 or [2001:db8::1]:4600. The application's
/// socket must be able to send to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_add_relay(
    network: *mut Network,
    name: *const c_char,
    number: u32,
    key: *const c_char,
    address: *const c_char,
    shards: u16,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        let (name, key, address) = (text(name)?, text(key)?, text(address)?);
        let (key, addresses) = (parse_text(key)?, vec![parse_text(address)?]);
        read_mut(network)?.0.relays.push(NetworkRelay {
            name: name.to_owned(),
            number,
            key,
            addresses,
            shards,
        });
        Ok(())
    })
}

/// Adds an agent: its name, number, public key, addresses, and the names of its relays, the nearest
/// first. Addresses and relays are lists with spaces between; null is an empty list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_add_agent(
    network: *mut Network,
    name: *const c_char,
    number: u32,
    key: *const c_char,
    addresses: *const c_char,
    relays: *const c_char,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        let (name, key) = (text(name)?.to_owned(), parse_text(text(key)?)?);
        let addresses = text_or_none(addresses)?.unwrap_or_default().split_whitespace();
        let addresses = addresses.map(parse_text).collect::<Result<_, _>>()?;
        let relays = text_or_none(relays)?.unwrap_or_default().split_whitespace();
        let relays = relays.map(str::to_owned).collect();
        read_mut(network)?.0.agents.push(NetworkAgent { name, number, key, addresses, relays });
        Ok(())
    })
}

/// Permits two agents, by name, to exchange flows. Flows of pairs in one group are coded together;
/// the default in files is 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_add_pair(
    network: *mut Network,
    one: *const c_char,
    other: *const c_char,
    group: u32,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        let agents = [text(one)?.to_owned(), text(other)?.to_owned()];
        read_mut(network)?.0.pairs.push(NetworkPair { agents, group });
        Ok(())
    })
}

/// Parses a key or an address from a C text. The error quotes the text.
pub(crate) fn parse_text<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, ErrorDetail> {
    text.parse().map_err(|error| ErrorDetail::about(Error::BadText, format!("{text:?}: {error}")))
}

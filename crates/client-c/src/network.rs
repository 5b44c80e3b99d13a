//! Networks, as C has them.

use std::ffi::c_char;

use byway_client::{NetworkAgent, NetworkPair, NetworkRelay};

use crate::error::{Error, Problem, guarded};
use crate::memory::{change, text, text_or_none, write};

/// A static network: the [network] table of its nodes' files.
#[derive(Debug, Default)]
pub struct Network(pub(crate) byway_client::Network);

/// Makes an empty network. It is freed by byway_network_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_network_new(network: *mut *mut Network) -> Error {
    // SAFETY: the caller vouches for the pointer.
    guarded(|| unsafe {
        write(network, std::ptr::null_mut())?;
        write(network, Box::into_raw(Box::default()))
    })
}

/// Frees a network. Clients that were made of it stay. Null is freed by doing nothing.
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

/// Adds a relay: its name, its number, its public key, its address such as 198.51.100.1:4600 or [2001:db8::1]:4600 (one that the
/// application's socket can send to), and how many shards it has, 1 unless its file says otherwise.
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
        let (key, addresses) = (parsed(key)?, vec![parsed(address)?]);
        change(network)?.0.relays.push(NetworkRelay {
            name: name.to_owned(),
            number,
            key,
            addresses,
            shards,
        });
        Ok(())
    })
}

/// Adds an agent: its name, its number, its public key, its addresses and the names of its relays, the nearest first. Addresses
/// and relays are lists with spaces between; null is an empty one.
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
        let (name, key) = (text(name)?.to_owned(), parsed(text(key)?)?);
        let addresses = text_or_none(addresses)?.unwrap_or_default().split_whitespace();
        let addresses = addresses.map(parsed).collect::<Result<_, _>>()?;
        let relays = text_or_none(relays)?.unwrap_or_default().split_whitespace();
        let relays = relays.map(str::to_owned).collect();
        change(network)?.0.agents.push(NetworkAgent { name, number, key, addresses, relays });
        Ok(())
    })
}

/// Lets two agents talk to each other, by their names. Pairs of one group have their flows coded together; 1 unless the files say
/// otherwise.
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
        change(network)?.0.pairs.push(NetworkPair { agents, group });
        Ok(())
    })
}

/// A key or an address.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error| Problem::about(Error::BadText, format!("{text:?}: {error}")))
}

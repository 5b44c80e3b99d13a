//! Inconsistent networks are rejected, and the error names the contradiction.

mod support;

use byway_client::{Client, Identity, Network, NetworkError, NetworkPair};
use byway_units::Time;
use byway_wire::seal::StaticSecret;

use support::network;

fn client_error(network: &Network, name: &str, secret: u8) -> Result<(), NetworkError> {
    let identity = Identity::new(name, StaticSecret::from_bytes([secret; 32]), [0; 32], 1);
    Client::new(identity, network, Time::START).map(drop)
}

/// Returns the error for the tests' network after this change.
fn error_after(change: impl FnOnce(&mut Network)) -> NetworkError {
    let mut network = network();
    change(&mut network);
    client_error(&network, "alice", 1).expect_err("it is wrong")
}

#[test]
fn a_good_network_is_taken_by_who_is_in_it_with_its_secret() {
    assert_eq!(client_error(&network(), "alice", 1), Ok(()));
    assert_eq!(client_error(&network(), "alice", 2), Err(NetworkError::OtherKey("alice".to_owned())));
    assert_eq!(client_error(&network(), "carol", 3), Err(NetworkError::NoAgent("carol".to_owned())));
}

#[test]
fn names_numbers_and_keys_stand_for_one_each() {
    let bob = NetworkError::Twice("bob".to_owned());
    assert_eq!(error_after(|network| network.agents[1].number = 1), bob);
    assert_eq!(error_after(|network| network.agents[1].key = network.agents[0].key), bob);
    let west = NetworkError::Twice("west".to_owned());
    assert_eq!(error_after(|network| network.relays[1].number = 1), west);
    assert_eq!(
        error_after(|network| network.relays[1].name = "east".to_owned()),
        NetworkError::Twice("east".to_owned())
    );
}

#[test]
fn numbers_and_shards_have_ranges_and_relays_addresses() {
    let east = || NetworkError::OutOfRange("east".to_owned());
    for number in [0, 1 << 31] {
        assert_eq!(error_after(|network| network.relays[0].number = number), east());
    }
    for shards in [0, 257] {
        assert_eq!(error_after(|network| network.relays[0].shards = shards), east());
    }
    assert_eq!(
        error_after(|network| network.relays[0].addresses.clear()),
        NetworkError::NoAddress("east".to_owned())
    );
}

#[test]
fn agents_name_relays_that_are_there_once() {
    let error = |relay: &str| NetworkError::BadRelay { agent: "alice".to_owned(), relay: relay.to_owned() };
    assert_eq!(error_after(|network| network.agents[0].relays = vec!["north".to_owned()]), error("north"));
    assert_eq!(
        error_after(|network| network.agents[0].relays = vec!["east".to_owned(), "east".to_owned()]),
        error("east")
    );
}

#[test]
fn pairs_are_two_agents_and_stand_once() {
    let pair = |one: &str, other: &str| NetworkPair { agents: [one.to_owned(), other.to_owned()], group: 1 };
    let bad = |one: &str, other: &str| NetworkError::BadPair(one.to_owned(), other.to_owned());
    assert_eq!(error_after(|network| network.pairs.push(pair("bob", "alice"))), bad("bob", "alice"));
    assert_eq!(error_after(|network| network.pairs.push(pair("bob", "bob"))), bad("bob", "bob"));
    assert_eq!(
        error_after(|network| network.pairs.push(pair("bob", "carol"))),
        NetworkError::NoAgent("carol".to_owned())
    );
}

#[test]
fn an_error_says_what_to_do() {
    let error = error_after(|network| network.relays[0].addresses.clear());
    assert_eq!(error.to_string(), "relay east without an address: name one that the sockets can send to");
}

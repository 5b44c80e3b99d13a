//! Misuse from C yields errors, and no crash.
#![allow(unsafe_code, reason = "the functions of the C interface are called as C does")]

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use byway_client_c::*;
use byway_wire::seal::StaticSecret;

const SEED: [u8; 32] = [7; 32];
const FLOW: u64 = 77;

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero byte is inside")
}

fn last_error() -> String {
    // SAFETY: the text is there until the next call that fails.
    unsafe { CStr::from_ptr(byway_last_error()) }.to_string_lossy().into_owned()
}

fn key(byte: u8) -> CString {
    text(&StaticSecret::from_bytes([byte; 32]).public_key().to_string())
}

/// Returns the secret as in a key file.
fn secret(byte: u8) -> CString {
    text(&format!("{byte:02x}").repeat(32))
}

/// Returns a network of Alice and Bob, without relays.
fn network() -> *mut Network {
    let mut network = null_mut();
    // SAFETY: all pointers are good.
    unsafe {
        assert_eq!(byway_network_new(&raw mut network), Error::Ok);
        for (name, number) in [("alice", 1), ("bob", 2)] {
            let (name, address) = (text(name), text(&format!("192.0.2.{number}:4600")));
            let added = byway_network_add_agent(
                network,
                name.as_ptr(),
                number.into(),
                key(number).as_ptr(),
                address.as_ptr(),
                null(),
            );
            assert_eq!(added, Error::Ok);
        }
        let added = byway_network_add_pair(network, c"alice".as_ptr(), c"bob".as_ptr(), 1);
        assert_eq!(added, Error::Ok);
    }
    network
}

fn client() -> *mut Handle {
    let (network, mut client) = (network(), null_mut());
    // SAFETY: all pointers are good.
    unsafe {
        let name = c"alice".as_ptr();
        let made = byway_client_new(network, name, secret(1).as_ptr(), SEED.as_ptr(), 1, 0, &raw mut client);
        assert_eq!(made, Error::Ok, "{}", last_error());
        byway_network_free(network);
    }
    client
}

#[test]
fn every_error_has_a_text_and_other_numbers_have_one() {
    let text_of = |error| {
        // SAFETY: the text is always there.
        unsafe { CStr::from_ptr(byway_error_text(error)) }.to_string_lossy().into_owned()
    };
    for error in 0..=Error::Failed as i32 {
        assert!(!text_of(error).is_empty() && text_of(error) != text_of(-1), "{error}");
    }
    assert_eq!(text_of(Error::NullPointer as i32), "a pointer is null that must not be");
    assert_eq!(text_of(i32::MIN), text_of(Error::Failed as i32 + 1));
}

#[test]
fn null_is_an_error_wherever_something_is_needed() {
    let mut flow = 0;
    let (mut output, mut number) = (Output::from(byway_client::Event::Left), 0);
    let (mut report, mut name) = (Report::default(), [0 as c_char; 8]);
    let none: *mut Handle = null_mut();
    let client = client();
    // SAFETY: pointers are good or null.
    let errors = unsafe {
        [
            byway_network_new(null_mut()),
            byway_network_add_pair(null_mut(), c"a".as_ptr(), c"b".as_ptr(), 1),
            byway_client_new(null(), null(), null(), null(), 0, 0, null_mut()),
            byway_client_open(null(), null(), null(), null(), null(), null_mut()),
            byway_client_expose(none, c"call".as_ptr(), null()),
            byway_client_expose(client, null(), null()),
            byway_client_register(none, c"bob".as_ptr(), c"call".as_ptr(), null(), 0, &raw mut flow),
            byway_client_register(client, null(), c"call".as_ptr(), null(), 0, &raw mut flow),
            byway_client_register(client, c"bob".as_ptr(), null(), null(), 0, &raw mut flow),
            byway_client_register(client, c"bob".as_ptr(), c"call".as_ptr(), null(), 0, null_mut()),
            byway_client_received(client, null(), 0, null_mut(), 0, 0),
            byway_client_received(client, &Address { family: 4, ..Address::default() }, 0, null_mut(), 9, 0),
            byway_client_send(client, FLOW, null(), 9, 0, 0),
            byway_client_timer(none, 0),
            byway_client_poll(client, null_mut()),
            byway_client_poll(none, &raw mut output),
            byway_client_deadline(client, null_mut()),
            byway_client_deadline(none, &raw mut number),
            byway_client_report(none, FLOW, &raw mut report),
            byway_client_segments(none, null_mut()),
            byway_client_segments(client, null_mut()),
            byway_client_subject(none, FLOW, name.as_mut_ptr(), name.len()),
            byway_client_peer_name(client, 2, null_mut(), 8),
            byway_client_close_flow(none, FLOW, 0),
            byway_client_leave(none, 0),
            byway_client_step(none, 0),
            byway_client_fd(none, null_mut()),
            byway_client_now(none, null_mut()),
        ]
    };
    for (index, error) in errors.into_iter().enumerate() {
        assert_eq!(error, Error::NullPointer, "number {index}");
    }
    // SAFETY: the client was made here; null is freed by doing nothing.
    unsafe {
        byway_client_free(client);
        byway_client_free(null_mut());
        byway_network_free(null_mut());
    }
}

#[test]
fn what_is_out_of_range_is_an_error() {
    let client = client();
    let (mut byte, address) = (0_u8, Address { family: 4, ..Address::default() });
    let wrong = [
        Registration { service: 8, ..Registration::default() },
        Registration { traffic: -1, ..Registration::default() },
        Registration { copies: 5, ..Registration::default() },
        Registration { redundancy: 2, ..Registration::default() },
        Registration { coded_with_other_tenants: 2, ..Registration::default() },
        Registration { latency_budget_us: 999, ..Registration::default() },
        Registration { latency_budget_us: u64::MAX, ..Registration::default() },
        Registration { rate_bps: 999, ..Registration::default() },
    ];
    let mut flow = 0;
    // SAFETY: pointers are good; an impossible length is rejected before it is used.
    unsafe {
        for wrong in &wrong {
            let answer =
                byway_client_register(client, c"bob".as_ptr(), c"call".as_ptr(), wrong, 0, &raw mut flow);
            assert_eq!(answer, Error::OutOfRange, "{wrong:?}");
        }
        let received = |address: &Address, ecn, length, now| {
            byway_client_received(client, address, ecn, &raw mut byte, length, now)
        };
        let mut received = received;
        assert_eq!(received(&Address::default(), 0, 1, 0), Error::OutOfRange, "no family");
        assert_eq!(received(&address, 4, 1, 0), Error::OutOfRange, "no ECN field");
        assert_eq!(received(&address, 0, usize::MAX, 0), Error::OutOfRange, "no length");
        assert_eq!(received(&address, 0, 1, u64::MAX), Error::OutOfRange, "no time");
        assert_eq!(received(&address, 0, 1, 0), Error::Ok);
        assert_eq!(byway_client_timer(client, 1 << 62), Error::OutOfRange);
        assert_eq!(byway_client_peer_name(client, 2, (&raw mut byte).cast(), 0), Error::OutOfRange);
        byway_client_free(client);
    }
}

#[test]
fn flows_and_peers_that_are_not_there_are_errors() {
    let client = client();
    let (mut report, mut name) = (Report::default(), [0 as c_char; 8]);
    let mut flow = 0;
    // SAFETY: all pointers are good.
    unsafe {
        assert_eq!(byway_client_report(client, FLOW, &raw mut report), Error::Closed);
        assert_eq!(byway_client_send(client, u64::MAX, null(), 0, 0, 0), Error::Closed);
        assert_eq!(byway_client_close_flow(client, FLOW, 0), Error::Ok, "it is closed");
        assert_eq!(byway_client_peer_name(client, 9, name.as_mut_ptr(), 8), Error::UnknownPeer);
        assert_eq!(byway_client_peer_name(client, 2, name.as_mut_ptr(), 3), Error::Ok);
        assert_eq!(CStr::from_ptr(name.as_ptr()).to_bytes(), b"bo");
        let register = |peer: &CStr, flow: *mut u64| {
            byway_client_register(client, peer.as_ptr(), c"call".as_ptr(), null(), 0, flow)
        };
        assert_eq!(register(c"carol", &raw mut flow), Error::UnknownPeer);
        assert_eq!(last_error(), "carol is not a peer of this agent: add a pair of the two to the network");
        assert_eq!(register(c"bob", &raw mut flow), Error::Ok);
        assert_eq!(byway_client_report(client, flow, &raw mut report), Error::Ok);
        assert_eq!(report.service, BYWAY_SERVICE_INTERNET, "no relays");
        let sent = byway_client_send(client, flow, [1_u8].as_ptr(), 1, 1, 0);
        assert_eq!(sent, Error::NotAccepted);
        byway_client_free(client);
    }
}

#[test]
fn a_client_without_a_socket_transmits_and_one_with_a_socket_does_so_itself() {
    let client = client();
    let mut flow = 0;
    let (mut output, mut deadline, mut fd) = (Output::from(byway_client::Event::Left), 0, -1);
    // SAFETY: all pointers are good.
    unsafe {
        assert_eq!(byway_client_step(client, 0), Error::NoSocket);
        assert_eq!(byway_client_fd(client, &raw mut fd), Error::NoSocket);
        let (bob, call) = (c"bob".as_ptr(), c"call".as_ptr());
        assert_eq!(byway_client_register(client, bob, call, null(), 0, &raw mut flow), Error::Ok);
        assert_eq!(byway_client_poll(client, &raw mut output), Error::Ok);
        assert_eq!((output.kind, output.to.ip[3], output.to.port), (BYWAY_OUTPUT_TRANSMIT, 2, 4600));
        assert!(std::slice::from_raw_parts(output.bytes, output.length).len() > 100, "a handshake");
        assert_eq!(byway_client_deadline(client, &raw mut deadline), Error::Ok);
        assert!(deadline < u64::MAX);
        byway_client_free(client);

        let (network, mut client) = (network(), null_mut());
        let name = c"bob".as_ptr();
        let listen = c"127.0.0.1:0".as_ptr();
        let open = |secret: &CStr, client: *mut *mut Handle| {
            byway_client_open(network, name, secret.as_ptr(), SEED.as_ptr(), listen, client)
        };
        assert_eq!(open(c"no key", &raw mut client), Error::BadText);
        assert_eq!(open(&secret(1), &raw mut client), Error::BadNetwork, "that is Alice's");
        assert!(client.is_null() && last_error().contains("key for bob does not match"), "{}", last_error());
        assert_eq!(open(&secret(2), &raw mut client), Error::Ok, "{}", last_error());
        assert_eq!(byway_client_timer(client, 0), Error::HasSocket);
        assert_eq!(byway_client_fd(client, &raw mut fd), Error::Ok);
        assert!(fd >= 0);
        assert_eq!(byway_client_step(client, 0), Error::Ok);
        assert_eq!(byway_client_poll(client, &raw mut output), Error::Ok);
        assert_eq!(output.kind, BYWAY_OUTPUT_NONE);
        byway_client_free(client);
        byway_network_free(network);
    }
}

#[test]
fn texts_that_are_none_are_errors() {
    let network = network();
    // SAFETY: all pointers are good.
    unsafe {
        let (name, key_text) = (c"carol".as_ptr(), key(3));
        let latin = [0xE9_u8, 0];
        let agent = |name, key, addresses| byway_network_add_agent(network, name, 3, key, addresses, null());
        assert_eq!(agent(latin.as_ptr().cast(), key_text.as_ptr(), null()), Error::BadText);
        assert_eq!(agent(name, c"abc".as_ptr(), null()), Error::BadText);
        assert_eq!(agent(name, key_text.as_ptr(), c"here".as_ptr()), Error::BadText);
        assert!(last_error().contains("\"here\""), "{}", last_error());
        byway_network_free(network);
    }
}

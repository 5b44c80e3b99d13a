//! A busy responder requires a cookie.

mod support;

use core::net::SocketAddr;

use byway_units::{Duration, Time};
use byway_wire::limits::COOKIE_SECRET_LIFE;
use byway_wire::packets::{COOKIE_PACKET_BYTES, INITIATION_BYTES_MIN};
use byway_wire::seal::{CookieError, CookieJar, ForgeryError, Initiation, Suite, write_mac2};
use byway_wire::{Address, ParseError};
use support::handshakes::{
    CountingRandom, INDEX, INITIATION, Refusal, flipped, no_pre_shared, open_cookie, responder_secret,
    screened, write,
};

const NOW: Time = Time::from_nanos(5_000_000_000_000);

fn jar() -> CookieJar {
    CookieJar::new(responder_secret().public_key())
}

fn address(text: &str) -> Address {
    text.parse::<SocketAddr>().expect("an address").into()
}

fn home() -> Address {
    address("203.0.113.9:40000")
}

/// Returns the initiation with the cookie of `jar` for `from` at `now`.
fn with_cookie(jar: &mut CookieJar, from: Address, now: Time, random: &mut CountingRandom) -> Vec<u8> {
    let (mut packet, awaited) = write(&INITIATION, &no_pre_shared(), 1);
    let cookie = jar.packet(&screened(&packet), from, now, random);
    write_mac2(&mut packet, &open_cookie(&awaited, &cookie).expect("the cookie is right"));
    packet
}

fn admits(jar: &CookieJar, packet: &[u8], from: Address, now: Time) -> bool {
    jar.admits(&screened(packet), from, now)
}

#[test]
fn a_cookie_admits_its_initiation_from_its_address() {
    let (mut jar, mut random) = (jar(), CountingRandom(0));
    let packet = with_cookie(&mut jar, home(), NOW, &mut random);
    assert!(admits(&jar, &packet, home(), NOW));
    assert!(admits(&jar, &packet, address("[::ffff:203.0.113.9]:40000"), NOW), "the mapped form is the same");
    for elsewhere in ["203.0.113.9:40001", "203.0.113.8:40000", "[2001:db8::1]:40000"] {
        assert!(!admits(&jar, &packet, address(elsewhere), NOW), "{elsewhere}");
    }
}

#[test]
fn the_cookie_is_of_use_for_another_initiation_from_there() {
    let (mut jar, mut random) = (jar(), CountingRandom(0));
    let (packet, awaited) = write(&INITIATION, &no_pre_shared(), 1);
    let answer = jar.packet(&screened(&packet), home(), NOW, &mut random);
    let cookie = open_cookie(&awaited, &answer).expect("the cookie is right");
    let (mut next, _) = write(
        &Initiation { handshake_timestamp: INITIATION.handshake_timestamp + 1, ..INITIATION },
        &no_pre_shared(),
        2,
    );
    assert!(!admits(&jar, &next, home(), NOW));
    write_mac2(&mut next, &cookie);
    assert!(admits(&jar, &next, home(), NOW));
}

#[test]
fn without_a_cookie_nothing_is_admitted() {
    let (packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    let (mut jar, mut random) = (jar(), CountingRandom(0));
    assert!(!admits(&jar, &packet, home(), NOW), "not before the first secret either");
    let admitted = with_cookie(&mut jar, home(), NOW, &mut random);
    assert!(!admits(&jar, &packet, home(), NOW));
    for bit in 8 * (admitted.len() - 16)..8 * admitted.len() {
        assert!(!admits(&jar, &flipped(&admitted, bit), home(), NOW), "bit {bit}");
    }
}

#[test]
fn a_secret_makes_cookies_for_one_life_and_is_accepted_for_two() {
    let (mut jar, mut random) = (jar(), CountingRandom(0));
    let moment = Duration::from_nanos(1);
    let first = with_cookie(&mut jar, home(), NOW, &mut random);
    let last_of_first = with_cookie(&mut jar, home(), NOW + COOKIE_SECRET_LIFE - moment, &mut random);
    assert_eq!(first, last_of_first, "one secret, one cookie");
    let of_second = with_cookie(&mut jar, home(), NOW + COOKIE_SECRET_LIFE, &mut random);
    assert_ne!(first, of_second);

    let end = NOW + COOKIE_SECRET_LIFE * 2;
    assert!(admits(&jar, &first, home(), end - moment), "the predecessor is accepted");
    assert!(!admits(&jar, &first, home(), end));
    assert!(admits(&jar, &of_second, home(), end));
    assert!(admits(&jar, &of_second, home(), end + COOKIE_SECRET_LIFE - moment));
    assert!(!admits(&jar, &of_second, home(), end + COOKIE_SECRET_LIFE), "without a successor too");

    with_cookie(&mut jar, home(), end, &mut random);
    assert!(!admits(&jar, &first, home(), NOW), "two secrets later it is gone for good");
}

#[test]
fn a_cookie_is_smaller_than_any_initiation() {
    let (packet, _) = write(&Initiation { messages: &[], ..INITIATION }, &no_pre_shared(), 1);
    assert_eq!((COOKIE_PACKET_BYTES, INITIATION_BYTES_MIN), (56, packet.len()));
    const { assert!(COOKIE_PACKET_BYTES < INITIATION_BYTES_MIN) };
}

#[test]
fn a_changed_bit_of_a_cookie_packet_is_refused_or_is_reserved() {
    for &suite in Suite::ALL {
        let (packet, awaited) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
        let answer = jar().packet(&screened(&packet), home(), NOW, &mut CountingRandom(0));
        for bit in 0..8 * answer.len() {
            let error = open_cookie(&awaited, &flipped(&answer, bit)).err();
            match bit / 8 {
                0 => assert!(matches!(error, Some(Refusal::Malformed(ParseError::Illegal { .. })))),
                1..4 => assert_eq!(error, None),
                4..8 => {
                    let Some(Refusal::Wrong(CookieError::WrongIndex { index, expected })) = error else {
                        panic!("bit {bit}: {error:?}");
                    };
                    assert!(index != INDEX && expected == INDEX, "bit {bit}");
                }
                _ => assert_eq!(error, Some(Refusal::Wrong(CookieError::Forged(ForgeryError))), "bit {bit}"),
            }
        }
    }
}

#[test]
fn a_cookie_for_another_initiation_does_not_open() {
    let (packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    let (_, awaited) = write(&INITIATION, &no_pre_shared(), 2);
    let answer = jar().packet(&screened(&packet), home(), NOW, &mut CountingRandom(0));
    let error = open_cookie(&awaited, &answer).err();
    assert_eq!(error, Some(Refusal::Wrong(CookieError::Forged(ForgeryError))));
}

#[test]
fn equal_cookies_travel_under_different_salts() {
    let (mut jar, mut random) = (jar(), CountingRandom(0));
    let (packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    let answers = [0, 1].map(|_| jar.packet(&screened(&packet), home(), NOW, &mut random));
    assert_ne!(answers[0][8..], answers[1][8..]);
}

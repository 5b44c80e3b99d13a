//! Benchmark: link crossings of packets that a simulated world handles in a second of real time.
//!
//! `cargo run --release --example crossings -- [FLOWS [SECONDS [SEED [RELAYS]]]] [--outcome]`
//!
//! Each flow is a call of 50 packets a second over a path of its own, coded by the nearest relays.
//! `--outcome` prints the outcome instead of the duration, for the comparison of two versions.

#![allow(clippy::disallowed_methods, reason = "measures real time")]
#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::env;
use std::fmt::Write as _;
use std::time::Instant;

use byway_scenario::Scenario;

/// Returns a scenario of this many calls between two regions, each with this many relays.
fn calls(flows: usize, seconds: usize, relays: usize) -> String {
    let mut text = format!("title = \"{flows} calls\"\nlength = \"{seconds} s\"\n");
    for region in 0..relays {
        let members = flows / relays + usize::from(region < flows % relays);
        for (name, role, count) in [("alice", "agent", members), ("bob", "agent", members)] {
            let _ = write!(text, "[[node]]\nname = \"{name}{region}\"\nrole = \"{role}\"\ncount = {count}\n");
        }
        for name in ["east", "west"] {
            let _ = write!(text, "[[node]]\nname = \"{name}{region}\"\nrole = \"relay\"\n");
        }
        for (from, to, delay, loss) in [
            (
                "alice",
                "bob",
                "{ from = \"40 ms\", to = \"60 ms\" }",
                "share = \"1 %\", burst = 3.0, every = \"20 ms\"",
            ),
            ("alice", "east", "\"7500 us\"", "share = \"0.1 %\""),
            ("bob", "west", "\"7500 us\"", "share = \"0.1 %\""),
            ("east", "west", "\"35 ms\"", "share = \"0.1 %\""),
        ] {
            let _ = write!(
                text,
                "[[link]]\nbetween = [\"{from}{region}\", \"{to}{region}\"]\ndelay = {delay}\njitter = \"5 ms\"\n\
                 loss = [{{ {loss} }}]\n"
            );
        }
        let _ = write!(
            text,
            "[[flow]]\nname = \"call{region}\"\nfrom = \"alice{region}\"\nto = \"bob{region}\"\nservice = \"coding\"\n\
             in_stream = \"16+1\"\nbatch = \"8+2\"\nsends = {{ kind = \"steady\", every = \"20 ms\", bytes = 500 }}\n"
        );
    }
    text
}

#[allow(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

fn main() {
    let (options, words): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|word| word.starts_with("--"));
    let number =
        |place: usize, usual| words.get(place).map_or(usual, |word: &String| word.parse().expect("a number"));
    let (flows, seconds, seed, relays) = (number(0, 1_000), number(1, 60), number(2, 1), number(3, 1));
    let text = calls(flows, seconds, relays);
    let scenario = Scenario::parse(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    let began = Instant::now();
    let outcome = scenario.run(seed as u64).unwrap_or_else(|error| panic!("{error}"));
    let took = began.elapsed().as_secs_f64();
    if options.iter().any(|option| option == "--outcome") {
        println!("{outcome:#?}");
        return;
    }
    println!(
        "{flows} flows, {seconds} s: {} crossings in {took:.2} s, {:.0} a second, digest {}",
        outcome.link_crossings,
        rate(outcome.link_crossings, took),
        outcome.digest
    );
}

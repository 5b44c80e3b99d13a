//! What relays get to know: no application's data, and no key to it.

use std::collections::BTreeSet;

use byway_wire::Service;

use crate::support::{ARRANGEMENTS, OverlayWorld, Plan, Run, Seen, at, secs};

/// What nobody writes by chance.
const WINDOW: usize = 12;

/// All of it that an application has said, in pieces.
fn plaintext(run: &Run) -> BTreeSet<[u8; WINDOW]> {
    // The first 16 bytes are counters, which messages have as well.
    let said = run.got.iter().flat_map(|got| {
        run.datagram(got.flow, got.number)[16..].to_vec().windows(WINDOW).map(piece).collect::<Vec<_>>()
    });
    said.collect()
}

fn piece<const LENGTH: usize>(window: &[u8]) -> [u8; LENGTH] {
    *window.first_chunk().expect("a window is this long")
}

fn says<const LENGTH: usize>(bytes: &[u8], secrets: &BTreeSet<[u8; LENGTH]>) -> bool {
    bytes.windows(LENGTH).any(|window| secrets.contains(&piece(window)))
}

/// The keys that both ends of a flow have used.
fn keys_of_ends(run: &Run) -> BTreeSet<[u8; 32]> {
    let ends = run.plan.flows.iter().map(|flow| (run.seen_by_agent(flow.from), run.seen_by_agent(flow.to)));
    ends.flat_map(|(one, other)| one.keys.intersection(&other.keys).copied().collect::<Vec<_>>()).collect()
}

/// Flows of every service, of which each loses packets in a way that its service repairs.
fn all_services(arrange: fn(Plan) -> Plan) -> (OverlayWorld, Run) {
    let mut plan = arrange(Plan::pairs(8, Service::Coding)).spied();
    let services = [Service::Caching, Service::Forwarding, Service::Both];
    for (flow, service) in (5..).zip(services) {
        plan.flows[flow].settings.service = service;
    }
    for flow in 0..8 {
        for nth in 0..10 {
            plan.lose(flow, 30 + nth * 61 + flow as u64 * 7, 1 + nth % 4);
        }
    }
    plan.darken(0, at(9_000), secs(1));
    let (mut world, mut run) = plan.build();
    let mut watched = Vec::new();
    for relay in &run.relays {
        watched
            .extend(run.agents.iter().chain(&run.relays).flat_map(|node| [(*node, *relay), (*relay, *node)]));
    }
    world.observer_mut().watched = watched;
    run.finish(&mut world);
    (world, run)
}

#[test]
fn relays_learn_neither_what_is_said_nor_the_keys_to_it() {
    for (name, arrange) in ARRANGEMENTS {
        let (world, run) = all_services(arrange);
        let fate = run.fate(&world);
        assert!(fate.repaired > 200, "{name}: relays repaired: {fate:?}");
        search_relays(name, &world, &run);
    }
}

#[test]
fn relays_that_learn_nothing_repair_in_every_way() {
    let (world, run) = all_services(|plan| plan);
    let egress = run.egress(1, &world);
    assert!(
        egress.cooperative > 20 && egress.in_stream > 10 && egress.cached > 10,
        "in every way: {egress:?}"
    );
}

/// Searches all that crossed links of relays, and all that they opened, for applications' data and keys to it.
fn search_relays(name: &str, world: &OverlayWorld, run: &Run) {
    let (said, keys) = (plaintext(run), keys_of_ends(run));
    assert!(said.len() > 10_000 && keys.len() >= 8, "{} pieces, {} keys", said.len(), keys.len());

    // The search finds what is there to be found.
    let Seen { keys: own, opened } = run.seen_by_agent(run.plan.flows[0].to);
    assert!(opened.iter().any(|bytes| says(bytes, &said)));
    assert!(own.iter().any(|key| says(key, &keys)));

    let mut searched = 0;
    let mut search = |bytes: &[u8]| {
        assert!(!says(bytes, &said), "{name}: a relay could read {bytes:02x?}");
        assert!(!says(bytes, &keys), "{name}: a relay came to know a key from {bytes:02x?}");
        searched += bytes.len();
    };
    for crossing in &world.observer().crossings {
        search(&crossing.payload);
    }
    for relay in 0..run.relays.len() {
        let Seen { keys: used, opened } = run.seen_by_relay(relay);
        let known: BTreeSet<_> = used.into_iter().filter(|key| keys.contains(key)).collect();
        assert_eq!(known, BTreeSet::new(), "{name}: relay {relay} has keys of others");
        for bytes in &opened {
            search(bytes);
        }
    }
    assert!(searched > 10_000_000, "{name}: {searched} bytes");
}

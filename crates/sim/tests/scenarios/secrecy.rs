//! Tests of secrecy: relays have neither application data nor keys to it.

use std::collections::BTreeSet;

use byway_wire::Service;

use crate::support::{ARRANGEMENTS, CipherLog, OverlayWorld, Plan, Run, at, secs};

/// Length of a byte sequence that does not occur by chance.
const WINDOW: usize = 12;

/// All application data, in overlapping pieces.
fn plaintext(run: &Run) -> BTreeSet<[u8; WINDOW]> {
    // The first 16 bytes are counters, which messages contain as well.
    let plaintexts = run.delivered.iter().flat_map(|got| {
        run.datagram(got.flow, got.number)[16..]
            .to_vec()
            .windows(WINDOW)
            .map(window_bytes)
            .collect::<Vec<_>>()
    });
    plaintexts.collect()
}

fn window_bytes<const LENGTH: usize>(window: &[u8]) -> [u8; LENGTH] {
    *window.first_chunk().expect("a window is this long")
}

fn contains_secret<const LENGTH: usize>(bytes: &[u8], secrets: &BTreeSet<[u8; LENGTH]>) -> bool {
    bytes.windows(LENGTH).any(|window| secrets.contains(&window_bytes(window)))
}

/// Returns the keys that both ends of a flow have used.
fn keys_of_ends(run: &Run) -> BTreeSet<[u8; 32]> {
    let ends =
        run.plan.flows.iter().map(|flow| (run.agent_cipher_log(flow.from), run.agent_cipher_log(flow.to)));
    ends.flat_map(|(one, other)| one.keys.intersection(&other.keys).copied().collect::<Vec<_>>()).collect()
}

/// Flows of every service; each loses packets in a pattern that its service repairs.
fn all_services(arrange: fn(Plan) -> Plan) -> (OverlayWorld, Run) {
    let mut plan = arrange(Plan::pairs(8, Service::Coding)).with_recorders();
    let services = [Service::Caching, Service::Forwarding, Service::Both];
    for (flow, service) in (5..).zip(services) {
        plan.flows[flow].settings.service = service;
    }
    for flow in 0..8 {
        for nth in 0..10 {
            plan.lose(flow, 30 + nth * 61 + flow as u64 * 7, 1 + nth % 4);
        }
    }
    plan.add_outage(0, at(9_000), secs(1));
    let (mut world, mut run) = plan.build();
    let mut watched = Vec::new();
    for relay in &run.relays {
        watched
            .extend(run.agents.iter().chain(&run.relays).flat_map(|node| [(*node, *relay), (*relay, *node)]));
    }
    world.observer_mut().observed_links = watched;
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

/// Searches all packets on links of relays, and all contents that relays opened, for application
/// data and keys to it.
fn search_relays(name: &str, world: &OverlayWorld, run: &Run) {
    let (plaintexts, keys) = (plaintext(run), keys_of_ends(run));
    assert!(plaintexts.len() > 10_000 && keys.len() >= 8, "{} pieces, {} keys", plaintexts.len(), keys.len());

    // The search works: it finds data where it exists.
    let CipherLog { keys: own, opened } = run.agent_cipher_log(run.plan.flows[0].to);
    assert!(opened.iter().any(|bytes| contains_secret(bytes, &plaintexts)));
    assert!(own.iter().any(|key| contains_secret(key, &keys)));

    let mut searched = 0;
    let mut search = |bytes: &[u8]| {
        assert!(!contains_secret(bytes, &plaintexts), "{name}: a relay could read {bytes:02x?}");
        assert!(!contains_secret(bytes, &keys), "{name}: a relay came to know a key from {bytes:02x?}");
        searched += bytes.len();
    };
    for crossing in &world.observer().observed {
        search(&crossing.payload);
    }
    for relay in 0..run.relays.len() {
        let CipherLog { keys: used, opened } = run.relay_cipher_log(relay);
        let known: BTreeSet<_> = used.into_iter().filter(|key| keys.contains(key)).collect();
        assert_eq!(known, BTreeSet::new(), "{name}: relay {relay} has keys of others");
        for bytes in &opened {
            search(bytes);
        }
    }
    assert!(searched > 10_000_000, "{name}: {searched} bytes");
}

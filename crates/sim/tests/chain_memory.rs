//! Memory of flows and sessions at agents and relays.

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::{Agent, FlowSettings};
use byway_proto::relay::Relay;
use byway_sim::overlay::{Chain, ChainSettings};
use byway_units::{Duration, Rate};
use byway_wire::Service;
use byway_wire::seal::PortableProvider;

/// Returns the heap bytes that are freed when `thing` is dropped.
fn heap<T>(thing: T) -> u64 {
    let freed = allocation_counter::measure(|| drop(thing));
    u64::try_from(-freed.bytes_current).expect("dropping frees")
}

/// A chain whose flows send 100 packets a second each.
fn chain(pairs: usize, flows: u16) -> Chain {
    let flow = FlowSettings {
        service: Service::Coding,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(2),
        ..FlowSettings::default()
    };
    let all = u64::from(flows.max(1)) * pairs as u64;
    let step = Duration::from_millis(10);
    let interval = step / all;
    let settings = ChainSettings { pairs, flows, flow, datagram_bytes: 64, interval, step };
    let mut chain = Chain::new(settings, Engine::fastest(), &PortableProvider);
    (0..flows).for_each(|flow| chain.open_flows(flow));
    chain.run(200, false);
    chain
}

/// Heap bytes of the ingress and the egress relay and of a sending and a receiving agent, without
/// buffered packets.
fn measured(chain: Chain) -> [u64; 4] {
    let (mut relays, mut agents) = chain.into_nodes();
    let (receiver, sender) = (agents.swap_remove(agents.len() - 1), agents.swap_remove(0));
    let (egress, ingress) = (relays.remove(1), relays.remove(0));
    // The arrival times of packets take an eighth of the packets' memory.
    let relay = |relay: Box<Relay>| {
        let packets = relay.buffered_bytes().count();
        heap(relay) - packets - packets / 8
    };
    let agent = |agent: Box<Agent>| {
        let packets = agent.packets_held().count();
        heap(agent) - packets - packets / 8
    };
    [relay(ingress), relay(egress), agent(sender), agent(receiver)]
}

const NAMES: [&str; 4] = ["ingress relay", "egress relay", "sending agent", "receiving agent"];

/// Asserts the memory of each of `more` items, from the difference with and without them.
fn assert_each_at_most(limit: u64, without: [u64; 4], with: [u64; 4], more: u64) {
    let each = |(with, without): (u64, u64)| with.saturating_sub(without).div_ceil(more);
    let each: Vec<_> = with.into_iter().zip(without).map(each).collect();
    assert!(each.iter().all(|each| *each <= limit), "{NAMES:?}: {each:?} bytes each, of {limit}");
}

// With these numbers, tables, which double in size, are full. Each relay has one session with the
// other relay.

#[test]
fn an_idle_flow_takes_660_bytes() {
    assert_each_at_most(660, measured(chain(1, 64)), measured(chain(1, 1_024)), 960);
}

#[test]
fn an_idle_session_with_a_flow_takes_about_five_kibibytes() {
    assert_each_at_most(5_184, measured(chain(3, 1)), measured(chain(127, 1)), 124);
}

#[test]
fn a_flow_of_a_hundred_packets_a_second_takes_little_more_than_four_kibibytes() {
    let sending = |flows| {
        let mut chain = chain(1, flows);
        chain.lose_one_in(100);
        // Until the shared tables of batches are full in both set-ups.
        chain.run(3_000, true);
        assert!(chain.delivered().0 > 2_900 * u64::from(flows));
        assert!(chain.ingress().ingress_counters().covered > 2_500 * u64::from(flows));
        measured(chain)
    };
    assert_each_at_most(4_400, sending(32), sending(64), 32);
}

#[test]
fn ten_thousand_flows_take_less_than_a_quarter_of_a_gibibyte_at_a_relay() {
    let mut chain = chain(40, 250);
    chain.run(30, true);
    assert!(chain.ingress().ingress_counters().covered > 100_000);
    let (relays, _) = chain.into_nodes();
    let both = heap(relays);
    assert!(both < 256 << 20, "{both} bytes");
}

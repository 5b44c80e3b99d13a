//! How much memory flows and sessions take at agents and relays.

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::{Agent, FlowSettings};
use byway_proto::relay::Relay;
use byway_sim::overlay::{Chain, ChainSettings};
use byway_units::{Duration, Rate};
use byway_wire::Service;
use byway_wire::seal::Portable;

/// Heap bytes that are given back when `thing` is dropped.
fn heap<T>(thing: T) -> u64 {
    let freed = allocation_counter::measure(|| drop(thing));
    u64::try_from(-freed.bytes_current).expect("dropping frees")
}

/// A set-up whose flows send 100 packets a second each.
fn chain(pairs: usize, flows: u16) -> Chain {
    let flow = FlowSettings {
        service: Service::Coding,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(2),
        ..FlowSettings::default()
    };
    let all = u64::from(flows.max(1)) * pairs as u64;
    let (interval, step) = (Duration::from_nanos(10_000_000 / all), Duration::from_millis(1));
    let settings = ChainSettings { pairs, flows, flow, datagram_bytes: 64, interval, step };
    let mut chain = Chain::new(settings, Engine::fastest(), &Portable);
    (0..flows).for_each(|flow| chain.open_flows(flow));
    chain.run(2_000, false);
    chain
}

/// The heap of the ingress and the egress relay and of a sending and a receiving agent, without the packets kept.
fn measured(chain: Chain) -> [u64; 4] {
    let (ingress, egress, mut senders, mut receivers) = chain.into_parts();
    let (sender, receiver) = (senders.remove(0), receivers.remove(0));
    let relay = |relay: Box<Relay>| {
        let packets = relay.packets_held().count();
        heap(relay) - packets
    };
    let agent = |agent: Box<Agent>| {
        let packets = agent.packets_held().count();
        heap(agent) - packets
    };
    [relay(ingress), relay(egress), agent(sender), agent(receiver)]
}

const NAMES: [&str; 4] = ["ingress relay", "egress relay", "sending agent", "receiving agent"];

/// What each of `more` things takes beside what there is without them.
fn assert_each_at_most(limit: u64, without: [u64; 4], with: [u64; 4], more: u64) {
    for ((name, without), with) in NAMES.iter().zip(without).zip(with) {
        let each = with.saturating_sub(without).div_ceil(more);
        println!("{name}: {each} bytes each");
        assert!(each <= limit, "{name}: {each} bytes each, of {limit}");
    }
}

// The numbers of flows and pairs are powers of two and more than half full, as tables double.

#[test]
fn an_idle_flow_takes_half_a_kibibyte() {
    assert_each_at_most(512, measured(chain(1, 64)), measured(chain(1, 1_024)), 960);
}

#[test]
fn an_idle_session_takes_four_kibibytes() {
    assert_each_at_most(4_096, measured(chain(4, 0)), measured(chain(128, 0)), 124);
}

#[test]
fn a_flow_of_a_hundred_packets_a_second_takes_four_kibibytes() {
    let sending = |flows| {
        let mut chain = chain(1, flows);
        chain.run(5_000, true);
        assert!(chain.delivered().0 > 400 * u64::from(flows));
        measured(chain)
    };
    assert_each_at_most(4_096, sending(64), sending(256), 192);
}

#[test]
fn ten_thousand_flows_take_less_than_a_quarter_of_a_gibibyte_at_a_relay() {
    let mut chain = chain(40, 250);
    chain.run(300, true);
    assert!(chain.ingress().ingress_counters().covered > 100_000);
    let (ingress, egress, _, _) = chain.into_parts();
    let both = heap(ingress) + heap(egress);
    println!("{} MiB", both >> 20);
    assert!(both < 256 << 20, "{both} bytes");
}

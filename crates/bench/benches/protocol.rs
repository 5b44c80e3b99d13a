//! Gates: how many instructions the protocol core may take for a packet, stage by stage.
//!
//! Ciphers are left out, by a provider that seals nothing: what they take depends on the processor, and hides what the
//! core takes. Digests and coding are in. The engine is one that valgrind can run. Counts depend on the compiler a
//! little: each limit is the count plus four to ten per cent. A stage that becomes faster has its limit lowered.

#![allow(
    missing_docs,
    unused_qualifications,
    reason = "the benchmark macros generate public items and long paths"
)]

use std::hint::black_box;

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::FlowSettings;
use byway_sim::overlay::{Chain, ChainSettings, Stage};
use byway_units::{Duration, Rate};
use byway_wire::seal::{Forged, KEY_BYTES, Nonce, PacketKey, Provider, Suite, TAG_BYTES};
use byway_wire::{BlockShape, Service};
use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};

/// Seals nothing.
struct Open;

impl Provider for Open {
    fn key(&self, _suite: Suite, _key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
        Box::new(Self)
    }
}

impl PacketKey for Open {
    fn seal(&self, _nonce: &Nonce, _aad: &[u8], _in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        [0; TAG_BYTES]
    }

    fn open(
        &self,
        _nonce: &Nonce,
        _aad: &[u8],
        _in_out: &mut [u8],
        _tag: &[u8; TAG_BYTES],
    ) -> Result<(), Forged> {
        Ok(())
    }
}

/// Source packets in a step, whose instructions are counted.
const PACKETS: u64 = 1_000;

/// 20 flows of 512-byte datagrams that are under way, and whose next packets have come as far as this stage.
fn under_way(stage: Stage, in_stream: bool) -> (Chain, Stage) {
    let in_stream = BlockShape::new(5, 1).filter(|_| in_stream);
    let flow = FlowSettings {
        service: Service::Coding,
        rates: CodingRates { in_stream, batch: BlockShape::new(10, 2) },
        rate: Rate::from_megabits_per_second(100),
        ..FlowSettings::default()
    };
    let step = Duration::from_millis(50);
    let settings =
        ChainSettings { pairs: 1, flows: 20, flow, datagram_bytes: 512, interval: step / PACKETS, step };
    let engine: Engine = "avx2".parse().unwrap_or_else(|error| panic!("{error}"));
    let mut chain = Chain::new(settings, engine, &Open);
    (0..20).for_each(|flow| chain.open_flows(flow));
    chain.run(20, false);
    chain.run(20, true);
    Stage::ALL
        .into_iter()
        .take_while(|earlier| *earlier != stage)
        .for_each(|earlier| chain.run_stage(earlier));
    (chain, stage)
}

/// Fails the run above so many instructions for each source packet.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions * PACKETS)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark]
// Some 110 of these note which packets an outage would have copied, and ask whether the path is dark; some 50 choose the
// local address, and count lengths.
#[bench::sending(args = (Stage::Senders, false), setup = under_way, config = at_most(2_710))]
// Copies are kept to be fetched: 180 of these, and 530 for memory that a relay takes at its start. Some 110 hold what is
// kept to the memory of tenants.
#[bench::ingress(args = (Stage::Ingress, false), setup = under_way, config = at_most(5_100))]
#[bench::ingress_in_stream(args = (Stage::Ingress, true), setup = under_way, config = at_most(5_810))]
#[bench::egress(args = (Stage::Egress, false), setup = under_way, config = at_most(985))]
#[bench::egress_in_stream(args = (Stage::Egress, true), setup = under_way, config = at_most(1_560))]
// Some 270 of these keep the next deadline exact, which spares agents a wake for most packets; some 60 count lengths, and
// look whether packets overtake others.
#[bench::receiving(args = (Stage::Receivers, false), setup = under_way, config = at_most(2_770))]
fn packets((mut chain, stage): (Chain, Stage)) -> Chain {
    black_box(&mut chain).run_stage(stage);
    chain
}

library_benchmark_group!(name = stages, benchmarks = [packets]);

main!(library_benchmark_groups = [stages]);

//! Gates: limits on the instructions of the protocol core for a packet, stage by stage.
//!
//! The provider of ciphers does nothing, because the cost of ciphers depends on the processor and
//! would hide that of the core. Digests and coding are included. The engine is one that valgrind
//! can run. Counts depend slightly on the compiler: each limit is the count plus four to ten per
//! cent. If a stage becomes faster, lower its limit.

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
use byway_wire::seal::{ForgeryError, KEY_BYTES, Nonce, PacketKey, Provider, Suite, TAG_BYTES};
use byway_wire::{BlockShape, Service};
use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};

/// Provider of ciphers that do nothing, so that only the core's instructions are counted.
struct NullProvider;

impl Provider for NullProvider {
    fn key(&self, _suite: Suite, _key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
        Box::new(Self)
    }
}

impl PacketKey for NullProvider {
    fn seal(&self, _nonce: &Nonce, _aad: &[u8], _in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        [0; TAG_BYTES]
    }

    fn open(
        &self,
        _nonce: &Nonce,
        _aad: &[u8],
        _in_out: &mut [u8],
        _tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        Ok(())
    }
}

/// Source packets in one step of a stage, over which instructions are counted.
const PACKETS: u64 = 1_000;

/// Makes a chain of 20 active flows of 512-byte datagrams, whose next packets have reached `stage`.
fn warmed_up(stage: Stage, in_stream: bool) -> (Chain, Stage) {
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
    let mut chain = Chain::new(settings, engine, &NullProvider);
    (0..20).for_each(|flow| chain.open_flows(flow));
    chain.run(20, false);
    chain.run(20, true);
    Stage::ALL
        .into_iter()
        .take_while(|earlier| *earlier != stage)
        .for_each(|earlier| chain.run_stage(earlier));
    (chain, stage)
}

/// Returns the configuration of a benchmark that fails above this number of instructions for each
/// source packet.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions * PACKETS)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark]
// About 110 of these record the packets that an outage would copy, and check for the outage. About
// 50 choose the local address, and count lengths. About 20 check whether losses are sent again.
// About 60 look for the uplink of the packet and its backlog.
#[bench::sending(args = (Stage::Senders, false), setup = warmed_up, config = at_most(2_900))]
// About 180 of these store copies for later NACKs, and 530 use memory that a relay allocates at its
// start. About 110 charge the memory to the tenant. About 30 check whether copies wait for
// requests. About 60 compare the packet with the cohorts of open queues, charge its bytes, and look
// for a third relay.
#[bench::ingress(args = (Stage::Ingress, false), setup = warmed_up, config = at_most(5_400))]
#[bench::ingress_in_stream(args = (Stage::Ingress, true), setup = warmed_up, config = at_most(6_100))]
// About 8 check whether packets of a new batch were lost.
#[bench::egress(args = (Stage::Egress, false), setup = warmed_up, config = at_most(1_000))]
#[bench::egress_in_stream(args = (Stage::Egress, true), setup = warmed_up, config = at_most(1_630))]
// About 270 of these update the next deadline exactly, which saves agents a wake-up for most
// packets. About 60 count lengths, and detect reordering. About 50 check by which service losses
// are repaired, also shortly after a change. About 70 measure the growth of the path's queue. About
// 15 look for the uplink of the packet.
#[bench::receiving(args = (Stage::Receivers, false), setup = warmed_up, config = at_most(2_960))]
fn packets((mut chain, stage): (Chain, Stage)) -> Chain {
    black_box(&mut chain).run_stage(stage);
    chain
}

library_benchmark_group!(name = stages, benchmarks = [packets]);

main!(library_benchmark_groups = [stages]);

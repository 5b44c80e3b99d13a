//! Processes that are killed and restarted, in any order.

mod support;

use std::time::Duration;

use support::{App, ManagedNetwork, Node, echo, status};

/// Longest time from a restart until applications are served again.
const HEALED: Duration = Duration::from_secs(2);

/// Random numbers, the same each time (the constants are those of Knuth's MMIX).
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

#[test]
fn a_hundred_kills_leave_nothing_stuck() {
    let (network, controller) = ManagedNetwork::new();
    echo(network.echo());
    let starts: [&dyn Fn() -> Node; 5] =
        [&|| network.controller(), &|| network.relay(1), &|| network.relay(2), &|| network.bob(), &|| {
            network.alice("caching")
        }];
    let mut nodes = vec![controller];
    nodes.extend(starts.iter().skip(1).map(|start| start()));
    let app = App::at(network.bench.at(30, 0));
    app.call(network.forward());
    let mut chance = TestRng(1);
    let mut kills = 0;
    while kills < 100 {
        let first = chance.below(nodes.len());
        let second = chance.below(nodes.len());
        let mut indexes = vec![first, second];
        indexes.dedup();
        for index in &indexes {
            nodes[*index].kill();
        }
        for index in &indexes {
            nodes[*index] = starts[*index]();
        }
        kills += indexes.len();
        let took = app.call(network.forward());
        let names: Vec<_> = indexes.iter().map(|index| nodes[*index].name()).collect();
        assert!(took < HEALED, "after {kills} kills, the last of {names:?}: {took:?}");
    }
    let alice = status(network.observe(11));
    assert_eq!(alice["mappings"].as_array().map(Vec::len), Some(1), "{alice}");
    assert_eq!(nodes.iter_mut().map(Node::stop).collect::<Vec<_>>(), vec![Some(0); 5]);
}

#[test]
fn the_data_plane_needs_no_controller() {
    let (network, mut controller) = ManagedNetwork::new();
    echo(network.echo());
    let mut nodes = [network.relay(1), network.relay(2), network.bob(), network.alice("caching")];
    let app = App::at(network.bench.at(30, 0));
    app.call(network.forward());
    controller.kill();
    for (index, node) in nodes.iter_mut().enumerate() {
        node.kill();
        *node = match index {
            0 => network.relay(1),
            1 => network.relay(2),
            2 => network.bob(),
            _ => network.alice("caching"),
        };
        let took = app.call(network.forward());
        assert!(took < HEALED, "{} came back without a controller: {took:?}", node.name());
    }
}

//! Tests that streams arrive whole on all kinds of links.

use byway_sim::tcp::{Algorithm, BulkSender, Settings, TcpApplication};
use byway_sim::{Jitter, Link, Loss, Reordering};
use byway_units::{Bytes, Duration, Time};
use proptest::prelude::*;

use crate::support::{Pair, millis, share};

prop_compose! {
    fn bad_link()(
        delay in 1_u64..100, jitter in 0_u64..30, detour in 0_u64..100,
        [loss, reordering, duplication, corruption] in prop::array::uniform4(0.0..0.15_f64),
    ) -> Link {
        Link {
            delay: millis(delay),
            jitter: Jitter { max: millis(jitter), may_reorder: true },
            reordering: Reordering { probability: share(reordering), detour: millis(detour) },
            loss: vec![Loss::Independent(share(loss))],
            duplication: share(duplication),
            corruption: share(corruption),
            ..Link::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_arrives_once_and_both_ends_close(
        seed in any::<u64>(), upwards in bad_link(), downwards in bad_link(), bytes in 0_u64..300_000,
        is_cubic in any::<bool>(), timestamps in any::<bool>(), ecn in any::<bool>(),
    ) {
        let algorithm = if is_cubic { Algorithm::Cubic } else { Algorithm::NewReno };
        let settings = Settings { algorithm, timestamps, ecn, ..Settings::default() };
        let mut pair = Pair::new(seed, settings, upwards, downwards);
        let bytes = Bytes::new(bytes);
        let id = pair.open(0, TcpApplication::Bulk(BulkSender::new(Some(bytes))), Time::START);
        let fetch = pair.fetch(1, Time::START);
        for hour in 1..=3 {
            pair.run(Duration::from_secs(3_600 * hour));
        }
        let host = pair.world.host(pair.client);
        let (connection, task) = host.connection(id).expect("the host keeps it");
        let TcpApplication::Bulk(bulk) = task else { panic!("{task:?}") };
        prop_assert!(bulk.is_finished(), "{:?}", connection.statistics());
        prop_assert_eq!(connection.statistics().bytes_acknowledged, bytes);
        prop_assert!(pair.completion(fetch).is_some());
        prop_assert!(pair.connection(id).is_closed() && pair.connection(fetch).is_closed());
        prop_assert_eq!(pair.world.next_event(), None);
        for node in [pair.client, pair.server] {
            prop_assert_eq!(pair.world.host(node).misplaced_segments(), 0);
        }
        pair.world.check_conservation().expect("nothing is lost track of");
    }
}

#[test]
fn damaged_segments_are_lost_ones_and_are_sent_again() {
    let damaging = Link { delay: millis(20), corruption: share(0.05), ..Link::default() };
    let mut pair = Pair::new(2, Settings::default(), damaging.clone(), damaging);
    let bytes = Bytes::new(1_000_000);
    let id = pair.open(0, TcpApplication::Bulk(BulkSender::new(Some(bytes))), Time::START);
    pair.run(Duration::from_secs(200));
    let [client, server] = [pair.client, pair.server].map(|node| pair.world.host(node));
    assert!(client.damaged() > 0 && server.damaged() > 0);
    assert_eq!((client.misplaced_segments(), server.misplaced_segments()), (0, 0));
    let statistics = pair.connection(id).statistics();
    assert!(statistics.retransmitted >= server.damaged(), "{statistics:?}");
    assert_eq!(statistics.bytes_acknowledged, bytes);
}

//! Feed of a small network, and tests of its streams.
//!
//! Hosts of the tenants `lab` and `office` exchange flows with a server. Two links are on each path
//! to the server, and one on each return path. All are reported by the node `edge`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use byway_api::{
    FlowProtocol, FlowRegistration, FlowTuple, NetworkStateUse, PathState, RegisteredFlows, Role,
    SampleBatch, SampledLink, StateAnswer,
};
use byway_state::{Path, StateQuery};
use byway_units::Time;

use super::*;
use crate::controller::access::{AccessTable, Application, LinkReporter};
use crate::controller::network::{Change, Digest, NodeRecord, Tenant, Token};
use crate::membership::WallClock;

pub(in crate::controller) const UNIX_SECONDS: u64 = 1_800_000_000;

/// Number of the member `edge`.
pub(in crate::controller) const EDGE: u32 = 7;

/// Host of the tenant `lab`, and the server.
pub(in crate::controller) const ENDS: [&str; 2] = ["10.0.0.2", "198.51.100.7"];

pub(in crate::controller) fn topology() -> Topology {
    let link = |name: &str| ReportedLink { name: name.to_owned(), node: "edge".to_owned() };
    let network = |tenant: &str, prefix: &str| TenantNetwork {
        tenant: tenant.to_owned(),
        prefixes: vec![prefix.parse().expect("a prefix")],
    };
    let path = |from: &str, to: &str, links: &[u32]| RoutedPath {
        from: from.parse().expect("a prefix"),
        to: to.parse().expect("a prefix"),
        path: Path::new(links.iter().map(|link| Topology::link_id(*link))).expect("a path"),
    };
    Topology {
        networks: vec![network("lab", "10.0.0.0/24"), network("office", "10.0.1.0/24")],
        links: vec![link("core-1"), link("core-2"), link("back-1")],
        paths: vec![
            path("10.0.0.0/24", "198.51.100.0/24", &[0, 1]),
            path("198.51.100.0/24", "10.0.0.0/24", &[2]),
            path("10.0.1.0/24", "198.51.100.0/24", &[0, 1]),
            path("198.51.100.0/24", "10.0.1.0/24", &[2]),
        ],
    }
}

/// Returns the network: applications 1 and 3 of `lab`, application 2 of `office`, and the nodes
/// `edge` and `alice`. The secret of token 1 has 32 bytes of 1, and that of a node is `secret`.
pub(in crate::controller) fn network() -> Vec<Change> {
    let tenant = |number: u32, name: &str| Change::Tenant(Tenant { number, name: name.to_owned() });
    let application = |number: u8, tenant: u32| {
        Change::Token(Token {
            number: number.into(),
            secret: Digest::of(&[number; 32]),
            role: Role::Application,
            tenant: Some(tenant),
            uses_left: None,
            expires_unix_seconds: (number == 3).then_some(UNIX_SECONDS + 30),
        })
    };
    let node = |number: u32, role: Role, name: &str, tenant: Option<u32>| {
        Change::Node(Box::new(NodeRecord {
            number,
            role,
            tenant,
            name: name.to_owned(),
            key: Digest([u8::try_from(number).expect("few nodes"); 32]),
            addresses: vec![],
            shards: 1,
            bearer: Digest::of(b"secret"),
            token: 9,
            round_trips: BTreeMap::new(),
            nearest: None,
            relay: None,
            transit: false,
        }))
    };
    vec![
        tenant(1, "lab"),
        tenant(2, "office"),
        application(1, 1),
        application(2, 2),
        application(3, 1),
        node(EDGE, Role::Link, "edge", None),
        node(8, Role::Agent, "alice", Some(1)),
    ]
}

pub(in crate::controller) fn sampled(link: &str, number: u64) -> SampledLink {
    SampledLink {
        link: link.to_owned(),
        sent_bytes: 31_250 * number,
        backlog_bytes: 1_500,
        shown_bits_per_second: 5_000_000,
        guaranteed_bits_per_second: 2_500_000,
        delay_us: 10_000,
        target_bytes: 1_500,
        flows: [1, 0],
    }
}

/// Returns the batch of this number: of these links, 50 ms after the one before.
pub(in crate::controller) fn batch(number: u64, links: &[&str]) -> SampleBatch {
    let links = links.iter().map(|link| sampled(link, number)).collect();
    SampleBatch { incarnation: 1, number, clock_us: 50_000 * number, transit_us: 0, links }
}

pub(in crate::controller) fn registration(ends: [&str; 2]) -> FlowRegistration {
    let [from, to] = ends.map(|end| SocketAddr::new(end.parse().expect("an address"), 4_433));
    let tuples = vec![FlowTuple { from, to, protocol: FlowProtocol::Udp }];
    FlowRegistration { application: "viewer".to_owned(), tuples }
}

/// Node that reports all links of a feed at each beat, which the test makes.
pub(in crate::controller) struct TestEdge {
    pub(in crate::controller) feed: Arc<StateFeed>,
    stream: SampleStream,
    number: u64,
}

impl TestEdge {
    /// Begins to report. Its first samples are in no entry.
    pub(in crate::controller) fn new(feed: &Arc<StateFeed>) -> Self {
        let reporter = LinkReporter { number: EDGE, name: "edge".into() };
        let mut edge =
            Self { feed: Arc::clone(feed), stream: SampleStream::begin(feed, reporter), number: 0 };
        edge.report(&["core-1", "core-2", "back-1"]);
        edge
    }

    fn report(&mut self, links: &[&str]) {
        self.number += 1;
        let reported = self.stream.on_batch(&batch(self.number, links), self.feed.now());
        assert_eq!(reported, Ok(()));
    }

    /// Lets 50 ms pass, reports these links, and makes the entries.
    pub(in crate::controller) async fn beat_with(&mut self, links: &[&str]) {
        tokio::time::advance(std::time::Duration::from_millis(50)).await;
        self.report(links);
        self.feed.tick(self.feed.now());
    }

    /// Lets `count` beats pass, at which all links are reported.
    pub(in crate::controller) async fn beats(&mut self, count: usize) {
        for _ in 0..count {
            self.beat_with(&["core-1", "core-2", "back-1"]).await;
        }
    }

    /// Lets `count` beats pass without a report.
    pub(in crate::controller) async fn silent_beats(&self, count: usize) {
        for _ in 0..count {
            tokio::time::advance(std::time::Duration::from_millis(50)).await;
            self.feed.tick(self.feed.now());
        }
    }
}

fn feed() -> (Arc<StateFeed>, Arc<AccessTable>) {
    let access = Arc::<AccessTable>::default();
    access.apply(&network());
    let clock = WallClock::new(|| UNIX_SECONDS * 1_000_000);
    (Arc::new(StateFeed::new(topology(), Arc::clone(&access), clock, [7; 8])), access)
}

fn lab() -> Application {
    Application { number: 1, tenant: "lab".into() }
}

fn ends() -> (IpAddr, IpAddr) {
    let [from, to] = ENDS.map(|end| end.parse().expect("an address"));
    (from, to)
}

const LEASE: LeaseId = LeaseId([1; 16]);

/// Registers a flow of `lab`.
fn register(feed: &StateFeed) {
    let registered = feed.register(&lab(), &registration(ENDS), LEASE, feed.now());
    assert_eq!(registered.map(|answer| answer.expires_in_s), Ok(60));
}

/// Begins a stream of `lab` after these indices.
fn subscribe(feed: &Arc<StateFeed>, last: u64, back: Option<u64>) -> Subscription {
    let queries = (StateQuery::new(last, 40), back.map(|last| StateQuery::new(last, 40)));
    let begun = Subscription::begin(feed, lab(), ends(), queries, feed.now());
    begun.expect("the flow is registered")
}

/// Returns the next event, parsed, and checks that it has one entry of each direction at most.
async fn event(subscription: &mut Subscription) -> (String, StateAnswer) {
    let event = subscription.next().await.expect("the flow is registered");
    let answer: StateAnswer = serde_json::from_str(&event.data).expect("an answer");
    assert!(answer.paths.iter().all(|path| path.entries.len() <= 1), "{event:?}");
    assert_eq!(answer.epoch, "07".repeat(8));
    (event.id, answer)
}

fn indices(answer: &StateAnswer) -> Vec<Vec<u64>> {
    let indices = |path: &PathState| path.entries.iter().map(|entry| entry.index).collect();
    answer.paths.iter().map(indices).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_history_and_goes_on_with_each_beat() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    edge.beats(3).await;
    register(&feed);
    let mut stream = subscribe(&feed, 0, None);
    for index in 1..=3_u64 {
        let (id, answer) = event(&mut stream).await;
        assert_eq!((id, indices(&answer)), (index.to_string(), vec![vec![index]]));
        let links = &answer.paths[0].entries[0].links;
        assert_eq!(links.iter().map(|link| link.link.as_str()).collect::<Vec<_>>(), ["core-1", "core-2"]);
        // The last entry was made just now.
        assert!(links.iter().all(|link| link.age_us == 50_000 * (3 - index)), "{links:?}");
    }
    edge.beats(1).await;
    assert_eq!(event(&mut stream).await.0, "4");
    let expected = NetworkStateUse {
        paths: 4,
        paths_known: 4,
        reporters: 1,
        flows: 1,
        streams: 1,
        samples_accepted: 15,
        samples_refused: 0,
    };
    assert_eq!(feed.usage(), expected);
    drop((stream, edge));
    assert_eq!((feed.usage().streams, feed.usage().reporters), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_both_directions_has_both_indices() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    // The return path is known three beats earlier.
    for _ in 0..3 {
        edge.beat_with(&["back-1"]).await;
    }
    edge.beats(2).await;
    register(&feed);
    let mut stream = subscribe(&feed, 1, Some(3));
    let (id, answer) = event(&mut stream).await;
    assert_eq!((id.as_str(), indices(&answer)), ("2-4", vec![vec![2], vec![4]]));
    let [there, back] = [&answer.paths[0], &answer.paths[1]];
    assert_eq!((there.from, there.to), ends());
    assert_eq!((back.to, back.from), ends());
    let (id, answer) = event(&mut stream).await;
    assert_eq!((id.as_str(), indices(&answer)), ("2-5", vec![vec![], vec![5]]), "history of one goes on");
    edge.beats(1).await;
    assert_eq!(event(&mut stream).await.0, "3-6");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_late_skips_to_the_newest_entry_with_its_true_age() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    edge.beats(1).await;
    register(&feed);
    let mut stream = subscribe(&feed, 0, None);
    assert_eq!(event(&mut stream).await.0, "1");
    edge.beats(20).await;
    assert_eq!(event(&mut stream).await.0, "21");
    edge.beats(1).await;
    tokio::time::advance(std::time::Duration::from_millis(300)).await;
    let (id, answer) = event(&mut stream).await;
    assert_eq!((id.as_str(), answer.paths[0].entries[0].links[0].age_us), ("22", 300_000));
}

#[tokio::test(start_paused = true)]
async fn an_index_beyond_the_newest_gets_history_and_the_newest_one_gets_none() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    edge.beats(50).await;
    register(&feed);
    let mut restarted = subscribe(&feed, 1_000, None);
    assert_eq!(event(&mut restarted).await.0, "11", "40 of 50 entries");
    let mut current = subscribe(&feed, 50, None);
    edge.beats(1).await;
    assert_eq!(event(&mut current).await.0, "51");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_registration_and_with_the_token() {
    let (feed, access) = feed();
    let mut edge = TestEdge::new(&feed);
    edge.beats(1).await;
    register(&feed);
    let mut stream = subscribe(&feed, 0, None);
    assert_eq!(event(&mut stream).await.0, "1");
    assert_eq!(feed.release(&lab(), &LEASE.to_string(), feed.now()), Ok(()));
    edge.beats(1).await;
    assert_eq!(stream.next().await, None);
    register(&feed);
    let mut stream = subscribe(&feed, 0, None);
    access.apply(&[Change::NoToken(1)]);
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_renews_the_registration_and_one_that_is_not_read_does_not() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    register(&feed);
    let mut stream = subscribe(&feed, 0, None);
    for _ in 0..130 {
        edge.beats(10).await;
        drop(event(&mut stream).await);
    }
    assert_eq!(feed.now(), Time::from_nanos(65_000_000_000));
    edge.beats(1_200).await;
    assert_eq!(stream.next().await, None, "nobody has read for a minute");
}

#[tokio::test(start_paused = true)]
async fn a_path_of_another_tenant_is_neither_read_nor_used_though_it_has_an_own_address() {
    let access = Arc::<AccessTable>::default();
    access.apply(&network());
    let with_paths = |sources: &[&str]| {
        let mut topology = topology();
        topology.paths = sources
            .iter()
            .map(|from| RoutedPath {
                from: from.parse().expect("a prefix"),
                to: "0.0.0.0/0".parse().expect("a prefix"),
                path: Path::new([Topology::link_id(0)]).expect("a path"),
            })
            .collect();
        let clock = WallClock::new(|| UNIX_SECONDS * 1_000_000);
        StateFeed::new(topology, Arc::clone(&access), clock, [7; 8])
    };
    let between_tenants = registration(["10.0.0.2", "10.0.1.2"]);
    let feed = with_paths(&["10.0.1.0/24"]);
    let refused = feed.register(&lab(), &between_tenants, LEASE, feed.now());
    assert_eq!(refused.map(drop), Err(FeedRefusal::NoPath));
    let feed = with_paths(&["10.0.1.0/24", "10.0.0.0/24"]);
    assert!(feed.register(&lab(), &between_tenants, LEASE, feed.now()).is_ok());
    let tuple = between_tenants.tuples[0];
    let [from, to] = [tuple.from.ip(), tuple.to.ip()];
    let paths = |ends, both| feed.readable(&lab(), ends, both, feed.now());
    let there = paths((from, to), true).expect("it is registered");
    assert_eq!(there.iter().map(|readable| readable.path).collect::<Vec<_>>(), [1]);
    assert_eq!(paths((to, from), false), Err(FeedRefusal::NoPath));
    let leases = feed.leases();
    assert!(leases.flows().of_paths(&[0], 9).is_empty(), "the other tenant's queue is not used");
    assert_eq!(leases.flows().of_paths(&[1], 9).len(), 1);
}

/// Returns the state of the path of `lab`.
fn named(feed: &StateFeed) -> PathState {
    let answer = feed.named(&lab(), ends(), StateQuery::first(), None, feed.now());
    answer.expect("the flow is registered").paths.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_is_named_and_its_path_has_no_entries_after_five_seconds() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    edge.beats(2).await;
    register(&feed);
    assert_eq!(named(&feed).silent_link, None);
    for _ in 0..4 {
        edge.beat_with(&["core-1", "back-1"]).await;
    }
    let newest = named(&feed).entries.pop().expect("the path is known");
    assert_eq!([newest.links[0].interval_us, newest.links[1].interval_us], [50_000, 0]);
    assert_eq!((newest.links[1].backlog_bytes, newest.links[1].age_us), (0, 200_000));
    for _ in 0..96 {
        edge.beat_with(&["core-1", "back-1"]).await;
    }
    assert_eq!(named(&feed).silent_link.as_deref(), Some("core-2"));
    edge.silent_beats(101).await;
    assert!(named(&feed).entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_has_another_epoch_and_begins_with_index_one() {
    let (before, access) = feed();
    TestEdge::new(&before).beats(10).await;
    let clock = WallClock::new(|| UNIX_SECONDS * 1_000_000);
    let feed = Arc::new(StateFeed::new(topology(), access, clock, [8; 8]));
    TestEdge::new(&feed).beats(2).await;
    register(&feed);
    let answer = feed.named(&lab(), ends(), StateQuery::new(10, 40), None, feed.now()).expect("it may read");
    assert_eq!((answer.epoch.as_str(), indices(&answer)), ("0808080808080808", vec![vec![1, 2]]));
}

/// Begins a stream of registered flows to `edge`.
fn flow_stream(feed: &Arc<StateFeed>) -> FlowStream {
    let begun = FlowStream::begin(feed, LinkReporter { number: EDGE, name: "edge".into() });
    begun.expect("the ones before have ended")
}

/// Returns the flows of the next line, with the seconds of their leases; none for an empty line.
async fn flows(stream: &mut FlowStream) -> Vec<(String, u64)> {
    let line = stream.next().await.expect("the node is a member");
    if line == "\n" {
        return Vec::new();
    }
    let parsed: RegisteredFlows = serde_json::from_str(&line).expect("a line");
    parsed.flows.iter().map(|flow| (format!("{} to {}", flow.from, flow.to), flow.lease_s)).collect()
}

/// Flow of the registration, and its return direction.
const FLOW: [&str; 2] = ["10.0.0.2:4433 to 198.51.100.7:4433", "198.51.100.7:4433 to 10.0.0.2:4433"];

fn with_lease(seconds: u64) -> Vec<(String, u64)> {
    FLOW.iter().map(|flow| ((*flow).to_owned(), seconds)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_the_flows_of_its_paths_in_both_directions_until_they_are_released() {
    let (feed, _access) = feed();
    let mut edge = TestEdge::new(&feed);
    let mut before = flow_stream(&feed);
    assert!(flows(&mut before).await.is_empty(), "there are none");
    register(&feed);
    edge.beats(5).await;
    assert_eq!(flows(&mut before).await, with_lease(60));
    let mut stream = flow_stream(&feed);
    assert_eq!(before.next().await, None, "a newer stream replaces it");
    assert_eq!(flows(&mut stream).await, with_lease(60), "a new one begins with all of them");
    assert_eq!(feed.release(&lab(), &LEASE.to_string(), feed.now()), Ok(()));
    edge.beats(5).await;
    assert_eq!(flows(&mut stream).await, with_lease(0));
    let other = LinkReporter { number: 9, name: "other".into() };
    let mut of_other = FlowStream::begin(&feed, other).expect("its first stream");
    assert_eq!(of_other.next().await, None, "it is no member");
    let edge = LinkReporter { number: EDGE, name: "edge".into() };
    assert!(FlowStream::begin(&feed, edge.clone()).is_none(), "two streams have not ended");
    drop(before);
    assert!(FlowStream::begin(&feed, edge).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_registered_flow_is_sent_again_before_its_lease_at_the_link_ends() {
    let (feed, access) = feed();
    let mut edge = TestEdge::new(&feed);
    register(&feed);
    let mut stream = flow_stream(&feed);
    assert_eq!(flows(&mut stream).await, with_lease(60));
    for look in 1..=8 {
        // 5 s.
        edge.beats(100).await;
        let expected = if look % 4 == 0 { with_lease(60) } else { Vec::new() };
        assert_eq!(flows(&mut stream).await, expected, "look {look}");
    }
    // Nobody has read for 60 s.
    edge.beats(410).await;
    assert_eq!(flows(&mut stream).await, with_lease(0));
    access.apply(&[Change::NoNode(EDGE)]);
    assert_eq!(stream.next().await, None);
}

#[test]
fn identifiers_of_events_are_one_index_or_two() {
    let expected = |there, back| Ok((StateQuery::new(there, 7), StateQuery::new(back, 7)));
    assert_eq!(queries_after("813", Some("7")), expected(813, 0));
    assert_eq!(queries_after("813-640", Some("7")), expected(813, 640));
    for wrong in ["", "-1", "1-", "1-2-3", "x", "1.5"] {
        assert!(queries_after(wrong, None).is_err(), "{wrong}");
    }
}

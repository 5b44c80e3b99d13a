//! Two hosts, and a client and a server on them.

use std::net::SocketAddr;

use byway_sim::tcp::{
    Algorithm, BulkSender, Connection, ConnectionId, Fetch, FetchServer, Ports, Settings, Sink,
    TcpApplication, TcpHost,
};
use byway_sim::{Ecn, Link, Loss, NodeId, Observer, Record, Script, Seed, Step};
use byway_units::{Bytes, Duration, Probability, Time};

pub(crate) type World<O = ()> = byway_sim::World<Script<TcpHost<TcpApplication>, O>>;

pub(crate) const WEB: u16 = 80;
pub(crate) const DISCARD: u16 = 9;

/// The payload of a full segment: 1,460 bytes without 12 of timestamps.
pub(crate) const SEGMENT: u64 = 1_448;

/// Half of the default round trip.
pub(crate) const DELAY: Duration = Duration::from_millis(100);

pub(crate) const REQUEST: Bytes = Bytes::new(12);
pub(crate) const RESPONSE: Bytes = Bytes::new(50_000);

pub(crate) fn address(node: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node], 6))
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn after(duration: Duration) -> Time {
    Time::START + duration
}

pub(crate) fn share(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

pub(crate) fn delayed() -> Link {
    Link { delay: DELAY, ..Link::default() }
}

/// Returns a link that loses these of all its packets, counted from 0.
pub(crate) fn losing(ordinals: &[u64]) -> Link {
    Link { loss: vec![Loss::Ordinals(ordinals.to_vec())], ..delayed() }
}

pub(crate) fn with(algorithm: Algorithm) -> Settings {
    Settings { algorithm, ..Settings::default() }
}

/// A client and a server, and the links between them.
pub(crate) struct Pair<O: Observer = ()> {
    pub(crate) world: World<O>,
    pub(crate) client: NodeId,
    pub(crate) server: NodeId,
}

impl Pair {
    pub(crate) fn new(seed: u64, settings: Settings, upwards: Link, downwards: Link) -> Self {
        Self::observed(seed, settings, upwards, downwards, ())
    }
}

impl<O: Observer> Pair<O> {
    pub(crate) fn observed(
        seed: u64,
        settings: Settings,
        upwards: Link,
        downwards: Link,
        observer: O,
    ) -> Self {
        let seed = Seed::new(seed);
        let mut world = World::new(seed, observer);
        let client = world.add(TcpHost::new(settings, seed.named("client")), address(1));
        let mut host = TcpHost::new(settings, seed.named("server"));
        host.listen(WEB, TcpApplication::FetchServer(FetchServer::new(REQUEST, RESPONSE)));
        host.listen(DISCARD, TcpApplication::Sink(Sink::default()));
        let server = world.add(host, address(2));
        world.connect(client, server, upwards);
        world.connect(server, client, downwards);
        Self { world, client, server }
    }

    /// Opens the connection with this number, at this time.
    pub(crate) fn open(&mut self, number: u16, task: TcpApplication, at: Time) -> ConnectionId {
        let destination = if matches!(task, TcpApplication::Fetch(_)) { WEB } else { DISCARD };
        let ports = Ports { source: 10_000 + number, destination };
        let (id, client) = (ConnectionId { peer: address(2), ports }, self.client);
        self.world.at(at, move |world| {
            let was_opened = world.input(client, |host, now| host.open(id, task, now));
            assert_eq!(was_opened, Some(true));
        });
        id
    }

    pub(crate) fn fetch(&mut self, number: u16, at: Time) -> ConnectionId {
        self.open(number, TcpApplication::Fetch(Fetch::new(REQUEST, RESPONSE)), at)
    }

    pub(crate) fn bulk(&mut self, number: u16, at: Time) -> ConnectionId {
        self.open(number, TcpApplication::Bulk(BulkSender::new(None)), at)
    }

    pub(crate) fn run(&mut self, until: Duration) {
        self.world.run_until(after(until), &mut Script::new());
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> &Connection {
        self.world.host(self.client).connection(id).expect("a connection").0
    }

    /// Returns the other end; `None` after its removal.
    pub(crate) fn served(&self, id: ConnectionId) -> Option<&Connection> {
        let id = ConnectionId { peer: address(1), ports: id.ports.reversed() };
        self.world.host(self.server).connection(id).map(|(connection, _)| connection)
    }

    pub(crate) fn completion(&self, id: ConnectionId) -> Option<Duration> {
        match self.world.host(self.client).connection(id)?.1 {
            TcpApplication::Fetch(fetch) => fetch.completion(),
            _ => None,
        }
    }
}

/// Time of sending of each data segment of the server, by its ordinal on the link.
#[derive(Default)]
pub(crate) struct DepartureObserver(pub(crate) Vec<(Duration, usize, Ecn)>);

impl Observer for DepartureObserver {
    fn packet(&mut self, record: &Record<'_>) {
        if record.step == Step::Sent && record.source == address(2) {
            let time = record.time.saturating_since(Time::START);
            self.0.push((time, record.payload.len(), record.ecn));
        }
    }
}

/// Runs one fetch over links that lose these packets. Returns the pair after 50 s, and the
/// duration of the fetch.
pub(crate) fn fetch_losing(upwards: &[u64], downwards: &[u64]) -> (Pair, ConnectionId, Duration) {
    let mut pair = Pair::new(1, Settings::default(), losing(upwards), losing(downwards));
    let id = pair.fetch(0, Time::START);
    pair.run(millis(50_000));
    let completion = pair.completion(id).expect("the fetch completes");
    (pair, id, completion)
}

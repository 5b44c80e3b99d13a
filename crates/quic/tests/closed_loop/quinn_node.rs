//! Endpoints of quinn 0.11.

use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use byway_quic::{Factory, QuinnController};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamId, TransportConfig, VarInt,
};

use crate::node::{CLIENT_ADDRESS, Identity, Observation, SEND_BUFFER, SERVER_ADDRESS, TestNode};

/// Most datagrams that are sent together, as with segmentation offload.
const BATCH: usize = 10;

struct QuinnNode {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    peer: SocketAddr,
    /// Answers of the endpoint itself.
    responses: Vec<Vec<u8>>,
}

pub(crate) fn connect(
    identity: Identity,
    factory: Option<&Arc<Factory>>,
    start: Instant,
) -> [Box<dyn TestNode>; 2] {
    let mut transport = TransportConfig::default();
    transport.send_window(SEND_BUFFER);
    if let Some(factory) = factory {
        factory.configure_quinn(&mut transport);
    }
    let mut config = ClientConfig::with_root_certificates(identity.roots()).expect("there is a root");
    config.transport_config(Arc::new(transport));
    let mut client = QuinnNode::new(None, 1, SERVER_ADDRESS);
    let connection = client.endpoint.connect(start, config, SERVER_ADDRESS, "localhost");
    client.connection = Some(connection.expect("a valid configuration"));

    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::MAX);
    let mut config = ServerConfig::with_single_cert(vec![identity.certificate], identity.key)
        .expect("key and certificate fit");
    config.transport_config(Arc::new(transport));
    [Box::new(client), Box::new(QuinnNode::new(Some(config), 2, CLIENT_ADDRESS))]
}

impl QuinnNode {
    fn new(server: Option<ServerConfig>, seed: u8, peer: SocketAddr) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([seed; 32]));
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), true, None);
        Self { endpoint, connection: None, stream: None, peer, responses: Vec::new() }
    }

    fn connection(&mut self) -> &mut Connection {
        let (_, connection) = self.connection.as_mut().expect("there is a connection");
        connection
    }
}

impl TestNode for QuinnNode {
    fn receive(&mut self, datagram: &[u8], now: Instant) {
        let mut response = Vec::new();
        match self.endpoint.handle(now, self.peer, None, None, datagram.into(), &mut response) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut response, None);
                self.connection = Some(accepted.expect("the client is valid"));
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection().handle_event(event),
            Some(DatagramEvent::Response(_)) => self.responses.push(response),
            None => {}
        }
    }

    fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = mem::take(&mut self.responses);
        let Some((handle, connection)) = &mut self.connection else { return datagrams };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
            }
            while let Some(event) = connection.poll() {
                assert!(!matches!(event, Event::ConnectionLost { .. }), "{event:?}");
            }
            let mut buffer = Vec::new();
            let Some(transmit) = connection.poll_transmit(now, BATCH, &mut buffer) else {
                return datagrams;
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            datagrams.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
        }
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }

    fn on_deadline(&mut self, now: Instant) {
        self.connection().handle_timeout(now);
    }

    fn fill_stream(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        if connection.is_handshaking() {
            return;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(stream) = self.stream else { return };
        while connection.send_stream(stream).write(&[7; 4_096]).is_ok() {}
    }

    fn read_stream(&mut self) -> u64 {
        let Some((_, connection)) = &mut self.connection else { return 0 };
        self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Uni));
        let Some(stream) = self.stream else { return 0 };
        let mut stream = connection.recv_stream(stream);
        let mut chunks = stream.read(true).expect("the stream stays open");
        let mut bytes = 0;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            bytes += chunk.bytes.len() as u64;
        }
        bytes
    }

    fn observe(&self) -> Observation {
        let (_, connection) = self.connection.as_ref().expect("there is a connection");
        let controller = connection.congestion_state().clone_box();
        let (window, metrics) = (controller.window(), controller.metrics());
        let controller = controller.into_any().downcast::<QuinnController>().expect("the factory made it");
        Observation {
            window,
            pacing_rate: metrics.pacing_rate,
            send_quantum: None,
            path: controller.path().clone(),
        }
    }
}

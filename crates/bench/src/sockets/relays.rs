//! Relays under test on Byway's driver: a plain forwarder and whole ingress relays.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Arrival, Clock, Io, OverlaySockets, Role, SocketId, spawn};
use byway_proto::agent::FlowSettings;
use byway_proto::relay::{Authority, Relay, RelayInput};
use byway_proto::{CodingRates, LocalAddress, Priority, Transmit};
use byway_sim::overlay::topology::{self, AgentNode, RelayNode};
use byway_units::{AgentId, FlowId, Rate, RelayId, Time};
use byway_wire::Service;
use byway_wire::seal::{StaticSecret, Suite};
use socket2::{Domain, Socket, Type};

use super::generator::{self, Topology};
use super::{Cores, GOAL, Progress, RelayContender, SocketsOptions};

pub(super) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(super) fn loopback_socket() -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.bind(&LOOPBACK.into())?;
    Ok(socket)
}

/// Makes a socket that nobody reads, as the destination of forwarded packets. The kernel drops
/// packets beyond its buffer.
pub(super) fn sink() -> Result<Socket> {
    let socket = loopback_socket()?;
    socket.set_recv_buffer_size(1)?;
    Ok(socket)
}

/// Role of a driver that forwards every packet without a protocol.
struct Forwarder {
    #[expect(dead_code, reason = "it is there so that its port is taken")]
    sink: Socket,
    to: SocketAddr,
    cores: Cores,
    relayed: u64,
    progress: Arc<Progress>,
}

impl Role for Forwarder {
    type Control = ();

    fn start(&mut self, _: &mut Io) {
        core_affinity::set_for_current(self.cores.relay);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { traffic_class, bytes, .. } = arrival;
        let ecn = traffic_class.ecn();
        let (to, from) = (self.to, LocalAddress::ANY);
        io.send(SocketId::OVERLAY, &Transmit { to, from, ecn, priority: Priority::Source, bytes });
        self.relayed += 1;
        note(&self.progress, self.relayed, self.relayed);
    }

    fn on_deadline(&mut self, _: &mut Io) {}

    fn on_control(&mut self, (): (), _: &mut Io) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}

fn note(progress: &Progress, packets: u64, served: u64) {
    progress.note(packets, served);
    if packets.is_multiple_of(64) {
        progress.note_cpu_time();
    }
}

/// Starts a relay that is only Byway's driver with a forwarding role, and its generator.
pub(super) fn forwarding_driver(options: &SocketsOptions, cores: Cores) -> Result<RelayContender> {
    let sockets = OverlaySockets::bind(&[LOOPBACK])?;
    let address = sockets.addresses()[0];
    let progress = Arc::new(Progress::default());
    let sink = sink()?;
    let to = generator::address(&sink)?;
    let role = Forwarder { sink, to, cores, relayed: 0, progress: Arc::clone(&progress) };
    spawn("forwarder", sockets, role, Clock::start()).context("the forwarder's thread")?;
    let generator = generator::plain(address, options, cores, Arc::clone(&progress))?;
    Ok(RelayContender { name: "driver, forwarding", generator, progress, goal: None })
}

/// Role of the ingress relay's thread.
struct Ingress {
    relay: Relay,
    cores: Cores,
    progress: Arc<Progress>,
}

impl Role for Ingress {
    type Control = ();

    fn start(&mut self, io: &mut Io) {
        core_affinity::set_for_current(self.cores.relay);
        drain(&mut self.relay, io);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { from, traffic_class, bytes, .. } = arrival;
        let ecn = traffic_class.ecn();
        self.relay.handle(RelayInput::Received { from, to: LocalAddress::ANY, ecn, bytes }, io.now());
        drain(&mut self.relay, io);
        let counters = self.relay.ingress_counters();
        note(&self.progress, counters.copies, counters.copies_relayed + counters.covered);
    }

    fn on_deadline(&mut self, io: &mut Io) {
        self.relay.handle(RelayInput::Deadline, io.now());
        drain(&mut self.relay, io);
    }

    fn on_control(&mut self, (): (), _: &mut Io) {}

    fn deadline(&self) -> Option<Time> {
        self.relay.deadline().map(|(at, _)| at)
    }

    fn is_finished(&self) -> bool {
        false
    }
}

/// Sends the packets that a relay has queued.
pub(super) fn drain(relay: &mut Relay, io: &mut Io) {
    while let Some(transmit) = relay.poll() {
        io.send(SocketId::OVERLAY, &transmit);
    }
}

/// Starts a whole ingress relay with this service of its flows. Agents and an egress relay run in
/// the generator's thread.
pub(super) fn overlay(
    name: &'static str,
    service: Service,
    options: &SocketsOptions,
    cores: Cores,
) -> Result<RelayContender> {
    let clock = Clock::start();
    let (ingress_sockets, egress_sockets) =
        (OverlaySockets::bind(&[LOOPBACK])?, OverlaySockets::bind(&[LOOPBACK])?);
    let relay_node = |number, sockets: &OverlaySockets| RelayNode {
        number: RelayId::new(number),
        secret: secret(number),
        address: sockets.addresses()[0],
    };
    let agent_node =
        |number| AgentNode { number: AgentId::new(number), secret: secret(number), address: None };
    let (ingress, egress) = (relay_node(1, &ingress_sockets), relay_node(2, &egress_sockets));
    let (sender, receiver) = (agent_node(3), agent_node(4));
    let flow = FlowSettings {
        service,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(20_000 / u64::from(options.flows)),
        paths: vec![topology::path(&ingress, &egress)],
        ..FlowSettings::default()
    };
    let flows = FlowId::new(0)..=FlowId::new(options.flows - 1);
    let grant = topology::grant((&sender, &receiver), (&ingress, &egress), flows);
    let relay = |own: &RelayNode, other: &RelayNode, seed: u8| {
        let settings =
            own.settings(Suite::Aes256Gcm, Authority::Static(vec![grant]), vec![other.peer_relay()]);
        Relay::new(settings, Engine::fastest(), &AwsLc, [seed; 32], clock.now())
    };
    let relays = [relay(&ingress, &egress, 1), relay(&egress, &ingress, 2)];
    let [ingress_relay, egress_relay] = relays;
    let progress = Arc::new(Progress::default());
    let role = Ingress { relay: ingress_relay, cores, progress: Arc::clone(&progress) };
    spawn("ingress", ingress_sockets, role, clock).context("the relay's thread")?;
    let topology = Topology { sender, receiver, ingress, egress, flows: options.flows, flow };
    let generator = generator::overlay(
        topology,
        egress_relay,
        egress_sockets,
        options,
        (cores, clock),
        Arc::clone(&progress),
    )?;
    Ok(RelayContender { name, generator, progress, goal: Some(GOAL) })
}

fn secret(number: u32) -> StaticSecret {
    let [a, b, c, d] = number.to_be_bytes();
    let mut bytes = [0x5A; 32];
    bytes[..4].copy_from_slice(&[a, b, c, d]);
    StaticSecret::from_bytes(bytes)
}

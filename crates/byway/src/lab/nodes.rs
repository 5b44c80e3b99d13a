//! The machines of a lab, and the nodes of Byway in them.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration as RealDuration;

use anyhow::{Context as _, bail};
use byway_lab::capture::Capture;
use byway_lab::{Carrier, LabError, Machine, addresses};
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkMachine, NetworkTraffic};
use byway_units::Duration;
use rustix::process::Signal;

use super::configuration::{Configuration, OBSERVED, forward, target};
use super::cost::Cost;
use super::outside;
use super::traffic::Ends;
use super::world::World;
use crate::child::Child;
use crate::exit::Failure;
use crate::membership::NodeKey;
use crate::{interrupt, status};

/// How long nodes may take until they are ready: key agreements, on a machine that has all of them to start.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How often a node is asked whether it is ready.
const ASK_AGAIN: RealDuration = RealDuration::from_millis(50);

/// A machine of a lab at work.
#[derive(Debug)]
struct Place {
    machine: Machine,
    node: Option<Child>,
}

/// All machines of a lab, with what is between them. Dropped, nothing of it is left.
#[derive(Debug)]
pub(super) struct Nodes {
    /// By place; nothing of routers.
    places: Vec<Option<Place>>,
    names: Vec<String>,
    folder: std::path::PathBuf,
}

impl Nodes {
    /// The machines of a network without anything in them, and the carrier between them.
    pub(super) fn new(
        network: &Network,
        seed: u64,
        world: World,
        folder: &Path,
        capture: Option<&Path>,
        clock: Clock,
    ) -> anyhow::Result<(Self, Carrier)> {
        let (mut places, mut devices) = (Vec::new(), Vec::new());
        let all: Vec<_> = (0..network.machines.len()).map(|place| addresses(place).to_vec()).collect();
        for (place, machine) in network.machines.iter().enumerate() {
            interrupt::check()?;
            if machine.role == MachineRole::Router {
                places.push(None);
                devices.push(None);
                continue;
            }
            let (machine, device) = Machine::new(addresses(place)).map_err(not_made)?;
            places.push(Some(Place { machine, node: None }));
            devices.push(Some(device));
        }
        let capture = capture.map(|folder| captured(network, folder)).transpose()?;
        // With Byway, nothing is forwarded: its agents find each other.
        let forwarded = if world.has_nodes() { Vec::new() } else { outside::forwarded(network) };
        let carrier =
            Carrier::start(network.without_flows(), devices, &all, &forwarded, seed, clock, capture);
        let carrier = carrier.map_err(not_made)?;
        let names = network.machines.iter().map(|machine| machine.name.clone()).collect();
        Ok((Self { places, names, folder: folder.to_owned() }, carrier))
    }

    /// Writes the files of all nodes, starts them, and waits until they are ready.
    pub(super) fn start_all(
        &mut self,
        network: &Network,
        uses_relays: bool,
        clock: Clock,
    ) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("making {}", self.folder.display()))?;
        let keys = self.keys()?;
        let configuration = Configuration { network, keys: &keys, folder: &self.folder, uses_relays };
        for place in 0..self.places.len() {
            if self.places[place].is_some() {
                let file = self.file(place);
                fs::write(&file, configuration.file(place)?)
                    .with_context(|| format!("writing {}", file.display()))?;
            }
        }
        for role in [MachineRole::Relay, MachineRole::Agent] {
            let of_role: Vec<usize> =
                (0..self.places.len()).filter(|place| network.machines[*place].role == role).collect();
            for place in &of_role {
                interrupt::check()?;
                self.start(*place, role)?;
            }
            for place in of_role {
                self.wait_until_ready(place, clock)?;
            }
        }
        Ok(())
    }

    /// Makes a secret key for each node; the public ones.
    fn keys(&self) -> anyhow::Result<Vec<String>> {
        let mut keys = Vec::new();
        for (place, name) in self.places.iter().zip(&self.names) {
            if place.is_none() {
                keys.push(String::new());
                continue;
            }
            let state = self.folder.join(name);
            fs::create_dir(&state).with_context(|| format!("making {}", state.display()))?;
            let key = NodeKey::generate();
            key.save(&state.join("key")).map_err(Failure::from)?;
            keys.push(key.public_key().to_string());
        }
        Ok(keys)
    }

    fn file(&self, place: usize) -> std::path::PathBuf {
        self.folder.join(format!("{}.toml", self.names[place]))
    }

    /// Starts the node of a machine.
    pub(super) fn start(&mut self, place: usize, role: MachineRole) -> anyhow::Result<()> {
        let (name, file, folder) = (self.names[place].clone(), self.file(place), self.folder.clone());
        let command = if role == MachineRole::Relay { "relay" } else { "agent" };
        let arguments: Vec<OsString> = vec![command.into(), "--config".into(), file.into()];
        let Some(known) = &mut self.places[place] else {
            return Ok(());
        };
        // One that still runs or hangs has its ports.
        known.node = None;
        known.node = Some(known.machine.run(move || Child::start(&name, arguments, &folder))?);
        Ok(())
    }

    /// # Errors
    /// If a node has ended by itself.
    pub(super) fn expect_running(&mut self) -> anyhow::Result<()> {
        let nodes = self.places.iter_mut().flatten().filter_map(|place| place.node.as_mut());
        for node in nodes {
            node.expect_running()?;
        }
        Ok(())
    }

    /// Whether a machine has a node that was not stopped.
    pub(super) fn has_node(&self, place: usize) -> bool {
        self.places[place].as_ref().is_some_and(|place| place.node.is_some())
    }

    /// Ends the node of a machine at once.
    pub(super) fn stop(&mut self, place: usize) {
        if let Some(place) = &mut self.places[place] {
            place.node = None;
        }
    }

    /// Sends the node of a machine a signal.
    pub(super) fn signal(&self, place: usize, signal: Signal) {
        if let Some(node) = self.places[place].as_ref().and_then(|place| place.node.as_ref()) {
            node.signal(signal);
        }
    }

    fn wait_until_ready(&mut self, place: usize, clock: Clock) -> anyhow::Result<()> {
        let until = clock.now() + READY_WITHIN;
        loop {
            let Some(known) = &mut self.places[place] else {
                return Ok(());
            };
            if known.machine.run(|| status::is_ready(OBSERVED)) {
                return Ok(());
            }
            let Some(node) = &mut known.node else {
                return Ok(());
            };
            node.expect_running()?;
            if clock.now() > until {
                bail!("{} is not ready after {READY_WITHIN}. {}", self.names[place], node.log_end());
            }
            interrupt::sleep(ASK_AGAIN)?;
        }
    }

    /// What the node of a machine has taken of this machine; `None` if it is stopped.
    pub(super) fn cost(&self, place: usize) -> Option<Cost> {
        Cost::of(self.places[place].as_ref()?.node.as_ref()?.id())
    }

    /// What the node of a machine says of itself; `None` if it is stopped, or does not answer.
    pub(super) fn status(&self, place: usize) -> Option<serde_json::Value> {
        let known = self.places[place].as_ref()?;
        known.node.as_ref()?;
        known.machine.run(|| status::of(OBSERVED)).ok()
    }

    /// The machine at a place; none of routers.
    pub(super) fn machine(&self, place: usize) -> Option<&Machine> {
        self.places.get(place)?.as_ref().map(|place| &place.machine)
    }

    /// The sockets of applications: of each flow that the lab sends, one in its sender's machine and one in its receiver's.
    pub(super) fn ends(&self, network: &Network, world: World) -> anyhow::Result<Vec<Option<Ends>>> {
        let flows = network.flows.iter().enumerate();
        flows
            .map(|(nth, flow)| match flow.traffic {
                NetworkTraffic::Datagrams(_) => self.ends_of(nth, network, world).map(Some),
                NetworkTraffic::Tcp | NetworkTraffic::Programs(_) | NetworkTraffic::Captured(_) => Ok(None),
            })
            .collect()
    }

    fn ends_of(&self, nth: usize, network: &Network, world: World) -> anyhow::Result<Ends> {
        let flow = &network.flows[nth];
        let (local, to, at) = if world.has_nodes() {
            (Ipv4Addr::LOCALHOST, forward(nth), target(nth))
        } else {
            let port = target(nth).port();
            let [to, at] = [outside::addresses_for(network, flow), addresses(flow.to)];
            let [to, at] = [to, at].map(|[ipv4, _]| SocketAddr::new(ipv4, port));
            (Ipv4Addr::UNSPECIFIED, to, at)
        };
        let sender = self.within(flow.from, move || {
            let socket = UdpSocket::bind((local, 0))?;
            socket.connect(to)?;
            Ok(socket)
        })?;
        let receiver = self.within(flow.to, move || {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        Ok(Ends { sender, receiver })
    }

    fn within(
        &self,
        place: usize,
        open: impl FnOnce() -> std::io::Result<UdpSocket> + Send + 'static,
    ) -> anyhow::Result<UdpSocket> {
        let known = self.places[place].as_ref().context("flows begin and end at agents")?;
        known.machine.run(open).with_context(|| format!("a socket in {}", self.names[place]))
    }
}

/// Begins to capture what all machines of a network send and receive.
fn captured(network: &Network, folder: &Path) -> Result<Capture, Failure> {
    let is_router = |machine: &NetworkMachine| machine.role == MachineRole::Router;
    let name = |machine: &NetworkMachine| (!is_router(machine)).then(|| machine.name.clone());
    let names: Vec<Option<String>> = network.machines.iter().map(name).collect();
    Capture::start(folder, &names).map_err(|error| not_made(LabError::Capture(error)))
}

/// A lab that the kernel does not let be is the machine's fault.
pub(super) fn not_made(error: LabError) -> Failure {
    Failure::machine(error)
}

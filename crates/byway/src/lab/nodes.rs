//! The machines of a lab, and the nodes of Byway in them.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration as RealDuration;

use anyhow::{Context as _, bail};
use byway_lab::capture::Capture;
use byway_lab::{EmulatorThread, LabError, Machine, addresses};
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkMachine, NetworkTraffic};
use byway_units::Duration;
use rustix::process::Signal;

use super::configuration::{Configuration, OBSERVED, forward, target};
use super::nat;
use super::overlay_mode::OverlayMode;
use super::resource_usage::ResourceUsage;
use super::traffic::FlowSockets;
use crate::child_process::Child;
use crate::exit::Failure;
use crate::membership::NodeKey;
use crate::{interrupt, status};

/// Longest time until nodes are ready. They perform handshakes on a machine that starts all of them
/// at once.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which nodes are polled for readiness.
const READY_POLL_INTERVAL: RealDuration = RealDuration::from_millis(50);

/// Machine of a lab, and the process of its node; `None` while the node is stopped.
#[derive(Debug)]
struct MachineEntry {
    machine: Machine,
    node: Option<Child>,
}

/// All machines of a lab, with their nodes. Dropping this ends the nodes and removes the machines.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Machines by index in the scenario; `None` for routers, which have no namespace.
    machines: Vec<Option<MachineEntry>>,
    names: Vec<String>,
    folder: std::path::PathBuf,
}

impl Nodes {
    /// Makes the machines of a network without nodes, and the emulator between them.
    pub(super) fn new(
        network: &Network,
        seed: u64,
        world: OverlayMode,
        folder: &Path,
        capture: Option<&Path>,
        clock: Clock,
    ) -> anyhow::Result<(Self, EmulatorThread)> {
        let (mut entries, mut devices) = (Vec::new(), Vec::new());
        let all: Vec<_> = (0..network.machines.len()).map(|index| addresses(index).to_vec()).collect();
        for (index, machine) in network.machines.iter().enumerate() {
            interrupt::check()?;
            if machine.role == MachineRole::Router {
                entries.push(None);
                devices.push(None);
                continue;
            }
            let (machine, device) = Machine::new(addresses(index)).map_err(lab_failure)?;
            entries.push(Some(MachineEntry { machine, node: None }));
            devices.push(Some(device));
        }
        let capture = capture.map(|folder| start_capture(network, folder)).transpose()?;
        // With Byway, no ports are forwarded, because its agents find each other.
        let forwarded = if world.has_nodes() { Vec::new() } else { nat::port_forwards(network) };
        let emulator =
            EmulatorThread::start(network.without_flows(), devices, &all, &forwarded, seed, clock, capture);
        let emulator = emulator.map_err(lab_failure)?;
        let names = network.machines.iter().map(|machine| machine.name.clone()).collect();
        Ok((Self { machines: entries, names, folder: folder.to_owned() }, emulator))
    }

    /// Writes the configuration and the keys of all nodes, starts the nodes, and waits until they
    /// are ready.
    pub(super) fn start_all(
        &mut self,
        network: &Network,
        uses_relays: bool,
        clock: Clock,
    ) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create {}", self.folder.display()))?;
        let keys = self.keys()?;
        let configuration = Configuration { network, keys: &keys, folder: &self.folder, uses_relays };
        for index in 0..self.machines.len() {
            if self.machines[index].is_some() {
                let file = self.file(index);
                fs::write(&file, configuration.file(index)?)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        for role in [MachineRole::Relay, MachineRole::Agent] {
            let of_role: Vec<usize> =
                (0..self.machines.len()).filter(|index| network.machines[*index].role == role).collect();
            for index in &of_role {
                interrupt::check()?;
                self.start(*index, role)?;
            }
            for index in of_role {
                self.wait_until_ready(index, clock)?;
            }
        }
        Ok(())
    }

    /// Makes a secret key for each node in its folder, and returns the public keys by index of the
    /// machine.
    fn keys(&self) -> anyhow::Result<Vec<String>> {
        let mut keys = Vec::new();
        for (entry, name) in self.machines.iter().zip(&self.names) {
            if entry.is_none() {
                keys.push(String::new());
                continue;
            }
            let state = self.folder.join(name);
            fs::create_dir(&state).with_context(|| format!("cannot create {}", state.display()))?;
            let key = NodeKey::generate();
            key.save(&state.join("key")).map_err(Failure::from)?;
            keys.push(key.public_key().to_string());
        }
        Ok(keys)
    }

    fn file(&self, index: usize) -> std::path::PathBuf {
        self.folder.join(format!("{}.toml", self.names[index]))
    }

    /// Starts the node of a machine, after it ends an earlier one.
    pub(super) fn start(&mut self, index: usize, role: MachineRole) -> anyhow::Result<()> {
        let (name, file, folder) = (self.names[index].clone(), self.file(index), self.folder.clone());
        let command = if role == MachineRole::Relay { "relay" } else { "agent" };
        let arguments: Vec<OsString> = vec![command.into(), "--config".into(), file.into()];
        let Some(entry) = &mut self.machines[index] else {
            return Ok(());
        };
        // An earlier node that still runs or hangs occupies the ports.
        entry.node = None;
        entry.node = Some(entry.machine.run(move || Child::start(&name, arguments, &folder))?);
        Ok(())
    }

    /// Checks that no node has ended by itself.
    ///
    /// # Errors
    /// If a node has ended by itself.
    pub(super) fn expect_running(&mut self) -> anyhow::Result<()> {
        let nodes = self.machines.iter_mut().flatten().filter_map(|entry| entry.node.as_mut());
        for node in nodes {
            node.expect_running()?;
        }
        Ok(())
    }

    /// True if a machine has a node that the lab has not stopped.
    pub(super) fn has_node(&self, index: usize) -> bool {
        self.machines[index].as_ref().is_some_and(|index| index.node.is_some())
    }

    /// Kills the node of a machine.
    pub(super) fn stop(&mut self, index: usize) {
        if let Some(index) = &mut self.machines[index] {
            index.node = None;
        }
    }

    /// Sends a signal to the node of a machine.
    pub(super) fn signal(&self, index: usize, signal: Signal) {
        if let Some(node) = self.machines[index].as_ref().and_then(|index| index.node.as_ref()) {
            node.signal(signal);
        }
    }

    fn wait_until_ready(&mut self, index: usize, clock: Clock) -> anyhow::Result<()> {
        let until = clock.now() + READY_TIMEOUT;
        loop {
            let Some(entry) = &mut self.machines[index] else {
                return Ok(());
            };
            if entry.machine.run(|| status::is_ready(OBSERVED)) {
                return Ok(());
            }
            let Some(node) = &mut entry.node else {
                return Ok(());
            };
            node.expect_running()?;
            if clock.now() > until {
                bail!("{} not ready after {READY_TIMEOUT}. {}", self.names[index], node.log_end());
            }
            interrupt::sleep(READY_POLL_INTERVAL)?;
        }
    }

    /// Returns the CPU time and peak memory of a machine's node; `None` if the node is stopped.
    pub(super) fn cost(&self, index: usize) -> Option<ResourceUsage> {
        ResourceUsage::of(self.machines[index].as_ref()?.node.as_ref()?.id())
    }

    /// Returns the status that the node of a machine reports; `None` if the node is stopped or does
    /// not answer.
    pub(super) fn status(&self, index: usize) -> Option<serde_json::Value> {
        let entry = self.machines[index].as_ref()?;
        entry.node.as_ref()?;
        entry.machine.run(|| status::of(OBSERVED)).ok()
    }

    /// Returns the machine at an index; `None` for routers.
    pub(super) fn machine(&self, index: usize) -> Option<&Machine> {
        self.machines.get(index)?.as_ref().map(|index| &index.machine)
    }

    /// Opens the sockets of applications for each flow of datagrams: one in its sender's machine,
    /// one in its receiver's. `None` for other flows.
    pub(super) fn flow_sockets(
        &self,
        network: &Network,
        world: OverlayMode,
    ) -> anyhow::Result<Vec<Option<FlowSockets>>> {
        let flows = network.flows.iter().enumerate();
        flows
            .map(|(nth, flow)| match flow.traffic {
                NetworkTraffic::Datagrams(_) => self.sockets_of_flow(nth, network, world).map(Some),
                NetworkTraffic::Tcp | NetworkTraffic::Programs(_) | NetworkTraffic::Captured(_) => Ok(None),
            })
            .collect()
    }

    fn sockets_of_flow(
        &self,
        nth: usize,
        network: &Network,
        world: OverlayMode,
    ) -> anyhow::Result<FlowSockets> {
        let flow = &network.flows[nth];
        let (local, to, at) = if world.has_nodes() {
            (Ipv4Addr::LOCALHOST, forward(nth), target(nth))
        } else {
            let port = target(nth).port();
            let [to, at] = [nat::addresses_for(network, flow), addresses(flow.to)];
            let [to, at] = [to, at].map(|[ipv4, _]| SocketAddr::new(ipv4, port));
            (Ipv4Addr::UNSPECIFIED, to, at)
        };
        let sender = self.run_in_machine(flow.from, move || {
            let socket = UdpSocket::bind((local, 0))?;
            socket.connect(to)?;
            Ok(socket)
        })?;
        let receiver = self.run_in_machine(flow.to, move || {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        Ok(FlowSockets { sender, receiver })
    }

    fn run_in_machine(
        &self,
        index: usize,
        open: impl FnOnce() -> std::io::Result<UdpSocket> + Send + 'static,
    ) -> anyhow::Result<UdpSocket> {
        let entry = self.machines[index].as_ref().context("flow without agents at its ends")?;
        entry.machine.run(open).with_context(|| format!("cannot open a socket in {}", self.names[index]))
    }
}

/// Starts to capture the packets of all machines of a network except routers.
fn start_capture(network: &Network, folder: &Path) -> Result<Capture, Failure> {
    let is_router = |machine: &NetworkMachine| machine.role == MachineRole::Router;
    let name = |machine: &NetworkMachine| (!is_router(machine)).then(|| machine.name.clone());
    let names: Vec<Option<String>> = network.machines.iter().map(name).collect();
    Capture::start(folder, &names).map_err(|error| lab_failure(LabError::Capture(error)))
}

/// Turns an error of the kernel while making a lab into a failure of the machine.
pub(super) fn lab_failure(error: LabError) -> Failure {
    Failure::machine(error)
}

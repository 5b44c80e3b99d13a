//! The processes of Byway in a run: a controller, two relays, and the agents of the participating
//! pairs.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::clock::Instant;
use super::configuration::{Configuration, Role};
use super::plan::{DemoNode, DemoPlan};
use super::results::RunKind;
use crate::child_process::Child;
use crate::interrupt;

/// Longest time until processes are ready, in seconds: handshakes and a few round trips, on a
/// machine that starts twenty processes.
const READY_SECONDS: u64 = 30;

/// Prefix of a token in the output of `byway token create`.
const TOKEN_PREFIX: &str = "byway1.";

/// Interval at which the demo polls a process until it is ready.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// All processes of a run except the emulator.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Nodes in the order of their start: relays, then agents.
    nodes: Vec<(DemoNode, Child)>,
    _controller: Child,
}

impl Overlay {
    /// Starts all processes and waits until they are ready. Of the plan's pairs, the first `pairs`
    /// take part.
    pub(crate) fn start(plan: &DemoPlan, kind: RunKind, pairs: usize, folder: &Path) -> anyhow::Result<Self> {
        let configuration = Configuration { plan, kind, folder };
        let file = folder.join("controller.toml");
        write(&file, &configuration.controller()?)?;
        let mut controller =
            Child::start("controller", arguments(&["controller", "--config"], &file), folder)?;
        wait_until_ready("the controller", plan.observe_controller(), &mut controller)?;
        let mut overlay = Self { nodes: Vec::new(), _controller: controller };
        let agents = (0..pairs)
            .flat_map(|pair| [DemoNode::Sender(pair), DemoNode::Receiver(pair)])
            .collect::<Vec<_>>();
        overlay.start_nodes(
            &configuration,
            Role::Relay,
            &[DemoNode::IngressRelay, DemoNode::EgressRelay],
            &file,
        )?;
        overlay.start_nodes(&configuration, Role::Agent, &agents, &file)?;
        Ok(overlay)
    }

    fn start_nodes(
        &mut self,
        configuration: &Configuration<'_>,
        role: Role,
        nodes: &[DemoNode],
        controller: &Path,
    ) -> anyhow::Result<()> {
        let token = create_token(role, nodes.len(), controller, configuration.folder)?;
        write(&configuration.token_file(role), &token)?;
        let first = self.nodes.len();
        for &node in nodes {
            interrupt::check()?;
            let name = node.name();
            let file = configuration.folder.join(format!("{name}.toml"));
            write(&file, &configuration.node(node)?)?;
            let child =
                Child::start(&name, arguments(&[role.command(), "--config"], &file), configuration.folder)?;
            self.nodes.push((node, child));
        }
        for (node, child) in &mut self.nodes[first..] {
            wait_until_ready(&node.name(), configuration.plan.observe(*node), child)?;
        }
        Ok(())
    }

    /// Checks that all processes run.
    ///
    /// # Errors
    /// If one of them has ended by itself.
    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        self.nodes.iter_mut().try_for_each(|(_, child)| child.expect_running())
    }

    /// Sends SIGKILL to both relays.
    pub(crate) fn kill_relays(&mut self) {
        self.nodes.retain_mut(|(node, child)| {
            let is_relay = matches!(node, DemoNode::IngressRelay | DemoNode::EgressRelay);
            if is_relay {
                child.kill();
            }
            !is_relay
        });
    }
}

/// Asks the controller for a token with which `nodes` nodes of this role may join.
fn create_token(role: Role, nodes: usize, controller: &Path, folder: &Path) -> anyhow::Result<String> {
    let uses = nodes.to_string();
    let words = ["token", "create", "--role", role.command(), "--uses", &uses, "--config"];
    let name = format!("{}-token", role.command());
    let output = Child::start(&name, arguments(&words, controller), folder)?
        .output()
        .context("cannot create a token")?;
    let token = output.split_whitespace().find(|word| word.starts_with(TOKEN_PREFIX));
    token.map(str::to_owned).with_context(|| format!("byway token create printed no token: {output}"))
}

/// Writes a file that only this user can read.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn arguments(words: &[&str], file: &Path) -> Vec<OsString> {
    words.iter().map(OsString::from).chain([file.into()]).collect()
}

fn wait_until_ready(name: &str, observe: SocketAddr, child: &mut Child) -> anyhow::Result<()> {
    let until = Instant::now().plus_millis(READY_SECONDS * 1_000);
    while !crate::status::is_ready(observe) {
        child.expect_running()?;
        if Instant::now() > until {
            bail!("{name} not ready after {READY_SECONDS} s. {}", child.log_end());
        }
        interrupt::sleep(READY_POLL_INTERVAL)?;
    }
    Ok(())
}

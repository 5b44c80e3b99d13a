//! The processes of Byway in a run: a controller, two relays, and the agents of the pairs that take part.

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
use super::plan::{Node, Plan};
use super::results::RunKind;
use crate::child::Child;
use crate::interrupt;

/// How long processes may take until they are ready: key agreements and a few round trips, on a machine that has twenty
/// processes to start.
const READY_SECONDS: u64 = 30;

/// With what tokens begin.
const TOKEN_PREFIX: &str = "byway1.";

/// How often a process is asked whether it is ready.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// All processes of a run but the emulator.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// In the order of their start: relays, then agents.
    nodes: Vec<(Node, Child)>,
    _controller: Child,
}

impl Overlay {
    /// Starts everything and waits until it is ready. Of the plan's pairs, the first `pairs` take part.
    pub(crate) fn start(plan: &Plan, kind: RunKind, pairs: usize, folder: &Path) -> anyhow::Result<Self> {
        let configuration = Configuration { plan, kind, folder };
        let file = folder.join("controller.toml");
        write(&file, &configuration.controller()?)?;
        let mut controller =
            Child::start("controller", arguments(&["controller", "--config"], &file), folder)?;
        wait_until_ready("the controller", plan.observe_controller(), &mut controller)?;
        let mut overlay = Self { nodes: Vec::new(), _controller: controller };
        let agents =
            (0..pairs).flat_map(|pair| [Node::Sender(pair), Node::Receiver(pair)]).collect::<Vec<_>>();
        overlay.start_nodes(&configuration, Role::Relay, &[Node::IngressRelay, Node::EgressRelay], &file)?;
        overlay.start_nodes(&configuration, Role::Agent, &agents, &file)?;
        Ok(overlay)
    }

    fn start_nodes(
        &mut self,
        configuration: &Configuration<'_>,
        role: Role,
        nodes: &[Node],
        controller: &Path,
    ) -> anyhow::Result<()> {
        let token = invite(role, nodes.len(), controller, configuration.folder)?;
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

    /// # Errors
    /// If one of the processes has ended by itself.
    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        self.nodes.iter_mut().try_for_each(|(_, child)| child.expect_running())
    }

    /// SIGKILL to both relays.
    pub(crate) fn kill_relays(&mut self) {
        self.nodes.retain_mut(|(node, child)| {
            let is_relay = matches!(node, Node::IngressRelay | Node::EgressRelay);
            if is_relay {
                child.kill();
            }
            !is_relay
        });
    }
}

/// Has the controller make a token for so many nodes.
fn invite(role: Role, nodes: usize, controller: &Path, folder: &Path) -> anyhow::Result<String> {
    let uses = nodes.to_string();
    let words = ["token", "create", "--role", role.command(), "--uses", &uses, "--config"];
    let name = format!("{}-token", role.command());
    let said =
        Child::start(&name, arguments(&words, controller), folder)?.output().context("making a token")?;
    let token = said.split_whitespace().find(|word| word.starts_with(TOKEN_PREFIX));
    token.map(str::to_owned).with_context(|| format!("byway token create shows no token: {said}"))
}

/// Writes a file that only this user reads.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}

fn arguments(words: &[&str], file: &Path) -> Vec<OsString> {
    words.iter().map(OsString::from).chain([file.into()]).collect()
}

fn wait_until_ready(name: &str, observe: SocketAddr, child: &mut Child) -> anyhow::Result<()> {
    let until = Instant::now().plus_millis(READY_SECONDS * 1_000);
    while !crate::status::is_ready(observe) {
        child.expect_running()?;
        if Instant::now() > until {
            bail!("{name} is not ready after {READY_SECONDS} s. {}", child.log_end());
        }
        interrupt::sleep(ASK_AGAIN)?;
    }
    Ok(())
}

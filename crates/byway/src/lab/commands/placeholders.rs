//! Commands with the values of their placeholders.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use byway_lab::addresses;
use byway_scenario::{Command, Lifecycle, Network, NetworkTraffic, Placeholder, Template};

use crate::exit::Failure;
use crate::lab::overlay_mode::OverlayMode;
use crate::lab::{nat, programs};

/// Command of the scenario whose placeholders are filled in and whose program exists.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedCommand {
    pub(crate) name: String,
    /// Index of the machine on which the command runs.
    pub(crate) node: usize,
    pub(crate) machine: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Files to write into the command's folder, as name and text.
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) life: Lifecycle,
}

/// Values of placeholders in the commands of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceholderValues<'a> {
    pub(crate) network: &'a Network,
    pub(crate) world: OverlayMode,
    /// Folder of the scenario file, for the placeholder `{here}`.
    pub(crate) here: &'a Path,
    /// Path of the running `byway` program, for the placeholder `{byway}`.
    pub(crate) byway: &'a Path,
    /// Parent of the commands' folders, which the placeholder `{folder}` names.
    pub(crate) folder: &'a Path,
}

impl PlaceholderValues<'_> {
    /// Fills in the placeholders of a command and finds its program.
    ///
    /// # Errors
    /// If the program is not found.
    pub(crate) fn resolve(&self, command: &Command) -> Result<ResolvedCommand, Failure> {
        let own = self.folder.join(&command.name);
        let fill = |template: &Template| template.fill(|placeholder| self.value(placeholder, &own));
        let pair = |(name, text): &(String, Template)| (name.clone(), fill(text));
        let environment: Vec<(String, String)> = command.environment.iter().map(pair).collect();
        let mut run: Vec<String> = command.run.iter().map(fill).collect();
        #[allow(clippy::disallowed_methods, reason = "programs of others are where others find them")]
        let usual = std::env::var("PATH").unwrap_or_default();
        let path = environment.iter().find(|(name, _)| name == "PATH").map_or(&usual, |(_, path)| path);
        let program = programs::find(&run.remove(0), path);
        let program =
            program.map_err(|message| Failure::machine(format!("{}run: {message}", command.location)))?;
        Ok(ResolvedCommand {
            name: command.name.clone(),
            node: command.node,
            machine: self.network.machines[command.node].name.clone(),
            program,
            arguments: run,
            files: command.files.iter().map(|(name, text)| (name.clone(), fill(text))).collect(),
            environment,
            life: command.lifecycle.clone(),
        })
    }

    fn value(&self, placeholder: Placeholder, own: &Path) -> String {
        match placeholder {
            Placeholder::Address(first, count) => all_addresses(first, count, 0),
            Placeholder::Address6(first, count) => all_addresses(first, count, 1),
            Placeholder::Folder => own.display().to_string(),
            Placeholder::Here => self.here.display().to_string(),
            Placeholder::Byway => self.byway.display().to_string(),
            Placeholder::To(flow) => self.to(flow).to_string(),
            Placeholder::ToHost(flow) => self.to(flow).ip().to_string(),
            Placeholder::ToPort(flow) => self.to(flow).port().to_string(),
        }
    }

    /// Returns the address to which a program sends the packets of a flow: its agent's, or without
    /// Byway the receiver's.
    fn to(&self, flow: usize) -> SocketAddr {
        let flow = &self.network.flows[flow];
        let NetworkTraffic::Programs(ends) = flow.traffic else {
            unreachable!("commands name flows of programs, as was checked")
        };
        if self.world.has_nodes() {
            return ends.listen;
        }
        let [ipv4, ipv6]: [IpAddr; 2] = nat::addresses_for(self.network, flow);
        SocketAddr::new(if ends.target.is_ipv4() { ipv4 } else { ipv6 }, ends.target.port())
    }
}

/// Lists the IPv4 or IPv6 addresses of `count` machines, separated by blanks.
fn all_addresses(first: usize, count: usize, family: usize) -> String {
    let all: Vec<String> = (first..).take(count).map(|index| addresses(index)[family].to_string()).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use byway_scenario::Scenario;

    use super::*;

    const SCENARIO: &str = r#"
title = "A look-up"
length = "4 s"
node = [{ name = "alice", role = "agent" }, { name = "bob", role = "agent" }]
link = [{ between = ["alice", "bob"], delay = "40 ms" }]
flow = [
    { name = "names", from = "alice", to = "bob", service = "internet", sends = { kind = "command", listen = "127.0.0.1:5000", target = "127.0.0.1:53" } },
]
command = [
    { name = "ask", node = "alice", run = ["sh", "{here}/ask", "{to:names}", "{to-host:names}", "{address6:bob}"], environment = { AT = "{folder}", BY = "{byway}" } },
]
"#;

    fn resolved(world: OverlayMode, scenario: &str) -> Result<ResolvedCommand, Failure> {
        let scenario = Scenario::parse(scenario).expect("a scenario");
        let network = scenario.network(1).expect("they are joined");
        let (here, folder) = (Path::new("/scenarios"), Path::new("/scratch"));
        PlaceholderValues { network: &network, world, here, byway: Path::new("/bin/byway"), folder }
            .resolve(&scenario.commands()[0])
    }

    #[test]
    fn programs_send_to_the_forward_or_bare_to_the_target() {
        for (world, to) in [(OverlayMode::Byway, "127.0.0.1:5000"), (OverlayMode::Bare, "10.77.0.2:53")] {
            let filled = resolved(world, SCENARIO).expect("there is a shell");
            let host = to.split(':').next().expect("an address");
            assert_eq!(filled.arguments, ["/scenarios/ask", to, host, "fd77::2"]);
            let environment = [("AT", "/scratch/ask"), ("BY", "/bin/byway")];
            assert_eq!(
                filled.environment,
                environment.map(|(name, text)| (name.to_owned(), text.to_owned()))
            );
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_place() {
        let error = resolved(OverlayMode::Bare, &SCENARIO.replace("\"sh\"", "\"nginx-of-nobody\""))
            .expect_err("none");
        assert!(error.to_string().contains("scenario.toml:10: command[0]: run: program"), "{error}");
    }
}

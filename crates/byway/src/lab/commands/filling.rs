//! Commands with what stands for their placeholders.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use byway_lab::addresses;
use byway_scenario::{Command, Life, Network, NetworkTraffic, Placeholder, Template};

use crate::exit::Failure;
use crate::lab::world::World;
use crate::lab::{outside, programs};

/// A command that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    pub(crate) name: String,
    /// Its machine.
    pub(crate) node: usize,
    pub(crate) machine: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Of its folder, with what is in them.
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) life: Life,
}

/// What stands for placeholders in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) network: &'a Network,
    pub(crate) world: World,
    /// The scenario's folder.
    pub(crate) here: &'a Path,
    /// This program.
    pub(crate) byway: &'a Path,
    /// Where commands have their folders.
    pub(crate) folder: &'a Path,
}

impl Filling<'_> {
    /// The command that can be started.
    ///
    /// # Errors
    /// If its program is not there.
    pub(crate) fn filled(&self, command: &Command) -> Result<Filled, Failure> {
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
            program.map_err(|message| Failure::machine(format!("{}run: {message}", command.place)))?;
        Ok(Filled {
            name: command.name.clone(),
            node: command.node,
            machine: self.network.machines[command.node].name.clone(),
            program,
            arguments: run,
            files: command.files.iter().map(|(name, text)| (name.clone(), fill(text))).collect(),
            environment,
            life: command.life.clone(),
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

    /// Where to send what goes through a flow.
    fn to(&self, flow: usize) -> SocketAddr {
        let flow = &self.network.flows[flow];
        let NetworkTraffic::Programs(ends) = flow.traffic else {
            unreachable!("commands name flows of programs, as was checked")
        };
        if self.world.has_nodes() {
            return ends.listen;
        }
        let [ipv4, ipv6]: [IpAddr; 2] = outside::addresses_for(self.network, flow);
        SocketAddr::new(if ends.target.is_ipv4() { ipv4 } else { ipv6 }, ends.target.port())
    }
}

/// The addresses of so many machines, with blanks between: IPv4 or IPv6.
fn all_addresses(first: usize, count: usize, family: usize) -> String {
    let all: Vec<String> = (first..).take(count).map(|place| addresses(place)[family].to_string()).collect();
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

    fn filled(world: World, scenario: &str) -> Result<Filled, Failure> {
        let scenario = Scenario::parse(scenario).expect("a scenario");
        let network = scenario.network(1).expect("they are joined");
        let (here, folder) = (Path::new("/scenarios"), Path::new("/scratch"));
        Filling { network: &network, world, here, byway: Path::new("/bin/byway"), folder }
            .filled(&scenario.commands()[0])
    }

    #[test]
    fn programs_send_to_the_forward_or_bare_to_the_target() {
        for (world, to) in [(World::Byway, "127.0.0.1:5000"), (World::Bare, "10.77.0.2:53")] {
            let filled = filled(world, SCENARIO).expect("there is a shell");
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
        let said = filled(World::Bare, &SCENARIO.replace("\"sh\"", "\"nginx-of-nobody\"")).expect_err("none");
        assert!(said.to_string().contains("scenario.toml:10: command[0]: run: the program"), "{said}");
    }
}

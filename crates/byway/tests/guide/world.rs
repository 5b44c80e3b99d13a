//! Machines of the guide's example: network namespaces with the page's addresses, host names and
//! folders, over emulated links, with NAT routers in front of the two homes.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use byway_lab::{EmulatorThread, LabError, Machine};
use byway_net::Clock;
use byway_scenario::{Network, NetworkChange, NetworkLink, Scenario};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Locations of the two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sites {
    /// Both behind NAT routers, as in the guide's example.
    Homes,
    /// Alice behind a NAT router, Bob not.
    OneHome,
    /// Both with public addresses.
    Public,
}

/// Impairments of the direct path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairments {
    /// None.
    Clear,
    /// Random losses with this rate, in bursts of two packets on average.
    Lossy(f64),
    /// Outage: all packets are lost.
    Outage,
}

/// Names of machines with programs; routers have the indices after them.
pub const HOSTS: [&str; 4] = ["alice", "bob", "east", "west"];

/// Machine with its folders.
pub struct Host {
    pub name: &'static str,
    machine: Machine,
    /// Parent folder of its `/etc`, `/var/lib` and home.
    pub root: PathBuf,
}

/// Machines and the emulator between them.
pub struct World {
    pub folder: tempfile::TempDir,
    pub hosts: Vec<Host>,
    carrier: EmulatorThread,
    sites: Sites,
}

impl Sites {
    /// Returns the scenario's text, with these keys of the direct link.
    fn scenario(self, direct: &str) -> String {
        let (alice, bob) = self.ends();
        let home = |name: &str, end: &str| {
            if name == end {
                return [String::new(), String::new()];
            }
            let nat = self.translates(end);
            let router = format!("    {{ name = \"{end}\", role = \"router\", nat = {nat} }},\n");
            [router, format!("    {{ between = [\"{name}\", \"{end}\"], delay = \"1 ms\" }},\n")]
        };
        let [alice_router, alice_link] = home("alice", alice);
        let [bob_router, bob_link] = home("bob", bob);
        format!(
            r#"
title = "The guide's example"
length = "60 s"
node = [
    {{ name = "alice", role = "agent" }},
    {{ name = "bob", role = "agent" }},
    {{ name = "east", role = "relay" }},
    {{ name = "west", role = "relay" }},
{alice_router}{bob_router}]
link = [
{alice_link}{bob_link}    {{ between = ["{alice}", "{bob}"], delay = "25 ms"{direct} }},
    {{ between = ["{alice}", "east"], delay = "4 ms" }},
    {{ between = ["{bob}", "west"], delay = "4 ms" }},
    {{ between = ["{alice}", "west"], delay = "24 ms" }},
    {{ between = ["{bob}", "east"], delay = "24 ms" }},
    {{ between = ["east", "west"], delay = "20 ms" }},
]
flow = [
    {{ name = "call", from = "alice", to = "bob", service = "caching", sends = {{ kind = "voice" }} }},
]
step = [{{ at = "1 s", do = "cut", between = ["{alice}", "{bob}"] }}]
"#
        )
    }

    /// Returns the machines at the ends of the direct link.
    const fn ends(self) -> (&'static str, &'static str) {
        match self {
            // A NAT router has only its own machines behind it.
            Self::Homes | Self::OneHome => ("alice-router", "bob-router"),
            Self::Public => ("alice", "bob"),
        }
    }

    /// True for a NAT router.
    fn translates(self, name: &str) -> bool {
        name == "alice-router" || (name == "bob-router" && self == Self::Homes)
    }

    /// Returns a machine's address.
    pub fn address(self, name: &str) -> Ipv4Addr {
        match (name, self) {
            ("east", _) => Ipv4Addr::new(203, 0, 113, 11),
            ("west", _) => Ipv4Addr::new(203, 0, 113, 12),
            ("alice-router", _) => Ipv4Addr::new(198, 51, 100, 21),
            ("bob-router", _) => Ipv4Addr::new(198, 51, 100, 22),
            ("alice", Self::Public) => Ipv4Addr::new(198, 51, 100, 7),
            ("alice", _) => Ipv4Addr::new(192, 168, 1, 2),
            ("bob", Self::Homes) => Ipv4Addr::new(192, 168, 2, 2),
            ("bob", _) => Ipv4Addr::new(203, 0, 113, 9),
            (other, _) => panic!("{other} is no machine of the example"),
        }
    }

    fn network(self, weather: Impairments) -> Network {
        let direct = match weather {
            Impairments::Clear | Impairments::Outage => String::new(),
            Impairments::Lossy(share) => {
                format!(", loss = [{{ share = \"{} %\", burst = 2.0, every = \"20 ms\" }}]", share * 100.0)
            }
        };
        let scenario = Scenario::parse(&self.scenario(&direct));
        scenario.expect("a scenario").network(1).expect("all are joined")
    }

    /// Returns the links of the direct path; the first is that to Bob.
    fn direct_links(self, weather: Impairments) -> Vec<NetworkLink> {
        let network = self.network(weather);
        let (alice, bob) = self.ends();
        let index =
            |name| network.machines.iter().position(|machine| machine.name == name).expect("it is there");
        let ends = [(index(alice), index(bob)), (index(bob), index(alice))];
        let mut links = network.links;
        if weather == Impairments::Outage {
            let cut = network.steps.into_iter().find_map(|step| match step.change {
                NetworkChange::Links(links) => Some(links),
                _ => None,
            });
            links = cut.expect("the scenario's only step");
        }
        links.retain(|link| ends.contains(&(link.from, link.to)));
        links.sort_by_key(|link| (link.from, link.to) != ends[0]);
        links
    }
}

impl World {
    /// Makes idle machines; `None` if this machine cannot make them.
    pub fn new(sites: Sites) -> Option<Self> {
        if let Some(missing) = missing() {
            eprintln!("skipped: {missing}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let network = sites.network(Impairments::Clear);
        let (mut hosts, mut devices, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for (index, machine) in network.machines.iter().enumerate() {
            let ipv4 = sites.address(&machine.name);
            let host = HOSTS.into_iter().find(|name| *name == machine.name);
            let has_address = host.is_some() || sites.translates(&machine.name);
            addresses.push(has_address.then_some(IpAddr::from(ipv4)).into_iter().collect());
            let Some(name) = host else {
                devices.push(None);
                continue;
            };
            let ipv6 = Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 1, u16::try_from(index).expect("few machines"));
            match Machine::new([ipv4.into(), ipv6.into()]) {
                Ok((machine, device)) => {
                    devices.push(Some(device));
                    hosts.push(Host { name, machine, root: folder.path().join(name) });
                }
                Err(LabError::Machine(error)) => {
                    eprintln!("skipped: the kernel makes no machine: {error}");
                    return None;
                }
                Err(other) => panic!("{other}"),
            }
        }
        let carrier = EmulatorThread::start(network, devices, &addresses, &[], 1, Clock::start(), None);
        let world = Self { folder, hosts, carrier: carrier.expect("a thread"), sites };
        world.hosts.iter().for_each(|host| world.make_folders(host));
        Some(world)
    }

    /// Mounts a machine's own folders at the paths of the guide and the units.
    fn make_folders(&self, host: &Host) {
        let root = &host.root;
        for folder in ["etc/systemd/system", "lib", "home", "tools", "run"] {
            fs::create_dir_all(root.join(folder)).expect("space on the disk");
        }
        let bin = self.folder.path().join("bin");
        fs::create_dir_all(&bin).expect("space on the disk");
        for name in ["passwd", "group", "nsswitch.conf", "ld.so.cache", "alternatives"] {
            let from = Path::new("/etc").join(name);
            // Some systems do not have all of these files.
            let _ = Command::new("cp").arg("-a").arg(from).arg(root.join("etc")).output();
        }
        let east = self.sites.address("east");
        let names = format!("127.0.0.1 localhost\n::1 localhost\n{east} ctl.example.net\n");
        fs::write(root.join("etc/hosts"), names).expect("space on the disk");
        let below = |name: &str| root.join(name);
        let binds = [
            (below("etc"), "/etc"),
            (below("lib"), "/var/lib"),
            (below("run"), "/run"),
            (bin, "/usr/local/bin"),
        ];
        let mounted = host.machine.run(move || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            let nothing: Option<&str> = None;
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
            binds.iter().try_for_each(|(from, to)| mount(Some(from), *to, nothing, MsFlags::MS_BIND, nothing))
        });
        mounted.expect("this process makes namespaces");
        self.tool(host.name, "sudo", "exec \"$@\"\n");
        self.shell(host.name, "ip route add default dev wan0 && ip -6 route add default dev wan0");
        // On most systems, all users may open the device.
        let tun = root.join("tun").display().to_string();
        self.shell(
            host.name,
            &format!("mknod -m 666 {tun} c 10 200 && mount --bind {tun} /dev/net/tun || true"),
        );
    }

    /// Installs a program that shadows the system's, on one machine.
    pub fn tool(&self, host: &str, name: &str, script: &str) {
        let tool = self.host(host).root.join("tools").join(name);
        fs::write(&tool, format!("#!/bin/sh\n{script}")).expect("space on the disk");
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(tool, runs).expect("it is ours");
    }

    pub fn host(&self, name: &str) -> &Host {
        let host = self.hosts.iter().find(|host| host.name == name);
        host.unwrap_or_else(|| panic!("{name} is no machine of the example"))
    }

    /// Returns the path of a machine's file, as seen from outside.
    pub fn path(&self, host: &str, path: &str) -> PathBuf {
        let root = &self.host(host).root;
        match path.strip_prefix("/var/lib/") {
            Some(below) => root.join("lib").join(below),
            None if path.starts_with('/') => root.join(path.trim_start_matches('/')),
            None => root.join("home").join(path),
        }
    }

    /// Runs a task on a machine.
    pub fn at<T: Send + 'static>(&self, host: &str, task: impl FnOnce() -> T + Send + 'static) -> T {
        self.host(host).machine.run(task)
    }

    /// Returns a command that runs in a machine's environment.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let root = &self.host(host).root;
        let mut command = Command::new(program);
        let others = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:/usr/local/bin:/usr/sbin:/sbin:{others}", root.join("tools").display());
        command.env_clear().env("PATH", path).env("HOME", root.join("home")).current_dir(root.join("home"));
        command
    }

    /// Runs a line of shell.
    pub fn try_shell(&self, host: &str, line: &str) -> Output {
        let mut command = self.command(host, "bash");
        command.args(["-o", "pipefail", "-ec", line]);
        self.at(host, move || command.output().expect("there is a shell"))
    }

    /// Runs a line of shell that must succeed, and returns its output.
    pub fn shell(&self, host: &str, line: &str) -> String {
        let output = self.try_shell(host, line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{host}$ {line}\n{errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the status of a machine's agent.
    pub fn status(&self, host: &str) -> serde_json::Value {
        serde_json::from_str(&self.shell(host, "byway status --at 127.0.0.1:4680 --json")).expect("JSON")
    }

    /// Sets the impairments of the direct path in both directions.
    pub fn set_impairments(&self, weather: Impairments) {
        self.carrier.change(self.sites.direct_links(weather));
    }

    /// Sets the impairments of packets to Bob.
    pub fn set_impairments_towards_bob(&self, weather: Impairments) {
        let mut links = self.sites.direct_links(weather);
        links.truncate(1);
        self.carrier.change(links);
    }
}

/// Returns the name of a required program that this machine lacks.
fn missing() -> Option<String> {
    let lacks = |program: &&str| Command::new(program).arg("--version").output().is_err();
    let program = ["bash", "setpriv"].into_iter().find(lacks);
    let no_ip = Command::new("ip").arg("-V").output().is_err().then_some("ip");
    program.or(no_ip).map(|program| format!("there is no {program}"))
}

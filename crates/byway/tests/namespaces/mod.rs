//! Machines as network namespaces in one network, some behind NATs.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and programs"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::fs;
use std::os::fd::AsFd as _;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Number of networks of this process so far.
static NETWORKS: AtomicU16 = AtomicU16::new(0);

/// Machines in a network with IPv4 and IPv6, `198.51.100.0/24` and `2001:db8::/64`. Dropping it
/// removes them.
pub struct Network {
    /// Prefix of the names of this network's namespaces.
    prefix: String,
    machines: Vec<String>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(machine)]).output();
            let _ = fs::remove_dir_all(self.settings(machine));
        }
    }
}

impl Network {
    /// Makes a network without machines; `None` if the kernel refuses it.
    pub fn new() -> Option<Self> {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("byway-{}-{number}", std::process::id());
        let mut network = Self { prefix, machines: Vec::new() };
        if !network.add_namespace("switch") {
            eprintln!(
                "skipped: the kernel makes no network namespaces, or there is no ip (Debian: apt install iproute2)"
            );
            return None;
        }
        network.shell("switch", "ip link add br0 type bridge && ip link set br0 up");
        Some(network)
    }

    /// Returns the namespace of a machine.
    pub fn namespace(&self, machine: &str) -> String {
        format!("{}-{machine}", self.prefix)
    }

    /// Returns the folder of a machine's files in `/etc`.
    pub fn settings(&self, machine: &str) -> String {
        format!("/etc/netns/{}", self.namespace(machine))
    }

    /// Writes one of these files; running programs see the change.
    pub fn write_setting(&self, machine: &str, name: &str, text: &str) {
        let folder = self.settings(machine);
        fs::create_dir_all(&folder).expect("root may");
        // The file is written in place, because it is bind-mounted over the system's.
        fs::write(format!("{folder}/{name}"), text).expect("root may");
    }

    fn add_namespace(&mut self, machine: &str) -> bool {
        let made = Command::new("ip").args(["netns", "add", &self.namespace(machine)]).output();
        let is_made = made.is_ok_and(|output| output.status.success());
        if is_made {
            self.machines.push(machine.to_owned());
            self.shell(machine, "ip link set lo up");
        }
        is_made
    }

    /// Adds a machine with the addresses `198.51.100.HOST` and `2001:db8::HOST`, at the device
    /// `eth0`.
    pub fn add(&mut self, machine: &str, host: u8) {
        assert!(self.add_namespace(machine), "there is one more");
        let (switch, own) = (self.namespace("switch"), self.namespace(machine));
        shell(&format!(
            "ip link add eth0 netns {own} type veth peer name to-{machine} netns {switch} &&
             ip -n {switch} link set to-{machine} master br0 up &&
             ip -n {own} address add 198.51.100.{host}/24 dev eth0 &&
             ip -n {own} address add 2001:db8::{host}/64 dev eth0 nodad && ip -n {own} link set eth0 up"
        ));
    }

    /// Adds a machine with the address 192.168.1.2 behind a NAT that has the address
    /// `198.51.100.HOST`.
    pub fn add_behind_nat(&mut self, machine: &str, host: u8) {
        let router = format!("{machine}-nat");
        self.add(&router, host);
        assert!(self.add_namespace(machine), "there is one more");
        let (outer, own) = (self.namespace(&router), self.namespace(machine));
        shell(&format!(
            "ip link add eth0 netns {own} type veth peer name inside netns {outer} &&
             ip -n {outer} address add 192.168.1.1/24 dev inside && ip -n {outer} link set inside up &&
             ip -n {own} address add 192.168.1.2/24 dev eth0 && ip -n {own} link set eth0 up &&
             ip -n {own} route add default via 192.168.1.1"
        ));
        self.shell(
            &router,
            "echo 1 > /proc/sys/net/ipv4/ip_forward && iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE",
        );
    }

    /// Runs a script on a machine to its end, and returns its output.
    pub fn shell(&self, machine: &str, script: &str) -> String {
        output_of(self.command(machine, "sh").args(["-c", script]), script)
    }

    /// Returns a command of the program on a machine.
    pub fn byway(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(machine, env!("CARGO_BIN_EXE_byway"));
        command.args(arguments);
        command
    }

    fn command(&self, machine: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine), program]);
        command
    }

    /// Runs `work` in a thread on a machine; the sockets that it opens belong there.
    pub fn run<R: Send>(&self, machine: &str, work: impl FnOnce() -> R + Send) -> R {
        let namespace = fs::File::open(format!("/var/run/netns/{}", self.namespace(machine)));
        let namespace = namespace.expect("the machine is there");
        let enter_and_work = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("this process may");
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter_and_work).join().expect("no panic"))
    }
}

/// Runs a script that must succeed, and returns its output.
fn shell(script: &str) -> String {
    output_of(Command::new("sh").args(["-c", script]), script)
}

fn output_of(command: &mut Command, script: &str) -> String {
    let Output { status, stdout, stderr } = command.output().expect("there is a shell");
    assert!(status.success(), "{script}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

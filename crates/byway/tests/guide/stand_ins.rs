//! Replacements for programs of the guide that a test cannot run.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::TIMEOUT;
use crate::world::{Impairments, World};

/// Action in place of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum StandIn {
    /// `systemctl`: runs the unit's own command, as in its file.
    Start(String),
    /// `systemctl daemon-reload`: verifies the units.
    Reload,
    /// `systemctl reload`: runs the unit's own reload commands.
    Again(String),
    /// `journalctl`: the last line of the unit's log.
    LastOfLog(String),
    /// Node in a terminal of its own.
    Run { name: String, line: String },
    /// `iptables`: the emulated path drops the packets that match the rule.
    Impairments(Impairments),
    /// `socat` that answers at an address.
    Echo(String),
    /// `socat` that sends a line to an address, and prints the answer.
    Ask(String),
}

/// Returns the replacement of a command; `None` for commands that run unchanged.
pub fn of(line: &str) -> Option<StandIn> {
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["systemctl", "daemon-reload"] => Some(StandIn::Reload),
        ["systemctl", "enable", "--now", unit] | ["systemctl", "restart", unit] => {
            Some(StandIn::Start((*unit).to_owned()))
        }
        ["systemctl", "reload", unit] => Some(StandIn::Again((*unit).to_owned())),
        ["journalctl", "-u", unit, "-n", "1", "-o", "cat"] => Some(StandIn::LastOfLog((*unit).to_owned())),
        ["iptables", rule @ ..] => Some(StandIn::Impairments(parse_impairments(rule))),
        ["socat", from, "EXEC:cat"] => Some(StandIn::Echo(listened(from))),
        ["socat", "-", to] => Some(StandIn::Ask(to.strip_prefix("UDP4:").expect("UDP").to_owned())),
        ["byway", "link", "attach", ..] => {
            Some(StandIn::Run { name: "link".to_owned(), line: format!("exec {line}") })
        }
        ["byway", role @ ("agent" | "relay" | "controller" | "protect"), ..]
            if !words.contains(&"--dry-run") =>
        {
            Some(StandIn::Run { name: (*role).to_owned(), line: format!("exec {line}") })
        }
        _ => None,
    }
}

/// Parses a rule into the impairments of packets from Alice's public address.
fn parse_impairments(rule: &[&str]) -> Impairments {
    let after = |key: &str| rule.iter().position(|word| *word == key).map(|index| rule[index + 1]);
    let source = (after("-s"), after("-p"), after("-j"));
    assert_eq!(source, (Some("198.51.100.21"), Some("udp"), Some("DROP")), "{rule:?}");
    match (rule[0], after("--probability")) {
        ("-D", _) => Impairments::Clear,
        ("-A", Some(share)) => Impairments::Lossy(share.parse().expect("a share")),
        ("-A", None) => Impairments::Outage,
        _ => panic!("no rule of the guide: {rule:?}"),
    }
}

/// Returns the address of `UDP4-LISTEN:6000,bind=127.0.0.1,fork`.
fn listened(address: &str) -> String {
    let mut parts = address.strip_prefix("UDP4-LISTEN:").expect("UDP").split(',');
    let port = parts.next().expect("a port");
    let host = parts.find_map(|part| part.strip_prefix("bind=")).expect("an address");
    format!("{host}:{port}")
}

/// Sends the first line of the page's output until an answer arrives, and returns both.
pub fn ask(world: &World, host: &str, address: &str, shown: &[String]) -> String {
    let line = shown.first().expect("a line that is typed").clone() + "\n";
    let to: SocketAddr = address.parse().expect("an address and a port");
    world.at(host, move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let (until, mut answer) = (Instant::now() + TIMEOUT, [0; 2_000]);
        while Instant::now() < until {
            socket.send_to(line.as_bytes(), to).expect("it leaves");
            if let Ok(length) = socket.recv(&mut answer) {
                return line + &String::from_utf8_lossy(&answer[..length]);
            }
        }
        panic!("nobody answers at {to}")
    })
}

/// Verifies the units of a machine with systemd's own tool, if the system has it.
pub fn verify(world: &World, host: &str) -> String {
    let line = "command -v systemd-analyze >/dev/null || exit 0
        systemd-analyze verify --man=no --recursive-errors=no /etc/systemd/system/byway-*.service 2>&1";
    let output = world.try_shell(host, line);
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && message.is_empty(), "{host}: systemd-analyze verify: {message}");
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guide_types_is_understood() {
        let rule = "sudo iptables -A INPUT -p udp -s 198.51.100.21 -m statistic --mode random --probability 0.05 -j DROP";
        for (line, stand_in) in [
            ("sudo systemctl enable --now byway-relay", Some(StandIn::Start("byway-relay".into()))),
            (rule, Some(StandIn::Impairments(Impairments::Lossy(0.05)))),
            (
                "socat UDP4-LISTEN:6000,bind=127.0.0.1,fork EXEC:cat",
                Some(StandIn::Echo("127.0.0.1:6000".into())),
            ),
            ("socat - UDP4:127.0.0.1:5000", Some(StandIn::Ask("127.0.0.1:5000".into()))),
            ("byway status", None),
            ("byway agent --config agent.toml --dry-run", None),
        ] {
            assert_eq!(of(line), stand_in, "{line}");
        }
    }
}

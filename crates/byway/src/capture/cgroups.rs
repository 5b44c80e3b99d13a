//! Marks on the packets of control groups. iptables sets them, because routing rules cannot match
//! control groups.

use std::process::{Command, Stdio};

use super::plan::CgroupMark;
use crate::exit::Failure;

/// Programs of iptables, one for each version of IP.
const PROGRAMS: [&str; 2] = ["iptables", "ip6tables"];

/// Adds firewall rules that mark the packets of control groups.
///
/// # Errors
/// If iptables is missing, or cannot match control groups.
pub(super) fn mark(groups: &[CgroupMark], table: u32) -> Result<(), Failure> {
    for CgroupMark { path, mark } in groups {
        for program in PROGRAMS {
            let (name, mark) = (rule_tag(table), mark.to_string());
            let group = ["-t", "mangle", "-A", "OUTPUT", "-m", "cgroup", "--path", path];
            // Packets with a mark retain it: the agent's own packets, and those that other programs
            // mark.
            let unmarked = ["-m", "mark", "--mark", "0", "-m", "comment", "--comment", &name];
            let action = ["-j", "MARK", "--set-mark", &mark];
            let output = run_iptables(program, &[&group[..], &unmarked, &action].concat());
            output.map_err(|error| {
                Failure::machine(format!(
                    "{program} cannot match packets of the control group {path}: {error}; install \
                     iptables with the match \"cgroup\", or capture by users or firewall marks"
                ))
            })?;
        }
    }
    Ok(())
}

/// Removes the firewall rules by which the agent of this routing table marks packets. Logs a
/// failure.
pub(super) fn unmark(table: u32) {
    for program in PROGRAMS {
        let Ok(all) = run_iptables(program, &["-t", "mangle", "-S", "OUTPUT"]) else {
            continue;
        };
        let has_tag =
            |rule: &&str| rule.split_whitespace().any(|word| word.trim_matches('"') == rule_tag(table));
        for rule in all.lines().filter(has_tag) {
            let words: Vec<&str> =
                rule.split_whitespace().skip(1).map(|word| word.trim_matches('"')).collect();
            let removed = run_iptables(program, &[&["-t", "mangle", "-D"][..], &words].concat());
            if let Err(error) = removed {
                tracing::warn!(rule, %error, "cannot remove a firewall rule");
            }
        }
    }
}

/// Returns the comment by which the firewall rules of a routing table's agent are recognised.
pub(super) fn rule_tag(table: u32) -> String {
    format!("byway-{table}")
}

pub(super) fn run_iptables(program: &str, arguments: &[&str]) -> Result<String, String> {
    // iptables waits for other programs that change the firewall, a second at most.
    let output = Command::new(program).args(["-w", "1"]).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

//! Marks on the packets of control groups: rules of routing do not know groups, and iptables does.

use std::process::{Command, Stdio};

use super::plan::Group;
use crate::exit::Failure;

/// The programs, one for each version of IP.
const PROGRAMS: [&str; 2] = ["iptables", "ip6tables"];

/// Marks the packets of groups from now on.
///
/// # Errors
/// If iptables is not there, or does not know groups.
pub(super) fn mark(groups: &[Group], table: u32) -> Result<(), Failure> {
    for Group { path, mark } in groups {
        for program in PROGRAMS {
            let (name, mark) = (name(table), mark.to_string());
            let group = ["-t", "mangle", "-A", "OUTPUT", "-m", "cgroup", "--path", path];
            // What has a mark keeps it: the agent's own packets, and those of others that mark.
            let unmarked = ["-m", "mark", "--mark", "0", "-m", "comment", "--comment", &name];
            let action = ["-j", "MARK", "--set-mark", &mark];
            let output = run(program, &[&group[..], &unmarked, &action].concat());
            output.map_err(|error| {
                Failure::machine(format!(
                    "packets of the control group {path} cannot be known by {program}: {error}: install iptables with the match \"cgroup\", or \
                     capture by users or firewall marks"
                ))
            })?;
        }
    }
    Ok(())
}

/// Takes the marks away that an agent of this table has set.
pub(super) fn unmark(table: u32) {
    for program in PROGRAMS {
        let Ok(all) = run(program, &["-t", "mangle", "-S", "OUTPUT"]) else {
            continue;
        };
        let is_ours = |rule: &&str| rule.split_whitespace().any(|word| word.trim_matches('"') == name(table));
        for rule in all.lines().filter(is_ours) {
            let words: Vec<&str> =
                rule.split_whitespace().skip(1).map(|word| word.trim_matches('"')).collect();
            let removed = run(program, &[&["-t", "mangle", "-D"][..], &words].concat());
            if let Err(error) = removed {
                tracing::warn!(rule, %error, "a rule of the firewall stays behind");
            }
        }
    }
}

/// By which the rules of a table's agent are known.
pub(super) fn name(table: u32) -> String {
    format!("byway-{table}")
}

pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    // It waits for others that change the firewall, a second at most.
    let output = Command::new(program).args(["-w", "1"]).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

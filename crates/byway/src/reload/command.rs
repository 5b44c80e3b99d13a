//! `byway reload`: has a running node read its settings again.

use std::fmt::Write as _;
use std::net::SocketAddr;

use byway_api::{ReloadAnswer, ReloadRefusal};
use clap::Args;
use hyper::Method;
use hyper::body::Bytes;

use crate::exit::{Cause, Failure};
use crate::node;
use crate::observe::RELOAD_PATH;
use crate::status::{self, NoAnswer};

/// What `byway reload` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ReloadFlags {
    /// The node's observe.listen [default: all nodes at the usual ports of this machine]
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// One JSON object for each node, on a line.
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
A node reads the file that it was started with again, as on SIGHUP. Forwards, exposes, captures, log.level and [uplink] take effect at
once; what stays the same keeps its flows. Other settings are named: they take effect when the node is started again. If the file is
wrong, or a port is in use, the node keeps all that it has, and the command ends with the exit code that the node would have ended with.

Example: sudoedit /etc/byway/agent.toml && byway config check /etc/byway/agent.toml && sudo systemctl reload byway-agent";

/// Has one node, or those of this machine, read their settings again.
///
/// # Errors
/// If none answers, or one keeps the settings that it has.
pub(crate) fn run(flags: &ReloadFlags) -> Result<(), Failure> {
    node::block_on(async {
        let (mut silent, mut refused, mut answered) = (Vec::new(), Vec::new(), 0);
        for address in status::addresses(flags.at) {
            match ask(address).await {
                Ok(answer) => {
                    print!("{}", shown(&answer, flags.json));
                    answered += 1;
                }
                Err(Refused::Silent(error)) => silent.push((address, error)),
                Err(Refused::Keeps(failure)) => refused.push(failure),
            }
        }
        match refused.into_iter().next() {
            Some(failure) => Err(failure),
            None if answered == 0 => Err(Failure::new(Cause::Network, status::nobody(&silent))),
            None => Ok(()),
        }
    })
}

/// Why a node does not work by new settings.
enum Refused {
    /// It does not answer.
    Silent(String),
    /// It answers, and keeps the settings that it has.
    Keeps(Failure),
}

async fn ask(address: SocketAddr) -> Result<ReloadAnswer, Refused> {
    let body = status::exchange(address, Method::POST, RELOAD_PATH).await.map_err(|error| match error {
        NoAnswer::Silent(error) => Refused::Silent(error),
        NoAnswer::Refused(status, body) => Refused::Keeps(refusal(address, status, &body)),
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let message =
            format!("{address}: the answer cannot be read ({error}): use the program of the node's version");
        Refused::Keeps(Failure::new(Cause::Network, message))
    })
}

fn refusal(address: SocketAddr, status: hyper::StatusCode, body: &Bytes) -> Failure {
    match serde_json::from_slice::<ReloadRefusal>(body) {
        Ok(ReloadRefusal { error, exit_code }) => {
            let cause = Cause::of_code(exit_code);
            Failure::new(cause, format!("the node at {address} keeps the settings that it has: {error}"))
        }
        Err(_) => Failure::new(
            Cause::Network,
            format!(
                "the node at {address} answers {status}: an older one reads settings on its start alone; restart it"
            ),
        ),
    }
}

fn shown(answer: &ReloadAnswer, json: bool) -> String {
    if json {
        return serde_json::to_string(answer).unwrap_or_default() + "\n";
    }
    let ReloadAnswer { name, changes, unchanged, needs_restart } = answer;
    let mut text =
        format!("{name}: read its settings again; changes: {}, unchanged: {unchanged}\n", changes.len());
    for change in changes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} {}", change.change, change.setting);
    }
    for setting in needs_restart {
        let _ = writeln!(text, "  {setting} takes effect when the node is started again");
    }
    text
}

#[cfg(test)]
mod tests {
    use byway_api::{ChangeKind, SettingChange};

    use super::*;

    #[test]
    fn people_see_what_changed_and_what_waits_for_a_restart() {
        let change =
            SettingChange { change: ChangeKind::Added, setting: "forward 127.0.0.1:5001".to_owned() };
        let answer = ReloadAnswer {
            name: "alice".to_owned(),
            changes: vec![change],
            unchanged: 2,
            needs_restart: vec!["agent.listen".to_owned()],
        };
        let text = shown(&answer, false);
        for line in
            ["alice: ", "  added forward 127.0.0.1:5001\n", "unchanged: 2", "  agent.listen takes effect"]
        {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert_eq!(serde_json::from_str::<ReloadAnswer>(&shown(&answer, true)).expect("JSON"), answer);
    }

    #[test]
    fn a_refusal_keeps_the_exit_code_of_its_cause() {
        let body = serde_json::to_vec(&ReloadRefusal { error: "no".to_owned(), exit_code: 3 }).expect("JSON");
        let at = SocketAddr::from(([127, 0, 0, 1], 4_680));
        let failure = refusal(at, hyper::StatusCode::UNPROCESSABLE_ENTITY, &body.into());
        assert_eq!((failure.cause(), failure.to_string().contains("keeps")), (Cause::Machine, true));
    }
}

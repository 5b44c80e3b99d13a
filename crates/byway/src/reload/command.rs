//! `byway reload`: makes a running node reload its settings.

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

/// Flags of `byway reload`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ReloadFlags {
    /// The node's observe.listen [default: all nodes at the usual ports of this machine]
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// Print one JSON object for each node, on a line.
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
The node reads its configuration file again, as on SIGHUP. Forwards, exposes, captures, log.level, [uplink], and a controller's
shared_coding and prices take effect at once; flows of unchanged ones continue. Other settings are listed: they take effect after a
restart of the node. If the file is invalid, or a port is in use, the node continues with its current settings; the exit code is that
of a node started with the file.

Example: sudoedit /etc/byway/agent.toml && byway config check /etc/byway/agent.toml && sudo systemctl reload byway-agent";

/// Requests a node, or all nodes on this machine, to reload their settings, and prints the
/// outcomes.
///
/// # Errors
/// If no node answers, or one rejects its new settings.
pub(crate) fn run(flags: &ReloadFlags) -> Result<(), Failure> {
    node::block_on(async {
        let (mut silent, mut refused, mut answered) = (Vec::new(), Vec::new(), 0);
        for address in status::addresses(flags.at) {
            match request_reload(address).await {
                Ok(answer) => {
                    print!("{}", render(&answer, flags.json));
                    answered += 1;
                }
                Err(ReloadError::Silent(error)) => silent.push((address, error)),
                Err(ReloadError::Rejected(failure)) => refused.push(failure),
            }
        }
        match refused.into_iter().next() {
            Some(failure) => Err(failure),
            None if answered == 0 => Err(Failure::new(Cause::Network, status::no_answer_message(&silent))),
            None => Ok(()),
        }
    })
}

/// Reason why a node did not reload its settings.
enum ReloadError {
    /// The node does not answer the request.
    Silent(String),
    /// The node answers, and continues with its current settings.
    Rejected(Failure),
}

async fn request_reload(address: SocketAddr) -> Result<ReloadAnswer, ReloadError> {
    let body = status::exchange(address, Method::POST, RELOAD_PATH).await.map_err(|error| match error {
        NoAnswer::Silent(error) => ReloadError::Silent(error),
        NoAnswer::Refused(status, body) => ReloadError::Rejected(refusal(address, status, &body)),
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let message =
            format!("{address}: invalid reply ({error}): use the byway program of the node's version");
        ReloadError::Rejected(Failure::new(Cause::Network, message))
    })
}

fn refusal(address: SocketAddr, status: hyper::StatusCode, body: &Bytes) -> Failure {
    match serde_json::from_slice::<ReloadRefusal>(body) {
        Ok(ReloadRefusal { error, exit_code }) => {
            let cause = Cause::of_code(exit_code);
            Failure::new(cause, format!("the node at {address} continues with its current settings: {error}"))
        }
        Err(_) => Failure::new(
            Cause::Network,
            format!(
                "the node at {address} replied {status}: older versions read settings only at their \
                 start; restart the node"
            ),
        ),
    }
}

fn render(answer: &ReloadAnswer, json: bool) -> String {
    if json {
        return serde_json::to_string(answer).unwrap_or_default() + "\n";
    }
    let ReloadAnswer { name, changes, unchanged, needs_restart } = answer;
    let mut text = format!("{name}: settings reloaded; changes: {}, unchanged: {unchanged}\n", changes.len());
    for change in changes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} {}", change.change, change.setting);
    }
    for setting in needs_restart {
        let _ = writeln!(text, "  {setting} takes effect after a restart of the node");
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
        let text = render(&answer, false);
        for line in
            ["alice: ", "  added forward 127.0.0.1:5001\n", "unchanged: 2", "  agent.listen takes effect"]
        {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert_eq!(serde_json::from_str::<ReloadAnswer>(&render(&answer, true)).expect("JSON"), answer);
    }

    #[test]
    fn a_refusal_keeps_the_exit_code_of_its_cause() {
        let body = serde_json::to_vec(&ReloadRefusal { error: "no".to_owned(), exit_code: 3 }).expect("JSON");
        let at = SocketAddr::from(([127, 0, 0, 1], 4_680));
        let failure = refusal(at, hyper::StatusCode::UNPROCESSABLE_ENTITY, &body.into());
        assert_eq!((failure.cause(), failure.to_string().contains("continues")), (Cause::Machine, true));
    }
}

//! Control socket on which commands reach the controller of a device. Its
//! [name](crate::abstract_names) contains the device's index.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::limits::{ANSWER_TIMEOUT, COMMAND_TIMEOUT, LINE_BYTES_MAX, PENDING_COMMANDS_MAX};
use super::link_config::ConfigRequest;
use super::registration::FlowRegistration;
use super::report::LinkReport;
use crate::abstract_names::{self, Holder};
use crate::exit::{Cause, Failure};
use crate::membership::random;

/// Prefix of the abstract socket names of controllers. The device's index follows.
const NAME: &str = "byway-link";

/// Number of attempts to claim a device. If two processes start at the same time, one of them finds
/// the other's name released in a later attempt.
const ATTEMPTS: u32 = 20;

/// Base of the interval between two attempts to claim a device. Its factor is the attempt's number
/// plus a random number up to 7, which separates two processes.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(2);

/// Command that another process sends to a device's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ControlCommand {
    /// Report the status of the link.
    Status,
    /// Restore the device's former state, and end the controller.
    Detach,
    /// Change the link's promise: rate, delay, ratio or floor.
    Change(ConfigRequest),
    /// Put a flow into the low-delay class for a while.
    Register(FlowRegistration),
}

/// Answer of a device's controller to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ControlAnswer {
    /// Status of the link.
    Status(Box<LinkReport>),
    /// Success of a change or a detachment, with notes for people.
    Done(Vec<String>),
    /// Refusal of an invalid command, with the reason.
    Refused(String),
    /// Failure of a valid command, with the reason.
    Failed(String),
}

impl ControlAnswer {
    /// Returns the answer to a command that had this result.
    pub(super) fn of(done: &Result<Vec<String>, Failure>) -> Self {
        match done {
            Ok(notes) => Self::Done(notes.clone()),
            Err(failure) if failure.cause() == Cause::Settings => Self::Refused(failure.to_string()),
            Err(failure) => Self::Failed(failure.to_string()),
        }
    }
}

/// Returns the privileged process that has claimed a device; `None` if there is none. Logs
/// unprivileged processes that use such a name.
fn holder(index: u32, own: Option<&str>) -> Option<Holder> {
    let mut holders = abstract_names::holders(&format!("{NAME}-{index}-"), own);
    abstract_names::log_strangers(&holders);
    holders.retain(Holder::is_privileged);
    holders.pop()
}

/// Exclusive right to a device, by the socket on which its controller will listen.
pub(super) struct Claim(UnixListener);

impl Claim {
    /// Claims the device with this index. `None` if another process has it after [`ATTEMPTS`]
    /// attempts.
    ///
    /// # Errors
    /// If the kernel creates no socket.
    #[allow(clippy::disallowed_methods, reason = "a command waits for another one")]
    pub(super) fn acquire(index: u32) -> Result<Option<Self>, Failure> {
        for attempt in 0..ATTEMPTS {
            let reserved = abstract_names::reserve(&format!("{NAME}-{index}"));
            let (own, listener) =
                reserved.map_err(|error| Failure::machine(format!("cannot claim the device: {error}")))?;
            if holder(index, Some(&own)).is_none() {
                return Ok(Some(Self(listener)));
            }
            drop(listener);
            let [random] = random::bytes();
            std::thread::sleep(ATTEMPT_INTERVAL * (attempt + u32::from(random % 8)));
        }
        Ok(None)
    }

    /// Starts to listen for commands on the claim's socket.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn listen(self) -> Result<ControlListener, Failure> {
        let listener = self.0.set_nonblocking(true).and_then(|()| tokio::net::UnixListener::from_std(self.0));
        let listener =
            listener.map_err(|error| Failure::machine(format!("cannot listen for commands: {error}")))?;
        let (sender, receiver) = mpsc::channel(PENDING_COMMANDS_MAX);
        tokio::spawn(accept(listener, sender));
        Ok(ControlListener(receiver))
    }
}

/// Receiver of the commands that arrive on a controller's socket.
pub(super) struct ControlListener(mpsc::Receiver<(ControlCommand, ControlReply)>);

/// Connection on which a command's process waits for the answer.
pub(super) struct ControlReply(tokio::net::UnixStream);

impl ControlListener {
    /// Waits for the next command. It is cancel-safe: a dropped future loses no command.
    pub(super) async fn next(&mut self) -> (ControlCommand, ControlReply) {
        match self.0.recv().await {
            Some(command) => command,
            // The accepting task lives as long as the event loop.
            None => std::future::pending().await,
        }
    }
}

/// Accepts connections of permitted users, and reads each in a task of its own. A slow one
/// therefore delays no other.
async fn accept(listener: tokio::net::UnixListener, sender: mpsc::Sender<(ControlCommand, ControlReply)>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process has too many open files for a moment.
            tokio::time::sleep(COMMAND_TIMEOUT).await;
            continue;
        };
        // Abstract names have no access rights.
        if stream.peer_cred().is_ok_and(|other| is_permitted(other.uid())) {
            tokio::spawn(read_command(stream, sender.clone()));
        }
    }
}

/// Reads a command from a connection and passes it on. Ignores an invalid or late one.
async fn read_command(
    mut stream: tokio::net::UnixStream,
    sender: mpsc::Sender<(ControlCommand, ControlReply)>,
) {
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new(&mut stream).take(LINE_BYTES_MAX);
    let read = tokio::time::timeout(COMMAND_TIMEOUT, reader.read_until(b'\n', &mut line)).await;
    if let (Ok(Ok(_)), Ok(command)) = (read, serde_json::from_slice(&line)) {
        // The controller may have ended.
        let _ = sender.send((command, ControlReply(stream))).await;
    }
}

/// True if a user may send commands: root, and the user of the controller.
fn is_permitted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

impl ControlReply {
    /// Sends the answer to the command's process, if that still waits.
    pub(super) async fn answer(mut self, answer: &ControlAnswer) {
        let mut line = serde_json::to_vec(answer).expect("an answer has text and numbers");
        line.push(b'\n');
        let _ = tokio::time::timeout(COMMAND_TIMEOUT, self.0.write_all(&line)).await;
    }
}

/// Sends a command to the controller of the device with this index, and waits for the answer.
/// `None` if no controller runs.
pub(super) fn send_command(index: u32, command: ControlCommand) -> Result<Option<ControlAnswer>, Failure> {
    let Some(holder) = holder(index, None) else { return Ok(None) };
    let address = SocketAddr::from_abstract_name(&holder.name);
    let stream = match address.and_then(|address| UnixStream::connect_addr(&address)) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(no_answer(&error)),
    };
    exchange(&stream, command).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            no_answer(&"only root and the controller's own user may send commands")
        }
        _ => no_answer(&error),
    })
}

fn exchange(mut stream: &UnixStream, command: ControlCommand) -> io::Result<Option<ControlAnswer>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_vec(&command)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
    let mut answer = Vec::new();
    if reader.read_until(b'\n', &mut answer)? == 0 {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(Some(serde_json::from_slice(&answer)?))
}

fn no_answer(error: &dyn std::fmt::Display) -> Failure {
    Failure::machine(format!("cannot query the controller of the device: {error}"))
}

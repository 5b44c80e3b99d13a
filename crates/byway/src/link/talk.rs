//! Talk between commands and the controller of a device, by a [name](crate::reserved) that says which device it is.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::limits::{ANSWERED_WITHIN, ASKED_MAX, ASKED_WITHIN, LINE_BYTES_MAX};
use super::report::Report;
use super::terms::Wish;
use crate::exit::{Cause, Failure};
use crate::membership::random;
use crate::reserved::{self, Holder};

/// Beginning of names, before the device's number.
const NAME: &str = "byway-link";

/// Attempts to take a device: of two processes that begin at the same time, one then finds the other's name given up.
const ATTEMPTS: u32 = 20;

/// Time between two of them, at first: the second process waits longer than the first one.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(2);

/// What a command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// To know how the link is.
    Status,
    /// The link put back as it was.
    Detach,
    /// Another promise.
    Change(Wish),
}

/// What it hears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// How the link is.
    Status(Box<Report>),
    /// It is done; what is to be known about it.
    Done(Vec<String>),
    /// It is not, as what is wanted cannot be.
    Refused(String),
    /// It failed.
    Failed(String),
}

impl Answer {
    /// Of something that was done or not.
    pub(super) fn of(done: &Result<Vec<String>, Failure>) -> Self {
        match done {
            Ok(notes) => Self::Done(notes.clone()),
            Err(failure) if failure.cause() == Cause::Settings => Self::Refused(failure.to_string()),
            Err(failure) => Self::Failed(failure.to_string()),
        }
    }
}

/// Returns who has a device, and logs who only has a name like that.
fn holder(index: u32, own: Option<&str>) -> Option<Holder> {
    let mut holders = reserved::holders(&format!("{NAME}-{index}-"), own);
    reserved::log_strangers(&holders);
    holders.retain(Holder::is_privileged);
    holders.pop()
}

/// The right to a device, and the ear of its controller.
pub(super) struct Claim(UnixListener);

impl Claim {
    /// Takes the device with this number; `None` if another process has it.
    ///
    /// # Errors
    /// If the kernel gives no socket.
    #[allow(clippy::disallowed_methods, reason = "a command waits for another one")]
    pub(super) fn take(index: u32) -> Result<Option<Self>, Failure> {
        for attempt in 0..ATTEMPTS {
            let reserved = reserved::reserve(&format!("{NAME}-{index}"));
            let (own, listener) = reserved
                .map_err(|error| Failure::machine(format!("the device cannot be claimed: {error}")))?;
            if holder(index, Some(&own)).is_none() {
                return Ok(Some(Self(listener)));
            }
            drop(listener);
            let [random] = random::bytes();
            std::thread::sleep(ATTEMPT_INTERVAL * (attempt + u32::from(random % 8)));
        }
        Ok(None)
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// If the kernel does not let it.
    pub(super) fn listen(self) -> Result<Ear, Failure> {
        let listener = self.0.set_nonblocking(true).and_then(|()| tokio::net::UnixListener::from_std(self.0));
        let listener =
            listener.map_err(|error| Failure::machine(format!("commands cannot be heard: {error}")))?;
        let (heard, asked) = mpsc::channel(ASKED_MAX);
        tokio::spawn(accept(listener, heard));
        Ok(Ear(asked))
    }
}

/// Where a controller hears commands.
pub(super) struct Ear(mpsc::Receiver<(Ask, Asking)>);

/// Somebody who asks.
pub(super) struct Asking(tokio::net::UnixStream);

impl Ear {
    /// The next one who asks. (Whoever stops waiting for that misses nobody.)
    pub(super) async fn next(&mut self) -> (Ask, Asking) {
        match self.0.recv().await {
            Some(asked) => asked,
            // Not as long as there is an event loop.
            None => std::future::pending().await,
        }
    }
}

/// Takes those who come, each on its own, so that a slow one keeps nobody waiting.
async fn accept(listener: tokio::net::UnixListener, heard: mpsc::Sender<(Ask, Asking)>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // There are too many files for a moment.
            tokio::time::sleep(ASKED_WITHIN).await;
            continue;
        };
        // Abstract names know no rights.
        if stream.peer_cred().is_ok_and(|other| may_ask(other.uid())) {
            tokio::spawn(hear(stream, heard.clone()));
        }
    }
}

/// Hears what somebody wants, if it makes sense.
async fn hear(mut stream: tokio::net::UnixStream, heard: mpsc::Sender<(Ask, Asking)>) {
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new(&mut stream).take(LINE_BYTES_MAX);
    let read = tokio::time::timeout(ASKED_WITHIN, reader.read_until(b'\n', &mut line)).await;
    if let (Ok(Ok(_)), Ok(ask)) = (read, serde_json::from_slice(&line)) {
        // A controller that ends hears nobody any more.
        let _ = heard.send((ask, Asking(stream))).await;
    }
}

/// Root, and whoever the controller runs as.
fn may_ask(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

impl Asking {
    /// Answers. Who has gone needs no answer.
    pub(super) async fn answer(mut self, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).expect("an answer has text and numbers");
        line.push(b'\n');
        let _ = tokio::time::timeout(ASKED_WITHIN, self.0.write_all(&line)).await;
    }
}

/// Asks the controller of the device with this number, if there is one; waits for the answer, and for the controller's end if that is wanted.
///
/// # Errors
/// If it does not answer.
pub(super) fn ask(index: u32, ask: Ask) -> Result<Option<Answer>, Failure> {
    let Some(holder) = holder(index, None) else { return Ok(None) };
    let address = SocketAddr::from_abstract_name(&holder.name);
    let stream = match address.and_then(|address| UnixStream::connect_addr(&address)) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(silent(&error)),
    };
    heard(&stream, ask).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            silent(&"it answers root, and the user that it runs as")
        }
        _ => silent(&error),
    })
}

fn heard(mut stream: &UnixStream, ask: Ask) -> io::Result<Option<Answer>> {
    stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
    let mut line = serde_json::to_vec(&ask)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
    let mut answer = Vec::new();
    if reader.read_until(b'\n', &mut answer)? == 0 {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(Some(serde_json::from_slice(&answer)?))
}

fn silent(error: &dyn std::fmt::Display) -> Failure {
    Failure::machine(format!("the controller of the device cannot be asked: {error}"))
}

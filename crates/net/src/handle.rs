//! A role's thread, seen from the rest of the process.

use std::any::Any;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

use crate::bind::OverlaySockets;
use crate::clock::Clock;
use crate::device::is_of_device;
use crate::driver::Driver;
use crate::io::Io;
use crate::limits::CONTROLS_MAX;
use crate::poller::Bell;
use crate::role::Role;

/// Why a role's thread ended that should not have.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndError {
    /// The role panicked.
    #[error("the thread {thread} panicked: {message}")]
    Panicked {
        /// The thread's name.
        thread: String,
        /// What the panic said.
        message: String,
    },
    /// The device was removed.
    #[error("the device of the thread {thread} was removed: {error}")]
    Device {
        /// The thread's name.
        thread: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The kernel no longer lets the thread wait.
    #[error("the thread {thread} cannot wait for its sockets: {error}")]
    Wait {
        /// The thread's name.
        thread: String,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Why a control was not taken; it is given back.
#[derive(Debug, Error)]
pub enum ControlError<C> {
    /// Too many wait already.
    #[error("too many controls wait for the thread: try again later")]
    Full(C),
    /// The thread has ended.
    #[error("the thread has ended")]
    Ended(C),
}

/// The end of a role's controls that the rest of the process holds; copies may go to other threads.
#[derive(Debug)]
pub struct Controls<C> {
    sender: SyncSender<C>,
    bell: Bell,
}

impl<C> Clone for Controls<C> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), bell: self.bell.clone() }
    }
}

impl<C> Controls<C> {
    /// Asks the role for something; does not wait.
    ///
    /// # Errors
    /// If too many controls wait, or the thread has ended.
    pub fn control(&self, control: C) -> Result<(), ControlError<C>> {
        self.sender.try_send(control).map_err(|refused| match refused {
            TrySendError::Full(control) => ControlError::Full(control),
            TrySendError::Disconnected(control) => ControlError::Ended(control),
        })?;
        self.bell.ring();
        Ok(())
    }
}

/// A role's thread, seen from the rest of the process.
#[derive(Debug)]
pub struct Handle<C> {
    controls: Controls<C>,
    thread: JoinHandle<io::Result<()>>,
}

impl<C> Handle<C> {
    /// Asks the role for something; does not wait.
    ///
    /// # Errors
    /// If too many controls wait, or the thread has ended.
    pub fn control(&self, control: C) -> Result<(), ControlError<C>> {
        self.controls.control(control)
    }

    /// A sender of controls for other threads.
    #[must_use]
    pub fn controls(&self) -> Controls<C> {
        self.controls.clone()
    }

    /// Whether the thread has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// If it ended for another reason than that its role was finished.
    pub fn join(self) -> Result<(), EndError> {
        let thread = self.thread.thread().name().unwrap_or_default().to_owned();
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if is_of_device(&error) => Err(EndError::Device { thread, error }),
            Ok(Err(error)) => Err(EndError::Wait { thread, error }),
            Err(panic) => Err(EndError::Panicked { thread, message: message(&*panic) }),
        }
    }
}

/// What a panic said: words, if it came from `panic!`.
fn message(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Starts a thread for a role, and lets the process open as many sockets as it may.
///
/// The thread goes on if the handle is dropped; it ends when the role is finished.
///
/// # Errors
/// If the kernel gives no thread, or no descriptors to wait with.
pub fn spawn<R: Role>(
    name: &str,
    sockets: OverlaySockets,
    role: R,
    clock: Clock,
) -> io::Result<Handle<R::Control>> {
    raise_descriptor_limit();
    let io = Io::new(sockets, clock)?;
    let bell = io.poller.bell();
    let (sender, receiver) = sync_channel(CONTROLS_MAX);
    let thread = Builder::new().name(name.to_owned()).spawn(move || Driver::new(role, io, receiver).run())?;
    Ok(Handle { controls: Controls { sender, bell }, thread })
}

/// Raises the limit of open files to what the process may have without asking: there may be thousands of sockets.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it fails, opening a socket too many says which limit is in the way.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

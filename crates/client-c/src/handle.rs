//! The client behind a pointer: with a socket, or without.

use byway_client::{Client, Driver};
use byway_units::Time;

use crate::error::{Error, Problem, guarded};
use crate::memory::change;
use crate::output::Output;

/// A client.
#[derive(Debug)]
pub struct Handle {
    inner: Inner,
    /// Whether something panicked inside: what is there then is not to be relied on.
    has_failed: bool,
}

#[derive(Debug)]
enum Inner {
    Bare(Box<Client>),
    Driven(Box<Driver>),
}

/// Times from here on are none: no run lasts for 146 years, and what is added to a time has room above.
const TIMES_END_NS: u64 = 1 << 62;

/// A time as C has it.
pub(crate) fn time(now_ns: u64) -> Result<Time, Problem> {
    if now_ns >= TIMES_END_NS {
        return Err(Problem::about(Error::OutOfRange, "a time of 2^62 nanoseconds or more"));
    }
    Ok(Time::from_nanos(now_ns))
}

impl Handle {
    pub(crate) fn bare(client: Client) -> *mut Self {
        Self::pointer(Inner::Bare(Box::new(client)))
    }

    pub(crate) fn driven(driver: Driver) -> *mut Self {
        Self::pointer(Inner::Driven(Box::new(driver)))
    }

    fn pointer(inner: Inner) -> *mut Self {
        Box::into_raw(Box::new(Self { inner, has_failed: false }))
    }

    /// The client, to look at.
    pub(crate) fn client(&self) -> &Client {
        match &self.inner {
            Inner::Bare(client) => client,
            Inner::Driven(driver) => driver.client(),
        }
    }

    /// Gives the client an input at this time; one with a socket has a clock of its own.
    pub(crate) fn input<R>(
        &mut self,
        now_ns: u64,
        act: impl FnOnce(&mut Client, Time) -> R,
    ) -> Result<R, Problem> {
        match &mut self.inner {
            Inner::Bare(client) => Ok(act(client, time(now_ns)?)),
            Inner::Driven(driver) => Ok(driver.input(act)),
        }
    }

    /// The client, if the application sends and receives.
    pub(crate) fn without_socket(&mut self) -> Result<&mut Client, Problem> {
        match &mut self.inner {
            Inner::Bare(client) => Ok(client),
            Inner::Driven(_) => Err(Error::HasSocket.into()),
        }
    }

    /// The driver, if the client has a socket.
    pub(crate) fn with_socket(&mut self) -> Result<&mut Driver, Problem> {
        match &mut self.inner {
            Inner::Driven(driver) => Ok(driver),
            Inner::Bare(_) => Err(Error::NoSocket.into()),
        }
    }

    pub(crate) fn poll(&mut self) -> Output {
        let output = match &mut self.inner {
            Inner::Bare(client) => client.poll().map(Output::from),
            Inner::Driven(driver) => driver.take().map(Output::from),
        };
        output.unwrap_or(Output::NONE)
    }
}

/// Runs what a function does with a client. One inside which something panicked is not used any more.
///
/// # Safety
/// A pointer that is not null is of a client that was not freed and that nobody else uses meanwhile.
pub(crate) unsafe fn with(
    handle: *mut Handle,
    act: impl FnOnce(&mut Handle) -> Result<(), Problem>,
) -> Error {
    let error = guarded(|| {
        // SAFETY: the caller vouches for the pointer.
        let handle = unsafe { change(handle) }?;
        if handle.has_failed {
            return Err(Error::Failed.into());
        }
        act(handle)
    });
    if error == Error::Failed {
        // SAFETY: the caller vouches for the pointer.
        if let Ok(handle) = unsafe { change(handle) } {
            handle.has_failed = true;
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use byway_client::{Identity, Network, NetworkAgent};
    use byway_wire::seal::StaticSecret;

    use super::*;

    #[test]
    fn a_client_inside_which_something_panicked_is_not_used_any_more() {
        let secret = StaticSecret::from_bytes([1; 32]);
        let (name, key) = ("alice".to_owned(), secret.public_key());
        let agent = NetworkAgent { name, number: 1, key, addresses: vec![], relays: vec![] };
        let network = Network { agents: vec![agent], ..Network::default() };
        let identity = Identity::new("alice", secret, [0; 32], 1);
        let client = Client::new(identity, &network, Time::START).expect("the network is good");
        let handle = Handle::bare(client);
        // SAFETY: the handle was made here, and is freed last.
        unsafe {
            assert_eq!(with(handle, |_| Ok(())), Error::Ok);
            assert_eq!(with(handle, |_| panic!("inside")), Error::Failed);
            assert_eq!(with(handle, |_| Ok(())), Error::Failed);
            drop(Box::from_raw(handle));
        }
    }
}

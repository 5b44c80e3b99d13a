//! Clients, as C has them.
#![allow(clippy::disallowed_types, reason = "sockets are made for drivers")]

use std::ffi::{c_char, c_int};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use byway_client::{
    Client, Clock, Driver, Ecn, ExposeError, FlowPair, Identity, LocalAddress, NetworkError, RegisterError,
    SendError,
};
use byway_units::{AgentId, Time};

use crate::address::Address;
use crate::error::{Error, Problem, guarded};
use crate::handle::{Handle, time, with};
use crate::memory::{bytes, bytes_mut, put_text, read, text, text_or_none, write};
use crate::network::{Network, parsed};
use crate::output::Output;
use crate::registration::{Registered, Registration};
use crate::report::{Report, Segments};

/// Bytes of a seed.
const SEED_BYTES: usize = 32;

/// What both kinds of clients are made of.
///
/// # Safety
/// Pointers are null, or good for what is said of them.
unsafe fn made(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    started_unix_ns: u64,
    now: Time,
) -> Result<Client, Problem> {
    // SAFETY: the caller vouches for the pointers.
    let (network, name, secret, seed) =
        unsafe { (read(network)?, text(name)?, text(secret)?, bytes(seed, SEED_BYTES)?) };
    // The secret is not repeated in an error.
    let secret = secret.trim().parse().map_err(|_| Problem::about(Error::BadText, "the secret is no key"))?;
    let seed = seed.try_into().map_err(|_| Error::OutOfRange)?;
    Ok(Client::new(Identity::new(name, secret, seed, started_unix_ns), &network.0, now)?)
}

/// Makes a client that touches no socket and no clock: the application sends and receives for it. It is freed by
/// byway_client_free.
///
/// It is the agent of this name in the network, with this secret: the text of a key file that `byway keygen` made. The seed is 32
/// secret random bytes, others for each client. started_unix_ns, the time of the start in nanoseconds of Unix time, must rise from
/// one start to the next. After it, as after each call that is told the time, call byway_client_poll until there is nothing more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_new(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    started_unix_ns: u64,
    now_ns: u64,
    client: *mut *mut Handle,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        write(client, std::ptr::null_mut())?;
        let made = made(network, name, secret, seed, started_unix_ns, time(now_ns)?)?;
        write(client, Handle::bare(made))
    })
}

/// Makes a client with a UDP socket and a clock of its own, and without a thread: call byway_client_step, then byway_client_poll
/// until there is nothing more, and so on. It is freed by byway_client_free. Times that other functions are told are not looked at.
///
/// It listens on an address such as 0.0.0.0:0 or [::]:4610, and sends to addresses of that family only. The rest is as for
/// byway_client_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_open(
    network: *const Network,
    name: *const c_char,
    secret: *const c_char,
    seed: *const u8,
    listen: *const c_char,
    client: *mut *mut Handle,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    guarded(|| unsafe {
        write(client, std::ptr::null_mut())?;
        let listen: SocketAddr = parsed(text(listen)?)?;
        let clock = Clock::start();
        let made = made(network, name, secret, seed, clock.started_unix_nanos(), clock.now())?;
        let system = |error| Problem::about(Error::System, format!("{listen} cannot be used: {error}"));
        let socket = UdpSocket::bind(listen).map_err(system)?;
        write(client, Handle::driven(Driver::new(made, socket, clock).map_err(system)?))
    })
}

/// Frees a client. Peers are not told: call byway_client_leave before. Null is freed by doing nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_free(client: *mut Handle) {
    let _ = guarded(|| {
        if !client.is_null() {
            // SAFETY: the caller vouches that it was made here, and not freed.
            drop(unsafe { Box::from_raw(client) });
        }
        Ok(())
    });
}

/// Lets peers register flows under this name. The peers are a list of names with spaces between; null for all of the network. What
/// is not exposed is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_expose(
    client: *mut Handle,
    name: *const c_char,
    peers: *const c_char,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (name, peers) = (text(name)?, text_or_none(peers)?);
            let peers = peers.map(|peers| peers.split_whitespace().map(str::to_owned).collect());
            handle.expose(name, peers)
        })
    }
}

/// Asks a peer for flows to what it exposes under this name, and back. What is asked for may be null, for what is usual. The answer
/// follows as BYWAY_EVENT_ACCEPTED or BYWAY_EVENT_REFUSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_register(
    client: *mut Handle,
    peer: *const c_char,
    name: *const c_char,
    registration: *const Registration,
    now_ns: u64,
    registered: *mut Registered,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            if registered.is_null() {
                return Err(Error::NullPointer.into());
            }
            let (peer, name) = (text(peer)?, text(name)?);
            let wanted = registration.as_ref().copied().unwrap_or_default().meaning()?;
            let answer = handle.input(now_ns, |client, now| client.register(peer, name, &wanted, now))??;
            write(registered, Registered::from(&answer))
        })
    }
}

/// A datagram came from the network, for a client without a socket. The bytes are overwritten. The ECN field is that of the IP
/// header, 0 if it is not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_received(
    client: *mut Handle,
    from: *const Address,
    ecn: u8,
    datagram: *mut u8,
    length: usize,
    now_ns: u64,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (from, datagram) = (read(from)?.socket_address()?, bytes_mut(datagram, length)?);
            if ecn > 3 {
                return Err(Problem::about(Error::OutOfRange, "an ECN field of more than two bits"));
            }
            handle.without_socket()?.received(
                from,
                LocalAddress::ANY,
                Ecn::from_bits(ecn),
                datagram,
                time(now_ns)?,
            );
            Ok(())
        })
    }
}

/// Sends a datagram of up to 1,500 bytes. One that is marked (not 0) is worth a copy: with BYWAY_COPIES_MARKED, relays get those
/// alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_send(
    client: *mut Handle,
    flow: u64,
    datagram: *const u8,
    length: usize,
    marked: c_int,
    now_ns: u64,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let (flow, datagram) = (FlowPair::from_number(flow), bytes(datagram, length)?);
            handle.input(now_ns, |client, now| client.send(flow, datagram, marked != 0, now))??;
            Ok(())
        })
    }
}

/// The deadline of a client without a socket has come. A call too many does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_timer(client: *mut Handle, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            handle.without_socket()?.timer(time(now_ns)?);
            Ok(())
        })
    }
}

/// The next output; of kind BYWAY_OUTPUT_NONE if there is nothing more. A client with a socket transmits by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_poll(client: *mut Handle, output: *mut Output) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            write(output, Output::NONE)?;
            write(output, handle.poll())
        })
    }
}

/// When to call byway_client_timer, of a client without a socket; when to call byway_client_step, of one with a socket. UINT64_MAX
/// for never, as long as nothing comes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_deadline(client: *mut Handle, deadline_ns: *mut u64) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| write(deadline_ns, handle.client().deadline().map_or(u64::MAX, Time::as_nanos)))
    }
}

/// What became of the packets of two flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_report(client: *mut Handle, flow: u64, report: *mut Report) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let found = handle.client().report(FlowPair::from_number(flow)).ok_or(Error::Closed)?;
            write(report, Report::from(&found))
        })
    }
}

/// How many bytes went over the direct path, and to and from relays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_segments(client: *mut Handle, segments: *mut Segments) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(segments, Segments::from(handle.client().segments()))) }
}

/// Writes what flows are for into a text of this size: the name that is exposed here or there, cut off where there is no more room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_subject(
    client: *mut Handle,
    flow: u64,
    name: *mut c_char,
    size: usize,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let room = bytes_mut(name.cast(), size)?;
            put_text(handle.client().subject(FlowPair::from_number(flow)).ok_or(Error::Closed)?, room)
        })
    }
}

/// Writes the name of a peer into a text of this size, cut off where there is no more room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_peer_name(
    client: *mut Handle,
    peer: u32,
    name: *mut c_char,
    size: usize,
) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        with(client, |handle| {
            let room = bytes_mut(name.cast(), size)?;
            put_text(handle.client().name_of(AgentId::new(peer)).ok_or(Error::UnknownPeer)?, room)
        })
    }
}

/// Closes two flows. The peer is told. What is closed already is not closed again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_close_flow(client: *mut Handle, flow: u64, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            handle.input(now_ns, |client, now| client.close(FlowPair::from_number(flow), now))
        })
    }
}

/// Leaves the network: peers and relays are told, until BYWAY_EVENT_LEFT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_leave(client: *mut Handle, now_ns: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe { with(client, |handle| handle.input(now_ns, Client::leave)) }
}

/// Waits until something comes, something is due, or so many microseconds have passed; then sends and receives all there is. It
/// receives nothing as long as byway_client_poll has something to give.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_step(client: *mut Handle, timeout_us: u64) -> Error {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        with(client, |handle| {
            let stepped = handle.with_socket()?.step(Duration::from_micros(timeout_us));
            stepped.map_err(|error| Problem::about(Error::System, error))
        })
    }
}

/// The descriptor of the client's socket, for a loop of the application's own: when it can be read, call byway_client_step with no
/// time to wait. It belongs to the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_fd(client: *mut Handle, fd: *mut c_int) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(fd, handle.with_socket()?.as_fd().as_raw_fd())) }
}

/// The time by the clock of a client with a socket, to which byway_client_deadline refers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_client_now(client: *mut Handle, now_ns: *mut u64) -> Error {
    // SAFETY: the caller vouches for the pointers.
    unsafe { with(client, |handle| write(now_ns, handle.with_socket()?.now().as_nanos())) }
}

impl Handle {
    fn expose(&mut self, name: &str, peers: Option<Vec<String>>) -> Result<(), Problem> {
        // No time passes.
        Ok(self.input(0, |client, _| client.expose(name, peers))??)
    }
}

impl From<NetworkError> for Problem {
    fn from(error: NetworkError) -> Self {
        Self::about(Error::BadNetwork, error)
    }
}

impl From<RegisterError> for Problem {
    fn from(error: RegisterError) -> Self {
        let code = match error {
            RegisterError::UnknownPeer(_) => Error::UnknownPeer,
            RegisterError::NoRoom => Error::NoRoom,
            RegisterError::HasLeft => Error::HasLeft,
            _ => Error::OutOfRange,
        };
        Self::about(code, error)
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Closed => Error::Closed,
            SendError::NotAccepted => Error::NotAccepted,
            _ => Error::OutOfRange,
        };
        // Datagrams are many: nothing is put into words that the code does not say.
        code.into()
    }
}

impl From<ExposeError> for Problem {
    fn from(error: ExposeError) -> Self {
        let code = if error == ExposeError::NoRoom { Error::NoRoom } else { Error::OutOfRange };
        Self::about(code, error)
    }
}

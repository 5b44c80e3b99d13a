//! Who gets a connection: so many in all, and so many of one address.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX};
use super::lock;
use super::throttle::source;

/// Counts connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_source: BTreeMap<IpAddr, usize>,
}

impl Gate {
    /// A place for a connection, if there is one.
    fn enter(&self, ip: IpAddr) -> Option<Place> {
        let source = source(ip);
        let mut counts = lock(&self.0);
        let own = counts.by_source.get(&source).copied().unwrap_or_default();
        if counts.all >= CONNECTIONS_MAX || own >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        counts.all += 1;
        counts.by_source.insert(source, own + 1);
        Some(Place { gate: self.clone(), source })
    }
}

/// One connection's place, given back when it is dropped.
#[derive(Debug)]
struct Place {
    gate: Gate,
    source: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.gate.0);
        counts.all -= 1;
        let own = counts.by_source.remove(&self.source).unwrap_or_default();
        if own > 1 {
            counts.by_source.insert(self.source, own - 1);
        }
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub(super) struct Admitted {
    stream: TcpStream,
    _place: Place,
}

impl<S> Accept<TcpStream, S> for Gate {
    type Stream = Admitted;
    type Service = S;
    type Future = Ready<io::Result<(Admitted, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let admitted = stream.set_nodelay(true).and_then(|()| stream.peer_addr()).and_then(|peer| {
            let place = self.enter(peer.ip()).ok_or_else(|| io::Error::other("too many connections"))?;
            Ok((Admitted { stream, _place: place }, service))
        });
        ready(admitted)
    }
}

impl AsyncRead for Admitted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Admitted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_part_and_gives_it_back() {
        let gate = Gate::default();
        let greedy = IpAddr::from([192, 0, 2, 1]);
        let places: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX).filter_map(|_| gate.enter(greedy)).collect();
        assert_eq!(places.len(), CONNECTIONS_PER_ADDRESS_MAX);
        assert!(gate.enter(greedy).is_none());
        assert!(gate.enter(IpAddr::from([192, 0, 2, 2])).is_some());
        drop(places);
        assert!(gate.enter(greedy).is_some());
        assert!(lock(&gate.0).by_source.is_empty() && lock(&gate.0).all == 0);
    }

    #[test]
    fn all_together_get_no_more_than_there_is() {
        let gate = Gate::default();
        let sources = (0..=u8::MAX).map(|last| IpAddr::from([192, 0, 2, last]));
        let places: Vec<_> =
            sources.flat_map(|ip| (0..100).filter_map(|_| gate.enter(ip)).collect::<Vec<_>>()).collect();
        assert_eq!(places.len(), CONNECTIONS_MAX);
    }
}

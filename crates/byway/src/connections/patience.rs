//! Streams whose other end has to read: a write timeout that slow readers cannot reset byte by byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::gate::{Place, Reason};

/// Rate of a client that may go on for ever, in bytes per second: a map of one megabyte takes four minutes by it, and
/// the slowest links that carry calls have twice as much. Kestrel asks for 240 bytes per second, which is less than
/// its memory is worth.
const RATE_MIN: u32 = 4 << 10;

/// A stream that fails once its other end has read too slowly.
///
/// The time for which writes wait is limited. Written bytes earn time at [`RATE_MIN`], up to the limit. So an answer
/// takes no longer than the limit plus its length at that rate.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    place: Arc<Place>,
    /// Time for which writes may still wait.
    left: Duration,
    blocked: Option<Blocked>,
}

/// Wait of a write.
#[derive(Debug)]
struct Blocked {
    since: Instant,
    until: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, place: Arc<Place>) -> Self {
        let left = place.gate().limits().patience;
        Self { stream, place, left, blocked: None }
    }

    /// Waits on, unless that has lasted too long.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let left = self.left;
        let blocked = self
            .blocked
            .get_or_insert_with(|| Blocked { since: Instant::now(), until: Box::pin(sleep(left)) });
        ready!(blocked.until.as_mut().poll(context));
        self.place.gate().count(Reason::Unread);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")))
    }

    fn note_written(&mut self, bytes: usize) {
        if let Some(blocked) = self.blocked.take() {
            self.left = self.left.saturating_sub(blocked.since.elapsed());
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1) * bytes / RATE_MIN;
        self.left = self.left.saturating_add(earned).min(self.place.gate().limits().patience);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.wait(context),
            Poll::Ready(written) => {
                self.note_written(*written.as_ref().unwrap_or(&0));
                Poll::Ready(written)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

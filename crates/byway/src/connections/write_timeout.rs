//! Write timeout of connections. A client that reads an answer byte by byte cannot extend it
//! forever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::limiter::{ConnectionPermit, Reason};

/// Least rate at which a client may read forever, in bytes per second. A map of one megabyte takes
/// four minutes at this rate, and the slowest links for calls have twice as much. Kestrel requires
/// 240 bytes per second, too little for the memory that a client occupies.
const RATE_MIN: u32 = 4 << 10;

/// Stream that fails once its client has read too slowly.
///
/// The total time for which writes may wait is limited. Written bytes extend it at [`RATE_MIN`], up
/// to the limit. An answer therefore takes no longer than the limit plus its length at that rate.
#[derive(Debug)]
pub(super) struct WriteTimeoutStream<S> {
    stream: S,
    permit: Arc<ConnectionPermit>,
    /// Time for which writes may still wait for the client.
    time_left: Duration,
    blocked: Option<BlockedWrite>,
}

/// Write that waits for the client: its start, and the timer of its end.
#[derive(Debug)]
struct BlockedWrite {
    since: Instant,
    until: Pin<Box<Sleep>>,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S, permit: Arc<ConnectionPermit>) -> Self {
        let time_left = permit.gate().limits().timeout;
        Self { stream, permit, time_left, blocked: None }
    }

    /// Waits on behalf of a blocked write. Fails, and counts the connection, once the time for
    /// writes is used up.
    fn poll_blocked<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let left = self.time_left;
        let blocked = self
            .blocked
            .get_or_insert_with(|| BlockedWrite { since: Instant::now(), until: Box::pin(sleep(left)) });
        ready!(blocked.until.as_mut().poll(context));
        self.permit.gate().count(Reason::Unread);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "timeout: the client reads too slowly")))
    }

    fn note_written(&mut self, bytes: usize) {
        if let Some(blocked) = self.blocked.take() {
            self.time_left = self.time_left.saturating_sub(blocked.since.elapsed());
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1) * bytes / RATE_MIN;
        self.time_left = self.time_left.saturating_add(earned).min(self.permit.gate().limits().timeout);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.poll_blocked(context),
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

//! Task that sends the newest samples of a link to its controller, and connects again after
//! failures.

use std::convert::Infallible;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use byway_api::{SampleBatch, SamplesAnswer};
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::sync::watch;
use tokio::time::Instant;

use super::limits::STABLE_TIME;
use super::report_status::{ReportState, ReportStatus};
use crate::membership::{
    Backoff, Client, MembershipError, MembershipSettings, MessageBody, NodeKey, WallClock, member_client,
};

/// Sender of a link's samples.
pub(super) struct SampleSender {
    samples: watch::Receiver<Option<SampleBatch>>,
    status: Arc<watch::Sender<ReportStatus>>,
    backoff: Backoff,
    /// Kind of the latest logged error; `None` while the controller accepts samples.
    failing: Option<Discriminant<MembershipError>>,
}

impl SampleSender {
    /// Creates a sender of the newest samples.
    pub(super) fn new(
        samples: watch::Receiver<Option<SampleBatch>>,
        status: Arc<watch::Sender<ReportStatus>>,
    ) -> Self {
        Self { samples, status, backoff: Backoff::default(), failing: None }
    }

    /// Sends samples until the link ends.
    pub(super) async fn run(mut self, mut client: Client) {
        while self.samples.wait_for(Option::is_some).await.is_ok() {
            let begun = Instant::now();
            let failed = self.send(&mut client).await;
            // Without the pause of an earlier failure, a stream that ends again and again would
            // follow at once.
            if begun.elapsed() >= STABLE_TIME {
                self.backoff.succeeded();
                self.failing = None;
            }
            if let Some(error) = failed {
                self.on_failure(&error);
                self.backoff.wait(&error).await;
            }
        }
    }

    /// Joins the network, or resumes the membership. Retries until that succeeds.
    pub(super) async fn join(&mut self, membership: &MembershipSettings, key: &NodeKey) -> Client {
        loop {
            match member_client(membership, key, &WallClock::system()).await {
                Ok(client) => {
                    self.backoff.succeeded();
                    return client;
                }
                Err(error) => {
                    self.on_failure(&error);
                    self.backoff.wait(&error).await;
                }
            }
        }
    }

    /// Sends samples in one stream, until it fails or the samples end. Returns the failure.
    async fn send(&mut self, client: &mut Client) -> Option<MembershipError> {
        let (samples, status) = (self.samples.clone(), Arc::clone(&self.status));
        let lines = |transit: std::time::Duration| {
            status.send_modify(|status| {
                status.state = ReportState::Reporting;
                status.problem = None;
                status.streams += 1;
            });
            body(samples, status, u64::try_from(transit.as_micros()).unwrap_or(u64::MAX))
        };
        tokio::select! {
            ended = client.post_messages::<SamplesAnswer>("/v1/samples", lines) => {
                // Samples go on, so an answer is early, and the next attempt waits like others.
                let early = |_| MembershipError::Unreachable { attempts: "the stream has ended".to_owned() };
                Some(ended.map_or_else(|error| error, early))
            }
            // The connection ends at once, whatever it still has to send.
            _ = self.samples.wait_for(Option::is_none) => None,
        }
    }

    /// Reports a failure in the status. Logs it, unless the one before was of the same kind.
    fn on_failure(&mut self, error: &MembershipError) {
        self.status.send_modify(|status| {
            status.state = ReportState::Failing;
            status.problem = Some(error.to_string());
        });
        let kind = discriminant(error);
        if self.failing.replace(kind) != Some(kind) {
            tracing::warn!("network state is not reported: {error}; retrying");
        }
    }
}

/// Returns a body of samples: the newest one, whenever there is a new one and the connection has
/// space.
fn body(
    mut samples: watch::Receiver<Option<SampleBatch>>,
    status: Arc<watch::Sender<ReportStatus>>,
    transit_us: u64,
) -> MessageBody {
    // The first one may be the newest since before the connection.
    samples.mark_changed();
    let lines = unfold((samples, status), move |(mut samples, status)| async move {
        samples.changed().await.ok()?;
        let newest = samples.borrow_and_update().clone()?;
        let mut line = serde_json::to_vec(&SampleBatch { transit_us, ..newest }).ok()?;
        line.push(b'\n');
        status.send_modify(|status| status.samples += 1);
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), (samples, status)))
    });
    StreamBody::new(lines).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> SampleBatch {
        SampleBatch { incarnation: 7, number, clock_us: 50_000 * number, transit_us: 0, links: vec![] }
    }

    async fn next(body: &mut MessageBody) -> Option<SampleBatch> {
        let frame = body.frame().await?.expect("it cannot fail");
        let line = frame.into_data().expect("no trailers");
        assert_eq!(line.last(), Some(&b'\n'));
        Some(serde_json::from_slice(&line).expect("a record"))
    }

    #[tokio::test]
    async fn a_slow_connection_gets_the_newest_sample_and_none_after_a_pause() {
        let (sender, receiver) = watch::channel(Some(batch(1)));
        let status = Arc::new(watch::Sender::new(ReportStatus::new("core-1")));
        let mut body = body(receiver, Arc::clone(&status), 9_000);
        let first = next(&mut body).await.expect("the newest one");
        assert_eq!((first.number, first.transit_us), (1, 9_000));
        for number in 2..=40 {
            sender.send_replace(Some(batch(number)));
        }
        assert_eq!(next(&mut body).await.map(|batch| batch.number), Some(40));
        assert_eq!(status.borrow().samples, 2);
        sender.send_replace(None);
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test]
    async fn a_body_ends_with_its_link() {
        let (sender, receiver) = watch::channel(Some(batch(1)));
        let status = Arc::new(watch::Sender::new(ReportStatus::new("core-1")));
        let mut body = body(receiver, status, 0);
        assert!(next(&mut body).await.is_some());
        drop(sender);
        assert_eq!(next(&mut body).await, None);
    }
}

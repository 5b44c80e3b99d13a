//! Stream of samples from one node.

use std::sync::Arc;

use byway_api::{SampleBatch, SamplesAnswer};
use byway_units::Time;
use tokio::time::Instant;

use super::feed::StateFeed;
use super::refusal::FeedRefusal;
use crate::controller::access::LinkReporter;
use crate::controller::limits::LOG_INTERVAL;

/// Stream of samples from one node, until the node ends it, a newer one replaces it, or the node is
/// no member any more.
#[derive(Debug)]
pub(crate) struct SampleStream {
    feed: Arc<StateFeed>,
    reporter: LinkReporter,
    number: u64,
    answer: SamplesAnswer,
    /// Time of the latest log message about a refused sample.
    logged: Option<Instant>,
}

impl SampleStream {
    /// Begins a stream of a node.
    pub(crate) fn begin(feed: &Arc<StateFeed>, reporter: LinkReporter) -> Self {
        let number = feed.inputs().streams().begin(reporter.number);
        Self { feed: Arc::clone(feed), reporter, number, answer: SamplesAnswer::default(), logged: None }
    }

    /// Accepts a batch of samples, as far as they are good. It never waits for a reader.
    ///
    /// # Errors
    /// If the stream has ended, or the batch has a link that the node does not report. Then nothing
    /// of the batch is accepted.
    pub(crate) fn on_batch(&mut self, batch: &SampleBatch, now: Time) -> Result<(), FeedRefusal> {
        let feed = Arc::clone(&self.feed);
        let is_member = feed.access().reporter(self.reporter.number).as_ref() == Ok(&self.reporter);
        if !is_member || !feed.inputs().streams().is_latest(self.reporter.number, self.number) {
            return Err(FeedRefusal::Displaced);
        }
        for link in feed.inputs().links(&self.reporter, batch)? {
            match feed.inputs().on_sample(batch, link, now) {
                Ok(reported) => {
                    self.answer.accepted += 1;
                    if let Some((state, paths)) = reported {
                        for path in paths {
                            feed.path(*path).report(&state, now);
                        }
                    }
                }
                Err(error) => self.refuse(format!("link \"{}\": {error}", link.sampled.link)),
            }
        }
        Ok(())
    }

    /// Returns the answer to a node that has ended its stream.
    pub(crate) fn answer(&self) -> SamplesAnswer {
        self.answer.clone()
    }

    fn refuse(&mut self, reason: String) {
        self.answer.refused += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            tracing::warn!("{} reports a bad sample: {reason}; the last good one stays", self.reporter.name);
            self.logged = Some(Instant::now());
        }
        self.answer.last_refusal = Some(reason);
    }
}

impl Drop for SampleStream {
    fn drop(&mut self) {
        self.feed.inputs().streams().end(self.reporter.number, self.number);
    }
}

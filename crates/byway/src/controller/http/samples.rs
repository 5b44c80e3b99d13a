//! HTTP requests of nodes that report samples of links.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use byway_api::{ErrorAnswer, RegisteredFlows, SampleBatch, SamplesAnswer};
use futures_util::stream::unfold;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};

use super::extract::{SampleReporter, acquire};
use super::{Failure, HttpState};
use crate::controller::limits::{RECORD_BYTES_MAX, REQUEST_TIMEOUT, SEEN_INTERVAL};
use crate::controller::network::Refusal;
use crate::controller::state_feed::{FlowStream, SampleStream};

/// Accepts samples of links for as long as the node sends them: one JSON object on a line, each 50
/// ms.
///
/// Samples with bad values are refused, and the last good one stays. A line that is no record of
/// samples, or is of links that the node does not report, ends the stream.
#[utoipa::path(post, path = "/v1/samples", tag = "members", security(("bearer" = [])),
    request_body(content = SampleBatch, content_type = "application/x-ndjson"),
    responses((status = 200, body = SamplesAnswer, description = "The node has ended the stream."),
        (status = "4XX", body = ErrorAnswer, description = "The controller has ended the stream.")))]
pub(super) async fn report(
    Shared(served): Shared<HttpState>,
    SampleReporter(reporter): SampleReporter,
    body: Body,
) -> Result<Json<SamplesAnswer>, Failure> {
    let mut records = RecordReader::new(body);
    let (number, mut seen_at) = (reporter.number, Instant::now());
    let mut stream = SampleStream::begin(&served.feed, reporter);
    while let Some(record) = records.next().await? {
        if seen_at.elapsed() >= SEEN_INTERVAL {
            seen_at = Instant::now();
            served.state.note_seen(number);
        }
        acquire(&served.limits.records, number)?;
        let batch = serde_json::from_slice::<SampleBatch>(&record);
        let batch = batch.map_err(|error| Failure::Request(format!("not a record of samples: {error}")))?;
        stream.on_batch(&batch, served.feed.now())?;
    }
    Ok(Json(stream.answer()))
}

/// Sends the registered flows on the paths of a node's links: one JSON object on a line.
///
/// The first lines have all flows, and later ones the changes. Each flow is sent again before its
/// lease ends. Empty lines show that the controller is there.
#[utoipa::path(get, path = "/v1/samples/flows", tag = "members", security(("bearer" = [])),
    responses((status = 200, body = RegisteredFlows, content_type = "application/x-ndjson",
            description = "Lines with such objects."),
        (status = "4XX", body = ErrorAnswer, description = "The node reports no links, or has two streams.")))]
pub(super) async fn flows(
    Shared(served): Shared<HttpState>,
    SampleReporter(reporter): SampleReporter,
) -> Result<Response, Failure> {
    let begun = FlowStream::begin(&served.feed, reporter);
    let begun = begun.ok_or(Refusal::TooManyRequests { wait_seconds: 1 })?;
    let lines = unfold(begun, |mut stream| async move {
        let line = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(line)), stream))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// Reader of a body's lines, each of which is a record.
#[derive(Debug)]
struct RecordReader {
    body: Body,
    /// Received bytes that are in no record yet.
    chunk: Bytes,
    /// Beginning of the next record, without the bytes of `chunk`.
    partial: Vec<u8>,
}

impl RecordReader {
    fn new(body: Body) -> Self {
        Self { body, chunk: Bytes::new(), partial: Vec::new() }
    }

    /// Returns the next record; `None` after the last one. Empty lines are ignored.
    ///
    /// # Errors
    /// If a record is too long, or nothing arrives within [`REQUEST_TIMEOUT`].
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let end = self.chunk.iter().position(|byte| *byte == b'\n');
            let part = self.chunk.split_to(end.unwrap_or(self.chunk.len()));
            if self.partial.len() + part.len() > RECORD_BYTES_MAX {
                return Err(Failure::LongRecord);
            }
            self.partial.extend_from_slice(&part);
            if end.is_some() {
                // The end of the line is in no record.
                drop(self.chunk.split_to(1));
            } else if self.receive().await? {
                continue;
            }
            let record = std::mem::take(&mut self.partial);
            if !record.trim_ascii().is_empty() {
                return Ok(Some(record));
            }
            if end.is_none() {
                return Ok(None);
            }
        }
    }

    /// Receives the next chunk. Returns false at the end of the body, and if the connection fails.
    async fn receive(&mut self) -> Result<bool, Failure> {
        let frame = timeout(REQUEST_TIMEOUT, self.body.frame()).await.map_err(|_| Failure::Slow)?;
        let Some(Ok(frame)) = frame else { return Ok(false) };
        self.chunk = frame.into_data().unwrap_or_default();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    fn reader(chunks: &[&'static str]) -> RecordReader {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok::<_, Infallible>(Bytes::from_static(chunk.as_bytes()))).collect();
        RecordReader::new(Body::from_stream(stream::iter(chunks)))
    }

    async fn records(chunks: &[&'static str]) -> Vec<String> {
        let mut reader = reader(chunks);
        let mut records = Vec::new();
        while let Some(record) = reader.next().await.expect("short records") {
            records.push(String::from_utf8(record).expect("text"));
        }
        records
    }

    #[tokio::test]
    async fn records_are_lines_however_they_are_cut() {
        for chunks in [
            &["one\ntwo\nthree\n"][..],
            &["o", "ne", "\n", "two\nth", "ree\n"],
            &["one\n\n \r\ntwo\n", "\n\n", "three"],
            &["", "one\ntwo", "\nthree", ""],
        ] {
            assert_eq!(records(chunks).await, ["one", "two", "three"], "{chunks:?}");
        }
        assert_eq!(records(&[]).await, [""; 0]);
        assert_eq!(records(&["\n\n"]).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_record_without_an_end_is_refused_before_it_is_whole() {
        let chunk = Bytes::from(vec![b'x'; 16 << 10]);
        let endless = stream::repeat(Ok::<_, Infallible>(chunk));
        let mut reader = RecordReader::new(Body::from_stream(endless));
        assert!(matches!(reader.next().await, Err(Failure::LongRecord)));
        let longest = "x".repeat(RECORD_BYTES_MAX) + "\n";
        let chunks = stream::iter([Ok::<_, Infallible>(Bytes::from(longest))]);
        let record = RecordReader::new(Body::from_stream(chunks)).next().await;
        assert!(record.is_ok_and(|record| record.is_some_and(|record| record.len() == RECORD_BYTES_MAX)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_node_is_waited_for_ten_seconds() {
        let begun = Instant::now();
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"one\ntw"))]);
        let mut reader = RecordReader::new(Body::from_stream(first.chain(stream::pending())));
        assert_eq!(reader.next().await.expect("a record"), Some(b"one".to_vec()));
        assert!(matches!(reader.next().await, Err(Failure::Slow)));
        assert_eq!(begun.elapsed(), REQUEST_TIMEOUT);
    }
}

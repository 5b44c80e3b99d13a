//! Tests of TCP in the world: reactions to losses, throughput, and integrity of streams.

mod integrity;
mod losses;
mod opening;
mod sharing;
mod support;
mod throughput;

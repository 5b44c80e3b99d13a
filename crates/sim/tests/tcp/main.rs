//! TCP in the world: what it does about losses, how fast it is, and that streams arrive whole.

mod integrity;
mod losses;
mod opening;
mod sharing;
mod support;
mod throughput;

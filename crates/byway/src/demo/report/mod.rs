//! What the demo has found, for people: a table in the terminal and a page to show around.
//!
//! All of it is made from a [`Story`], which needs no network and no ffmpeg.

mod charts;
mod page;
mod spoiled;
mod story;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use page::page;
pub(crate) use story::{AddedDelay, RunStory, Story, bins};
pub(crate) use terminal::{seeds_table, table};

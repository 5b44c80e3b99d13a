//! Report of the demo: a table in the terminal, and an HTML page to pass on.
//!
//! Both are made from a [`ReportData`], without network or ffmpeg.

mod charts;
mod data;
mod format;
mod page;
mod spoiled;
mod terminal;
#[cfg(test)]
mod tests;

pub(crate) use data::{AddedDelay, ReportData, RunReport, bins};
pub(crate) use page::page;
pub(crate) use terminal::{seeds_table, table};

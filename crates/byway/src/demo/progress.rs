//! What is going on, for whoever watches.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A step of the demo, with a line of its own.
#[derive(Debug)]
pub(crate) struct Step {
    title: String,
    line: ProgressBar,
}

impl Step {
    pub(crate) fn begin(title: &str) -> Self {
        let line =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix:<24} {msg}") {
            line.set_style(style);
        }
        line.set_prefix(title.to_owned());
        line.enable_steady_tick(Duration::from_millis(100));
        Self { title: title.to_owned(), line }
    }

    /// How far it is.
    pub(crate) fn say(&self, words: &str) {
        self.line.set_message(words.to_owned());
    }

    /// It is done; what came out.
    pub(crate) fn finish(self, words: &str) {
        self.line.finish_and_clear();
        println!("  {:<24} {words}", self.title);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

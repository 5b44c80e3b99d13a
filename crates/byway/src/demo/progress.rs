//! Progress in the terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Step of the demo, shown on one line of the terminal.
#[derive(Debug)]
pub(crate) struct ProgressStep {
    title: String,
    progress: ProgressBar,
}

impl ProgressStep {
    pub(crate) fn begin(title: &str) -> Self {
        let progress =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix:<24} {msg}") {
            progress.set_style(style);
        }
        progress.set_prefix(title.to_owned());
        progress.enable_steady_tick(Duration::from_millis(100));
        Self { title: title.to_owned(), progress }
    }

    /// Shows the state of the step.
    pub(crate) fn update(&self, words: &str) {
        self.progress.set_message(words.to_owned());
    }

    /// Clears the line of the step, and prints its result instead.
    pub(crate) fn finish(self, words: &str) {
        self.progress.finish_and_clear();
        println!("  {:<24} {words}", self.title);
    }
}

impl Drop for ProgressStep {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

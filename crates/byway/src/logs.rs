//! What the program logs, and where: its standard error stream.

use tracing::Level;

use crate::settings::{LogSettings, TypedFormat, TypedLevel};

/// Starts logging.
pub(crate) fn start(settings: LogSettings) {
    let level = match settings.level {
        TypedLevel::Error => Level::ERROR,
        TypedLevel::Warn => Level::WARN,
        TypedLevel::Info => Level::INFO,
        TypedLevel::Debug => Level::DEBUG,
        TypedLevel::Trace => Level::TRACE,
    };
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // Where nobody reads any more, as a terminal was closed, there is nobody to tell that either, and trying to would end the program.
    let builder = builder.log_internal_errors(false);
    match settings.format {
        TypedFormat::Text => builder.with_ansi(rustix::termios::isatty(std::io::stderr())).init(),
        TypedFormat::Json => builder.json().init(),
    }
}

//! Log of the program, on its standard error stream.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::environment;
use crate::settings::{LogFormatSetting, LogLevelSetting, LogSettings};

/// Handle by which a reload changes the log level, once logging has started.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts logging with these settings, and warns of unknown environment variables.
pub(crate) fn start(settings: LogSettings) {
    let (filter, handle) = reload::Layer::new(filter_of(settings.level));
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // If the terminal was closed, an error message about it fails as well, and would end the
    // program.
    let layer = layer.log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    match settings.format {
        LogFormatSetting::Text => {
            registry.with(layer.with_ansi(rustix::termios::isatty(std::io::stderr()))).init();
        }
        LogFormatSetting::Json => registry.with(layer.json()).init(),
    }
    // A process starts logging once.
    let _ = LEVEL.set(handle);
    if let Some(warning) = environment::foreign_variables() {
        tracing::warn!("{warning}");
    }
}

/// Sets the least severity of the messages that are logged from now on.
pub(crate) fn set_level(level: LogLevelSetting) {
    if let Some(handle) = LEVEL.get() {
        // It fails only after the end of logging.
        let _ = handle.reload(filter_of(level));
    }
}

const fn filter_of(level: LogLevelSetting) -> LevelFilter {
    match level {
        LogLevelSetting::Error => LevelFilter::ERROR,
        LogLevelSetting::Warn => LevelFilter::WARN,
        LogLevelSetting::Info => LevelFilter::INFO,
        LogLevelSetting::Debug => LevelFilter::DEBUG,
        LogLevelSetting::Trace => LevelFilter::TRACE,
    }
}

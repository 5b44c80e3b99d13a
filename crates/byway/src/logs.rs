//! What the program logs, and where: its standard error stream.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::environment;
use crate::settings::{LogSettings, TypedFormat, TypedLevel};

/// Changes the level, once logging has started.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts logging, with a warning of foreign variables of the environment.
pub(crate) fn start(settings: LogSettings) {
    let (filter, handle) = reload::Layer::new(filter_of(settings.level));
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // Where nobody reads any more, as a terminal was closed, there is nobody to tell that either, and trying to would end the program.
    let layer = layer.log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    match settings.format {
        TypedFormat::Text => {
            registry.with(layer.with_ansi(rustix::termios::isatty(std::io::stderr()))).init();
        }
        TypedFormat::Json => registry.with(layer.json()).init(),
    }
    // A process starts logging once.
    let _ = LEVEL.set(handle);
    if let Some(warning) = environment::foreign_variables() {
        tracing::warn!("{warning}");
    }
}

/// Has messages of this level and of more important ones be logged from now on.
pub(crate) fn set_level(level: TypedLevel) {
    if let Some(handle) = LEVEL.get() {
        // It fails only where nobody logs any more.
        let _ = handle.reload(filter_of(level));
    }
}

const fn filter_of(level: TypedLevel) -> LevelFilter {
    match level {
        TypedLevel::Error => LevelFilter::ERROR,
        TypedLevel::Warn => LevelFilter::WARN,
        TypedLevel::Info => LevelFilter::INFO,
        TypedLevel::Debug => LevelFilter::DEBUG,
        TypedLevel::Trace => LevelFilter::TRACE,
    }
}

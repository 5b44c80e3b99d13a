//! Compares the C header with the sources.
//! `BYWAY_WRITE=1 cargo test -p byway-client-c --test header` regenerates it.
#![allow(clippy::disallowed_methods, reason = "the header is a file")]

use std::path::Path;

/// Source files, in the order of the header.
const SOURCES: [&str; 8] =
    ["error", "address", "network", "registration", "output", "report", "handle", "client"];

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("the configuration is good");
    let sources = SOURCES.iter().map(|name| folder.join(format!("src/{name}.rs")));
    let builder = sources.fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut made = Vec::new();
    builder.generate().expect("cbindgen understands the sources").write(&mut made);
    let made = String::from_utf8(made).expect("sources are UTF-8");
    let path = folder.join("include/byway.h");
    if std::env::var_os("BYWAY_WRITE").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "include/byway.h is not that of the sources: write it with BYWAY_WRITE=1 cargo test -p byway-client-c --test header"
    );
}

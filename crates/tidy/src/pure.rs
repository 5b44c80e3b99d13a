//! Pure crates and their permitted dependencies.
//!
//! A pure crate touches no socket, no clock, no runtime and no randomness of the operating system;
//! the same code runs in production, in the simulator and in a browser.

/// A crate that must stay pure.
#[derive(Clone, Copy, Debug)]
pub struct PureCrate {
    /// The package's name.
    pub name: &'static str,
    /// Its folder, from the repository's root.
    pub folder: &'static str,
    /// The Byway crates its manifest may name.
    pub may_depend_on: &'static [&'static str],
    /// Features that are judged.
    pub features: Features,
}

/// The features of a crate that must keep it pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Features {
    /// All of them.
    All,
    /// None: each adds something to a pure heart that is not.
    None,
}

/// All pure crates.
pub const PURE_CRATES: &[PureCrate] = &[
    PureCrate { name: "byway-units", folder: "crates/units", may_depend_on: &[], features: Features::All },
    PureCrate {
        name: "byway-client",
        folder: "crates/client",
        may_depend_on: &["byway-code", "byway-plan", "byway-proto", "byway-units", "byway-wire"],
        features: Features::None,
    },
    PureCrate {
        name: "byway-code",
        folder: "crates/code",
        may_depend_on: &["byway-units"],
        features: Features::All,
    },
    PureCrate {
        name: "byway-plan",
        folder: "crates/plan",
        may_depend_on: &["byway-units", "byway-wire"],
        features: Features::All,
    },
    PureCrate {
        name: "byway-sched",
        folder: "crates/sched",
        may_depend_on: &["byway-state", "byway-units"],
        features: Features::All,
    },
    PureCrate {
        name: "byway-state",
        folder: "crates/state",
        may_depend_on: &["byway-units"],
        features: Features::All,
    },
    PureCrate { name: "byway-view", folder: "crates/view", may_depend_on: &[], features: Features::All },
    PureCrate { name: "byway-plot", folder: "crates/plot", may_depend_on: &[], features: Features::All },
    PureCrate {
        name: "byway-wire",
        folder: "crates/wire",
        may_depend_on: &["byway-units"],
        features: Features::All,
    },
    PureCrate {
        name: "byway-proto",
        folder: "crates/proto",
        may_depend_on: &["byway-code", "byway-plan", "byway-sched", "byway-units", "byway-wire"],
        features: Features::All,
    },
    PureCrate {
        name: "byway-sim",
        folder: "crates/sim",
        may_depend_on: &["byway-code", "byway-proto", "byway-sched", "byway-units", "byway-wire"],
        features: Features::All,
    },
];

/// A crate that need not be pure.
#[derive(Clone, Copy, Debug)]
pub struct ImpureCrate {
    /// Its folder, from the repository's root.
    pub folder: &'static str,
    /// Effect that pure crates may not have.
    pub reason: &'static str,
}

/// All crates that need not be pure.
pub const IMPURE_CRATES: &[ImpureCrate] = &[
    ImpureCrate { folder: "crates/api", reason: "reads and writes JSON, and describes it" },
    ImpureCrate { folder: "crates/aws-lc", reason: "calls a library written in C" },
    ImpureCrate { folder: "crates/bench", reason: "reads the clock, and calls other projects' coders" },
    ImpureCrate { folder: "crates/byway", reason: "is the program: files, clocks, processes" },
    ImpureCrate { folder: "crates/client-c", reason: "follows C's pointers, and opens sockets" },
    ImpureCrate { folder: "crates/experiment", reason: "reads TOML, and writes JSON and HTML" },
    ImpureCrate { folder: "crates/lab", reason: "makes namespaces and devices, and reads the clock" },
    ImpureCrate { folder: "crates/net", reason: "opens sockets and reads the clock" },
    ImpureCrate { folder: "crates/quic", reason: "is called by QUIC libraries, with their clock" },
    ImpureCrate { folder: "crates/scenario", reason: "reads TOML, and writes JSON" },
    ImpureCrate { folder: "crates/tidy", reason: "reads the repository" },
    ImpureCrate { folder: "crates/config-types", reason: "reads TOML, and describes what may stand in it" },
    ImpureCrate { folder: "fuzz/targets", reason: "runs the fuzz targets' corpora" },
];

/// A crate of others that pure crates may pull in, directly or not.
#[derive(Clone, Copy, Debug)]
pub struct ExternalCrate {
    /// The package's name.
    pub name: &'static str,
    /// Why it does no harm.
    pub reason: &'static str,
}

// Why the crates of others that sealing needs do no harm.
const CIPHER: &str =
    "of the ciphers: functions over bytes; without default features they ask nobody for randomness";
const HASH: &str = "of the hashes: functions over bytes";
const CURVE: &str = "of key agreement and signatures: functions over bytes, with secrets that are passed in";
const NOISE: &str =
    "the handshake's state machine; without default features it has neither ciphers nor randomness";
const GENERATOR: &str =
    "randomness from a seed that is passed in; without default features it asks nobody for one";
const TOOL: &str =
    "of ciphers, hashes and curves: sizes, choices by target, comparison in constant time, wiping";

/// The crates of others that pure crates may pull in.
pub const EXTERNAL_CRATES: &[ExternalCrate] = &[
    ExternalCrate {
        name: "arrayvec",
        reason: "vectors of bounded length without allocation; without its default features it needs no std",
    },
    ExternalCrate {
        name: "thiserror",
        reason: "writes the error types' implementations; without its default features it needs no std",
    },
    ExternalCrate { name: "thiserror-impl", reason: "thiserror's macro; runs in the compiler only" },
    ExternalCrate { name: "proc-macro2", reason: "of thiserror's macro; runs in the compiler only" },
    ExternalCrate { name: "quote", reason: "of thiserror's macro; runs in the compiler only" },
    ExternalCrate { name: "syn", reason: "of thiserror's macro; runs in the compiler only" },
    ExternalCrate { name: "unicode-ident", reason: "of thiserror's macro; runs in the compiler only" },
    ExternalCrate {
        name: "cpufeatures",
        reason: "asks the processor which instructions it has, without std",
    },
    ExternalCrate {
        name: "libm",
        reason: "logarithms in software, without std: the simulator's times are the same on every machine",
    },
    ExternalCrate {
        name: "libc",
        reason: "cpufeatures asks with it on ARM, where the operating system knows what the processor has",
    },
    ExternalCrate { name: "aead", reason: CIPHER },
    ExternalCrate { name: "aes", reason: CIPHER },
    ExternalCrate { name: "aes-gcm", reason: CIPHER },
    ExternalCrate { name: "chacha20", reason: CIPHER },
    ExternalCrate { name: "chacha20poly1305", reason: CIPHER },
    ExternalCrate { name: "cipher", reason: CIPHER },
    ExternalCrate { name: "ctr", reason: CIPHER },
    ExternalCrate { name: "ghash", reason: CIPHER },
    ExternalCrate { name: "inout", reason: CIPHER },
    ExternalCrate { name: "poly1305", reason: CIPHER },
    ExternalCrate { name: "polyval", reason: CIPHER },
    ExternalCrate { name: "universal-hash", reason: CIPHER },
    ExternalCrate { name: "blake2", reason: HASH },
    ExternalCrate { name: "block-buffer", reason: HASH },
    ExternalCrate { name: "crypto-common", reason: HASH },
    ExternalCrate { name: "digest", reason: HASH },
    ExternalCrate { name: "sha2", reason: HASH },
    ExternalCrate { name: "siphasher", reason: HASH },
    ExternalCrate { name: "curve25519-dalek", reason: CURVE },
    ExternalCrate { name: "curve25519-dalek-derive", reason: CURVE },
    ExternalCrate { name: "ed25519", reason: CURVE },
    ExternalCrate { name: "ed25519-dalek", reason: CURVE },
    ExternalCrate { name: "fiat-crypto", reason: CURVE },
    ExternalCrate { name: "signature", reason: CURVE },
    ExternalCrate { name: "snow", reason: NOISE },
    ExternalCrate { name: "rand_chacha", reason: GENERATOR },
    ExternalCrate { name: "rand_core", reason: GENERATOR },
    ExternalCrate { name: "ppv-lite86", reason: GENERATOR },
    ExternalCrate { name: "zerocopy", reason: "the generator's words as bytes; functions over bytes" },
    ExternalCrate { name: "zerocopy-derive", reason: "zerocopy's macro; runs in the compiler only" },
    ExternalCrate { name: "cfg-if", reason: TOOL },
    ExternalCrate { name: "cmov", reason: TOOL },
    ExternalCrate { name: "cpubits", reason: TOOL },
    ExternalCrate { name: "ctutils", reason: TOOL },
    ExternalCrate { name: "hybrid-array", reason: TOOL },
    ExternalCrate { name: "subtle", reason: TOOL },
    ExternalCrate { name: "typenum", reason: TOOL },
    ExternalCrate { name: "zeroize", reason: TOOL },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_crates_may_depend_on_pure_crates_only() {
        for allowed in PURE_CRATES.iter().flat_map(|pure| pure.may_depend_on) {
            assert!(PURE_CRATES.iter().any(|pure| pure.name == *allowed), "{allowed} is not pure");
        }
    }

    #[test]
    fn every_impure_crate_has_a_reason() {
        assert!(IMPURE_CRATES.iter().all(|impure| !impure.reason.is_empty()));
    }

    #[test]
    fn every_external_crate_has_a_reason() {
        assert!(EXTERNAL_CRATES.iter().all(|external| !external.reason.is_empty()));
    }
}

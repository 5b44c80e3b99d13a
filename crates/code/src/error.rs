//! What can be wrong with a request to this crate. Every message says which item, why, and what to do.

use alloc::string::String;

use byway_units::BatchId;
use thiserror::Error;

use crate::engine::NAMES;
use crate::limits::{PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Why a batch could not be encoded. The caller is to blame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A batch without source packets (k = 0).
    #[error("the batch has no source packets: there is nothing to code")]
    NoSourcePackets,
    /// More source packets than a batch may have.
    #[error(
        "the batch has {count} source packets, the limit is {SOURCE_PACKETS_MAX}: close it and start another"
    )]
    TooManySourcePackets {
        /// How many were offered.
        count: usize,
    },
    /// No buffer for any repair packet (r = 0).
    #[error("no repair packet was asked for: give 1 to {REPAIR_PACKETS_MAX} buffers")]
    NoRepairPackets,
    /// More repair packets than a batch may have.
    #[error("{count} repair packets were asked for, the limit is {REPAIR_PACKETS_MAX}")]
    TooManyRepairPackets {
        /// How many were asked for.
        count: usize,
    },
    /// A source packet longer than the length column can name.
    #[error("source packet {index} has {bytes} bytes, the limit is {PACKET_BYTES_MAX}")]
    PacketTooLong {
        /// Which source packet, from 0.
        index: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A buffer too short for its repair packet.
    #[error(
        "the buffer of repair packet {index} has {bytes} bytes, source packet {source_index} needs {needed}"
    )]
    BufferTooShort {
        /// Which repair packet, from 0.
        index: usize,
        /// The buffer's length in bytes.
        bytes: usize,
        /// The source packet that does not fit, from 0.
        source_index: usize,
        /// The bytes it needs.
        needed: usize,
    },
}

/// Why a batch could not be decoded. Positions count the repair packets as given, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A batch without source packets (k = 0).
    #[error("the batch has no source packets: there is nothing to restore")]
    NoSourcePackets,
    /// More source packets than a batch may have.
    #[error("the batch has {count} source packets, the limit is {SOURCE_PACKETS_MAX}")]
    TooManySourcePackets {
        /// How many the caller named.
        count: usize,
    },
    /// More packets lost than repair packets there are.
    #[error(
        "more is lost than can be restored: source packets lost: {lost}, repair packets arrived: {repairs}"
    )]
    TooManyLost {
        /// Source packets that are missing.
        lost: usize,
        /// Repair packets at hand.
        repairs: usize,
    },
    /// More repair packets than a batch may have.
    #[error("{count} repair packets were given, a batch has at most {REPAIR_PACKETS_MAX}")]
    TooManyRepairPackets {
        /// How many were given.
        count: usize,
    },
    /// Repair packets of different batches.
    #[error(
        "repair packet at position {position} is of {other}, the one at position 0 is of {batch}: decode each batch by itself"
    )]
    DifferentBatches {
        /// Where the odd one stands.
        position: usize,
        /// The batch of the first repair packet.
        batch: BatchId,
        /// The batch of the odd one.
        other: BatchId,
    },
    /// A repair packet that covers another number of source packets than the caller named.
    #[error("repair packet at position {position} covers {covered} source packets, the batch has {expected}")]
    DifferentCover {
        /// Where it stands.
        position: usize,
        /// The source packets it says it covers.
        covered: usize,
        /// The source packets the caller named.
        expected: usize,
    },
    /// Repair packets of one batch with different payload lengths.
    #[error(
        "repair packet at position {position} has {bytes} payload bytes, the one at position 0 has {expected}: one of them is damaged or of another batch"
    )]
    DifferentLengths {
        /// Where the odd one stands.
        position: usize,
        /// Its payload bytes.
        bytes: usize,
        /// The first one's payload bytes.
        expected: usize,
    },
    /// A repair packet with an index no batch has.
    #[error("repair packet at position {position} has index {index}, the limit is {}", REPAIR_PACKETS_MAX - 1)]
    RepairIndexOutOfRange {
        /// Where it stands.
        position: usize,
        /// Its index.
        index: usize,
    },
    /// The same repair packet twice.
    #[error(
        "repair packet {index} was given twice, the second time at position {position}: drop duplicates first"
    )]
    RepeatedRepair {
        /// Where the second one stands.
        position: usize,
        /// The index both have.
        index: usize,
    },
    /// A repair payload longer than any packet.
    #[error("repair packets have {bytes} payload bytes, the limit is {PACKET_BYTES_MAX}")]
    RepairTooLong {
        /// The payload bytes.
        bytes: usize,
    },
    /// A source packet longer than the repair packets that should cover it.
    #[error(
        "source packet {index} has {bytes} bytes, the repair packets only {covered}: they are of different batches"
    )]
    SourceTooLong {
        /// Which source packet, from 0.
        index: usize,
        /// Its length in bytes.
        bytes: usize,
        /// The payload bytes of the repair packets.
        covered: usize,
    },
    /// Fewer buffers than packets to restore.
    #[error("{lost} source packets are lost and {buffers} buffers were given: give one for each")]
    TooFewBuffers {
        /// Source packets that are missing.
        lost: usize,
        /// Buffers given.
        buffers: usize,
    },
    /// A buffer too short for a restored packet.
    #[error(
        "buffer {position} has {bytes} bytes, restoring needs {needed}, the length of the repair payloads"
    )]
    BufferTooShort {
        /// Which buffer, from 0.
        position: usize,
        /// Its length in bytes.
        bytes: usize,
        /// The bytes needed.
        needed: usize,
    },
    /// A restored packet that cannot be: something that went in was not of this batch, or damaged.
    #[error(
        "source packet {index} decodes to {bytes} bytes within {available}: a packet that went in is damaged or of another batch"
    )]
    Inconsistent {
        /// Which source packet, from 0.
        index: usize,
        /// The length it decodes to.
        bytes: usize,
        /// The bytes it could have at most.
        available: usize,
    },
}

/// Why an engine cannot be had by name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// No engine has this name.
    #[error("there is no engine {name:?}: choose one of {}", NAMES.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The engine is for another processor architecture.
    #[error(
        "engine {name} is for another processor architecture: leave the choice to Byway, or take naive or table"
    )]
    Foreign {
        /// The engine.
        name: &'static str,
    },
    /// The engine exists and this processor cannot run it.
    #[error(
        "engine {name} needs {needs}, which this processor does not have: leave the choice to Byway, or take naive or table"
    )]
    Unavailable {
        /// The engine.
        name: &'static str,
        /// What the processor lacks.
        needs: &'static str,
    },
}

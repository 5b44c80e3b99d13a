//! Errors of this crate. Every message names the item, the cause and the remedy.

use alloc::string::String;

use byway_units::BatchId;
use thiserror::Error;

use crate::engine::NAMES;
use crate::limits::{PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Error of encoding, always a mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The batch has no source packets (k = 0).
    #[error("batch without source packets: add at least one")]
    NoSourcePackets,
    /// The batch has more source packets than allowed.
    #[error(
        "too many source packets in a batch, {count}: close it at {SOURCE_PACKETS_MAX}, and start another"
    )]
    TooManySourcePackets {
        /// Number of source packets in the batch.
        count: usize,
    },
    /// There is no buffer for any repair packet (r = 0).
    #[error("no buffer for a repair packet: give 1 to {REPAIR_PACKETS_MAX}")]
    NoRepairPackets,
    /// The caller requests more repair packets than a batch may have.
    #[error("too many repair packets, {count}: the limit is {REPAIR_PACKETS_MAX}")]
    TooManyRepairPackets {
        /// Number of repair packets requested.
        count: usize,
    },
    /// A source packet is longer than the length column can encode.
    #[error("source packet {index} too long, {bytes} bytes: the limit is {PACKET_BYTES_MAX}")]
    PacketTooLong {
        /// Index of the source packet, from 0.
        index: usize,
        /// Length of the source packet, in bytes.
        bytes: usize,
    },
    /// A buffer is too short for its repair packet.
    #[error(
        "buffer of repair packet {index} too short, {bytes} bytes: source packet {source_index} needs \
        {needed}"
    )]
    BufferTooShort {
        /// Index of the repair packet, from 0.
        index: usize,
        /// Length of the buffer, in bytes.
        bytes: usize,
        /// Index of the source packet that does not fit, from 0.
        source_index: usize,
        /// Length of that source packet, in bytes.
        needed: usize,
    },
}

/// Error of decoding. Positions are indices in the list of repair packets, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The batch has no source packets (k = 0).
    #[error("batch without source packets: add at least one")]
    NoSourcePackets,
    /// The batch has more source packets than allowed.
    #[error("too many source packets in a batch, {count}: the limit is {SOURCE_PACKETS_MAX}")]
    TooManySourcePackets {
        /// Number of source packets in the batch.
        count: usize,
    },
    /// More source packets are lost than repair packets are available.
    #[error("too many losses to restore: source packets lost: {lost}, repair packets arrived: {repairs}")]
    TooManyLost {
        /// Number of missing source packets.
        lost: usize,
        /// Number of available repair packets.
        repairs: usize,
    },
    /// There are more repair packets than a batch may have.
    #[error("too many repair packets, {count}: a batch has at most {REPAIR_PACKETS_MAX}")]
    TooManyRepairPackets {
        /// Number of repair packets in the call.
        count: usize,
    },
    /// The repair packets belong to different batches.
    #[error(
        "repair packet at position {position} belongs to {other}, the one at position 0 to {batch}: \
        decode each batch separately"
    )]
    DifferentBatches {
        /// Position of the deviating repair packet.
        position: usize,
        /// Batch of the first repair packet.
        batch: BatchId,
        /// Batch of the deviating repair packet.
        other: BatchId,
    },
    /// A repair packet covers another number of source packets than the call has.
    #[error("repair packet at position {position} covers {covered} source packets, the batch has {expected}")]
    DifferentCover {
        /// Position of the repair packet.
        position: usize,
        /// Number of source packets that it covers.
        covered: usize,
        /// Number of source packets in the call.
        expected: usize,
    },
    /// Repair packets of one batch have payloads of different lengths.
    #[error(
        "repair packet at position {position} has {bytes} payload bytes, the one at position 0 has \
        {expected}: one of them is damaged or belongs to another batch"
    )]
    DifferentLengths {
        /// Position of the deviating repair packet.
        position: usize,
        /// Length of its payload, in bytes.
        bytes: usize,
        /// Length of the first repair packet's payload, in bytes.
        expected: usize,
    },
    /// A repair packet has an index that no batch has.
    #[error("repair packet at position {position} has index {index}, the limit is {}", REPAIR_PACKETS_MAX - 1)]
    RepairIndexOutOfRange {
        /// Position of the repair packet.
        position: usize,
        /// Index of the repair packet in its batch.
        index: usize,
    },
    /// A repair packet is in the list twice.
    #[error("duplicate repair packet {index} at position {position}: drop duplicates first")]
    RepeatedRepair {
        /// Position of its second occurrence.
        position: usize,
        /// Index of the repair packet in its batch.
        index: usize,
    },
    /// The payload of the repair packets is longer than any source packet.
    #[error("repair packets have {bytes} payload bytes, the limit is {PACKET_BYTES_MAX}")]
    RepairTooLong {
        /// Length of the payload, in bytes.
        bytes: usize,
    },
    /// A source packet is longer than the repair packets that should cover it.
    #[error(
        "source packet {index} has {bytes} bytes, the repair packets only {covered}: they belong to \
        different batches"
    )]
    SourceTooLong {
        /// Index of the source packet, from 0.
        index: usize,
        /// Length of the source packet, in bytes.
        bytes: usize,
        /// Length of the repair packets' payloads, in bytes.
        covered: usize,
    },
    /// There are fewer buffers than source packets to restore.
    #[error("{lost} source packets are lost, but {buffers} buffers given: give one for each")]
    TooFewBuffers {
        /// Number of missing source packets.
        lost: usize,
        /// Number of buffers in the call.
        buffers: usize,
    },
    /// A buffer is too short for a restored packet.
    #[error(
        "buffer {position} too short, {bytes} bytes: restoring needs {needed}, the length of the \
        repair payloads"
    )]
    BufferTooShort {
        /// Index of the buffer, from 0.
        position: usize,
        /// Length of the buffer, in bytes.
        bytes: usize,
        /// Length of the repair packets' payloads, in bytes, which the buffer needs.
        needed: usize,
    },
    /// The decoded packet is impossible: a source or repair packet is damaged, or of another batch.
    #[error(
        "source packet {index} decodes to {bytes} bytes within {available}: an input packet is \
        damaged or belongs to another batch"
    )]
    Inconsistent {
        /// Index of the source packet, from 0.
        index: usize,
        /// Decoded length of the source packet, in bytes.
        bytes: usize,
        /// Largest possible length, in bytes: that of the repair packets' payloads.
        available: usize,
    },
}

/// Error of the choice of an engine by name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// No engine has this name.
    #[error("unknown engine {name:?}: choose one of {}", NAMES.join(", "))]
    Unknown {
        /// Name that no engine has.
        name: String,
    },
    /// The engine is for another processor architecture.
    #[error(
        "engine {name} needs another processor architecture: leave the choice to Byway, or use naive or table"
    )]
    Foreign {
        /// Name of the engine.
        name: &'static str,
    },
    /// The engine exists, but this processor cannot run it.
    #[error(
        "engine {name} needs {needs}, which this processor does not have: leave the choice to Byway, \
        or use naive or table"
    )]
    Unavailable {
        /// Name of the engine.
        name: &'static str,
        /// Processor features that the engine needs.
        needs: &'static str,
    },
}

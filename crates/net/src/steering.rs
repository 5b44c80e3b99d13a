//! Steering of packets to the shards of a relay: by a BPF program in the kernel, and by the
//! sender's grouping of datagrams.

use byway_wire::packets::Kind;

use crate::socket_options::Instruction;

/// Offset of the shard in each kind of packet: the first byte of the receiver's index, or a byte of
/// its own in an initiation (`docs/wire.md`). The most frequent kinds are first.
const SHARD_OFFSETS: [(Kind, u8); 8] = [
    (Kind::Envelope, 2),
    (Kind::Source, 1),
    (Kind::Message, 1),
    (Kind::Initiation, 4),
    (Kind::Response, 4),
    (Kind::Cookie, 4),
    (Kind::TransitMessage, 1),
    (Kind::TransitEnvelope, 2),
];

/// Returns the shard byte of a packet; 0 if it has none.
#[inline]
pub(crate) fn shard_byte(packet: &[u8]) -> u8 {
    let offset = match packet.first().copied().and_then(Kind::from_first_byte) {
        Some(Kind::Source | Kind::Message | Kind::TransitMessage) => 1,
        Some(Kind::Envelope | Kind::TransitEnvelope) => 2,
        Some(Kind::Initiation | Kind::Response | Kind::Cookie) => 4,
        None => return 0,
    };
    packet.get(offset).copied().unwrap_or(0)
}

/// Returns the program that computes a packet's shard, below `shards`.
pub(crate) fn program(shards: u8) -> Vec<Instruction> {
    let mut program = vec![load(0)];
    for (kind, offset) in SHARD_OFFSETS {
        program.extend([
            jump(libc::BPF_JEQ, kind.first_byte(), 0, 4),
            load(offset),
            jump(libc::BPF_JGE, shards, 1, 0),
            instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
            return_zero(),
        ]);
    }
    program.push(return_zero());
    program
}

/// Returns an instruction that loads the payload's byte at `offset` into the accumulator.
fn load(offset: u8) -> Instruction {
    instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, offset)
}

/// Returns an instruction that compares the accumulator with `value`, and skips instructions.
fn jump(comparison: u32, value: u8, if_true: u8, if_false: u8) -> Instruction {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, if_true, if_false, value)
}

fn return_zero() -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)
}

fn instruction(code: u32, jt: u8, jf: u8, operand: u8) -> Instruction {
    let code = u16::try_from(code).expect("the codes of instructions are below 256");
    Instruction { code, jt, jf, k: operand.into() }
}

//! Demonstration of the coder: cuts a file into packets, drops some, and restores them.

#![allow(clippy::print_stdout, reason = "a demonstration prints")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use byway_code::{Engine, PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode, encode};
use byway_units::{BatchId, Bytes};
use clap::Parser;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use serde::Serialize;

/// Cuts a file into packets, adds repair packets, drops packets, and restores the file.
///
/// Source packets are grouped into batches, and each batch gets repair packets. From every batch,
/// as many packets are dropped as it has repair packets (or as --lost says), source and repair
/// packets alike, chosen at random. The remaining packets restore the file, which is then compared
/// with the original. The same losses without repair are the control. Last, a batch loses one
/// packet too many, and the coder reports that.
#[derive(Debug, Parser)]
#[command(name = "recover_file")]
struct Options {
    /// The file to cut up; this program's own by default.
    file: Option<PathBuf>,
    /// Source packets in a batch (k), 1 to 32.
    #[arg(short = 'k', long, default_value_t = 10, value_parser = parse_within::<1, SOURCE_PACKETS_MAX>)]
    source_packets: usize,
    /// Repair packets of a batch (r), 1 to 8.
    #[arg(short, long, default_value_t = 2, value_parser = parse_within::<1, REPAIR_PACKETS_MAX>)]
    repair_packets: usize,
    /// Bytes in a packet, 1 to 65535.
    #[arg(short = 'b', long, default_value_t = 1_200, value_parser = parse_within::<1, PACKET_BYTES_MAX>)]
    packet_bytes: usize,
    /// Packets dropped from every batch; more than the repair packets can be too many.
    #[arg(short, long)]
    lost: Option<usize>,
    /// Chooses the losses.
    #[arg(short, long, default_value_t = 1)]
    seed: u64,
    /// The engine: naive, table, ssse3, avx2, gfni-avx2, gfni-avx512 or neon; the fastest by
    /// default.
    #[arg(long, env = "BYWAY_ENGINE")]
    engine: Option<Engine>,
    /// Also write the restored file here.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Result of the demonstration.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    file: String,
    bytes: u64,
    engine: String,
    batches: usize,
    source_packets: usize,
    repair_packets: usize,
    lost_source_packets: usize,
    lost_repair_packets: usize,
    restored_packets: usize,
    /// Errors of the coder for batches that lost too much, each message once.
    refused: Vec<String>,
    /// Error of the coder for a batch that loses one packet more than it has repair packets.
    one_too_many: String,
    identical: bool,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let path = match &options.file {
        Some(path) => path.clone(),
        None => {
            std::env::current_exe().context("cannot find this program's own file: name a file instead")?
        }
    };
    #[allow(clippy::disallowed_methods, reason = "the demonstration is about a file")]
    let original = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    ensure!(!original.is_empty(), "{} is empty: name a file with contents", path.display());

    let (outcome, restored) = run(&options, &path, &original)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print(&options, &outcome);
    }
    if let Some(output) = &options.output {
        ensure!(outcome.identical, "cannot restore the file: {} is not written", output.display());
        #[allow(clippy::disallowed_methods, reason = "the demonstration is about a file")]
        fs::write(output, restored).with_context(|| format!("writing {}", output.display()))?;
    }
    let repaired = outcome.restored_packets > 0 || outcome.lost_source_packets == 0;
    Ok(if outcome.identical && repaired { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends the file through losses, batch by batch; returns the result and the received file.
fn run(options: &Options, path: &Path, original: &[u8]) -> Result<(Outcome, Vec<u8>)> {
    let engine = options.engine.unwrap_or_else(Engine::fastest);
    let mut random = Pcg64Mcg::new(u128::from(options.seed) << 64 | 0x9E37_79B9_7F4A_7C15);
    let mut outcome = Outcome {
        file: path.display().to_string(),
        bytes: original.len() as u64,
        engine: engine.name().to_owned(),
        ..Outcome::default()
    };
    let packets: Vec<_> = original.chunks(options.packet_bytes).collect();
    let mut restored = Vec::with_capacity(original.len());
    for (number, sources) in packets.chunks(options.source_packets).enumerate() {
        let batch = BatchId::new(u32::try_from(number).context("too many batches in the file")?);
        let lost = options.lost.unwrap_or(options.repair_packets);
        let losses = choose(lost, sources.len() + options.repair_packets, &mut random);
        let sent = SentBatch::new(engine, batch, sources, options.repair_packets)?;
        restored.extend(sent.lose_and_restore(&losses, &mut outcome));
    }
    outcome.identical = restored == original;
    outcome.one_too_many = lose_one_too_many(engine, &packets, options)?;
    Ok((outcome, restored))
}

/// One batch as it leaves the sender.
struct SentBatch<'a> {
    engine: Engine,
    batch: BatchId,
    sources: &'a [&'a [u8]],
    payloads: Vec<Vec<u8>>,
    encoded: byway_code::EncodedBatch,
}

impl<'a> SentBatch<'a> {
    fn new(engine: Engine, batch: BatchId, sources: &'a [&'a [u8]], repair_packets: usize) -> Result<Self> {
        let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let mut payloads = vec![vec![0; longest]; repair_packets];
        let encoded = encode(engine, sources, &mut payloads)?;
        Ok(Self { engine, batch, sources, payloads, encoded })
    }

    /// Drops the packets with the indices in `losses`, source packets first; returns the batch's
    /// bytes after decoding.
    fn lose_and_restore(&self, losses: &[usize], outcome: &mut Outcome) -> Vec<u8> {
        let count = self.sources.len();
        let arrived = |index: usize| !losses.contains(&index);
        let received: Vec<_> =
            (0..count).map(|index| arrived(index).then_some(self.sources[index])).collect();
        let repairs = self.encoded.repairs(self.batch, &self.payloads);
        let repairs: Vec<Repair<'_>> = repairs.filter(|repair| arrived(count + repair.index)).collect();
        let lost = received.iter().filter(|source| source.is_none()).count();
        outcome.batches += 1;
        outcome.source_packets += count;
        outcome.repair_packets += self.payloads.len();
        outcome.lost_source_packets += lost;
        outcome.lost_repair_packets += self.payloads.len() - repairs.len();

        let mut buffers = vec![vec![0; self.encoded.payload_bytes()]; lost];
        let mut whole = received.clone();
        let recovered = decode(self.engine, &received, &repairs, &mut buffers);
        match &recovered {
            Ok(recovered) => {
                outcome.restored_packets += recovered.count();
                for (index, packet) in recovered.packets(&buffers) {
                    whole[index] = Some(packet);
                }
            }
            Err(error) => remember(&mut outcome.refused, error.to_string()),
        }
        whole.into_iter().flatten().flatten().copied().collect()
    }
}

fn remember(messages: &mut Vec<String>, message: String) {
    if !messages.contains(&message) {
        messages.push(message);
    }
}

/// Returns the coder's error if the first batch loses one source packet more than it has repair
/// packets.
fn lose_one_too_many(engine: Engine, packets: &[&[u8]], options: &Options) -> Result<String> {
    let sources = &packets[..packets.len().min(options.source_packets)];
    let lost: Vec<_> = (0..=options.repair_packets).collect();
    if lost.len() > sources.len() {
        return Ok(String::from("batch too small for as many losses"));
    }
    let mut outcome = Outcome::default();
    SentBatch::new(engine, BatchId::new(0), sources, options.repair_packets)?
        .lose_and_restore(&lost, &mut outcome);
    outcome.refused.pop().context("the coder accepted more losses than it can restore")
}

/// Returns `count` distinct numbers below `bound`; all of them if there are fewer.
fn choose(count: usize, bound: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..bound).collect();
    let count = count.min(bound);
    for i in 0..count {
        let offset = random.next_u64() % (bound - i) as u64;
        numbers.swap(i, i + usize::try_from(offset).expect("below a usize"));
    }
    numbers.truncate(count);
    numbers
}

fn print(options: &Options, outcome: &Outcome) {
    let lost = outcome.lost_source_packets + outcome.lost_repair_packets;
    let all = outcome.source_packets + outcome.repair_packets;
    println!("Erasure coding with Byway, engine {}\n", outcome.engine);
    println!("  file            {}, {}", outcome.file, Bytes::new(outcome.bytes));
    println!("  divided into    {} source packets of {} B", outcome.source_packets, options.packet_bytes);
    println!(
        "  protected by    {} repair packets: {} batches of up to {} + {}",
        outcome.repair_packets, outcome.batches, options.source_packets, options.repair_packets
    );
    println!(
        "  dropped         {lost} of all {all} packets: {} source, {} repair",
        outcome.lost_source_packets, outcome.lost_repair_packets
    );
    println!();
    println!("  without repair  {} source packets are missing", outcome.lost_source_packets);
    println!("  with repair     {} of them restored", outcome.restored_packets);
    for refused in &outcome.refused {
        println!("                  refused: {refused}");
    }
    println!(
        "  compared        {}",
        if outcome.identical { "identical, byte for byte" } else { "NOT identical" }
    );
    println!();
    println!("  one loss more   {}", outcome.one_too_many);
}

fn parse_within<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (LEAST..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("invalid number: give a whole number from {LEAST} to {MOST}")),
    }
}

//! Captures: the packets that leave and enter the devices of machines, in one file each.
//!
//! A separate thread writes them, because the emulator's thread must not wait for a disk.

#![allow(clippy::disallowed_methods, reason = "this is where captures are written")]

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use byway_scenario::pcapng::{self, Direction, PacketBlock};
use byway_units::Time;

use crate::limits::{CAPTURE_BYTES_MAX, CAPTURE_QUEUE_MAX};

/// Packet that left or entered the device of a machine, on its way to the writer's thread.
struct CapturedPacket {
    machine: usize,
    time: Time,
    direction: Direction,
    packet: Vec<u8>,
}

/// Running capture of the machines' packets. A thread writes them to one file for each machine.
#[derive(Debug)]
pub struct Capture {
    packets: SyncSender<CapturedPacket>,
    writer: JoinHandle<io::Result<MissedPackets>>,
    passed_over: u64,
}

/// Counters of packets that are missing in captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedPackets {
    /// Packets that were not written because their machine's file had reached its size limit.
    pub beyond_limit: u64,
    /// Packets dropped because the disk was too slow.
    pub passed_over: u64,
}

/// Capture file of a machine, and the bytes written to it.
struct Output {
    file: BufWriter<File>,
    bytes: u64,
}

impl Capture {
    /// Starts to capture into pcapng files in `folder`, one for each machine with a name.
    ///
    /// # Errors
    /// If a file or the thread cannot be created.
    pub fn start(folder: &Path, machines: &[Option<String>]) -> io::Result<Self> {
        let output = |name: &Option<String>| name.as_ref().map(|name| Output::new(folder, name)).transpose();
        let outputs: Vec<Option<Output>> = machines.iter().map(output).collect::<io::Result<_>>()?;
        let (sender, receiver) = mpsc::sync_channel(CAPTURE_QUEUE_MAX);
        let writer =
            thread::Builder::new().name("capture".into()).spawn(move || write(outputs, &receiver))?;
        Ok(Self { packets: sender, writer, passed_over: 0 })
    }

    /// Queues a packet for the writer's thread. If the queue is full, counts the packet as missing
    /// instead of waiting.
    pub fn note(&mut self, machine: usize, time: Time, direction: Direction, packet: &[u8]) {
        let packet = packet.to_vec();
        if self.packets.try_send(CapturedPacket { machine, time, direction, packet }).is_err() {
            self.passed_over += 1;
        }
    }

    /// Waits until the remaining packets are written, and returns the counters of missing packets.
    ///
    /// # Errors
    /// If a file could not be written.
    ///
    /// # Panics
    /// If the writer panicked.
    pub fn finish(self) -> io::Result<MissedPackets> {
        drop(self.packets);
        let written = self.writer.join().expect("the writer does not panic")?;
        Ok(MissedPackets { passed_over: self.passed_over, ..written })
    }
}

impl Output {
    fn new(folder: &Path, name: &str) -> io::Result<Self> {
        let file = folder.join(format!("{name}.pcapng"));
        let file = File::create_new(&file)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
        let mut head = Vec::new();
        pcapng::section(&mut head);
        pcapng::interface(&mut head, name);
        let mut output = Self { file: BufWriter::new(file), bytes: 0 };
        output.write(&head)?;
        Ok(output)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

fn write(mut outputs: Vec<Option<Output>>, packets: &Receiver<CapturedPacket>) -> io::Result<MissedPackets> {
    let (mut captured, mut block) = (MissedPackets::default(), Vec::new());
    for CapturedPacket { machine, time, direction, packet } in packets {
        let Some(output) = outputs.get_mut(machine).and_then(Option::as_mut) else { continue };
        block.clear();
        PacketBlock::new(0, time, &[&packet]).with_direction(direction).write(&mut block);
        if output.bytes + block.len() as u64 > CAPTURE_BYTES_MAX {
            captured.beyond_limit += 1;
            continue;
        }
        output.write(&block)?;
    }
    outputs.iter_mut().flatten().try_for_each(|output| output.file.flush())?;
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_a_file_with_its_packets() {
        let folder = std::env::temp_dir().join(format!("byway-capture-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let machines = [Some("alice".to_owned()), None];
        let mut capture = Capture::start(&folder, &machines).expect("files");
        let packet = [0x45; 60];
        for machine in 0..2 {
            capture.note(machine, Time::START, Direction::Out, &packet);
        }
        assert_eq!(capture.finish().expect("space on the disk"), MissedPackets::default());
        let written = std::fs::read(folder.join("alice.pcapng")).expect("the file");
        assert_eq!(written.windows(packet.len()).filter(|bytes| *bytes == packet).count(), 1);
        let again = Capture::start(&folder, &machines).expect_err("nothing is written over").to_string();
        assert!(again.contains("alice.pcapng"), "{again}");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}

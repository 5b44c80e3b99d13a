//! Captures: the packets that leave and enter the devices of machines, in a file for each.
//!
//! A thread of its own writes them, as the one that carries packets waits for no disk.

#![allow(clippy::disallowed_methods, reason = "this is where captures are written")]

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use byway_scenario::pcapng::{self, Direction, PacketBlock};
use byway_units::Time;

use crate::limits::{CAPTURE_BYTES_MAX, CAPTURE_WAITING_MAX};

/// A packet at the device of a machine.
struct Seen {
    machine: usize,
    time: Time,
    direction: Direction,
    packet: Vec<u8>,
}

/// Captures at work.
#[derive(Debug)]
pub struct Capture {
    seen: SyncSender<Seen>,
    writer: JoinHandle<io::Result<Captured>>,
    passed_over: u64,
}

/// What captures have not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets for which there was no room in their file.
    pub beyond_limit: u64,
    /// Packets that the disk was too slow for.
    pub passed_over: u64,
}

/// A machine's file, and how long it is.
struct Output {
    file: BufWriter<File>,
    bytes: u64,
}

impl Capture {
    /// Begins to write files into this folder, one for each machine that has a name, by place.
    ///
    /// # Errors
    /// If files or threads cannot be had.
    pub fn start(folder: &Path, machines: &[Option<String>]) -> io::Result<Self> {
        let output = |name: &Option<String>| name.as_ref().map(|name| Output::new(folder, name)).transpose();
        let outputs: Vec<Option<Output>> = machines.iter().map(output).collect::<io::Result<_>>()?;
        let (seen, heard) = mpsc::sync_channel(CAPTURE_WAITING_MAX);
        let writer = thread::Builder::new().name("capture".into()).spawn(move || write(outputs, &heard))?;
        Ok(Self { seen, writer, passed_over: 0 })
    }

    /// Notes a packet; never waits.
    pub fn note(&mut self, machine: usize, time: Time, direction: Direction, packet: &[u8]) {
        let packet = packet.to_vec();
        if self.seen.try_send(Seen { machine, time, direction, packet }).is_err() {
            self.passed_over += 1;
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If a file could not be written.
    ///
    /// # Panics
    /// If the writer did.
    pub fn finish(self) -> io::Result<Captured> {
        drop(self.seen);
        let written = self.writer.join().expect("the writer does not panic")?;
        Ok(Captured { passed_over: self.passed_over, ..written })
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

fn write(mut outputs: Vec<Option<Output>>, heard: &Receiver<Seen>) -> io::Result<Captured> {
    let (mut captured, mut block) = (Captured::default(), Vec::new());
    for Seen { machine, time, direction, packet } in heard {
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
        assert_eq!(capture.finish().expect("room on the disk"), Captured::default());
        let written = std::fs::read(folder.join("alice.pcapng")).expect("the file");
        assert_eq!(written.windows(packet.len()).filter(|bytes| *bytes == packet).count(), 1);
        let again = Capture::start(&folder, &machines).expect_err("nothing is written over").to_string();
        assert!(again.contains("alice.pcapng"), "{again}");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}

//! Setup of demos with a script in place of ffmpeg, so tests need neither ffmpeg nor a video.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, processes and clocks"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::{Bench, text};

/// Bytes of a packet of a transport stream.
const PACKET_BYTES: usize = 188;

/// Packets of the script's stream: half a second at 1.5 Mbit/s.
const PACKETS: usize = 500;

/// Folder that contains only the programs for the demo's `PATH`, and a folder for its temporary
/// files.
pub struct DemoBench {
    pub bench: Bench,
}

impl DemoBench {
    pub fn new() -> Self {
        let demo_bench = Self { bench: Bench::new() };
        for folder in [demo_bench.programs(), demo_bench.temporary()] {
            fs::create_dir(folder).expect("a folder");
        }
        demo_bench
    }

    pub fn programs(&self) -> PathBuf {
        self.bench.path("programs")
    }

    pub fn temporary(&self) -> PathBuf {
        self.bench.path("temporary")
    }

    /// Installs a script as ffmpeg that lists its encoders correctly, and otherwise runs these
    /// commands.
    pub fn put_ffmpeg(&self, otherwise: &str) {
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-encoders*) echo ' V..... libx264 '; exit ;; esac\nfor last; do :; done\n{otherwise}\n"
        );
        let file = self.programs().join("ffmpeg");
        fs::write(&file, script).expect("the folder takes files");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).expect("the file is ours");
    }

    /// Installs a script as ffmpeg that decodes a picture from any received stream, but fails for
    /// the run of this name.
    pub fn put_ffmpeg_that_decodes_all_but(&self, run: &str) {
        self.put_ffmpeg_that_encodes();
        let stream = self.bench.path("stream.ts");
        self.put_ffmpeg(&format!(
            "case \"$*\" in\n*/{run}/*framecrc*) echo 'Invalid data found' >&2; exit 1 ;;\n\
             *framecrc*) echo '0, 0, 0, 1, 1, 0x1' > \"${{last#file:}}\"; echo 'n:1 psnr_avg:40.0 ' ;;\n\
             *image2pipe*) echo JPEG ;;\n*) exec /bin/cp '{}' \"${{last#file:}}\" ;;\nesac",
            stream.display()
        ));
    }

    /// Installs a script as ffmpeg that always makes a short stream of null packets.
    pub fn put_ffmpeg_that_encodes(&self) {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        let stream = self.bench.path("stream.ts");
        fs::write(&stream, packet.repeat(PACKETS)).expect("the folder takes files");
        self.put_ffmpeg(&format!("exec /bin/cp '{}' \"${{last#file:}}\"", stream.display()));
    }

    pub fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.arg("demo").args(arguments).arg("--output").arg(self.bench.path("output"));
        command.env("PATH", self.programs()).env("TMPDIR", self.temporary()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.demo(arguments).output().expect("the program starts")
    }

    pub fn assert_refuses(&self, arguments: &[&str], code: i32, says: &[&str]) {
        let output = self.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.starts_with("error: "), "{message}");
        for phrase in says {
            assert!(message.contains(phrase), "{phrase:?} is not in: {message}");
        }
    }

    /// Counts the files that the demo has left behind.
    pub fn left_behind(&self) -> usize {
        fs::read_dir(self.temporary()).expect("it is there").count()
    }
}

//! Finds the external programs that commands run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// External programs and the Debian packages that contain them, if the names differ.
const PACKAGES: [(&str, &str); 18] = [
    ("ab", "apache2-utils"),
    ("dig", "bind9-dnsutils"),
    ("dnsmasq", "dnsmasq-base"),
    ("drill", "ldnsutils"),
    ("ffprobe", "ffmpeg"),
    ("gst-launch-1.0", "gstreamer1.0-tools"),
    ("gtlsclient", "ngtcp2-client"),
    ("gtlsserver", "ngtcp2-server"),
    ("h2load", "nghttp2-client"),
    ("nc", "netcat-openbsd"),
    ("nginx", "nginx-light"),
    ("nslookup", "bind9-dnsutils"),
    ("ping", "iputils-ping"),
    ("python3", "python3-minimal"),
    ("redis-cli", "redis-tools"),
    ("ssh", "openssh-client"),
    ("sipp", "sip-tester"),
    ("tc", "iproute2"),
];

/// External programs whose Debian packages have the program's name.
const OWN_PACKAGES: [&str; 8] =
    ["curl", "ffmpeg", "fping", "iperf", "iperf3", "irtt", "redis-server", "socat"];

/// Finds an external program by its absolute path, or by its name in the folders of `path`, a value
/// of `PATH`.
///
/// # Errors
/// If it is not found; the error names the remedy.
pub(super) fn find(program: &str, path: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        let file = Path::new(program);
        if !file.is_absolute() {
            return Err(format!(
                "program {program:?} not an absolute path: write {{here}}/{program} for a file in the \
                 scenario's folder"
            ));
        }
        return if is_program(file) {
            Ok(file.to_owned())
        } else {
            Err(format!("{program:?} not an executable file: name one, or chmod +x it"))
        };
    }
    let found = std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| is_program(file));
    found.ok_or_else(|| format!("program {program:?} not installed: {}", remedy(program)))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn remedy(program: &str) -> String {
    let named = PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package);
    let package = named.or_else(|| OWN_PACKAGES.into_iter().find(|name| *name == program));
    package.map_or_else(
        || "install it, or give its path".to_owned(),
        |package| format!("install it, e.g. apt-get install {package}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_elsewhere_only_by_whole_paths() {
        let shell = find("sh", "/nowhere:/bin").expect("each machine has it");
        assert_eq!(shell, Path::new("/bin/sh"));
        assert!(find("/bin/sh", "").is_ok());
        for (program, words) in [
            ("sh", "not installed"),
            ("nginx", "apt-get install nginx-light"),
            ("iperf3", "apt-get install iperf3"),
            ("gtlsserver", "apt-get install ngtcp2-server"),
            ("no-such-program", "give its path"),
            ("./sh", "{here}/./sh"),
            ("/etc/passwd", "chmod +x"),
            ("/etc", "not an executable file"),
        ] {
            let message = find(program, "/nowhere").expect_err(program);
            assert!(message.contains(words), "{program}: {message}");
        }
    }
}

//! Units of systemd without systemd: the command, user, rights, folders and credentials that a unit's file names.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::PATIENCE;
use crate::world::World;

/// The user of units: in the place of one that systemd makes for the time.
const USER: u32 = 65_534;

/// A program in the background, killed when dropped.
pub struct Running {
    child: Child,
    log: PathBuf,
    /// What it is called: a unit's name, or a program's.
    pub name: String,
}

impl Running {
    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Has it end as a user does; it has to end well.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is ours");
        let ended = self.child.wait().expect("it is ours");
        assert!(ended.success(), "{} ends with {ended}:\n{}", self.name, self.log());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== {} ==\n{}", self.name, self.log());
        }
    }
}

/// What the lines of a unit and of its drop-ins say under a key; of a list, the last.
fn setting(text: &str, key: &str) -> Option<String> {
    let value = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).next_back();
    value.map(|value| value.trim().to_owned())
}

/// Starts a unit as its file says, and waits until it is ready.
pub fn start(world: &World, host: &str, unit: &str) -> Running {
    let text = text_of(&world.path(host, "/etc/systemd/system"), unit);
    let need = |key: &str| setting(&text, key).unwrap_or_else(|| panic!("{unit} has no {key}"));
    assert_eq!(need("Type"), "notify", "{unit}");
    let state = format!("/var/lib/{}", need("StateDirectory"));
    let credentials = format!("/var/lib/credentials/{unit}");
    for folder in [&state, &credentials] {
        fs::create_dir_all(world.path(host, folder)).expect("room on the disk");
    }
    let loaded = need("LoadCredential");
    let (name, from) = loaded.split_once(':').expect("a credential has a name and a file");
    let credential = world.path(host, &credentials).join(name);
    fs::copy(world.path(host, from), credential).unwrap_or_else(|error| panic!("{from}: {error}"));
    world.shell(host, &format!("chown -R {USER}:{USER} {state} {credentials}"));
    let rights = setting(&text, "AmbientCapabilities").unwrap_or_default().to_lowercase();
    let rights: String = rights.split_whitespace().map(|right| right.replacen("cap_", ",+", 1)).collect();
    let command = need("ExecStart").replace("%d", &credentials);
    let line = format!(
        "exec setpriv --pdeathsig KILL --reuid {USER} --regid {USER} --clear-groups --no-new-privs \
         --bounding-set=-all{rights} --inh-caps=-all{rights} --ambient-caps=-all{rights} {command}"
    );
    spawn(world, host, unit, &format!("export STATE_DIRECTORY={state}; {line}"))
}

fn text_of(folder: &Path, unit: &str) -> String {
    let unit = format!("{unit}.service");
    let read = |path: PathBuf| {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut text = read(folder.join(&unit));
    let more = fs::read_dir(folder.join(format!("{unit}.d")));
    more.into_iter().flatten().for_each(|file| text += &read(file.expect("a file").path()));
    text
}

/// Starts a program in the background, and waits until it says that it is ready.
pub fn spawn(world: &World, host: &str, name: &str, line: &str) -> Running {
    let notify = world.path(host, &format!("/var/lib/{name}.notify"));
    // One of an earlier start.
    let _ = fs::remove_file(&notify);
    let socket = UnixDatagram::bind(&notify).expect("a socket for the node's news");
    fs::set_permissions(&notify, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("it is ours");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let log = world.path(host, &format!("{name}.log"));
    let to = fs::OpenOptions::new().create(true).append(true).open(&log).expect("room on the disk");
    let mut command = world.command(host, "bash");
    command.args(["-c", line]).env("NOTIFY_SOCKET", format!("/var/lib/{name}.notify"));
    command.stdin(Stdio::null()).stdout(to.try_clone().expect("a file")).stderr(to);
    let child = world.at(host, move || command.spawn().expect("there is a shell"));
    let running = Running { child, log, name: format!("{host}: {name}") };
    let mut news = [0; 256];
    let length = socket.recv(&mut news);
    let length = length.unwrap_or_else(|error| panic!("{} is not ready: {error}", running.name));
    assert!(news[..length].starts_with(b"READY=1"), "{}: {:?}", running.name, &news[..length]);
    running
}

/// The longest that a program may take to say something: a guard, not a measure.
pub fn wait_for(running: &Running, words: &str) {
    let until = std::time::Instant::now() + PATIENCE;
    while !running.log().contains(words) {
        assert!(std::time::Instant::now() < until, "{} does not say {words}", running.name);
        std::thread::sleep(Duration::from_millis(20));
    }
}

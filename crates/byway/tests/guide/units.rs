//! systemd units without systemd: the command, user, rights, folders and credentials of a unit's
//! file.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::TIMEOUT;
use crate::world::World;

/// User of units, in place of systemd's dynamic user.
const USER: u32 = 65_534;

/// Program in the background, killed when dropped.
pub struct RunningProgram {
    child: Child,
    log: PathBuf,
    /// Name of the unit or program.
    pub name: String,
}

impl RunningProgram {
    /// Returns its log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Terminates the program by SIGTERM, and asserts success.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is ours");
        let ended = self.child.wait().expect("it is ours");
        assert!(ended.success(), "{} ends with {ended}:\n{}", self.name, self.log());
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== {} ==\n{}", self.name, self.log());
        }
    }
}

/// Text of a unit and of its drop-ins.
struct Unit {
    name: String,
    text: String,
}

impl Unit {
    fn of(world: &World, host: &str, name: &str) -> Self {
        Self { name: name.to_owned(), text: text_of(&world.path(host, "/etc/systemd/system"), name) }
    }

    /// Returns the values of a key, in order.
    fn all<'a>(&'a self, key: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.text.lines().filter_map(move |line| Some(line.strip_prefix(key)?.strip_prefix('=')?.trim()))
    }

    /// Returns the value of a key; with several, the last.
    fn get<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).next_back()
    }

    fn need<'a>(&'a self, key: &'a str) -> &'a str {
        self.get(key).unwrap_or_else(|| panic!("{} has no {key}", self.name))
    }

    fn credentials(&self) -> String {
        format!("/var/lib/credentials/{}", self.name)
    }

    /// Returns a command as systemd starts it, without changing the user.
    fn command(&self, value: &str) -> String {
        let line = [("%d", self.credentials().as_str()), ("%t", "/run"), ("%%", "%"), ("$$", "$")]
            .into_iter()
            .fold(value.to_owned(), |line, (from, to)| line.replace(from, to));
        line.trim_start_matches('+').to_owned()
    }

    /// Makes the unit's folders for its user, with their contents.
    fn prepare(&self, world: &World, host: &str) {
        let state = Some(format!("/var/lib/{}", self.need("StateDirectory")));
        let run = self.get("RuntimeDirectory").map(|name| format!("/run/{name}"));
        let loaded = self.get("LoadCredential").and_then(|loaded| loaded.split_once(':'));
        let folders = [state, run, loaded.map(|_| self.credentials())];
        for folder in folders.iter().flatten() {
            fs::create_dir_all(world.path(host, folder)).expect("space on the disk");
        }
        if let Some((name, from)) = loaded {
            let to = world.path(host, &self.credentials()).join(name);
            fs::copy(world.path(host, from), to).unwrap_or_else(|error| panic!("{from}: {error}"));
        }
        for folder in folders.iter().flatten() {
            world.shell(host, &format!("chown -R {USER}:{USER} {folder} && chmod 700 {folder}"));
        }
        for line in self.all("ExecStartPre").map(|value| self.command(value)) {
            world.shell(host, &line);
        }
    }
}

/// Starts a unit as in its file, and waits until it is ready.
pub fn start(world: &World, host: &str, name: &str) -> RunningProgram {
    let unit = Unit::of(world, host, name);
    assert_eq!(unit.need("Type"), "notify", "{name}");
    unit.prepare(world, host);
    let state = unit.need("StateDirectory");
    let rights = unit.get("AmbientCapabilities").unwrap_or_default().to_lowercase();
    let rights: String = rights.split_whitespace().map(|right| right.replacen("cap_", ",+", 1)).collect();
    let command = unit.command(unit.need("ExecStart"));
    let line = format!(
        "exec setpriv --pdeathsig KILL --reuid {USER} --regid {USER} --clear-groups --no-new-privs \
         --bounding-set=-all{rights} --inh-caps=-all{rights} --ambient-caps=-all{rights} {command}"
    );
    spawn(world, host, name, &format!("export STATE_DIRECTORY=/var/lib/{state}; {line}"))
}

/// Reloads a unit as in its file.
pub fn reload(world: &World, host: &str, name: &str, running: &RunningProgram) {
    let unit = Unit::of(world, host, name);
    let commands: Vec<String> = unit.all("ExecReload").map(|value| unit.command(value)).collect();
    assert!(!commands.is_empty(), "{name} has no ExecReload");
    for line in commands {
        world.shell(host, &format!("MAINPID={}; {line}", running.child.id()));
    }
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

/// Starts a program in the background, and waits until it reports readiness.
pub fn spawn(world: &World, host: &str, name: &str, line: &str) -> RunningProgram {
    let notify = world.path(host, &format!("/var/lib/{name}.notify"));
    // The socket may remain from an earlier start.
    let _ = fs::remove_file(&notify);
    let socket = UnixDatagram::bind(&notify).expect("a socket for the node's news");
    fs::set_permissions(&notify, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("it is ours");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let log = world.path(host, &format!("{name}.log"));
    let to = fs::OpenOptions::new().create(true).append(true).open(&log).expect("space on the disk");
    let mut command = world.command(host, "bash");
    command.args(["-c", line]).env("NOTIFY_SOCKET", format!("/var/lib/{name}.notify"));
    command.stdin(Stdio::null()).stdout(to.try_clone().expect("a file")).stderr(to);
    let child = world.at(host, move || command.spawn().expect("there is a shell"));
    let running = RunningProgram { child, log, name: format!("{host}: {name}") };
    let mut news = [0; 256];
    let length = socket.recv(&mut news);
    let length = length.unwrap_or_else(|error| panic!("{} is not ready: {error}", running.name));
    assert!(news[..length].starts_with(b"READY=1"), "{}: {:?}", running.name, &news[..length]);
    running
}

/// Waits until a program's log has these words; the time limit is a guard, not a measure.
pub fn wait_for(running: &RunningProgram, words: &str) {
    let until = std::time::Instant::now() + TIMEOUT;
    while !running.log().contains(words) {
        assert!(std::time::Instant::now() < until, "{} does not say {words}", running.name);
        std::thread::sleep(Duration::from_millis(20));
    }
}

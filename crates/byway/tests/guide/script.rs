//! Execution of the guide: writes files and runs commands on the machines that it names, and
//! compares output with the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::page::{Block, ConsoleCommand, blocks, commands};
use crate::shape::differs;
use crate::stand_ins::{self, StandIn};
use crate::traffic::Listener;
use crate::units::{self, RunningProgram};
use crate::world::{HOSTS, Sites, World};
use crate::{GUIDE, TIMEOUT};

/// Commands that no test runs, with the reason.
const NOT_RUN: [(&str, &str); 1] =
    [("make build", "cargo has built the program that tests run; this builds the same, optimised")];

/// The page, and the machines on which it is executed.
pub struct Guide {
    pub text: String,
    blocks: Vec<Block>,
    /// Running programs by machine and unit; dropped before the machines.
    pub running: BTreeMap<(String, String), RunningProgram>,
    /// Applications started by commands of the page.
    pub listeners: Vec<Listener>,
    /// Secrets and keys of the page, with today's in their place.
    known: BTreeMap<String, String>,
    /// Public keys of the machines.
    keys: BTreeMap<String, String>,
    pub world: World,
}

impl Guide {
    /// Reads a page of the repository, and makes idle machines; `None` if this machine cannot make
    /// them.
    pub fn new(page: &str, sites: Sites) -> Option<Self> {
        let world = World::new(sites)?;
        let text = read(page);
        let guide = Self {
            blocks: blocks(&text),
            text,
            running: BTreeMap::new(),
            listeners: Vec::new(),
            known: BTreeMap::new(),
            keys: BTreeMap::new(),
            world,
        };
        for host in HOSTS {
            guide.check_out(host);
        }
        Some(guide)
    }

    /// Makes a machine's home look like a built repository, with links to the program and to
    /// `packaging`.
    fn check_out(&self, host: &str) {
        let home = self.world.path(host, "");
        fs::create_dir_all(home.join("target/release")).expect("space on the disk");
        let program = Path::new(env!("CARGO_BIN_EXE_byway"));
        symlink(program, home.join("target/release/byway")).expect("space on the disk");
        symlink(root().join("packaging"), home.join("packaging")).expect("space on the disk");
    }

    /// Performs the steps of the section `Install`, without copying the program.
    pub fn install(&mut self) {
        let program = self.world.folder.path().join("bin/byway");
        symlink(env!("CARGO_BIN_EXE_byway"), program).expect("space on the disk");
        let mut all = blocks(&read(GUIDE));
        all.retain(|block| block.heading == "Install");
        let [_, units] = &all[..] else { panic!("Install has two blocks: {all:?}") };
        self.run_block(units, &mut |_, _| {});
    }

    /// Returns the blocks below a heading.
    pub fn blocks_of(&self, heading: &str) -> Vec<Block> {
        let found: Vec<Block> =
            self.blocks.iter().filter(|block| block.heading == heading).cloned().collect();
        assert!(!found.is_empty(), "the page has no blocks below {heading}");
        found
    }

    /// Runs the blocks below a heading.
    pub fn run_section(&mut self, heading: &str) {
        self.run_section_with(heading, |_, _| {});
    }

    /// Runs the blocks below a heading, and calls `after` after each command.
    pub fn run_section_with(&mut self, heading: &str, mut after: impl FnMut(&mut Self, &ConsoleCommand)) {
        for block in self.blocks_of(heading) {
            self.run_block(&block, &mut after);
        }
    }

    /// Runs one block.
    pub fn run_block(&mut self, block: &Block, after: &mut dyn FnMut(&mut Self, &ConsoleCommand)) {
        match block.language.as_str() {
            "toml" | "ini" => block.targets.iter().for_each(|target| self.write(target, &block.text)),
            "console" => {
                for command in commands(block) {
                    let hosts = command.host.clone().map_or_else(|| block.targets.clone(), |host| vec![host]);
                    assert!(!hosts.is_empty(), "line {}: no machine is named", block.line);
                    for host in hosts {
                        self.type_in(&host, &command);
                        after(self, &command);
                    }
                }
            }
            other => panic!("line {}: no test plays a block of {other}", block.line),
        }
    }

    /// Writes a file `machine:/path`, or appends to it with a final `+`.
    pub fn write(&mut self, target: &str, text: &str) {
        let (host, path) = target.split_once(':').unwrap_or_else(|| panic!("{target} is no machine:/path"));
        let (path, adds) = path.strip_suffix('+').map_or((path, false), |path| (path, true));
        let file = self.world.path(host, path);
        let before =
            if adds { fs::read_to_string(&file).expect("a file to add to") + "\n" } else { String::new() };
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("space on the disk");
        fs::write(&file, before + &self.filled(text)).expect("space on the disk");
    }

    /// Replaces the page's secrets and keys in a text by today's.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut name = "";
        for line in text.lines() {
            if let Some(quoted) = line.strip_prefix("name = ") {
                name = quoted.trim_matches('"');
            }
            match self.keys.get(name).filter(|_| line.starts_with("key = ")) {
                Some(key) => filled.extend(["key = \"", key, "\"\n"]),
                None => filled.extend([line, "\n"]),
            }
        }
        self.known.iter().fold(filled, |text, (shown, known)| text.replace(shown, known))
    }

    /// Runs a command on a machine, and compares its output with the page.
    pub fn type_in(&mut self, host: &str, command: &ConsoleCommand) {
        let line = self.filled(&command.line);
        let line = line.trim_end();
        if NOT_RUN.iter().any(|(not_run, _)| *not_run == line) {
            return;
        }
        let until = Instant::now() + TIMEOUT;
        loop {
            let output = match stand_ins::of(line) {
                Some(stand_in) => self.run_stand_in(host, stand_in, command),
                None => self.world.shell(host, line),
            };
            self.learn(host, command, &output);
            let difference = differs(&command.shown, &output).filter(|_| !command.shown.is_empty());
            let Some(difference) = difference else { return };
            // A node's status matches the page only after its paths have opened.
            let is_status = line == "byway status" && Instant::now() < until;
            assert!(is_status, "{host}$ {line}\n{difference}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn run_stand_in(&mut self, host: &str, stand_in: StandIn, command: &ConsoleCommand) -> String {
        let key = |unit: &str| (host.to_owned(), unit.to_owned());
        match stand_in {
            StandIn::Start(unit) => {
                if let Some(running) = self.running.remove(&key(&unit)) {
                    running.stop();
                }
                let running = units::start(&self.world, host, &unit);
                self.running.insert(key(&unit), running);
                String::new()
            }
            StandIn::Again(unit) => {
                let running = self.running.get(&key(&unit)).expect("the unit was started");
                units::reload(&self.world, host, &unit, running);
                String::new()
            }
            StandIn::Run { name, line } => {
                let running = units::spawn(&self.world, host, &name, &line);
                self.running.insert(key(&name), running);
                String::new()
            }
            StandIn::LastOfLog(unit) => {
                let log = self.running.get(&key(&unit)).expect("the unit was started").log();
                log.lines().next_back().unwrap_or_default().to_owned()
            }
            StandIn::Reload => stand_ins::verify(&self.world, host),
            StandIn::Impairments(weather) => {
                self.world.set_impairments_towards_bob(weather);
                String::new()
            }
            StandIn::Echo(address) => {
                self.listeners.push(Listener::new(&self.world, host, &address, true));
                String::new()
            }
            StandIn::Ask(address) => stand_ins::ask(&self.world, host, &address, &command.shown),
        }
    }

    /// Records the secrets and keys that a command has made.
    fn learn(&mut self, host: &str, command: &ConsoleCommand, output: &str) {
        for (shown, line) in command.shown.iter().zip(output.lines()) {
            if shown.starts_with("byway1.") {
                self.known.insert(shown.clone(), line.to_owned());
            }
        }
        if output.starts_with("byway1.") && command.shown.is_empty() {
            // The page shows tokens only in later blocks, in the same order.
            let mut shown = self.text.split([' ', '\n', '"']).filter(|word| word.starts_with("byway1."));
            let next = shown.find(|word| !self.known.contains_key(*word)).expect("the page uses each token");
            self.known.insert(next.to_owned(), output.trim().to_owned());
        }
        if let Some(key) = output.lines().find_map(|line| line.strip_prefix("public key: ")) {
            self.keys.insert(host.to_owned(), key.to_owned());
        }
    }

    /// Restarts a unit as a typed command does.
    pub fn start(&mut self, host: &str, unit: &str) {
        let line = format!("sudo systemctl restart {unit}");
        self.type_in(host, &ConsoleCommand { host: None, line, shown: Vec::new() });
    }
}

/// Returns the repository's root.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Reads a file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the headings of a page that have blocks.
pub fn headings(page: &str) -> BTreeSet<String> {
    blocks(page).into_iter().map(|block| block.heading).collect()
}

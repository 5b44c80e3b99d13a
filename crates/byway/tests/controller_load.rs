//! Load of a whole network at one controller: processor time that their polls, reports and
//! prices cost it, and its answers meanwhile. This is a small version; `make scale` has a thousand
//! agents in five thousand pairs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "programs use files and clocks")]
#![allow(clippy::print_stderr, reason = "says what was measured")]

mod controller_attackers;
mod controller_members;
mod support;

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use byway_api::Role;
use controller_members::{LoadingMember, MemberClient, PAIRINGS};
use serde_json::Value;
use support::{App, Bench, Node, ask, byway, path, text};
use tokio::task::JoinHandle;

/// Greatest share of a core that the members may cost the controller.
const SHARE_MAX_PERCENT: f64 = 5.0;

/// Interval of the requests for costs and flows.
const INTERVAL: Duration = Duration::from_millis(500);

/// Longest time of such a request.
const ANSWER_MAX: Duration = Duration::from_secs(1);

struct LoadSize {
    agents: usize,
    relays: usize,
    /// Time until the measurement, in which all members begin to poll and to report.
    settle: Duration,
    time: Duration,
    has_verdict: bool,
}

const SMALL: LoadSize = LoadSize {
    agents: 20,
    relays: 3,
    settle: Duration::from_secs(4),
    time: Duration::from_secs(3),
    has_verdict: false,
};

/// Size of `make scale`: with [`PAIRINGS`] pairs for each agent, five thousand pairs. A poll takes
/// 25 s, and a member reports each 150 s.
const LARGE: LoadSize = LoadSize {
    agents: 1_000,
    relays: 20,
    settle: Duration::from_secs(40),
    time: Duration::from_secs(150),
    has_verdict: true,
};

/// Raises the limit on open files to the system's maximum, at most 16,384, for this process and the
/// controller that it starts.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum.map_or(Some(16_384), |maximum| Some(maximum.min(16_384)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("it may have as many");
}

/// Returns the processor time of a process.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let fields = stat.split(") ").last().expect("fields").split(' ').skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("a number")).sum();
    // The kernel counts in hundredths of a second (USER_HZ).
    Duration::from_millis(ticks * 10)
}

struct Testbed {
    bench: Bench,
    controller: Node,
}

/// Hosts: the controller 9, agents alice 11 and bob 12, bob's application 20.
impl Testbed {
    fn new(size: &LoadSize) -> Self {
        raise_open_files();
        let bench = Bench::new();
        let mut file = format!("[controller]\nlisten = [\"{}\"]\n", bench.at(9, 4_443));
        for relay in 0..size.relays {
            let region = ["eu-central-1", "us-east-1", "ap-south-1"][relay % 3];
            let _ = write!(
                file,
                "[[controller.relays]]\nname = \"relay-{relay}\"\n\
                 prices = {{ provider = \"aws\", region = \"{region}\" }}\n"
            );
        }
        let _ = write!(file, "[observe]\nlisten = \"{}\"\n", bench.at(9, 4_680));
        let file = bench.write("controller.toml", &file);
        let controller = bench.start("controller", &["controller", "--config", path(&file)]);
        Self { bench, controller }
    }

    fn token(&self, role: &str, uses: usize) -> String {
        let (state, uses) = (self.bench.path("controller"), uses.to_string());
        let made = byway(&["token", "create", "--role", role, "--uses", &uses, "--state", path(&state)]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        text(&made.stdout).trim().to_owned()
    }

    /// Starts a real agent.
    fn agent(&self, name: &str, host: u8, token: &str, tables: &str) -> Node {
        let (listen, observe) = (self.bench.at(host, 4_600), self.bench.at(host, 4_680));
        let file = format!(
            "[agent]\nname = \"{name}\"\ntoken = \"{token}\"\nlisten = [\"{listen}\"]\n\
             [observe]\nlisten = \"{observe}\"\n{tables}"
        );
        let file = self.bench.write(&format!("{name}.toml"), &file);
        self.bench.start(name, &["agent", "--config", path(&file)])
    }

    /// Starts two real agents with a flow.
    fn call(&self, token: &str) -> [Node; 2] {
        let (forward, target) = (self.bench.at(11, 5_000), self.bench.at(20, 7));
        support::echo(target);
        let expose = format!("[[expose]]\nname = \"echo\"\ntarget = \"{target}\"\n");
        let forwards = format!("[[forward]]\nlisten = \"{forward}\"\npeer = \"bob\"\nto = \"echo\"\n");
        let agents = [self.agent("bob", 12, token, &expose), self.agent("alice", 11, token, &forwards)];
        App::at(self.bench.at(30, 0)).call(forward);
        agents
    }

    /// Asks the controller for its costs, and an agent for its flows; returns the longer time.
    fn ask(&self, relays: usize) -> Duration {
        let begun = Instant::now();
        let cost: Value = serde_json::from_str(&ask(self.bench.at(9, 4_680), "/v1/cost")).expect("JSON");
        let took = begun.elapsed();
        assert_eq!(cost["relays"].as_array().map(Vec::len), Some(relays), "{cost}");
        let begun = Instant::now();
        let flows: Value = serde_json::from_str(&ask(self.bench.at(11, 4_680), "/v1/flows")).expect("JSON");
        assert_eq!(flows["flows"].as_array().map(Vec::len), Some(1), "{flows}");
        took.max(begun.elapsed())
    }
}

async fn join(
    testbed: &Testbed,
    members: &MemberClient,
    size: &LoadSize,
    tokens: [&str; 2],
) -> Vec<JoinHandle<()>> {
    let begun = Instant::now();
    let relays = members.join(Role::Relay, size.relays, tokens[0]).await;
    let agents = members.join(Role::Agent, size.agents, tokens[1]).await;
    let joined = begun.elapsed();
    members.pair(&agents).await;
    let numbers: Vec<u32> = relays.iter().map(|relay: &LoadingMember| relay.number).collect();
    let mut tasks = members.start(&relays, &numbers);
    tasks.extend(members.start(&agents, &numbers));
    eprintln!(
        "{} agents and {} relays joined in {joined:?}, {} pairs were made in {:?}; processor time of the \
         controller: {:?}",
        size.agents,
        size.relays,
        PAIRINGS * size.agents,
        begun.elapsed().checked_sub(joined).expect("later"),
        processor_time(testbed.controller.process())
    );
    tasks
}

#[test]
fn the_members_of_a_network_cost_its_controller_little_and_all_are_answered() {
    let size = if std::env::var("SCALE").is_ok_and(|size| size == "large") { LARGE } else { SMALL };
    let testbed = Testbed::new(&size);
    let tokens = [testbed.token("relay", size.relays), testbed.token("agent", size.agents + 2)];
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let members = MemberClient::new(testbed.bench.at(9, 4_443), controller_attackers::tls());
    let tasks = runtime.block_on(join(&testbed, &members, &size, [&tokens[0], &tokens[1]]));
    let _agents = testbed.call(&tokens[1]);
    std::thread::sleep(size.settle);
    let requests = &members.requests;
    let counts = || {
        [&requests.maps, &requests.unchanged, &requests.reports, &requests.failed]
            .map(|count| count.load(Ordering::Relaxed))
    };
    let (begun, before) = (Instant::now(), counts());
    let processor_before = processor_time(testbed.controller.process());
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < size.time {
        slowest = slowest.max(testbed.ask(size.relays));
        std::thread::sleep(INTERVAL);
    }
    let (processor, elapsed) = (processor_time(testbed.controller.process()), begun.elapsed());
    let percent = processor.saturating_sub(processor_before).as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    let after = counts();
    let [maps, unchanged, reports, failed] = std::array::from_fn(|kind| after[kind] - before[kind]);
    eprintln!(
        "in {elapsed:?}: {maps} maps, {unchanged} polls without one, {reports} reports, {failed} failed; \
         {percent:.2} % of a core; slowest answer on costs or flows {slowest:?}"
    );
    assert_eq!(failed, 0);
    assert!(!tasks.iter().any(JoinHandle::is_finished), "each request has an answer in time");
    assert!(after[0] >= (size.agents + size.relays) as u64, "as many maps as members: {after:?}");
    assert!(after[2] >= (size.agents + size.relays) as u64, "as many reports as members: {after:?}");
    assert!(slowest <= ANSWER_MAX, "{slowest:?}");
    assert!(!size.has_verdict || percent <= SHARE_MAX_PERCENT, "{percent:.2} % of a core");
    assert!(!size.has_verdict || unchanged + maps >= 5_500, "members poll: {unchanged} and {maps}");
}

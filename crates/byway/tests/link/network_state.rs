//! A link that reports to a controller, and an application that reads its state there.

use std::cell::Cell;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::bench::{AttachedLink, Bench, TIMEOUT};
use super::send;

/// Ends of the path, of which the first belongs to the tenant.
const ENDS: [&str; 2] = ["10.1.0.1", "10.1.0.2"];

/// Bytes of the IP packets that the test sends: 400 of payload, and headers of UDP and IPv4.
const IP_BYTES: u64 = 400 + 8 + 20;

/// Controller in the link's network namespace, with an application's token.
struct StateController<'a> {
    bench: &'a Bench,
    folder: tempfile::TempDir,
    application: String,
    _process: AttachedLink,
}

impl<'a> StateController<'a> {
    /// Starts a controller of one path with the link `core-1`; `None` without curl.
    fn start(bench: &'a Bench) -> Option<Self> {
        if !Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no curl (Debian: apt install curl)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (file, state) = (folder.path().join("controller.toml"), folder.path().join("controller"));
        let [from, to] = ENDS;
        let text = format!(
            "[controller]\nlisten = [\"127.0.0.1:4443\"]\nstate = \"{}\"\n\
             [[controller.networks]]\ntenant = \"lab\"\nprefixes = [\"{from}/32\"]\n\
             [[controller.links]]\nname = \"core-1\"\n\
             [[controller.paths]]\nfrom = \"{from}/32\"\nto = \"{to}/32\"\nlinks = [\"core-1\"]\n\
             [observe]\nlisten = \"127.0.0.1:4680\"\n",
            state.display()
        );
        std::fs::write(&file, text).expect("the folder takes files");
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.arg("controller").arg("--config").arg(&file);
        let process = bench.start(command, "controller started");
        let mut controller = Self { bench, folder, application: String::new(), _process: process };
        controller.application = controller.token(&["--role", "application", "--tenant", "lab"]);
        Some(controller)
    }

    /// Creates a token.
    fn token(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command
            .args(["token", "create"])
            .args(words)
            .arg("--state")
            .arg(self.folder.path().join("controller"));
        let output = self.bench.machine.run(move || command.output().expect("it starts"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Sends a request of the application, and returns the answer.
    fn ask(&self, path: &str, body: Option<&Value>) -> Value {
        let mut command = Command::new("curl");
        command.args(["-sS", "-k", "-H", &format!("Authorization: Bearer {}", self.application)]);
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        command.arg(format!("https://127.0.0.1:4443{path}")).stdin(Stdio::null());
        let output = self.bench.machine.run(move || command.output().expect("there is a curl"));
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{path}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Asks for the path's state until it is as expected, and returns it.
    fn state_when(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let answer = self.ask(&format!("/v1/state?from={}&to={}", ENDS[0], ENDS[1]), None);
            // Beyond the rate limit, there is an error instead of paths.
            if answer["paths"].is_array() && is_expected(&answer["paths"][0]) {
                return answer["paths"][0].clone();
            }
            assert!(Instant::now() < until, "it stays {answer}");
        }
    }
}

/// Returns the link in the newest entry of a path's state; `null` without entries.
fn newest(state: &Value) -> Value {
    state["entries"]
        .as_array()
        .and_then(|entries| entries.last())
        .map_or(Value::Null, |entry| entry["links"][0].clone())
}

/// Sum of the sent bytes of all entries so far, in the published form.
#[derive(Default)]
struct PublishedSum {
    last: Cell<u64>,
    bytes: Cell<u64>,
}

impl PublishedSum {
    fn read(&self, controller: &StateController<'_>) {
        let [from, to] = ENDS;
        let answer = controller.ask(&format!("/stats/{from}/{to}/{}/100/", self.last.get()), None);
        for entry in answer.as_array().into_iter().flatten() {
            let index = entry[0].as_u64().expect("an index");
            let last = self.last.replace(index);
            assert!(last == 0 || index == last + 1, "no entry is missing");
            self.bytes.set(self.bytes.get() + entry[2][1].as_u64().expect("sent bytes"));
        }
    }
}

#[test]
fn a_link_reports_what_a_registered_flow_sends_until_it_is_killed() {
    let Some(bench) = Bench::new() else { return };
    let Some(controller) = StateController::start(&bench) else { return };
    let membership = controller.folder.path().join("link");
    let token = controller.token(&["--role", "link"]);
    let words = [
        &["v0", "--rate", "10 Mbit/s", "--share", "flows", "--registered", "--propagation", "7 ms"][..],
        &["--controller", &token, "--link", "core-1", "--membership"],
        &[membership.to_str().expect("text")],
    ]
    .concat();
    let attached = bench.attach(&words);
    let flows = bench.flows(0, &ENDS[1..], 1);
    let port = flows[0].0.local_addr().expect("it is bound").port();
    let tuple =
        json!({"from": format!("{}:{port}", ENDS[0]), "to": format!("{}:9", ENDS[1]), "protocol": "udp"});
    let lease = controller.ask("/v1/state/leases", Some(&json!({"application": "test", "tuples": [tuple]})));
    assert_eq!(lease["expires_in_s"], 60, "{lease}");
    controller.state_when(|state| newest(state)["interval_us"].as_u64() > Some(0));
    let sum = PublishedSum::default();
    sum.read(&controller);
    assert_eq!(sum.bytes.get(), 0, "nothing has been sent");

    // The controller has named the flow, so it is interactive without a DSCP.
    bench.status_when(|status| {
        send(&flows);
        sum.read(&controller);
        status["low_delay"]["flows"] == 1
    });
    let state = controller.state_when(|state| {
        send(&flows);
        sum.read(&controller);
        newest(state)["flows"] == json!([1, 0]) && newest(state)["interval_us"].as_u64() > Some(0)
    });
    let link = newest(&state);
    let number = |name: &str| link[name].as_u64().unwrap_or_else(|| panic!("{name} is not in {link}"));
    assert_eq!((number("delay_us"), number("target_bytes")), (7_000, 1_500));
    assert!(number("age_us") < 2_000_000, "{link}");
    // 98 % of the link, without the headers of frames: 14 of 442 to 1,514 bytes.
    let shown = number("shown_bits_per_second");
    assert!((9_300_000..=9_710_000).contains(&shown), "{link}");
    assert!(number("guaranteed_bits_per_second") <= shown, "{link}");
    let status = bench.status();
    let sent = status["low_delay"]["sent_packets"].as_u64().expect("a number");
    assert_eq!(status["low_delay"]["sent_bytes"], sent * (IP_BYTES + 14));
    let until = Instant::now() + TIMEOUT;
    while sum.bytes.get() < sent * IP_BYTES {
        assert!(Instant::now() < until, "{} of {sent} packets", sum.bytes.get() / IP_BYTES);
        sum.read(&controller);
    }
    assert_eq!(sum.bytes.get(), sent * IP_BYTES);
    let status = bench.status();
    let reports = &status["network_state"];
    assert_eq!(
        (&reports["state"], &reports["registered_flows"]),
        (&json!("reporting"), &json!(1)),
        "{status}"
    );
    assert!(bench.expect_success(&["status", "v0"]).contains("network state of core-1: reporting"));
    check_outages(&bench, &controller, attached, &words);
}

/// Kills the link, attaches it again, and lets another program displace it.
fn check_outages(bench: &Bench, controller: &StateController<'_>, attached: AttachedLink, words: &[&str]) {
    attached.signal(Signal::KILL);
    attached.ended();
    let state = controller.state_when(|state| newest(state)["interval_us"] == 0);
    assert_eq!(newest(&state)["backlog_bytes"], 0, "{state}");
    // Old entries last for 5 s.
    controller.state_when(|state| state["silent_link"] == "core-1" && newest(state).is_null());
    // The token was for one node. The membership is stored.
    let _again = bench.attach(words);
    controller.state_when(|state| newest(state)["interval_us"].as_u64() > Some(0));
    bench.shell("tc qdisc del dev v0 root");
    let status = bench.status_when(|status| status["network_state"]["state"] == "paused");
    assert_eq!(status["state"], "displaced");
    controller.state_when(|state| newest(state)["interval_us"] == 0);
}

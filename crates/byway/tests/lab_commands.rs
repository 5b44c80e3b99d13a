//! Programs in a lab, as processes. Skipped if the kernel refuses namespaces to this process.

#![allow(
    clippy::disallowed_methods,
    reason = "the program reads files that are written here, and is waited for"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Scenario of two machines, a service and three shell tasks.
const COMMANDS: &str = r#"
title = "Programs"
length = "1500 ms"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
]
link = [
    { between = ["alice", "bob"], delay = "5 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "10 ms", bytes = 500, begin = "100 ms", end = "500 ms" } },
]

[[command]]
name = "server"
node = "bob"
kind = "service"
run = ["sh", "{folder}/serve.sh"]
ready = "output:serves"
files = { "serve.sh" = "trap 'echo ends > ended; exit 3' TERM\necho \"serves $WHAT\"\nwhile :; do sleep 0.05; done" }
environment = { WHAT = "{address:bob}", BYWAY_NO_SETTING = "passed on" }

[[command]]
name = "tell"
node = "alice"
run = ["sh", "-c", 'echo hello; echo "{\"sum\": $((20 + 22)), \"name\": \"x\"}"']
at = "200 ms"

[[expect]]
command = "tell"
measure = "sum"
at_least = 42

[[expect]]
flow = "call"
measure = "sent"
at_least = "40"
"#;

fn byway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byway")).args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn write_scenario(folder: &Path, scenario: &str) -> String {
    let file = folder.join("scenario.toml");
    std::fs::write(&file, scenario).expect("space on the disk");
    file.display().to_string()
}

/// Runs a lab; `None` if this machine cannot run one, or is too busy for it.
fn lab(arguments: &[&str]) -> Option<Output> {
    let output = byway(arguments);
    let message = text(&output.stderr);
    if output.status.code() == Some(3)
        && (message.contains("need root") || message.contains("the run is void"))
    {
        eprintln!("skipped: {message}");
        return None;
    }
    Some(output)
}

/// Returns the scenario with another text in place of a part.
fn with(part: &str, instead: &str) -> String {
    assert!(COMMANDS.contains(part), "{part}");
    COMMANDS.replacen(part, instead, 1)
}

#[test]
fn programs_run_in_their_machines_and_tell_what_they_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    let (file, keep) = (write_scenario(folder.path(), COMMANDS), kept.display().to_string());
    let Some(output) = lab(&["lab", "run", &file, "--json", "--keep", &keep]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [server, tell] = outcome["commands"].as_array().expect("a list").as_slice() else {
        panic!("{outcome}")
    };
    assert_eq!((&server["node"], &server["exit"]), (&"bob".into(), &serde_json::Value::Null));
    assert_eq!((&tell["exit"], &tell["measures"]), (&0.into(), &serde_json::json!({ "sum": 42.0 })));
    assert_eq!(outcome["expectations"].as_array().map(Vec::len), Some(2), "{outcome}");
    let read = |name: &str| std::fs::read_to_string(kept.join("commands").join(name)).expect(name);
    assert_eq!(read("server.stdout"), "serves 10.77.0.2\n");
    assert_eq!(read("server/ended"), "ends\n", "it was asked to end, and had time for it");
    assert!(read("tell.stdout").starts_with("hello\n"));
    let again = byway(&["lab", "run", &file, "--keep", &keep]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("not empty: name"), "{}", text(&again.stderr));
}

#[test]
fn without_byway_the_same_programs_and_flows_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), COMMANDS);
    let Some(output) = lab(&["lab", "run", &file, "--json", "--bare"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let call = &outcome["flows"][0];
    assert_eq!((&call["delivered"], &call["missing"]), (&40.into(), &0.into()), "{outcome}");
    assert_eq!(outcome["world"], "bare");
    // The path has no other packets: neither handshakes nor probes.
    let sent: u64 =
        outcome["nodes"].as_array().into_iter().flatten().filter_map(|node| node["sent"].as_u64()).sum();
    assert!((40..60).contains(&sent), "{outcome}");
}

#[test]
fn worlds_stand_side_by_side_and_what_machines_sent_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), &COMMANDS.replace("length = \"1500 ms\"", "length = \"1 s\""));
    let Some(output) = lab(&["lab", "compare", &file, "--json"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("run 3 of 3: seed 1, byway"), "{}", text(&output.stderr));
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |name: &str| {
        let measures = compared["measures"].as_array().expect("a list");
        measures
            .iter()
            .find(|measure| measure["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {compared}"))
            .clone()
    };
    for world in ["bare", "without_relays", "byway"] {
        assert_eq!(
            (of("tell: sum")[world].as_f64(), of("call: sent")[world].as_f64()),
            (Some(42.0), Some(40.0))
        );
    }
    let agents = of("agents: lost on direct paths");
    assert!(agents["bare"].is_null() && agents["byway"] == 0.0, "{agents}");
    let captures = folder.path().join("captures");
    let into = captures.display().to_string();
    let Some(output) = lab(&["lab", "run", &file, "--bare", "--capture", &into]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for machine in ["alice", "bob"] {
        let capture = std::fs::read(captures.join(format!("{machine}.pcapng"))).expect("a capture");
        // The capture has 40 datagrams of 500 bytes, with their headers.
        assert!((20_000..40_000).contains(&capture.len()), "{}", capture.len());
    }
    let again = byway(&["lab", "run", &file, "--capture", &into]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
}

#[test]
fn without_flows_programs_run_over_links_with_classes_and_are_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = COMMANDS.split("flow = [").next().expect("its beginning").replace(
        "delay = \"5 ms\"",
        "delay = \"5 ms\", name = \"middle\", rate = \"4 Mbit/s\", classes = { kind = \"priority\", dscp = [0] }",
    );
    let program = "[[command]]\nname = \"tell\"\nnode = \"alice\"\nat = \"200 ms\"\n\
                   run = [\"sh\", \"-c\", \"exec perl -MSocket -e 'socket(my $s, PF_INET, SOCK_DGRAM, 17); \
                   my $to = sockaddr_in(9, inet_aton(shift)); send($s, q(x) x 1000, 0, $to) for 1 .. 3; print qq({\\\"ok\\\": 1}\\\\n)' {address:bob}\"]\n";
    let expect = |most: &str| {
        format!("[[expect]]\nlink = \"middle\"\nmeasure = \"low-delay-sojourn-max\"\nat_most = \"{most}\"\n")
    };
    // Packet 3 waits for two of 1,028 bytes, which take 2 ms each.
    let file = write_scenario(
        folder.path(),
        &format!("{scenario}\n{program}\n{}\n{}", expect("10 ms"), expect("1 ms")),
    );
    let Some(output) = lab(&["lab", "run", &file, "--json"]) else { return };
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&outcome["world"], &outcome["links"][0]["name"]), (&"bare".into(), &"middle".into()));
    let met = |nth: usize| outcome["expectations"][nth]["is_met"].as_bool();
    assert_eq!((met(0), met(1)), (Some(true), Some(false)), "{outcome}");
    let Some(output) = lab(&["lab", "compare", &file]) else { return };
    let message = text(&output.stderr);
    assert!(output.status.success() && message.contains("run 1 of 1: seed 1, bare"), "{message}");
}

#[test]
fn what_is_not_as_expected_and_what_fails_has_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    for (part, instead, words) in [
        ("at_least = 42", "at_least = 43", "expectations not met"),
        ("echo hello;", "echo hello; echo all is lost >&2; exit 7;", "all is lost"),
        ("echo hello;", "kill -9 $$;", "task tell failed (exit status: 137)"),
        ("echo hello;", "sleep 60;", "task tell did not end within 1.3 s"),
        ("while :; do sleep 0.05; done", "exit 0", "service server ended"),
    ] {
        let file = write_scenario(folder.path(), &with(part, instead));
        // Without Byway, expectations are not judged.
        let world = if part.starts_with("at_least") { "--json" } else { "--bare" };
        let Some(output) = lab(&["lab", "run", &file, world]) else { return };
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(6) && message.contains(words), "{instead}: {message}");
    }
}

#[test]
fn what_is_wrong_with_commands_is_said_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    for (part, instead, code, words) in [
        (
            "run = [\"sh\", \"-c\"",
            "run = [\"no-such-program\", \"-c\"",
            3,
            "scenario.toml:24: command[1]: run: program",
        ),
        (
            "run = [\"sh\", \"-c\"",
            "run = [\"nginx-light/nginx\", \"-c\"",
            3,
            "write {here}/nginx-light/nginx",
        ),
        ("{address:bob}", "{place:bob}", 2, "is not one of {address:MACHINE}"),
        (
            "kind = \"steady\", every = \"10 ms\", bytes = 500, begin = \"100 ms\", end = \"500 ms\"",
            "kind = \"command\", listen = \"127.0.0.1:4600\", target = \"127.0.0.1:53\"",
            2,
            "port 4600 is reserved",
        ),
    ] {
        let output = byway(&["lab", "run", &write_scenario(folder.path(), &with(part, instead))]);
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(code) && message.contains(words), "{instead}: {message}");
    }
}

#[test]
fn virtual_time_passes_over_commands_and_refuses_what_programs_send() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), COMMANDS);
    let output = byway(&["sim", "run", &file]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("ignoring 2 commands") && message.contains("are not judged"), "{message}");
    let sends = "kind = \"steady\", every = \"10 ms\", bytes = 500, begin = \"100 ms\", end = \"500 ms\"";
    let file = write_scenario(
        folder.path(),
        &with(sends, "kind = \"command\", listen = \"127.0.0.1:5000\", target = \"127.0.0.1:53\""),
    );
    assert_eq!(byway(&["sim", "check", &file]).status.code(), Some(0));
    let output = byway(&["sim", "run", &file]);
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("use byway lab run"), "{message}");
}

/// Counts the processes with this text in their command line.
fn alive(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("the kernel tells it").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

/// Waits until the number of processes with this text is right, for a bounded time.
fn wait_for(marker: &str, is_enough: impl Fn(usize) -> bool, lab: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_enough(alive(marker)) {
        if Instant::now() > until || lab.try_wait().expect("it is ours").is_some() && alive(marker) == 0 {
            return is_enough(alive(marker));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn however_a_lab_ends_what_its_programs_have_started_ends_too() {
    let folder = tempfile::tempdir().expect("a folder");
    for signal in ["KILL", "TERM"] {
        let marker =
            format!("86400.{}{signal}", std::process::id()).replace("KILL", "1").replace("TERM", "2");
        // This process is in a session of its own, has no living parent and ignores SIGTERM.
        let run =
            format!("run = [\"sh\", \"-c\", \"trap '' TERM; (setsid sleep {marker} &); sleep {marker}; :\"]");
        let scenario = with("run = [\"sh\", \"{folder}/serve.sh\"]\nready = \"output:serves\"", &run);
        let file =
            write_scenario(folder.path(), &scenario.replace("length = \"1500 ms\"", "length = \"60 s\""));
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.args(["lab", "run", &file, "--bare"]).stderr(Stdio::piped());
        let mut lab = command.spawn().expect("it starts");
        if !wait_for(&format!("sleep\0{marker}"), |count| count == 2, &mut lab) {
            let output = lab.wait_with_output().expect("it has ended");
            let message = text(&output.stderr);
            assert!(message.contains("need root"), "{message}");
            eprintln!("skipped: {message}");
            return;
        }
        let killed = Command::new("kill").args([format!("-{signal}"), lab.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        lab.wait().expect("it is ours");
        assert!(
            wait_for(&marker, |count| count == 0, &mut lab),
            "SIG{signal} leaves {} processes",
            alive(&marker)
        );
    }
}

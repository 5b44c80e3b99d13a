use super::*;
use crate::{Lifecycle, ReadinessCheck, Template};

/// A valid scenario.
const RIGHT: &str = r#"title = "A call"
length = "10 s"

[[node]]
name = "alice"
role = "agent"
count = 2

[[node]]
name = "bob"
role = "agent"
count = 2

[[node]]
name = "east"
role = "relay"

[[link]]
between = ["alice", "bob"]
delay = "40 ms"

[[link]]
between = ["alice", "east"]
delay = "10 ms"

[[link]]
between = ["bob", "east"]
delay = "30 ms"

[[flow]]
name = "call"
from = "alice"
to = "bob"

[flow.sends]
kind = "steady"
every = "10 ms"
bytes = 500

[[step]]
at = "5 s"
do = "stop"
node = "east"

[[expect]]
flow = "call"
measure = "missing"
at_most = "0"
"#;

fn parse(text: &str) -> Result<Scenario, Problem> {
    Scenario::parse(text)
}

/// Returns the problem of the valid scenario with one text line replaced.
fn problem(line: &str, instead: &str) -> String {
    assert!(RIGHT.contains(line), "{line}");
    parse(&RIGHT.replacen(line, instead, 1)).expect_err(instead).to_string()
}

#[test]
fn a_right_scenario_is_understood() {
    let scenario = parse(RIGHT).expect("it is right");
    assert_eq!(scenario.node_names().collect::<Vec<_>>(), ["alice.1", "alice.2", "bob.1", "bob.2", "east"]);
    let ends: Vec<_> = scenario.links.iter().map(|link| (link.from, link.to)).collect();
    assert_eq!(ends, [(0, 2), (1, 3), (0, 4), (1, 4), (2, 4), (3, 4)], "in pairs, and each with the one");
    let flows: Vec<_> =
        scenario.flows.iter().map(|flow| (flow.from, flow.to, flow.number.number())).collect();
    assert_eq!(flows, [(0, 2, 1), (1, 3, 1)]);
    assert_eq!((scenario.seed(), scenario.length().as_millis()), (1, 10_000));
}

/// Asserts that with one text line replaced, the problem names this location and contains these
/// words.
fn is_named((line, instead, location, words): (&str, &str, &str, &str)) {
    let message = problem(line, instead);
    assert!(message.contains(location) && message.contains(words), "{instead}: {message}");
}

#[test]
fn what_is_wrong_with_machines_is_named_with_its_place_and_a_remedy() {
    for wrong in [
        ("length = \"10 s\"", "length = \"10\"", "scenario.toml:2", "as in \"200 ms\""),
        ("length = \"10 s\"", "length = \"0 s\"", "scenario.toml:2: length", "more than 0 s"),
        ("length = \"10 s\"", "length = \"2 d\"", "scenario.toml:2: length", "at most"),
        ("name = \"alice\"", "name = \"a b\"", "scenario.toml:5: node[0].name", "use letters"),
        ("name = \"bob\"", "name = \"alice\"", "scenario.toml:10: node[1].name", "duplicate name"),
        ("role = \"relay\"", "role = \"server\"", "scenario.toml:16", "`agent`, `relay`, `router`"),
        ("count = 2", "follows_up = true", "scenario.toml:7: node[0].follows_up", "only relays follow up"),
        ("count = 2", "transit = true", "scenario.toml:7: node[0].transit", "only relays pass on"),
        ("count = 2", "count = 0", "scenario.toml:7: node[0].count", "1 to"),
        ("count = 2", "count = 3", "scenario.toml:19: link[0].between", "use as many of both"),
        (
            "between = [\"alice\", \"bob\"]",
            "between = [\"carol\", \"bob\"]",
            "scenario.toml:19",
            "one of alice, bob, east",
        ),
        ("between = [\"alice\", \"bob\"]", "between = [\"alice.3\", \"bob\"]", "scenario.toml:19", "from 1"),
        (
            "between = [\"alice\", \"bob\"]",
            "between = [\"alice\", \"alice\"]",
            "scenario.toml:19",
            "with itself",
        ),
        (
            "between = [\"alice\", \"bob\"]",
            "from = \"alice\"",
            "scenario.toml:18: link[0]",
            "`from` and `to`",
        ),
    ] {
        is_named(wrong);
    }
}

#[test]
fn what_is_wrong_with_links_is_named_with_its_place_and_a_remedy() {
    for wrong in [
        ("delay = \"40 ms\"", "delay = \"-40 ms\"", "scenario.toml:20", "as in \"200 ms\""),
        ("delay = \"40 ms\"", "queue = \"9 kB\"", "scenario.toml:20: link[0].queue", "`rate`"),
        ("delay = \"40 ms\"", "delay = \"18446744073 s\"", "link[0].delay", "at most 60 s"),
        (
            "between = [\"bob\", \"east\"]",
            "between = [\"east\", \"alice\"]",
            "scenario.toml:26: link[2]",
            "duplicate link",
        ),
        (
            "delay = \"40 ms\"",
            "rate = { one_of = [\"1 Mbit/s\", \"0 bit/s\"] }",
            "scenario.toml:20: link[0].rate",
            "outage",
        ),
        ("delay = \"40 ms\"", "rate = \"0 bit/s\"", "scenario.toml:20: link[0].rate", "outage"),
        ("delay = \"40 ms\"", "detours = \"1 %\"", "scenario.toml:18: link[0]", "set both `detours`"),
        ("delay = \"40 ms\"", "loss = [{ burst = 3.0 }]", "scenario.toml:20: link[0].loss[0]", "{ share }"),
        (
            "delay = \"40 ms\"",
            "loss = [{ share = \"50 %\", burst = 1.5, every = \"10 ms\" }]",
            "scenario.toml:20: link[0].loss[0].burst",
            "more than 1 / (1 - loss)",
        ),
        (
            "delay = \"40 ms\"",
            "loss = [{ trace = \"absent.txt\", every = \"10 ms\" }]",
            "scenario.toml:20: link[0].loss[0].trace",
            "in the scenario's folder",
        ),
        (
            "delay = \"40 ms\"",
            "loss = [{ good = { share = \"0 %\", for = \"1 s\" } }]",
            "scenario.toml:20: link[0].loss[0]",
            "`good` and `bad`",
        ),
        (
            "delay = \"40 ms\"",
            "outage = [{ at = \"1 s\", for = \"1 s\", link = 3 }]",
            "scenario.toml:20: link[0].outage[0].link",
            "1 to 2",
        ),
    ] {
        is_named(wrong);
    }
}

#[test]
fn what_is_wrong_with_flows_and_what_happens_is_named_with_its_place_and_a_remedy() {
    for wrong in [
        ("from = \"alice\"", "from = \"east\"", "scenario.toml:32: flow[0].from", "name an agent"),
        ("to = \"bob\"", "to = \"alice\"", "scenario.toml:33: flow[0].to", "same machine as `from`"),
        (
            "to = \"bob\"",
            "to = \"bob\"\nvia = [\"alice.1\", \"east\"]",
            "scenario.toml:34: flow[0].via",
            "name a relay",
        ),
        ("to = \"bob\"", "to = \"bob\"\nservice = \"best\"", "scenario.toml:34", "`internet`, `coding`"),
        ("bytes = 500", "bytes = 5", "scenario.toml:38: flow[0].sends.bytes", "16 to 1354"),
        ("bytes = 500", "", "scenario.toml:35: flow[0].sends", "set `bytes`"),
        ("bytes = 500", "bytes = 500\non = \"1 s\"", "scenario.toml:39: flow[0].sends.on", "omit it"),
        ("every = \"10 ms\"", "every = \"0 s\"", "scenario.toml:37: flow[0].sends.every", "too short"),
        ("every = \"10 ms\"", "every = \"20 s\"", "flow[0].sends", "a longer time"),
        ("to = \"bob\"", "to = \"bob\"\nbudget = \"2 min\"", "flow[0].budget", "at most 60 s"),
        ("every = \"10 ms\"", "every = \"10 ms\"\nend = \"11 s\"", "flow[0].sends", "within the 10 s"),
        ("kind = \"steady\"", "kind = \"frames\"", "scenario.toml:35: flow[0].sends", "set `packets`"),
        ("kind = \"steady\"", "kind = \"on-off\"", "scenario.toml:35: flow[0].sends", "set `on`"),
        ("node = \"east\"", "", "scenario.toml:40: step[0]", "`node`, or links `between` two"),
        ("node = \"east\"", "between = [\"alice\", \"bob\"]", "step[0].do", "name them by `node`"),
        ("do = \"stop\"", "do = \"cut\"", "step[0].do", "name them by `between`"),
        ("do = \"stop\"", "do = \"stop\"\ndelay = \"1 s\"", "step[0].do", "`change` requires"),
        (
            "do = \"stop\"\nnode = \"east\"",
            "do = \"change\"\nrate = \"0 bit/s\"\nbetween = [\"alice\", \"bob\"]",
            "step[0].rate",
            "cut the links",
        ),
        (
            "do = \"stop\"\nnode = \"east\"",
            "do = \"cut\"\nbetween = [\"alice.1\", \"bob.2\"]",
            "step[0].between",
            "no link between these",
        ),
        ("at = \"5 s\"", "at = \"11 s\"", "scenario.toml:41: step[0].at", "after the end"),
        ("flow = \"call\"", "flow = \"talk\"", "scenario.toml:46: expect[0].flow", "one of call"),
        ("at_most = \"0\"", "at_most = \"none\"", "scenario.toml:48: expect[0].at_most", "as in \"12\""),
        ("at_most = \"0\"", "", "scenario.toml:45: expect[0]", "`at_least` or `at_most`"),
        ("measure = \"missing\"", "measure = \"luck\"", "scenario.toml:47", "`repaired-within-rtt`"),
    ] {
        is_named(wrong);
    }
}

#[test]
fn what_is_wrong_with_transfers_is_named_with_its_place_and_a_remedy() {
    let sends = "kind = \"steady\"\nevery = \"10 ms\"\nbytes = 500";
    let fetches = "kind = \"fetches\"\nrequest = 12\nresponse = 50_000";
    assert!(parse(&RIGHT.replacen(sends, fetches, 1)).is_ok_and(|scenario| scenario.flows.len() == 4));
    for (instead, location, words) in [
        ("kind = \"fetches\"", "scenario.toml:35: flow[0].sends", "set `request` and `response`"),
        ("kind = \"fetches\"\nrequest = 0\nresponse = 1", "scenario.toml:37: flow[0].sends.request", "is 0"),
        ("kind = \"fetches\"\nrequest = 1\nresponse = 1\nevery = \"1 s\"", "flow[0].sends.every", "omit it"),
        ("kind = \"fetches\"\nrequest = 1\nresponse = 1\npause = \"2 d\"", "flow[0].sends.pause", "at most"),
        ("kind = \"bulk\"\nbytes = 0", "scenario.toml:37: flow[0].sends.bytes", "is 0"),
        ("kind = \"bulk\"\nend = \"3 s\"", "scenario.toml:37: flow[0].sends.end", "omit it"),
        ("kind = \"bulk\"\nsegment = 1400", "scenario.toml:37: flow[0].sends.segment", "64 to 1318"),
        ("kind = \"bulk\"\nrate = \"0 bit/s\"", "scenario.toml:37: flow[0].sends.rate", "is 0"),
        ("kind = \"bulk\"\nfirst_timeout = \"1 ms\"", "flow[0].sends.first_timeout", "200 ms to 60 s"),
        ("kind = \"bulk\"\nalgorithm = \"bbr\"", "scenario.toml:37", "`cubic` or `newreno`"),
        ("kind = \"bulk\"\nbegin = \"11 s\"", "scenario.toml:35: flow[0].sends", "within the 10 s"),
    ] {
        is_named((sends, instead, location, words));
    }
    is_named((
        "to = \"bob\"",
        "to = \"bob\"\ncopies = \"syn\"",
        "scenario.toml:34: flow[0].copies",
        "only allowed for TCP",
    ));
    is_named((
        "to = \"bob\"",
        "to = \"bob\"\nback = {}",
        "scenario.toml:34: flow[0].back",
        "only allowed for TCP",
    ));
    is_named((
        "delay = \"40 ms\"",
        "loss = [{ first = \"1 %\" }]",
        "scenario.toml:20: link[0].loss[0]",
        "`first` and `next`",
    ));
    is_named((
        "delay = \"40 ms\"",
        "loss = [{ first = \"1 %\", next = \"1 %\", share = \"1 %\" }]",
        "scenario.toml:20: link[0].loss[0]",
        "conflicts with other keys",
    ));
}

#[test]
fn unknown_keys_are_errors() {
    let message = problem("delay = \"40 ms\"", "dalay = \"40 ms\"");
    assert!(
        message.starts_with("scenario.toml:20: unknown field `dalay`") && message.contains("`delay`"),
        "{message}"
    );
}

#[test]
fn numbers_out_of_their_range_are_named_with_what_is_allowed() {
    for wrong in [
        ("delay = \"40 ms\"", "delay = \"-40 ms\"", "scenario.toml:20: ", "in this line: delay = \"-40 ms\""),
        (
            "delay = \"40 ms\"",
            "jitter = \"-1 ms\"",
            "scenario.toml:20: ",
            "write a number and us, ms, s, min, h or d",
        ),
        (
            "delay = \"40 ms\"",
            "rate = \"0 bit/s\"",
            "scenario.toml:20: link[0].rate",
            "set more, or an outage",
        ),
        (
            "delay = \"40 ms\"",
            "rate = { from = \"0 bit/s\", to = \"1 Mbit/s\" }",
            "scenario.toml:20: link[0].rate",
            "is 0",
        ),
        (
            "delay = \"40 ms\"",
            "rate = \"1 Mbit/s\"\nqueue = \"0 B\"",
            "scenario.toml:21: link[0].queue",
            "0 B is less than one packet: at least 1.5 kB",
        ),
        (
            "delay = \"40 ms\"",
            "rate = \"1 Mbit/s\"\nqueue = \"1499 B\"",
            "scenario.toml:21: link[0].queue",
            "at least 1.5 kB",
        ),
        ("delay = \"40 ms\"", "loss = [{ share = \"101 %\" }]", "scenario.toml:20: ", "from 0 to 100 and %"),
        ("delay = \"40 ms\"", "corruption = \"100.1 %\"", "scenario.toml:20: ", "in this line: corruption"),
        ("delay = \"40 ms\"", "loss = [{ share = \"-1 %\" }]", "scenario.toml:20: ", "from 0 to 100 and %"),
    ] {
        is_named(wrong);
    }
}

#[test]
fn machines_that_are_not_there_are_named_wherever_they_stand() {
    let known = "one of alice, bob, east";
    for wrong in [
        (
            "between = [\"alice\", \"bob\"]",
            "from = \"alice\"\nto = \"carol\"",
            "scenario.toml:20: link[0].to",
            known,
        ),
        (
            "between = [\"alice\", \"bob\"]",
            "from = \"carol\"\nto = \"bob\"",
            "scenario.toml:19: link[0].from",
            known,
        ),
        ("to = \"bob\"", "to = \"carol\"", "scenario.toml:33: flow[0].to", known),
        ("to = \"bob\"", "to = \"bob\"\nvia = [\"east\", \"west\"]", "scenario.toml:34: flow[0].via", known),
        ("node = \"east\"", "node = \"west\"", "scenario.toml:43: step[0].node", known),
    ] {
        is_named(wrong);
    }
}

/// Reads the valid scenario with one text line replaced, which may name a file with this text.
fn read(line: &str, instead: &str, text: &str) -> Result<Scenario, Problem> {
    assert!(RIGHT.contains(line), "{line}");
    let scenario = RIGHT.replacen(line, instead, 1);
    Scenario::read(Path::new("folder/call.toml"), &|file| match file.to_str() {
        Some("folder/call.toml") => Ok(scenario.clone()),
        Some("folder/recorded.txt") => Ok(text.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
}

#[test]
fn recordings_are_read_and_checked() {
    let (link, sends) = ("delay = \"40 ms\"", "kind = \"steady\"\nevery = \"10 ms\"\nbytes = 500");
    let loss =
        (link, "loss = [{ trace = \"recorded.txt\", every = \"10 ms\" }]", "20: link[0].loss[0].trace");
    let capacity = (link, "capacity = \"recorded.txt\"", "20: link[0].capacity");
    let delays =
        (link, "delays = { trace = \"recorded.txt\", every = \"20 ms\" }", "20: link[0].delays.trace");
    let sent = (link, "delays = { trace = \"recorded.txt\", late = \"50 ms\" }", "20: link[0].delays.trace");
    let frames = "kind = \"frames\"\nevery = \"40 ms\"\nbytes = 500\nfile = \"recorded.txt\"";
    let frames = (sends, frames, "39: flow[0].sends.file");
    for ((line, instead, location), right, wrong) in [
        (loss, "0001\n0110\n", [("00\n12", "line 2 of the loss trace has '2'"), ("\n", "no slots")]),
        (capacity, "1\n1\n20\n", [("1\nx\n", "line 2 is no time"), ("\n", "no lines")]),
        (
            delays,
            "41.2\nlost\n",
            [("41.2\n-3\n", "folder/recorded.txt: line 2 is no delay: \"-3\""), ("\n", "no lines")],
        ),
        (
            delays,
            "41.2\nlost\n",
            [
                ("lost\n", "its packets (1) are all lost"),
                ("60001", "folder/recorded.txt: line 1 has a delay of 60.001 s: at most 60 s"),
            ],
        ),
        (sent, "0 41.2\n30 lost\n", [("0 41.2\n-1 3\n", "line 2 is no delay"), ("0 51\n", "are all lost")]),
        (frames, "4000 I\n300 P\n", [("4000 I\n300 Q\n", "line 2: invalid frame"), ("\n", "empty file")]),
    ] {
        assert!(read(line, instead, right).is_ok(), "{:?}", read(line, instead, right).err());
        for (text, words) in wrong {
            let message = read(line, instead, text).expect_err(text).to_string();
            assert!(message.starts_with(&format!("folder/call.toml:{location}: ")), "{message}");
            assert!(message.contains(words), "{text:?}: {message}");
        }
        let absent = instead.replace("recorded.txt", "absent.txt");
        let message = read(line, &absent, right).expect_err(&absent).to_string();
        assert!(message.contains(location) && message.contains("folder/absent.txt: "), "{message}");
    }
}

#[test]
fn a_recorded_capacity_is_not_replaced_by_a_rate() {
    let link = "delay = \"10 ms\"\ncapacity = \"recorded.txt\"";
    let step = |change: &str| {
        let change = format!("do = \"change\"\nbetween = [\"alice\", \"east\"]\n{change}");
        RIGHT.replace("do = \"stop\"\nnode = \"east\"", &change)
    };
    let read = |link: &str, change: &str| {
        let scenario = step(change).replace("delay = \"10 ms\"", link);
        Scenario::read(Path::new("call.toml"), &|file| match file.to_str() {
            Some("call.toml") => Ok(scenario.clone()),
            _ => Ok("1\n20\n".to_owned()),
        })
    };
    assert!(read(link, "loss = []").is_ok() && read("rate = \"1 Mbit/s\"", "rate = \"2 Mbit/s\"").is_ok());
    let message = read(link, "rate = \"2 Mbit/s\"").expect_err("a recording has no rate").to_string();
    assert!(message.starts_with("call.toml:45: step[0].rate: ") && message.contains("omit it"), "{message}");
}

#[test]
fn what_says_the_same_twice_is_named() {
    let sends = "kind = \"steady\"\nevery = \"10 ms\"\nbytes = 500";
    let frames = "kind = \"frames\"\nevery = \"40 ms\"\nbytes = 500\n";
    for (line, instead, location, words) in [
        (
            "delay = \"40 ms\"",
            "rate = \"1 Mbit/s\"\ncapacity = \"recorded.txt\"",
            "21: link[0].capacity",
            "conflicts with `rate`",
        ),
        (
            "delay = \"40 ms\"",
            "delay = \"1 ms\"\ndelays = { trace = \"recorded.txt\" }",
            "21: link[0].delays",
            "conflicts with `delay`",
        ),
        (
            sends,
            &format!("{frames}packets = 3\nfile = \"recorded.txt\""),
            "40: flow[0].sends.file",
            "conflicts with `packets`",
        ),
        (sends, &format!("{frames}packets = 3\npace = \"50 %\""), "40: flow[0].sends.pace", "omit it"),
        (
            sends,
            "kind = \"frames\"\nevery = \"40 ms\"\nbytes = 16\nfile = \"recorded.txt\"",
            "38: flow[0].sends.bytes",
            "needs 3750 packets, at most 1000",
        ),
    ] {
        let message = read(line, instead, "60000").expect_err(instead).to_string();
        assert!(
            message.starts_with(&format!("folder/call.toml:{location}: ")) && message.contains(words),
            "{message}"
        );
    }
}

/// Additions to the valid scenario: a flow that programs send, a service and a task.
const COMMANDS: &str = r#"
[[flow]]
name = "names"
from = "alice.1"
to = "bob.2"
sends = { kind = "command", listen = "127.0.0.1:5000", target = "127.0.0.1:53" }

[[command]]
name = "server"
node = "bob.2"
kind = "service"
run = ["dnsmasq", "--conf-file={folder}/my.conf"]
ready = "udp:53"
files = { "my.conf" = "listen-address={address:bob.2}" }

[[command]]
name = "client"
node = "alice.1"
run = ["dig", "@{to-host:names}", "-p", "{to-port:names}"]
at = "3 s"
within = "5 s"
environment = { HOME = "{folder}" }

[[expect]]
command = "client"
measure = "p999_ms"
at_most = 40.5
"#;

/// Returns the first of two texts, with one text line replaced in the second.
fn with_commands(line: &str, instead: &str) -> String {
    assert!(COMMANDS.contains(line), "{line}");
    format!("{RIGHT}{}", COMMANDS.replacen(line, instead, 1))
}

#[test]
fn commands_are_understood() {
    let scenario = parse(&with_commands("", "")).expect("it is right");
    let [server, client] = scenario.commands() else { panic!("{:?}", scenario.commands()) };
    assert_eq!((server.node, &server.lifecycle), (3, &Lifecycle::Service(Some(ReadinessCheck::Udp(53)))));
    let fill = |template: &Template| template.fill(|placeholder| format!("<{placeholder:?}>"));
    assert_eq!(fill(&server.files[0].1), "listen-address=<Address(3, 1)>");
    let run: Vec<String> = client.run.iter().map(fill).collect();
    assert_eq!(run, ["dig", "@<ToHost(2)>", "-p", "<ToPort(2)>"]);
    let life = Lifecycle::Task { at: Duration::from_secs(3), within: Duration::from_secs(5) };
    assert_eq!((client.node, &client.lifecycle), (0, &life));
    let expected = &scenario.expectations()[1];
    assert_eq!(expected.of, crate::Subject::Command("client".into()));
    assert_eq!((expected.measure.as_str(), expected.at_most), ("p999_ms", Some(40.5)));
    let error = scenario.run(1).expect_err("nothing simulated sends it").to_string();
    assert!(error.contains("scenario.toml:50: flow[1]") && error.contains("use byway lab run"), "{error}");
}

#[test]
fn a_command_of_several_machines_is_one_in_each_and_knows_the_addresses_of_all() {
    let text =
        with_commands("node = \"bob.2\"", "node = \"bob\"").replace("{address:bob.2}", "{address:bob}");
    let scenario = parse(&text).expect("it is right");
    let servers: Vec<(&str, usize)> =
        scenario.commands()[..2].iter().map(|command| (command.name.as_str(), command.node)).collect();
    assert_eq!(servers, [("server.1", 2), ("server.2", 3)]);
    let fill = |template: &Template| template.fill(|placeholder| format!("<{placeholder:?}>"));
    assert_eq!(fill(&scenario.commands()[0].files[0].1), "listen-address=<Address(2, 2)>");
}

#[test]
fn what_is_captured_is_named_once_between_two_machines() {
    const PROGRAMS: &str =
        "sends = { kind = \"command\", listen = \"127.0.0.1:5000\", target = \"127.0.0.1:53\" }";
    let captured = |sends: &str| {
        with_commands("", "")
            .replace(PROGRAMS, sends)
            .replace("{to-host:names}", "x")
            .replace("{to-port:names}", "53")
    };
    let right = "copies = \"syn\"\nsends = { kind = \"captured\", ports = [\"tcp:80\", \"udp\"] }";
    assert!(parse(&captured(right)).is_ok());
    for (wrong, words) in [
        ("sends = { kind = \"captured\" }", "set `ports`"),
        ("sends = { kind = \"captured\", ports = [\"80\"] }", "invalid ports"),
        ("sends = { kind = \"captured\", ports = [\"udp\"], listen = \"127.0.0.1:1\" }", "listen"),
        (
            "count = 2\nsends = { kind = \"captured\", ports = [\"udp\"] }",
            "merge the two, with the ports of both",
        ),
    ] {
        let error = parse(&captured(wrong)).expect_err(wrong).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_wrong_with_commands_is_named_with_its_place_and_a_remedy() {
    let (client, run, at) = ("name = \"client\"", "\"@{to-host:names}\"", "at = \"3 s\"");
    for (line, instead, location, words) in [
        (client, "name = \"server\"", "scenario.toml:65: command[1].name", "duplicate name"),
        (client, "name = \"../client\"", "command[1].name", "letters, digits"),
        ("node = \"alice.1\"", "node = \"alice\"", "command[1].run[1]", "does not start at alice.2"),
        ("node = \"alice.1\"", "node = \"carol\"", "command[1].node", "one of alice, bob, east"),
        (run, "\"{address:carol}\"", "scenario.toml:67: command[1].run[1]", "one of alice, bob, east"),
        (run, "\"{place:bob.1}\"", "command[1].run[1]", "is not one of {address:MACHINE}"),
        (run, "\"{to:call}\"", "command[1].run[1]", "kind = \"command\""),
        (run, "\"{to:talk}\"", "command[1].run[1]", "flow \"talk\" not found"),
        ("node = \"alice.1\"", "node = \"alice.2\"", "command[1].run[1]", "does not start at alice.2"),
        (run, "\"\\u0000\"", "command[1].run[1]", "zero byte"),
        (
            "[\"dig\", \"@{to-host:names}\", \"-p\", \"{to-port:names}\"]",
            "[]",
            "command[1].run",
            "set the program",
        ),
        (at, "at = \"10 s\"", "scenario.toml:68: command[1].at", "before the end"),
        ("within = \"5 s\"", "within = \"8 s\"", "command[1].within", "remaining 7 s"),
        ("within = \"5 s\"", "ready = \"tcp:80\"", "command[1].ready", "only allowed for services"),
        ("ready = \"udp:53\"", "at = \"1 s\"", "scenario.toml:61: command[0].at", "not allowed for services"),
        ("ready = \"udp:53\"", "ready = \"port:53\"", "command[0].ready", "\"udp:53\""),
        ("ready = \"udp:53\"", "ready = \"tcp:0\"", "command[0].ready", "\"tcp:80\""),
        (
            "\"my.conf\" =",
            "\"../my.conf\" =",
            "scenario.toml:62: command[0].files.\"../my.conf\"",
            "invalid name",
        ),
        ("\"my.conf\" =", "\"/my.conf\" =", "command[0].files", "invalid name"),
        ("HOME =", "\"A=B\" =", "command[1].environment", "remove ="),
        ("listen = \"127.0.0.1:5000\", ", "", "scenario.toml:54: flow[1].sends", "set `listen` and `target`"),
        ("\"127.0.0.1:53\"", "\"10.77.0.1:53\"", "flow[1].sends.target", "within a machine"),
        ("\"127.0.0.1:53\"", "\"127.0.0.1:53\", bytes = 5", "flow[1].sends.bytes", "omit it"),
        ("to = \"bob.2\"", "to = \"bob.2\"\ncount = 2", "flow[1].sends.listen", "another port"),
        (
            "command = \"client\"",
            "command = \"clients\"",
            "scenario.toml:73: expect[1].command",
            "server, client",
        ),
        ("command = \"client\"", "command = \"server\"", "expect[1].command", "name a task"),
        ("command = \"client\"", "", "scenario.toml:72: expect[1]", "one of `flow`, `command` and `link`"),
        ("at_most = 40.5", "at_most = \"40 ms\"", "scenario.toml:75: expect[1].at_most", "invalid number"),
    ] {
        let message = parse(&with_commands(line, instead)).expect_err(instead).to_string();
        assert!(message.contains(location) && message.contains(words), "{instead}: {message}");
    }
}

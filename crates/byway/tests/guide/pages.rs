//! Other pages of the documentation: their shown output must match the program's.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use crate::page::{Block, ConsoleCommand, blocks, commands};
use crate::script::{Guide, read, root};
use crate::shape::{differs, numbers_differ};
use crate::world::{Sites, World};

/// Relative difference between a page's number and today's that is accepted, because tables of
/// measurements are not rewritten for each change.
const TOLERANCE: f64 = 0.05;

/// Returns the command of a page with this begin, and the output on the page.
fn shown_by(page: &str, begin: &str) -> ConsoleCommand {
    let blocks = blocks(&read(page)).into_iter().filter(|block| block.language == "console");
    let mut found = blocks.flat_map(|block| commands(&block)).filter(|typed| typed.line.starts_with(begin));
    found.next().unwrap_or_else(|| panic!("{page} does not show {begin}"))
}

/// Runs a command in the repository's folder and returns its output; `None` if this machine cannot
/// run it in time.
fn printed(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().skip_while(|word| *word != "byway").skip(1).collect();
    let run = Command::new(env!("CARGO_BIN_EXE_byway")).args(words).current_dir(root()).output();
    let output = run.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        eprintln!("skipped: {errors}");
        return None;
    }
    assert!(output.status.success(), "{command}: {errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Beginnings of commands whose output depends on nothing but their arguments and the files that
/// they name.
const DETERMINISTIC: [&str; 4] =
    ["byway sim run ", "byway sim import ", "byway sim check ", "byway experiment list"];

/// Output of ping, as `docs/scenarios.md` measures a path.
const PINGS: &str = "64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=20.1 ms
64 bytes from 192.0.2.7: icmp_seq=2 ttl=64 time=20.3 ms
64 bytes from 192.0.2.7: icmp_seq=4 ttl=64 time=20.2 ms
";

/// Deterministic commands of all pages, with their page.
fn deterministic_commands() -> Vec<(String, ConsoleCommand)> {
    let mut pages = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).expect("the folder of the pages") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    let of_page = |page: String| {
        let blocks = blocks(&read(&page)).into_iter().filter(|block| block.language == "console");
        let typed: Vec<_> = blocks.flat_map(|block| commands(&block)).collect();
        typed.into_iter().map(move |typed| (page.clone(), typed))
    };
    let is_deterministic =
        |typed: &ConsoleCommand| DETERMINISTIC.iter().any(|begin| typed.line.starts_with(begin));
    pages.into_iter().flat_map(of_page).filter(|(_, typed)| is_deterministic(typed)).collect()
}

#[test]
fn deterministic_commands_of_all_pages_print_the_output_that_the_pages_show() {
    let folder = tempfile::tempdir().expect("a folder");
    let pings = folder.path().join("measured.txt");
    fs::write(&pings, PINGS).expect("a file");
    let all = deterministic_commands();
    assert!(all.iter().filter(|(_, typed)| !typed.shown.is_empty()).count() >= 1, "a page shows output");
    assert!(all.len() >= 5, "{all:?}");
    for (page, typed) in all {
        let command = typed.line.split(" > ").next().expect("a first part");
        let command = command.replace("measured.txt", pings.to_str().expect("text"));
        let output = printed(&command).expect("that takes no rights");
        assert!(!output.is_empty(), "{page}: {command} prints nothing");
        if !typed.shown.is_empty() {
            assert_eq!(differs(&typed.shown, &output), None, "{page}: {command}");
            assert_eq!(numbers_differ(&typed.shown, &output, TOLERANCE), None, "{page}: {command}");
        }
    }
}

#[test]
fn the_page_on_scenarios_shows_what_runs_with_real_programs_print() {
    let typed = shown_by("docs/scenarios.md", "sudo byway lab run experiments/scenarios/one-call.toml");
    let Some(output) = printed(&typed.line) else { return };
    assert_eq!(differs(&typed.shown, &output), None);
}

#[test]
fn the_page_on_links_shows_what_an_attached_link_prints() {
    let has_tc = Command::new("tc").arg("-V").output().is_ok_and(|output| output.status.success());
    let guide = Guide::new("docs/link.md", Sites::Public).filter(|_| has_tc);
    let Some(mut guide) = guide else {
        eprintln!("skipped: a link needs tc and network namespaces");
        return;
    };
    guide.install();
    guide.world.shell("east", LINK);
    let block = guide.blocks_of("An example").remove(0);
    let mut flows = 0;
    guide.run_block(&Block { targets: vec!["east".to_owned()], ..block }, &mut |guide, typed| {
        if typed.line.contains("attach ") {
            flows = pass_both_classes(&guide.world);
        }
    });
    assert_eq!(flows, 2, "the page attaches a link before it shows its status");
}

/// Script that makes a device with a neighbour that never answers.
const LINK: &str = "ip link add eth0 type veth peer name other address 02:00:00:00:00:02
    ip address add 10.1.0.1/24 dev eth0; ip link set eth0 up; ip link set other up
    ip neighbour add 10.1.0.2 lladdr 02:00:00:00:00:02 dev eth0";

/// Sends packets of both classes with the full length of an Ethernet, and returns the number of
/// flows.
fn pass_both_classes(world: &World) -> usize {
    let send = |dscp: u32| {
        let socket = UdpSocket::bind("10.1.0.1:0").expect("a free port");
        socket2::SockRef::from(&socket).set_tos_v4(dscp << 2).expect("anybody may mark");
        (0..10).all(|_| socket.send_to(&[7; 1_472], "10.1.0.2:9").is_ok())
    };
    world.at("east", move || [0, 45].into_iter().filter(|dscp| send(*dscp)).count())
}

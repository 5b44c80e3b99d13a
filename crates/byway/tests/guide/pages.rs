//! Other pages of the documentation: what they show is what the program prints today.

use std::net::UdpSocket;
use std::process::Command;

use crate::page::{Block, Typed, blocks, commands};
use crate::script::{Guide, read, root};
use crate::shape::{differs, numbers_differ};
use crate::world::{Sites, World};

/// How far a number of a page may be from today's: tables of measurements are not written anew for each change.
const TOLERANCE: f64 = 0.05;

/// The command of a page that begins like this, with what the page shows.
fn shown_by(page: &str, begin: &str) -> Typed {
    let blocks = blocks(&read(page)).into_iter().filter(|block| block.language == "console");
    let mut found = blocks.flat_map(|block| commands(&block)).filter(|typed| typed.line.starts_with(begin));
    found.next().unwrap_or_else(|| panic!("{page} does not show {begin}"))
}

/// What a command prints in the repository's folder; `None` where this machine cannot run it in time.
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

#[test]
fn the_page_on_scenarios_shows_what_runs_in_virtual_time_print() {
    let typed = shown_by("docs/scenarios.md", "byway sim run experiments/scenarios/one-call.toml");
    let output = printed(&typed.line).expect("that takes no rights");
    assert_eq!(differs(&typed.shown, &output), None);
    assert_eq!(numbers_differ(&typed.shown, &output, TOLERANCE), None);
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
    guide.play_block(&Block { places: vec!["east".to_owned()], ..block }, &mut |guide, typed| {
        if typed.line.contains("attach ") {
            flows = pass_both_classes(&guide.world);
        }
    });
    assert_eq!(flows, 2, "the page attaches a link before it shows its status");
}

/// A device with a neighbour that never answers.
const LINK: &str = "ip link add eth0 type veth peer name other address 02:00:00:00:00:02
    ip address add 10.1.0.1/24 dev eth0; ip link set eth0 up; ip link set other up
    ip neighbour add 10.1.0.2 lladdr 02:00:00:00:00:02 dev eth0";

/// Sends packets of both classes, as long as an Ethernet takes; how many flows that were.
fn pass_both_classes(world: &World) -> usize {
    let send = |dscp: u32| {
        let socket = UdpSocket::bind("10.1.0.1:0").expect("a free port");
        socket2::SockRef::from(&socket).set_tos_v4(dscp << 2).expect("anybody may mark");
        (0..10).all(|_| socket.send_to(&[7; 1_472], "10.1.0.2:9").is_ok())
    };
    world.at("east", move || [0, 45].into_iter().filter(|dscp| send(*dscp)).count())
}

//! Windows of an image that another project's encoder wrote and its decoder reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use byway_view::{Cache, Index, PacketStore, Request};

use crate::assembly::{fetch, received_outline};
use crate::windows::request;

const WIDTH: u32 = 700;
const HEIGHT: u32 = 500;

/// Columns and rows of the window, from the first to behind the last.
const WINDOW: [u32; 4] = [200, 150, 380, 290];

/// An image with edges, gradients and noise, as a portable pixmap.
fn pixmap() -> Vec<u8> {
    let mut pixmap = format!("P6\n{WIDTH} {HEIGHT}\n255\n").into_bytes();
    for (x, y) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y))) {
        let noise = (x * 7_919 + y * 104_729 + x * y * 31) % 37;
        pixmap.extend([
            (x * 255 / WIDTH) as u8,
            ((x / 16 + y / 16) % 2 * 200 + noise) as u8,
            (y % 256) as u8,
        ]);
    }
    pixmap
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}

/// Decodes the window of a codestream.
fn decode(folder: &Path, name: &str, codestream: &[u8]) -> Vec<u8> {
    let (input, output) = (folder.join(format!("{name}.j2k")), folder.join(format!("{name}.ppm")));
    fs::write(&input, codestream).expect("the folder is writable");
    let window = WINDOW.map(|number| number.to_string()).join(",");
    let [input, output] = [&input, &output].map(|path| path.to_str().expect("a path of ASCII"));
    run("opj_decompress", &["-i", input, "-o", output, "-d", &window]);
    fs::read(output).expect("the decoder has written it")
}

/// Encodes the image with three layers and four resolutions.
fn encode(folder: &Path, options: &[&str]) -> Vec<u8> {
    let (input, output) = (folder.join("image.ppm"), folder.join("image.j2k"));
    fs::write(&input, pixmap()).expect("the folder is writable");
    let [input, output] = [&input, &output].map(|path| path.to_str().expect("a path of ASCII"));
    let usual = ["-i", input, "-o", output, "-PLT", "-p", "RPCL", "-c", "[128,128]", "-n", "4"];
    run("opj_compress", &[&usual[..], options].concat());
    fs::read(output).expect("the encoder has written it")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the folder is writable");
    folder
}

/// Fetches the window, and compares what is decoded of it with what is decoded of the whole image.
fn check(name: &str, options: &[&str]) {
    let folder = folder(name);
    let file = encode(&folder, options);
    let index = Index::new(&file).expect("the image has packet lengths");
    let (mut cache, mut store) = (Cache::new(index.layout()), PacketStore::new(usize::MAX));
    let [left, top, right, bottom] = WINDOW;
    let window = Request { bytes_max: 40_000, ..request(left, top, right - left, bottom - top) };
    fetch(&index, &file, &window, &mut cache, &mut store);
    assert!(cache.count() * 2 < index.layout().packets(), "a window has few packets: {}", cache.count());

    let outline = received_outline(&index, &file);
    let assembled = outline.assemble(|packet| store.get(packet)).expect("it is short");
    assert!(assembled.len() * 2 < file.len(), "a window has few bytes: {}", assembled.len());
    let whole = decode(&folder, "whole", &file);
    assert!(decode(&folder, "window", &assembled) == whole, "{name}: the window differs");

    // The lowest layer alone is an image, too, but another one.
    let coarse = outline.assemble(|packet| store.get(packet).filter(|_| packet.get().is_multiple_of(3)));
    let coarse = decode(&folder, "coarse", &coarse.expect("it is short"));
    assert!(coarse.len() == whole.len() && coarse != whole, "{name}: the lowest layer");
}

#[test]
fn a_window_decodes_as_it_does_from_the_whole_image() {
    for program in ["opj_compress", "opj_decompress"] {
        if Command::new(program).arg("-h").output().is_err() {
            eprintln!("skipped: there is no {program} (Debian: apt install libopenjp2-tools)");
            return;
        }
    }
    check("reversible", &["-r", "20,5,1"]);
    check("irreversible", &["-r", "20,8,3", "-I"]);
    check("tiles", &["-r", "20,5,1", "-t", "256,256", "-TP", "R"]);
}

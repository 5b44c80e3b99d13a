//! Codestreams that the tests write, and one of an encoder: their index, their windows, what is
//! assembled of them, and what happens if they are damaged.

#![allow(clippy::cast_possible_truncation, reason = "the images of tests are small")]
#![allow(clippy::disallowed_methods, reason = "an encoder and a decoder read and write files")]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

mod assembly;
mod damage;
mod decoder;
mod geometry;
mod image;
mod memory;
mod windows;

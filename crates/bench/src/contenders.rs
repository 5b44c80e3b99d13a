//! Coders in the comparison: Byway's engines, and peers of other projects.

mod byway;
mod isa_l;
mod read_loop;
mod reed_solomon_erasure;
mod reed_solomon_simd;

use byway_code::Engine;

use crate::contender::MakeContender;

/// Returns all contenders of this machine, Byway's engines first, and remarks on the measurement.
pub(crate) fn all(engines: &[Engine]) -> (Vec<MakeContender>, Vec<String>) {
    let mut contenders: Vec<MakeContender> = Vec::new();
    let mut remarks = Vec::new();
    for engine in engines.iter().copied() {
        contenders.push(Box::new(move |shape| Box::new(byway::Byway::new(engine, shape))));
    }
    contenders.push(Box::new(|shape| Box::new(read_loop::ReadLoop::new(shape))));
    match isa_l::Library::open() {
        Ok(library) => {
            remarks.extend(isa_l::Library::file().map(|file| format!("isa-l is {file}")));
            contenders.push(Box::new(move |shape| Box::new(isa_l::IsaL::new(library.clone(), shape))));
        }
        Err(error) => remarks.push(format!("isa-l is left out: {error}; Debian's package is libisal2")),
    }
    contenders.push(Box::new(|shape| Box::new(reed_solomon_erasure::ReedSolomonErasure::new(shape))));
    contenders.push(Box::new(|shape| Box::new(reed_solomon_simd::ReedSolomonSimd::new(shape))));
    (contenders, remarks)
}

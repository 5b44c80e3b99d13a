//! Intel's ISA-L, as the distribution ships it, through its C interface.

#![allow(unsafe_code, reason = "a C library, opened at run time so that building needs nothing")]

use std::ffi::{c_int, c_uchar};
use std::marker::PhantomData;
use std::rc::Rc;

use libloading::{Error, Library as Shared};

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

/// Bytes of tables that ISA-L expands one coefficient into.
const TABLE_BYTES: usize = 32;

type GenerateMatrix = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type InvertMatrix = unsafe extern "C" fn(*mut c_uchar, *mut c_uchar, c_int) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *mut c_uchar, *mut c_uchar);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *mut *mut c_uchar, *mut *mut c_uchar);

/// The functions of the library that are measured.
#[derive(Clone)]
pub(super) struct Library {
    generate_matrix: GenerateMatrix,
    invert_matrix: InvertMatrix,
    init_tables: InitTables,
    encode_data: EncodeData,
    /// Keeps the code above in memory.
    _shared: Rc<Shared>,
}

impl Library {
    /// The file the library was loaded from, which carries its version.
    pub(super) fn file() -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps
            .lines()
            .find_map(|line| line.split_whitespace().last().filter(|path| path.contains("libisal")))?;
        path.rsplit('/').next().map(str::to_owned)
    }

    pub(super) fn open() -> Result<Self, Error> {
        // SAFETY: the library's initialisers only look at the processor; the signatures are those of its header
        // erasure_code.h, and the library outlives the functions.
        unsafe {
            let shared = Shared::new("libisal.so.2")?;
            Ok(Self {
                generate_matrix: *shared.get(c"gf_gen_cauchy1_matrix")?,
                invert_matrix: *shared.get(c"gf_invert_matrix")?,
                init_tables: *shared.get(c"ec_init_tables")?,
                encode_data: *shared.get(c"ec_encode_data")?,
                _shared: Rc::new(shared),
            })
        }
    }
}

pub(super) struct IsaL {
    library: Library,
    source_packets: usize,
    repair_packets: usize,
    packet_bytes: usize,
    /// The generator: an identity for the source packets over the rows of the repair packets.
    matrix: Vec<u8>,
    encode_tables: Vec<u8>,
    scratch: DecodeScratch,
}

/// Memory the decoder reuses from batch to batch.
struct DecodeScratch {
    survivors: Vec<u8>,
    inverse: Vec<u8>,
    rows: Vec<u8>,
    tables: Vec<u8>,
}

impl IsaL {
    pub(super) fn new(library: Library, shape: &Shape) -> Self {
        let (k, r) = (shape.source_packets, shape.repair_packets);
        let mut matrix = vec![0; (k + r) * k];
        let mut encode_tables = vec![0; TABLE_BYTES * k * r];
        // SAFETY: the matrix has (k + r) x k entries and the tables 32 bytes for each of r x k coefficients.
        unsafe {
            (library.generate_matrix)(matrix.as_mut_ptr(), int(k + r), int(k));
            (library.init_tables)(int(k), int(r), matrix[k * k..].as_mut_ptr(), encode_tables.as_mut_ptr());
        }
        let scratch = DecodeScratch {
            survivors: vec![0; k * k],
            inverse: vec![0; k * k],
            rows: vec![0; r * k],
            tables: vec![0; TABLE_BYTES * k * r],
        };
        Self {
            library,
            source_packets: k,
            repair_packets: r,
            packet_bytes: shape.packet_bytes,
            matrix,
            encode_tables,
            scratch,
        }
    }

    /// As the library's own examples do: invert the matrix of k survivors, keep the rows of the lost packets.
    fn decode_batch(
        &mut self,
        inputs: &mut [*mut u8],
        input_rows: &[usize],
        outputs: &mut [*mut u8],
        lost: &[usize],
    ) {
        let k = self.source_packets;
        let DecodeScratch { survivors, inverse, rows, tables } = &mut self.scratch;
        for (survivor, row) in survivors.chunks_exact_mut(k).zip(input_rows) {
            survivor.copy_from_slice(&self.matrix[row * k..][..k]);
        }
        // SAFETY: the matrices are k x k, the tables have room for the lost rows, and there are k inputs and as
        // many outputs as losses, of `packet_bytes` bytes each.
        unsafe {
            let singular = (self.library.invert_matrix)(survivors.as_mut_ptr(), inverse.as_mut_ptr(), int(k));
            assert_eq!(singular, 0, "a Cauchy matrix has an inverse");
            for (row, lost) in rows.chunks_exact_mut(k).zip(lost) {
                row.copy_from_slice(&inverse[lost * k..][..k]);
            }
            (self.library.init_tables)(int(k), int(lost.len()), rows.as_mut_ptr(), tables.as_mut_ptr());
            (self.library.encode_data)(
                int(self.packet_bytes),
                int(k),
                int(lost.len()),
                tables.as_mut_ptr(),
                inputs.as_mut_ptr(),
                outputs.as_mut_ptr(),
            );
        }
    }
}

/// Pointers to the packets of all batches, one batch behind the other; they stay borrowed from the ring.
pub(super) struct Encode<'a> {
    sources: Vec<*mut u8>,
    repairs: Vec<*mut u8>,
    ring: PhantomData<&'a mut [u8]>,
}

/// As [`Encode`]: for each batch as many survivors as there are source packets, with their rows in the generator,
/// and its losses.
pub(super) struct Decode<'a> {
    inputs: Vec<*mut u8>,
    input_rows: Vec<usize>,
    outputs: Vec<*mut u8>,
    lost: Vec<&'a [usize]>,
    ring: PhantomData<&'a mut [u8]>,
}

impl Contender for IsaL {
    type Encode<'a> = Encode<'a>;
    type Decode<'a> = Decode<'a>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "isa-l"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Encode<'a> {
        let mut prepared = Encode { sources: Vec::new(), repairs: Vec::new(), ring: PhantomData };
        for batch in batches {
            prepared.sources.extend(batch.sources.into_iter().map(<[u8]>::as_mut_ptr));
            prepared.repairs.extend(batch.repairs.into_iter().map(<[u8]>::as_mut_ptr));
        }
        prepared
    }

    fn encode(&mut self, Encode { sources, repairs, .. }: &mut Encode<'_>) {
        let (k, r) = (self.source_packets, self.repair_packets);
        for (sources, repairs) in sources.chunks_exact_mut(k).zip(repairs.chunks_exact_mut(r)) {
            // SAFETY: k inputs and r outputs of `packet_bytes` bytes each, and the tables made for them.
            unsafe {
                (self.library.encode_data)(
                    int(self.packet_bytes),
                    int(k),
                    int(r),
                    self.encode_tables.as_mut_ptr(),
                    sources.as_mut_ptr(),
                    repairs.as_mut_ptr(),
                );
            }
        }
    }

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> Decode<'a> {
        let mut prepared = Decode {
            inputs: Vec::new(),
            input_rows: Vec::new(),
            outputs: Vec::new(),
            lost: Vec::new(),
            ring: PhantomData,
        };
        for batch in batches {
            let packets = batch.sources.into_iter().chain(batch.repairs).enumerate();
            let (lost, there): (Vec<_>, Vec<_>) = packets.partition(|(index, _)| batch.lost.contains(index));
            prepared.outputs.extend(lost.into_iter().map(|(_, packet)| packet.as_mut_ptr()));
            for (index, packet) in there.into_iter().take(self.source_packets) {
                prepared.inputs.push(packet.as_mut_ptr());
                prepared.input_rows.push(index);
            }
            prepared.lost.push(batch.lost);
        }
        prepared
    }

    fn decode(&mut self, Decode { inputs, input_rows, outputs, lost, .. }: &mut Decode<'_>) {
        let k = self.source_packets;
        let inputs = inputs.chunks_exact_mut(k).zip(input_rows.chunks_exact(k));
        let outputs = outputs.chunks_exact_mut(lost[0].len()).zip(lost);
        for ((inputs, rows), (outputs, lost)) in inputs.zip(outputs) {
            self.decode_batch(inputs, rows, outputs, lost);
        }
    }
}

fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("shapes are small")
}

//! Contender: Intel's ISA-L, from the distribution's package, through its C interface.

#![allow(unsafe_code, reason = "a C library, opened at run time so that building needs nothing")]

use std::ffi::{c_int, c_uchar};
use std::marker::PhantomData;
use std::rc::Rc;

use libloading::{Error, Library as Shared};

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

/// Bytes of ISA-L's table for one coefficient.
const TABLE_BYTES: usize = 32;

type GenerateMatrix = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type InvertMatrix = unsafe extern "C" fn(*mut c_uchar, *mut c_uchar, c_int) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *mut c_uchar, *mut c_uchar);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *mut *mut c_uchar, *mut *mut c_uchar);

/// Functions of ISA-L that the benchmark calls, and the library's handle.
#[derive(Clone)]
pub(super) struct Library {
    generate_matrix: GenerateMatrix,
    invert_matrix: InvertMatrix,
    init_tables: InitTables,
    encode_data: EncodeData,
    /// Library handle, which must live as long as the functions.
    _shared: Rc<Shared>,
}

impl Library {
    /// Returns the file of the loaded library, whose name contains the version.
    pub(super) fn file() -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps
            .lines()
            .find_map(|line| line.split_whitespace().last().filter(|path| path.contains("libisal")))?;
        path.rsplit('/').next().map(str::to_owned)
    }

    pub(super) fn open() -> Result<Self, Error> {
        // SAFETY: the library's initialisers only look at the processor; the signatures are those
        // of its header erasure_code.h, and the library outlives the functions.
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
    /// Generator matrix: an identity for the source packets above the rows of the repair packets.
    matrix: Vec<u8>,
    encode_tables: Vec<u8>,
    scratch: DecodeScratch,
}

/// Memory that the decoder reuses for all batches.
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
        // SAFETY: the matrix has (k + r) x k entries and the tables 32 bytes for each of r x k
        // coefficients.
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

    /// Decodes a batch as in the library's examples: inverts the matrix of k survivors, and selects
    /// the rows of the lost packets.
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
        // SAFETY: the matrices are k x k, the tables have room for the lost rows, and there are k
        // inputs and as many outputs as losses, of `packet_bytes` bytes each.
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

/// Pointers to the packets of all batches to encode, contiguous for all batches. The packets remain
/// borrowed from the ring.
pub(super) struct IsaLEncodeInput<'a> {
    sources: Vec<*mut u8>,
    repairs: Vec<*mut u8>,
    ring: PhantomData<&'a mut [u8]>,
}

/// Pointers to the packets of all batches to decode. Each batch has as many survivors as source
/// packets, with their rows in the generator matrix, and its losses.
pub(super) struct IsaLDecodeInput<'a> {
    inputs: Vec<*mut u8>,
    input_rows: Vec<usize>,
    outputs: Vec<*mut u8>,
    lost: Vec<&'a [usize]>,
    ring: PhantomData<&'a mut [u8]>,
}

impl Contender for IsaL {
    type EncodeInput<'a> = IsaLEncodeInput<'a>;
    type DecodeInput<'a> = IsaLDecodeInput<'a>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "isa-l"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> IsaLEncodeInput<'a> {
        let mut prepared = IsaLEncodeInput { sources: Vec::new(), repairs: Vec::new(), ring: PhantomData };
        for batch in batches {
            prepared.sources.extend(batch.sources.into_iter().map(<[u8]>::as_mut_ptr));
            prepared.repairs.extend(batch.repairs.into_iter().map(<[u8]>::as_mut_ptr));
        }
        prepared
    }

    fn encode(&mut self, IsaLEncodeInput { sources, repairs, .. }: &mut IsaLEncodeInput<'_>) {
        let (k, r) = (self.source_packets, self.repair_packets);
        for (sources, repairs) in sources.chunks_exact_mut(k).zip(repairs.chunks_exact_mut(r)) {
            // SAFETY: k inputs and r outputs of `packet_bytes` bytes each, and the tables made for
            // them.
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

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> IsaLDecodeInput<'a> {
        let mut prepared = IsaLDecodeInput {
            inputs: Vec::new(),
            input_rows: Vec::new(),
            outputs: Vec::new(),
            lost: Vec::new(),
            ring: PhantomData,
        };
        for batch in batches {
            let packets = batch.sources.into_iter().chain(batch.repairs).enumerate();
            let (lost, received): (Vec<_>, Vec<_>) =
                packets.partition(|(index, _)| batch.lost.contains(index));
            prepared.outputs.extend(lost.into_iter().map(|(_, packet)| packet.as_mut_ptr()));
            for (index, packet) in received.into_iter().take(self.source_packets) {
                prepared.inputs.push(packet.as_mut_ptr());
                prepared.input_rows.push(index);
            }
            prepared.lost.push(batch.lost);
        }
        prepared
    }

    fn decode(
        &mut self,
        IsaLDecodeInput { inputs, input_rows, outputs, lost, .. }: &mut IsaLDecodeInput<'_>,
    ) {
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

//! The published test vectors, made by the script `docs/wire-vectors.py`.

const VECTORS: &str = include_str!("../../../../docs/wire-vectors.txt");

/// One vector: its kind, its bytes and their expected fields.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) directive: &'static str,
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<&'static str>,
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_start_matches('-').as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = str::from_utf8(pair).expect("vectors are ASCII");
            u8::from_str_radix(pair, 16).expect("vectors are hexadecimal")
        })
        .collect()
}

/// Returns all vectors, in order.
pub(crate) fn all() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    let lines = VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        match (line.split_once(' '), vectors.last_mut()) {
            (Some(("field", field)), Some(vector)) => vector.fields.push(field),
            (Some((directive, rest)), _) if directive != "field" => {
                let (name, hex) = rest.split_once(' ').expect("a vector has a name and bytes");
                vectors.push(Vector { directive, name, bytes: bytes(hex), fields: Vec::new() });
            }
            _ => panic!("not a vector: {line}"),
        }
    }
    vectors
}

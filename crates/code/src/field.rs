//! Arithmetic in GF(2^8), the field of 256 elements, with the polynomial x^8 + x^4 + x^3 + x^2 + 1.
//!
//! A byte is an element: bit `i` is the coefficient of x^i. Addition and subtraction are both XOR.
//! The element 2 (the polynomial x) generates every nonzero element, so a product is a sum of
//! logarithms. This is the field of RFC 5510, RFC 6330 and most storage codes.

/// The field polynomial, bit 8 included.
pub const POLYNOMIAL: u16 = 0x11D;

/// Number of nonzero elements, which is also the order of the generator 2.
const ORDER: usize = 255;

/// `EXP[i]` is 2^i, for two periods, because a sum of two logarithms then needs no reduction.
static EXP: [u8; 2 * ORDER] = exponentials();

/// `LOG[a]` is the logarithm of `a` to base 2; the entry of 0 has no meaning and is never read.
static LOG: [u8; 256] = logarithms();

/// Returns the product of `a` and `b`, one bit of `b` at a time: the definition.
#[must_use]
pub const fn multiply_bitwise(a: u8, b: u8) -> u8 {
    let (mut shifted, mut remaining, mut product) = (a, b, 0);
    while remaining != 0 {
        if remaining & 1 == 1 {
            product ^= shifted;
        }
        shifted = double(shifted);
        remaining >>= 1;
    }
    product
}

/// Returns the product of `a` and `b`, by logarithms.
#[must_use]
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// Returns the inverse of `a`: their product is 1. `None` for 0, which has none.
#[must_use]
pub const fn inverse(a: u8) -> Option<u8> {
    match a {
        0 => None,
        _ => Some(EXP[ORDER - LOG[a as usize] as usize]),
    }
}

/// Returns the element 2^`exponent`.
#[must_use]
pub fn exponential(exponent: u8) -> u8 {
    EXP[usize::from(exponent)]
}

/// Returns the logarithm of `a` to base 2, from 0 to 254; `None` for 0, which has none.
#[must_use]
pub fn logarithm(a: u8) -> Option<u8> {
    (a != 0).then(|| LOG[usize::from(a)])
}

const fn double(a: u8) -> u8 {
    let reduced = if a & 0x80 == 0 { 0 } else { (POLYNOMIAL & 0xFF) as u8 };
    (a << 1) ^ reduced
}

const fn exponentials() -> [u8; 2 * ORDER] {
    let mut table = [0; 2 * ORDER];
    let mut power = 1;
    let mut i = 0;
    while i < table.len() {
        table[i] = power;
        power = double(power);
        i += 1;
    }
    table
}

#[allow(clippy::cast_possible_truncation, reason = "exponents are below 255")]
const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut power = 1_u8;
    let mut i = 0;
    while i < ORDER {
        table[power as usize] = i as u8;
        power = double(power);
        i += 1;
    }
    table
}

//! The field against published tables, and against its own laws.

use byway_code::field::{POLYNOMIAL, exponential, inverse, logarithm, multiply, multiply_bitwise};

/// The powers of the generator, RFC 6330 section 5.7.3 (`OCT_EXP`, first period).
#[rustfmt::skip]
const RFC_6330_OCT_EXP: [u8; 255] = [
    1, 2, 4, 8, 16, 32, 64, 128, 29, 58, 116, 232, 205, 135, 19, 38, 76, 152, 45, 90, 180, 117, 234, 201, 143, 3, 6,
    12, 24, 48, 96, 192, 157, 39, 78, 156, 37, 74, 148, 53, 106, 212, 181, 119, 238, 193, 159, 35, 70, 140, 5, 10, 20,
    40, 80, 160, 93, 186, 105, 210, 185, 111, 222, 161, 95, 190, 97, 194, 153, 47, 94, 188, 101, 202, 137, 15, 30, 60,
    120, 240, 253, 231, 211, 187, 107, 214, 177, 127, 254, 225, 223, 163, 91, 182, 113, 226, 217, 175, 67, 134, 17, 34,
    68, 136, 13, 26, 52, 104, 208, 189, 103, 206, 129, 31, 62, 124, 248, 237, 199, 147, 59, 118, 236, 197, 151, 51,
    102, 204, 133, 23, 46, 92, 184, 109, 218, 169, 79, 158, 33, 66, 132, 21, 42, 84, 168, 77, 154, 41, 82, 164, 85,
    170, 73, 146, 57, 114, 228, 213, 183, 115, 230, 209, 191, 99, 198, 145, 63, 126, 252, 229, 215, 179, 123, 246, 241,
    255, 227, 219, 171, 75, 150, 49, 98, 196, 149, 55, 110, 220, 165, 87, 174, 65, 130, 25, 50, 100, 200, 141, 7, 14,
    28, 56, 112, 224, 221, 167, 83, 166, 81, 162, 89, 178, 121, 242, 249, 239, 195, 155, 43, 86, 172, 69, 138, 9, 18,
    36, 72, 144, 61, 122, 244, 245, 247, 243, 251, 235, 203, 139, 11, 22, 44, 88, 176, 125, 250, 233, 207, 131, 27, 54,
    108, 216, 173, 71, 142,
];

#[test]
fn powers_of_the_generator_are_the_published_ones() {
    for (exponent, power) in (0..=254).zip(RFC_6330_OCT_EXP) {
        assert_eq!(exponential(exponent), power, "2^{exponent}");
        assert_eq!(logarithm(power), Some(exponent), "log of {power}");
    }
    assert_eq!(logarithm(0), None);
}

#[test]
fn products_are_sums_of_published_logarithms() {
    let logarithm = |a| RFC_6330_OCT_EXP.iter().position(|power| *power == a);
    for a in 0..=255 {
        for b in 0..=255 {
            let expected = match (logarithm(a), logarithm(b)) {
                (Some(a), Some(b)) => RFC_6330_OCT_EXP[(a + b) % 255],
                _ => 0,
            };
            assert_eq!(multiply(a, b), expected, "{a} * {b}");
            assert_eq!(multiply_bitwise(a, b), expected, "{a} * {b}, bitwise");
        }
    }
}

#[test]
fn every_nonzero_element_has_an_inverse() {
    assert_eq!(inverse(0), None);
    for a in 1..=255 {
        let inverse = inverse(a).expect("the element is not zero");
        assert_eq!(multiply(a, inverse), 1, "{a}");
    }
}

#[test]
fn multiplication_distributes_over_addition() {
    for a in 0..=255 {
        for (b, c) in [(3, 5), (0x80, 0x1D), (0xFF, 1), (0x53, 0xCA)] {
            assert_eq!(multiply(a, b ^ c), multiply(a, b) ^ multiply(a, c));
        }
    }
}

#[test]
fn the_polynomial_is_the_usual_one() {
    assert_eq!(POLYNOMIAL, 0x11D);
    assert_eq!(u16::from(multiply(0x80, 2)), POLYNOMIAL & 0xFF, "x^8 reduces to the rest of the polynomial");
}

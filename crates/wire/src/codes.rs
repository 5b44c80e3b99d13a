//! Enumerations encoded as one byte on the wire.

/// Value of an enumeration that is encoded as one byte.
pub(crate) trait Code: Copy + Sized {
    /// List of the defined numbers, for error messages.
    const ALLOWED: &'static str;

    /// Returns the value with this number; `None` if the number is not defined.
    fn from_code(code: u8) -> Option<Self>;

    /// Returns the number of this value on the wire.
    fn code(self) -> u8;
}

/// Defines an enumeration whose values have these numbers on the wire.
macro_rules! codes {
    (
        $(#[$doc:meta])+
        $visibility:vis enum $name:ident {
            $(#[$first_doc:meta])+
            $first:ident = $first_code:literal,
            $($(#[$variant_doc:meta])+ $variant:ident = $code:literal,)*
        }
    ) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        $visibility enum $name {
            $(#[$first_doc])+
            $first = $first_code,
            $($(#[$variant_doc])+ $variant = $code,)*
        }

        impl $name {
            /// All values, in the order of their numbers.
            $visibility const ALL: &'static [Self] = &[Self::$first, $(Self::$variant,)*];
        }

        impl $crate::codes::Code for $name {
            const ALLOWED: &'static str = concat!($first_code $(, ", ", $code)*);

            #[inline]
            fn from_code(code: u8) -> Option<Self> {
                match code {
                    $first_code => Some(Self::$first),
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            #[inline]
            fn code(self) -> u8 {
                self as u8
            }
        }
    };
}

pub(crate) use codes;

#[cfg(test)]
mod tests {
    use super::*;

    codes! {
        /// A sample.
        enum Sample {
            /// Two.
            Two = 2,
            /// Five.
            Five = 5,
        }
    }

    #[test]
    fn codes_and_values_are_one_to_one() {
        for code in 0..=u8::MAX {
            let value = Sample::from_code(code);
            assert_eq!(value.map(Code::code), [2, 5].contains(&code).then_some(code));
        }
        assert_eq!(Sample::ALL, [Sample::Two, Sample::Five]);
        assert_eq!(Sample::ALLOWED, "2, 5");
    }
}

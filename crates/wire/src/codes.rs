//! Enumerations that one byte on the wire stands for.

/// A value that is a number on the wire.
pub(crate) trait Code: Copy + Sized {
    /// The numbers there are, for errors.
    const ALLOWED: &'static str;

    /// The value of this number, if there is one.
    fn from_code(code: u8) -> Option<Self>;

    /// The number of this value.
    fn code(self) -> u8;
}

/// Defines an enumeration with its numbers.
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
            /// Every value, in the order of the numbers.
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

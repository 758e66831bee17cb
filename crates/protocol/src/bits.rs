//! What the sets of bits of this crate have in common.

/// Gives a type of one integer the operations of a set.
macro_rules! set_of_bits {
    ($name:ident) => {
        impl $name {
            /// The empty set.
            pub const NONE: $name = $name(0);

            /// Whether all of `other` are here.
            #[inline]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Those of either.
            #[inline]
            #[must_use]
            pub const fn union(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// Those that are not in `other`.
            #[inline]
            #[must_use]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }

            /// Whether there is none.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    };
}
pub(crate) use set_of_bits;

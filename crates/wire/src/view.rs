//! Views of headers with a fixed layout, and their emission.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Malformed;

/// Returns the header at the front of `bytes`, and the rest.
#[inline]
pub(crate) fn split<T>(bytes: &[u8]) -> Result<(&T, &[u8]), Malformed>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| Malformed::truncated(size_of::<T>(), bytes.len()))
}

/// Writes the header at the front of `out`.
#[inline]
pub(crate) fn emit<T: IntoBytes + Immutable>(value: &T, out: &mut [u8]) -> Result<(), Malformed> {
    let have = out.len();
    value.write_to_prefix(out).map_err(|_| Malformed::truncated(size_of::<T>(), have))
}

/// Defines `LEN` and `emit` of a layout, and checks its size at compile time.
macro_rules! fixed_header {
    ($name:ident, $len:literal) => {
        const _: () = assert!(size_of::<$name>() == $len);

        #[allow(unreachable_pub, reason = "the layouts are public and private ones")]
        impl $name {
            /// Length of this header. Unit: octets.
            pub const LEN: usize = $len;

            /// Writes all octets of this header at the front of `out`.
            ///
            /// # Errors
            /// `Truncated` if `out` is shorter than `LEN`; nothing is written then.
            #[inline]
            pub fn emit(&self, out: &mut [u8]) -> Result<(), crate::Malformed> {
                crate::view::emit(self, out)
            }
        }
    };
}
pub(crate) use fixed_header;

/// Appends fields to a slice.
pub(crate) struct FieldWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> FieldWriter<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let have = self.out.len();
        let end = self.at + bytes.len();
        let slot = self.out.get_mut(self.at..end).ok_or_else(|| Malformed::truncated(end, have))?;
        slot.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Returns the number of octets written so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}

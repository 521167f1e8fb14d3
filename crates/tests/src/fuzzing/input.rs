//! Structured input: choices taken one after the other from the octets of a fuzzer.

/// The rest of the input. Past its end every choice is zero.
#[derive(Debug)]
pub(super) struct FuzzInput<'a> {
    rest: &'a [u8],
}

impl<'a> FuzzInput<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// A number below `n`, which is not zero.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let drawn = if n <= 256 { usize::from(self.u8()) } else { usize::from(self.u16()) };
        drawn % n
    }

    /// As many octets as the next one says, or all that are left.
    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8()).min(self.rest.len());
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        head
    }
}

//! The routes to data networks as flows need them: one usual gateway, and the destinations that
//! have another one or none.

use adit_types::Ipv4Prefix;

/// Number of blocks of IPv4 destinations: those with the same upper 16 bits.
const BLOCK_COUNT: usize = 1 << 16;

/// The gateway number of each block of IPv4 destinations; zero for none.
#[derive(Debug)]
pub(crate) struct FlowRoutes {
    numbers: Vec<u8>,
}

impl FlowRoutes {
    pub(crate) fn new() -> Self {
        Self { numbers: vec![0; BLOCK_COUNT] }
    }

    /// Sets the gateway number of a block. Returns true if it changed.
    pub(crate) fn set(&mut self, block: u16, gateway: u8) -> bool {
        let number = &mut self.numbers[usize::from(block)];
        let is_changed = *number != gateway;
        *number = gateway;
        is_changed
    }

    /// Returns the gateway of the most blocks; `None` if no block has a gateway.
    pub(crate) fn usual_gateway(&self) -> Option<u8> {
        let mut counts = [0_u32; 256];
        self.numbers.iter().for_each(|number| counts[usize::from(*number)] += 1);
        let (_, number) = (1..=u8::MAX).map(|of| (counts[usize::from(of)], of)).max()?;
        (counts[usize::from(number)] > 0).then_some(number)
    }

    /// Returns the fewest prefixes that cover all blocks without the gateway `usual`.
    pub(crate) fn prefixes_without(&self, usual: u8) -> Vec<Ipv4Prefix> {
        let mut prefixes = Vec::new();
        self.collect(usual, 0, BLOCK_COUNT, &mut prefixes);
        prefixes
    }

    fn collect(&self, usual: u8, first: usize, len: usize, prefixes: &mut Vec<Ipv4Prefix>) {
        let blocks = &self.numbers[first..first + len];
        let has_usual = blocks.contains(&usual);
        if has_usual && len > 1 && blocks.iter().any(|number| *number != usual) {
            self.collect(usual, first, len / 2, prefixes);
            self.collect(usual, first + len / 2, len / 2, prefixes);
        } else if !has_usual {
            let bits = u32::try_from(first << 16).unwrap_or_default();
            let length = 16 - u8::try_from(len.trailing_zeros()).unwrap_or(16);
            prefixes.extend(Ipv4Prefix::containing(bits.into(), length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_all_blocks_without_the_usual_gateway() {
        let mut routes = FlowRoutes::new();
        assert_eq!(routes.usual_gateway(), None);
        for block in 0..=u16::MAX {
            routes.set(block, if block >> 8 == 10 || block == 7 { 0 } else { 2 });
        }
        routes.set(0x0808, 1);
        assert_eq!(routes.usual_gateway(), Some(2));
        let others: Vec<String> =
            routes.prefixes_without(2).iter().map(|prefix| prefix.to_string()).collect();
        assert_eq!(others, ["0.7.0.0/16", "8.8.0.0/16", "10.0.0.0/8"]);
    }
}

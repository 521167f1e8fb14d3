//! Network slices.

use core::fmt;
use core::str::FromStr;

use crate::pack::packed;

packed! {
    /// Single Network Slice Selection Assistance Information. Spec: TS 23.003 §28.4.2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SliceIdentity {
        /// Slice/Service Type.
        pub sst: u8,
        /// Slice Differentiator, 24 bits.
        pub sd: Option<u32>,
    }
}

impl fmt::Display for SliceIdentity {
    /// Writes the SST, and the SD in six hexadecimal digits: `1-00a1b2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sd {
            Some(sd) => write!(f, "{}-{sd:06x}", self.sst),
            None => write!(f, "{}", self.sst),
        }
    }
}

impl FromStr for SliceIdentity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sst, sd) = match text.split_once('-') {
            Some((sst, sd)) if sd.len() == 6 => (sst, Some(u32::from_str_radix(sd, 16))),
            Some(_) => return Err(()),
            None => (text, None),
        };
        let sst = sst.parse().map_err(|_| ())?;
        Ok(Self { sst, sd: sd.transpose().map_err(|_| ())? })
    }
}

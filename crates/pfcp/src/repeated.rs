//! Lists of IEs of one type that borrow the octets or items instead of storing them.

use core::fmt;

use crate::ie::{Ie, IeIter, IeType};

/// All IEs of one type in a message or group, in order of arrival.
///
/// A decoded list borrows the octets that contain its items. The items were already decoded once
/// with the message, so iteration, which decodes them again, cannot fail. A list to encode borrows
/// a slice of items: `Repeated::from(&items[..])`.
#[derive(Clone, Copy)]
pub struct Repeated<'a, T> {
    source: RepeatedSource<'a, T>,
}

#[derive(Clone, Copy)]
enum RepeatedSource<'a, T> {
    Items(&'a [T]),
    Wire { octets: &'a [u8], ie_type: IeType, count: u16 },
}

impl<'a, T: Ie<'a> + Copy> Repeated<'a, T> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { source: RepeatedSource::Items(&[]) }
    }

    /// Creates a list over whole IEs; every IE of `ie_type` among them decodes as a `T`.
    pub(crate) const fn from_wire(octets: &'a [u8], ie_type: IeType, count: u16) -> Self {
        Self { source: RepeatedSource::Wire { octets, ie_type, count } }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.source {
            RepeatedSource::Items(items) => items.len(),
            RepeatedSource::Wire { count, .. } => usize::from(count),
        }
    }

    /// True if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first item, if there is one.
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Returns the items in order of arrival.
    #[must_use]
    pub fn iter(&self) -> RepeatedIter<'a, T> {
        RepeatedIter(match self.source {
            RepeatedSource::Items(items) => RepeatedWalk::Items(items.iter()),
            RepeatedSource::Wire { octets, ie_type, .. } => {
                RepeatedWalk::Wire(IeIter::new(octets), ie_type)
            }
        })
    }
}

impl<'a, T: Ie<'a> + Copy> Default for Repeated<'a, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T> From<&'a [T]> for Repeated<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self { source: RepeatedSource::Items(items) }
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Repeated<'a, T> {
    fn from(items: &'a [T; N]) -> Self {
        Self { source: RepeatedSource::Items(items) }
    }
}

impl<'a, T: Ie<'a> + Copy + fmt::Debug> fmt::Debug for Repeated<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Ie<'a> + Copy + PartialEq> PartialEq for Repeated<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Ie<'a> + Copy> IntoIterator for Repeated<'a, T> {
    type Item = T;
    type IntoIter = RepeatedIter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Ie<'a> + Copy> IntoIterator for &Repeated<'a, T> {
    type Item = T;
    type IntoIter = RepeatedIter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterator over the items of a [`Repeated`].
#[derive(Clone)]
pub struct RepeatedIter<'a, T>(RepeatedWalk<'a, T>);

#[derive(Clone)]
enum RepeatedWalk<'a, T> {
    Items(core::slice::Iter<'a, T>),
    Wire(IeIter<'a>, IeType),
}

impl<T> fmt::Debug for RepeatedIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RepeatedIter")
    }
}

impl<'a, T: Ie<'a> + Copy> Iterator for RepeatedIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            RepeatedWalk::Items(items) => items.next().copied(),
            RepeatedWalk::Wire(ies, ie_type) => {
                let ie = ies.by_ref().flatten().find(|ie| ie.ie_type == *ie_type)?;
                match T::decode(ie.value) {
                    Ok(item) => Some(item),
                    Err(_) => unreachable!("the same octets were decoded with the message"),
                }
            }
        }
    }
}

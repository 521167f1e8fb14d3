//! The tables of messages and grouped IEs. One macro row per member generates decoder, encoder,
//! documentation and the tables that can be queried.
//!
//! The presence of a member determines how a defect in it is treated:
//!
//! - If a mandatory member is absent, the message is refused with Cause 66; if its length is wrong,
//!   with 68; if its value is incorrect, with 69.
//! - An optional leaf IE with an incorrect value counts as absent if it is directly in a message.
//!   In a group it makes the message be refused, because a rule without one of its filters would
//!   match more than its sender meant.
//! - A member of presence `D` is always sent. If a sender omits it, the receiver assumes
//!   [`WhenAbsent::ABSENT`].
//! - The decoder skips unknown and unexpected IEs, and surplus copies of a member that may occur
//!   once. [`Ignored`] lists them.
//!
//! Spec: TS 29.244 §7.6.6 to §7.6.10.

use core::fmt;

use crate::ie::{DecodeError, DecodeErrorKind, Ie, IeError, IeIter, IeType, RawIe, offset16};
use crate::message_type::MessageType;
use crate::repeated::Repeated;
use crate::writer::{NoRoom, PfcpWriter};

/// Presence of a member in a message or grouped IE. Spec: TS 29.244 §7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Always present; the absence of the member is an error.
    Mandatory,
    /// Present under a condition that only the receiver's logic can check.
    Conditional,
    /// Optional.
    Optional,
}

/// One row of a message or grouped IE table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Type of the member.
    pub ie: IeType,
    /// Presence of the member.
    pub presence: Presence,
    /// True if the member may occur several times.
    pub repeatable: bool,
    /// True if length zero withdraws the value of an earlier message.
    pub is_nullable: bool,
}

/// The typed body of one message type.
pub trait MessageBody<'a>: Sized {
    /// The type.
    const TYPE: MessageType;

    /// Decodes the IEs after the header.
    ///
    /// # Errors
    /// Returns the first [`DecodeError`], with Cause, Offending IE and failed rule.
    fn decode_body(body: &'a [u8]) -> Result<Self, DecodeError>;

    /// Appends the IEs of the body.
    ///
    /// # Errors
    /// [`NoRoom`] if the buffer is full.
    fn encode_body(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom>;
}

/// The IEs of a message or group that were skipped: unknown, unexpected there, from another
/// enterprise, incorrect though optional, or surplus copies.
#[derive(Clone, Copy)]
pub struct Ignored<'a> {
    octets: &'a [u8],
    members: &'static [Member],
    incorrect: u64,
    count: u16,
}

impl<'a> Ignored<'a> {
    /// No skipped IEs.
    pub const NONE: Ignored<'static> =
        Ignored { octets: &[], members: &[], incorrect: 0, count: 0 };

    /// Bit `i` of `incorrect` is set if member `i` was skipped for its incorrect value.
    pub(crate) const fn new(
        octets: &'a [u8],
        members: &'static [Member],
        incorrect: u64,
        count: u16,
    ) -> Self {
        Self { octets, members, incorrect, count }
    }

    /// Returns how many IEs were skipped.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Returns the skipped IEs in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = RawIe<'a>> + use<'a> {
        let members = self.members;
        let mut seen = self.incorrect;
        let ies = if self.count == 0 { &[] } else { self.octets };
        IeIter::new(ies).flatten().filter(move |ie| {
            let Some(row) = members.iter().position(|m| m.ie == ie.ie_type) else { return true };
            let surplus = !members[row].repeatable && (seen >> row) & 1 == 1;
            seen |= 1 << row;
            surplus
        })
    }
}

impl fmt::Debug for Ignored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Ignored<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

/// The members of a message or group that came with length zero, which withdraws the value of an
/// earlier message. Spec: TS 29.244 §5.6.3.
#[derive(Clone, Copy)]
pub struct Withdrawn {
    members: &'static [Member],
    rows: u64,
}

impl Withdrawn {
    /// Creates the set of withdrawn members; `rows` has one bit for each of `members`.
    pub(crate) const fn of(members: &'static [Member], rows: u64) -> Self {
        Self { members, rows }
    }

    /// Withdraws the member `ie`. Returns false if it is not a nullable member of the body.
    pub fn insert(&mut self, ie: IeType) -> bool {
        let row = self.members.iter().position(|member| member.ie == ie && member.is_nullable);
        self.rows |= row.map_or(0, |row| 1 << row);
        row.is_some()
    }

    /// Returns the types of the withdrawn members, in the order of their rows.
    ///
    /// PERF (adit-bench n4): every part of a rule calls it, and nearly always nothing is withdrawn.
    pub fn iter(self) -> impl Iterator<Item = IeType> {
        let mut rows = self.rows;
        core::iter::from_fn(move || {
            let row = usize::try_from(rows.trailing_zeros()).ok()?;
            rows &= rows.checked_sub(1)?;
            self.members.get(row).map(|member| member.ie)
        })
    }
}

impl fmt::Debug for Withdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Withdrawn {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

/// The default of a member that some senders omit.
pub(crate) trait WhenAbsent {
    /// The value that the receiver assumes if the member is absent.
    const ABSENT: Self;
}

/// State of the decoder while it iterates over one body.
#[derive(Debug, Default)]
pub(crate) struct DecodeProgress {
    pub ignored: u16,
    pub incorrect: u64,
    /// Bit i is set if the member of row i came with length zero.
    pub withdrawn: u64,
}

/// An IE in a body: its position, and its row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundIe<'a> {
    pub ie: RawIe<'a>,
    pub start: usize,
    pub end: usize,
    pub row: u32,
    pub lenient: bool,
}

impl FoundIe<'_> {
    #[cold]
    fn error(&self, error: IeError) -> DecodeError {
        DecodeError::from_ie(error, self.ie.ie_type, offset16(self.start))
    }
}

#[cold]
pub(crate) fn missing(ie: IeType, body: &[u8]) -> DecodeError {
    DecodeError::new(DecodeErrorKind::MandatoryMissing, ie, offset16(body.len()))
}

/// Decodes a member that may occur once into `slot`.
#[inline]
pub(crate) fn take_one<'a, T: Ie<'a>>(
    slot: &mut Option<T>,
    found: FoundIe<'a>,
    walked: &mut DecodeProgress,
) -> Result<(), DecodeError> {
    if slot.is_some() || (walked.incorrect >> found.row) & 1 == 1 {
        walked.ignored = walked.ignored.saturating_add(1);
        return Ok(());
    }
    match T::decode(found.ie.value) {
        Ok(value) => *slot = Some(value),
        Err(IeError::Value) if found.lenient => {
            walked.ignored = walked.ignored.saturating_add(1);
            walked.incorrect |= 1 << found.row;
        }
        Err(error) => return Err(found.error(error)),
    }
    Ok(())
}

/// Notes a member of length zero and returns `None`; returns any other member unchanged. It is an
/// error if a body has a member both with length zero and with a value.
#[inline]
pub(crate) fn take_null<'a>(
    has_value: bool,
    found: FoundIe<'a>,
    walked: &mut DecodeProgress,
) -> Result<Option<FoundIe<'a>>, DecodeError> {
    let is_null = found.ie.value.is_empty();
    let was_null = (walked.withdrawn >> found.row) & 1 == 1;
    match is_null {
        true if has_value => Err(found.error(IeError::Length)),
        false if was_null => Err(found.error(IeError::Length)),
        true => {
            walked.withdrawn |= 1 << found.row;
            Ok(None)
        }
        false => Ok(Some(found)),
    }
}

/// The octets from the first to the last occurrence of a repeatable member, and the occurrences.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    start: usize,
    end: usize,
    count: u16,
}

impl Span {
    pub(crate) fn list<'a, T: Ie<'a> + Copy>(self, body: &'a [u8], ie: IeType) -> Repeated<'a, T> {
        if self.count == 0 {
            return Repeated::new();
        }
        Repeated::from_wire(body.get(self.start..self.end).unwrap_or_default(), ie, self.count)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// Adds an occurrence of a repeatable member to its span.
#[inline]
pub(crate) fn take_several<'a, T: Ie<'a>>(
    span: &mut Span,
    found: FoundIe<'a>,
) -> Result<(), DecodeError> {
    T::decode(found.ie.value).map_err(|error| found.error(error))?;
    if span.count == 0 {
        span.start = found.start;
    }
    span.end = found.end;
    // Cannot saturate: 65,535 octets hold at most 16,383 IEs.
    span.count = span.count.saturating_add(1);
    Ok(())
}

/// Defines messages or grouped IEs. A row is `name: presence IE_CONST => Type`. Presence is `M`,
/// `C` or `O`; `Ms`, `Cs` or `Os` if the member may occur several times; `N` or `Ns` for a
/// conditional member that length zero withdraws; `D` for a member that is always sent, and that
/// has the value [`WhenAbsent::ABSENT`] if a sender omits it.
macro_rules! bodies {
    ($(
        $(#[$doc:meta])*
        $kind:ident $name:ident = $type:ident $(, rule $rule:ident)? {
            $( $(#[$fdoc:meta])* $field:ident: $presence:ident $ie:ident => $ty:ty, )*
        }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name<'a> {
            $(
                #[doc = concat!("IE `", stringify!($ie), "`, presence ", stringify!($presence), ".")]
                $(#[$fdoc])*
                pub $field: $crate::body::bodies!(@type $presence $ty),
            )*
            /// The members of length zero, which withdraws the value of an earlier message.
            pub withdrawn: $crate::body::Withdrawn,
            /// The IEs that were skipped while decoding.
            pub ignored: $crate::body::Ignored<'a>,
        }

        impl<'a> $name<'a> {
            /// The possible members.
            pub const MEMBERS: &'static [$crate::body::Member] = &[ $(
                $crate::body::bodies!(@member $presence $ie),
            )* ];

            $crate::body::bodies!(@new [] [] $( ($field $presence $ty) )*);

            #[allow(unused_variables, reason = "a message can have no members")]
            fn decode_members(body: &'a [u8], lenient: bool)
                -> Result<Self, $crate::ie::DecodeError>
            {
                #[allow(
                    non_camel_case_types,
                    clippy::upper_case_acronyms,
                    reason = "variants have the names of fields"
                )]
                #[repr(u32)]
                enum Row { $( $field, )* Count }
                const { assert!((Row::Count as u32) <= 64, "the mask of rows has 64 bits") };
                $( let mut $field = $crate::body::bodies!(@slot $presence $ty); )*
                let mut walked = $crate::body::DecodeProgress::default();
                let mut ies = $crate::ie::IeIter::new(body);
                loop {
                    let start = ies.offset();
                    let Some(ie) = ies.next() else { break };
                    let ie = ie?;
                    let end = ies.offset();
                    match ie.ie_type {
                        $(
                            $crate::ie::IeType::$ie => {
                                let found = $crate::body::FoundIe {
                                    ie, start, end, row: Row::$field as u32,
                                    lenient: lenient && $crate::body::bodies!(@lenient $presence),
                                };
                                $crate::body::bodies!(
                                    @take $presence $ty, $field, found, &mut walked)?;
                            }
                        )*
                        _ => walked.ignored = walked.ignored.saturating_add(1),
                    }
                }
                Ok(Self {
                    $( $field: $crate::body::bodies!(@finish $presence $ie, $field, body), )*
                    withdrawn: $crate::body::Withdrawn::of(Self::MEMBERS, walked.withdrawn),
                    ignored: $crate::body::Ignored::new(
                        body, Self::MEMBERS, walked.incorrect, walked.ignored),
                })
            }

            fn encode_members(&self, w: &mut $crate::writer::PfcpWriter<'_>)
                -> Result<(), $crate::writer::NoRoom>
            {
                $( $crate::body::bodies!(@put $presence $ie, self.$field, w); )*
                for ie_type in self.withdrawn.iter() {
                    w.raw(&$crate::ie::RawIe { ie_type, enterprise_id: None, value: &[] })?;
                }
                for ie in self.ignored.iter() {
                    w.raw(&ie)?;
                }
                Ok(())
            }
        }

        $crate::body::bodies!(@impl $kind $name $type $($rule)?);
    )* };

    (@type M $ty:ty) => { $ty };
    (@type D $ty:ty) => { $ty };
    (@type C $ty:ty) => { Option<$ty> };
    (@type O $ty:ty) => { Option<$ty> };
    (@type N $ty:ty) => { Option<$ty> };
    (@type $several:ident $ty:ty) => { $crate::repeated::Repeated<'a, $ty> };

    (@member M $ie:ident) => { $crate::body::bodies!(@row Mandatory $ie false false) };
    (@member D $ie:ident) => { $crate::body::bodies!(@row Conditional $ie false false) };
    (@member C $ie:ident) => { $crate::body::bodies!(@row Conditional $ie false false) };
    (@member O $ie:ident) => { $crate::body::bodies!(@row Optional $ie false false) };
    (@member Ms $ie:ident) => { $crate::body::bodies!(@row Mandatory $ie true false) };
    (@member Cs $ie:ident) => { $crate::body::bodies!(@row Conditional $ie true false) };
    (@member Os $ie:ident) => { $crate::body::bodies!(@row Optional $ie true false) };
    (@member N $ie:ident) => { $crate::body::bodies!(@row Conditional $ie false true) };
    (@member Ns $ie:ident) => { $crate::body::bodies!(@row Conditional $ie true true) };
    (@row $presence:ident $ie:ident $repeatable:literal $nullable:literal) => {
        $crate::body::Member {
            ie: $crate::ie::IeType::$ie,
            presence: $crate::body::Presence::$presence,
            repeatable: $repeatable,
            is_nullable: $nullable,
        }
    };

    (@new [$($arg:tt)*] [$($init:tt)*] ($field:ident M $ty:ty) $($rest:tt)*) => {
        $crate::body::bodies!(@new [$($arg)* $field: $ty,] [$($init)* $field,] $($rest)*);
    };
    (@new [$($arg:tt)*] [$($init:tt)*] ($field:ident D $ty:ty) $($rest:tt)*) => {
        $crate::body::bodies!(@new [$($arg)* $field: $ty,] [$($init)* $field,] $($rest)*);
    };
    (@new [$($arg:tt)*] [$($init:tt)*] ($field:ident Ms $ty:ty) $($rest:tt)*) => {
        $crate::body::bodies!(@new
            [$($arg)* $field: $crate::repeated::Repeated<'a, $ty>,] [$($init)* $field,] $($rest)*);
    };
    (@new [$($arg:tt)*] [$($init:tt)*] ($field:ident $other:ident $ty:ty) $($rest:tt)*) => {
        $crate::body::bodies!(@new
            [$($arg)*] [$($init)* $field: Default::default(),] $($rest)*);
    };
    (@new [$($arg:tt)*] [$($init:tt)*]) => {
        /// Creates a body with its mandatory members only.
        #[must_use]
        #[allow(
            clippy::too_many_arguments,
            clippy::new_without_default,
            reason = "one argument for each mandatory member, whatever their number"
        )]
        pub fn new($($arg)*) -> Self {
            Self {
                $($init)*
                withdrawn: $crate::body::Withdrawn::of(Self::MEMBERS, 0),
                ignored: $crate::body::Ignored::NONE,
            }
        }
    };

    (@slot M $ty:ty) => { None::<$ty> };
    (@slot D $ty:ty) => { None::<$ty> };
    (@slot C $ty:ty) => { None::<$ty> };
    (@slot O $ty:ty) => { None::<$ty> };
    (@slot N $ty:ty) => { None::<$ty> };
    (@slot $several:ident $ty:ty) => { $crate::body::Span::default() };

    (@lenient O) => { true };
    (@lenient $other:ident) => { false };

    (@take M $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        $crate::body::take_one::<$ty>(&mut $slot, $found, $walked)
    };
    (@take D $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        $crate::body::take_one::<$ty>(&mut $slot, $found, $walked)
    };
    (@take C $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        $crate::body::take_one::<$ty>(&mut $slot, $found, $walked)
    };
    (@take O $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        $crate::body::take_one::<$ty>(&mut $slot, $found, $walked)
    };
    (@take N $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        match $crate::body::take_null($slot.is_some(), $found, $walked)? {
            Some(found) => $crate::body::take_one::<$ty>(&mut $slot, found, $walked),
            None => Ok(()),
        }
    };
    (@take Ns $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        match $crate::body::take_null(!$slot.is_empty(), $found, $walked)? {
            Some(found) => $crate::body::take_several::<$ty>(&mut $slot, found),
            None => Ok(()),
        }
    };
    (@take $several:ident $ty:ty, $slot:ident, $found:expr, $walked:expr) => {
        $crate::body::take_several::<$ty>(&mut $slot, $found)
    };

    (@finish M $ie:ident, $slot:ident, $body:ident) => {
        $slot.ok_or_else(|| $crate::body::missing($crate::ie::IeType::$ie, $body))?
    };
    (@finish D $ie:ident, $slot:ident, $body:ident) => {
        $slot.unwrap_or($crate::body::WhenAbsent::ABSENT)
    };
    (@finish C $ie:ident, $slot:ident, $body:ident) => { $slot };
    (@finish O $ie:ident, $slot:ident, $body:ident) => { $slot };
    (@finish N $ie:ident, $slot:ident, $body:ident) => { $slot };
    (@finish Ms $ie:ident, $slot:ident, $body:ident) => {{
        if $slot.is_empty() {
            return Err($crate::body::missing($crate::ie::IeType::$ie, $body));
        }
        $slot.list($body, $crate::ie::IeType::$ie)
    }};
    (@finish $several:ident $ie:ident, $slot:ident, $body:ident) => {
        $slot.list($body, $crate::ie::IeType::$ie)
    };

    (@put M $ie:ident, $value:expr, $w:ident) => {
        $w.put_as($crate::ie::IeType::$ie, &$value)?
    };
    (@put D $ie:ident, $value:expr, $w:ident) => {
        $w.put_as($crate::ie::IeType::$ie, &$value)?
    };
    (@put C $ie:ident, $value:expr, $w:ident) => {
        if let Some(value) = &$value { $w.put_as($crate::ie::IeType::$ie, value)? }
    };
    (@put O $ie:ident, $value:expr, $w:ident) => {
        if let Some(value) = &$value { $w.put_as($crate::ie::IeType::$ie, value)? }
    };
    (@put N $ie:ident, $value:expr, $w:ident) => {
        if let Some(value) = &$value { $w.put_as($crate::ie::IeType::$ie, value)? }
    };
    (@put $several:ident $ie:ident, $value:expr, $w:ident) => {
        for value in $value { $w.put_as($crate::ie::IeType::$ie, &value)? }
    };

    (@impl group $name:ident $type:ident $($rule:ident)?) => {
        impl<'a> $crate::ie::Ie<'a> for $name<'a> {
            const TYPE: $crate::ie::IeType = $crate::ie::IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, $crate::ie::IeError> {
                Self::decode_members(value, false).map_err(|error| {
                    $( let error = $crate::body::with_rule(
                        error, $crate::ie::FailedRuleId::$rule, value); )?
                    $crate::ie::IeError::Nested(error)
                })
            }

            fn encode(&self, w: &mut $crate::writer::PfcpWriter<'_>)
                -> Result<(), $crate::writer::NoRoom>
            {
                self.encode_members(w)
            }
        }
    };
    (@impl message $name:ident $type:ident) => {
        impl<'a> $crate::body::MessageBody<'a> for $name<'a> {
            const TYPE: $crate::message_type::MessageType = $crate::message_type::MessageType::$type;

            fn decode_body(body: &'a [u8]) -> Result<Self, $crate::ie::DecodeError> {
                Self::decode_members(body, true)
            }

            fn encode_body(&self, w: &mut $crate::writer::PfcpWriter<'_>)
                -> Result<(), $crate::writer::NoRoom>
            {
                self.encode_members(w)
            }
        }
    };
}

pub(crate) use bodies;

/// Adds the identifier of the rule that contains the error, if it is readable.
#[cold]
pub(crate) fn with_rule<'a, T: Ie<'a>>(
    error: DecodeError,
    wrap: impl Fn(T) -> crate::ie::FailedRuleId,
    group: &'a [u8],
) -> DecodeError {
    let id = IeIter::new(group)
        .flatten()
        .find(|ie| ie.ie_type == T::TYPE)
        .and_then(|ie| T::decode(ie.value).ok());
    DecodeError { rule: error.rule.or_else(|| id.map(wrap)), ..error }
}

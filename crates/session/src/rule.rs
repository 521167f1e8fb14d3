//! Generates from one declaration per rule: its record, the packing of the record, its update, and
//! the application of an update to a record.

use adit_rules::{ApplyAction, DestinationInterface};
use adit_types::{BarId, Precedence, QerId, UrrId};

/// The change of a part of a rule by an update. Spec: TS 29.244 §5.6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// Leaves the part as it is.
    #[default]
    Keep,
    /// Replaces the part, or adds it.
    Set(T),
    /// Removes the part. A part that a rule always has becomes zero, false or its first variant.
    Withdraw,
}

impl<T> Change<T> {
    /// Returns the new value, if there is one.
    #[must_use]
    pub fn set(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Withdraw => None,
        }
    }

    /// Converts the new value, if there is one, by `of`.
    #[must_use]
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Set(value) => Change::Set(of(value)),
            Self::Withdraw => Change::Withdraw,
        }
    }

    /// Returns a reference to the new value, if there is one.
    #[must_use]
    pub const fn as_set(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Withdraw => None,
        }
    }

    /// True if the change is [`Change::Set`].
    #[must_use]
    pub const fn is_set(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// True if the change is [`Change::Withdraw`].
    #[must_use]
    pub const fn is_withdrawal(&self) -> bool {
        matches!(self, Self::Withdraw)
    }
}

/// `None` keeps the part as it is.
impl<T> From<Option<T>> for Change<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Keep, Self::Set)
    }
}

impl<T> From<T> for Change<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

/// A part of a rule that an update may change.
pub trait RulePart: Sized {
    /// The type by which an update changes the part.
    type Update: Default;

    /// Applies an update.
    fn change(&mut self, update: Self::Update);

    /// Returns the update that sets the part to this value, or keeps it if this value is empty.
    fn into_update(self) -> Self::Update;
}

/// Optional parts.
impl<T> RulePart for Option<T> {
    type Update = Change<T>;

    fn change(&mut self, update: Change<T>) {
        match update {
            Change::Keep => {}
            Change::Set(value) => *self = Some(value),
            Change::Withdraw => *self = None,
        }
    }

    fn into_update(self) -> Change<T> {
        self.into()
    }
}

/// Lists, which an update replaces as a whole.
impl<T> RulePart for Vec<T> {
    type Update = Change<Self>;

    fn change(&mut self, update: Change<Self>) {
        match update {
            Change::Keep => {}
            Change::Set(value) => *self = value,
            Change::Withdraw => self.clear(),
        }
    }

    fn into_update(self) -> Change<Self> {
        if self.is_empty() { Change::Keep } else { Change::Set(self) }
    }
}

/// Implements [`RulePart`] for types of parts that every rule has.
macro_rules! always {
    ($($type:ty),+) => { $(
        impl $crate::rule::RulePart for $type {
            type Update = $crate::rule::Change<Self>;

            fn change(&mut self, update: Self::Update) {
                match update {
                    $crate::rule::Change::Keep => {}
                    $crate::rule::Change::Set(value) => *self = value,
                    $crate::rule::Change::Withdraw => *self = $crate::pack::Pack::absent(),
                }
            }

            fn into_update(self) -> Self::Update {
                $crate::rule::Change::Set(self)
            }
        }
    )+ };
}

always!(bool, u8, ApplyAction, DestinationInterface, Precedence);

/// Implements [`RulePart`] for identifiers, which no update changes.
macro_rules! identifiers {
    ($($type:ty),+) => { $(
        impl RulePart for $type {
            type Update = Self;

            fn change(&mut self, update: Self) {
                debug_assert_eq!(*self, update, "an update of another rule");
            }

            fn into_update(self) -> Self {
                self
            }
        }
    )+ };
}

identifiers!(BarId, QerId, UrrId);

/// Declares a rule: `pub struct Record, Update { fields }`. In the update, each field has the type
/// [`RulePart::Update`] of the record's field.
///
/// Fields are packed in the order of declaration, so a new field must be the last.
macro_rules! rule {
    (
        $(#[$meta:meta])*
        pub struct $record:ident, $update:ident {
            $( $(#[$doc:meta])* pub $field:ident: $type:ty, )+
        }
    ) => {
        $crate::pack::packed! {
            $(#[$meta])*
            pub struct $record { $( $(#[$doc])* pub $field: $type, )+ }
        }

        #[doc = concat!("An update of a [`", stringify!($record), "`].")]
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $update {
            $( $(#[$doc])* pub $field: <$type as $crate::rule::RulePart>::Update, )+
        }

        impl $crate::rule::RulePart for $record {
            type Update = $update;

            fn change(&mut self, update: $update) {
                $( $crate::rule::RulePart::change(&mut self.$field, update.$field); )+
            }

            fn into_update(self) -> $update {
                $update { $( $field: $crate::rule::RulePart::into_update(self.$field), )+ }
            }
        }

        impl From<$record> for $update {
            fn from(record: $record) -> Self {
                $crate::rule::RulePart::into_update(record)
            }
        }
    };
}

pub(crate) use {always, rule};

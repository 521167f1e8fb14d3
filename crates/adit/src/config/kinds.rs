//! The kinds of values that keys have: how each is read, shown and described.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use adit_types::Nanos;

use super::described::Takes;
use super::section::ConfigValue;

/// Reads, shows and describes values that the settings have as `T`.
pub(super) trait Kind<T> {
    /// Converts the value in the file.
    ///
    /// # Errors
    /// The message to the user: the values that the key accepts.
    fn of(&self, value: &ConfigValue<'_>) -> Result<T, String>;

    /// Converts an item of a list. The error is the message about the list.
    fn of_item(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        self.of(value)
    }

    /// Describes a value in words, without its unit.
    fn show(&self, value: &T) -> String;

    fn unit(&self) -> &'static str {
        ""
    }

    fn takes(&self) -> Takes;

    /// Returns a value as the file would have it.
    fn written(&self, value: &T) -> String {
        match self.takes() {
            Takes::Words(_) | Takes::Text(_) => format!("\"{}\"", self.show(value)),
            _ => self.show(value),
        }
    }
}

/// A whole number within a range.
pub(super) struct Integer<T> {
    range: RangeInclusive<T>,
    unit: &'static str,
}

pub(super) const fn integer<T>(range: RangeInclusive<T>) -> Integer<T> {
    Integer { range, unit: "" }
}

/// Makes the kind of rates in Mb/s.
pub(super) const fn mbps(range: RangeInclusive<u64>) -> Integer<u64> {
    Integer { range, unit: "Mb/s" }
}

impl<T: Display> Integer<T> {
    /// Returns the message for a wrong value: the values that the key accepts.
    pub(super) fn refusal(&self) -> String {
        format!("takes a whole number from {} to {}", self.range.start(), self.range.end())
    }
}

impl<T: Copy + PartialOrd + Display + TryFrom<i64>> Kind<T> for Integer<T> {
    fn of(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        let integer = value.get_ref().as_integer();
        let number = integer.and_then(|of| i64::from_str_radix(of.as_str(), of.radix()).ok());
        let number = number.and_then(|number| T::try_from(number).ok());
        number.filter(|number| self.range.contains(number)).ok_or_else(|| self.refusal())
    }

    fn of_item(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        let (low, high) = (self.range.start(), self.range.end());
        self.of(value).map_err(|_| format!("takes whole numbers from {low} to {high}"))
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn takes(&self) -> Takes {
        Takes::Integer(self.range.start().to_string(), self.range.end().to_string())
    }
}

/// A time in whole units.
pub(super) struct Time {
    number: Integer<u64>,
    /// Length of the unit. Unit: nanoseconds.
    unit: u64,
}

pub(super) const fn seconds(range: RangeInclusive<u64>) -> Time {
    Time { number: Integer { range, unit: "s" }, unit: 1_000_000_000 }
}

pub(super) const fn millis(range: RangeInclusive<u64>) -> Time {
    Time { number: Integer { range, unit: "ms" }, unit: 1_000_000 }
}

pub(super) const fn micros(range: RangeInclusive<u64>) -> Time {
    Time { number: Integer { range, unit: "µs" }, unit: 1000 }
}

impl Kind<Nanos> for Time {
    fn of(&self, value: &ConfigValue<'_>) -> Result<Nanos, String> {
        self.number.of(value).map(|units| Nanos(units * self.unit))
    }

    fn show(&self, value: &Nanos) -> String {
        (value.0 / self.unit).to_string()
    }

    fn unit(&self) -> &'static str {
        self.number.unit
    }

    fn takes(&self) -> Takes {
        self.number.takes()
    }
}

/// A value from a fixed set of names.
pub(super) struct Words<T: 'static>(&'static [(&'static str, T)]);

pub(super) const fn words<T>(names: &'static [(&'static str, T)]) -> Words<T> {
    Words(names)
}

impl<T: Copy> Words<T> {
    /// Returns the value whose name is in `value`; `None` if no name matches.
    pub(super) fn find(&self, value: &ConfigValue<'_>) -> Option<T> {
        let text = value.get_ref().as_str()?;
        self.0.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    }

    /// Lists all names, separated by `between`.
    pub(super) fn names(&self, between: &str) -> String {
        let names = self.0.iter().map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(between)
    }
}

impl<T: Copy + PartialEq> Kind<T> for Words<T> {
    fn of(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        self.find(value).ok_or_else(|| format!("takes {}", self.names(" or ")))
    }

    fn of_item(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        let what = || format!("takes a list of names out of {}", self.names(", "));
        self.find(value).ok_or_else(what)
    }

    fn show(&self, value: &T) -> String {
        let name = self.0.iter().find(|(_, known)| known == value);
        name.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }

    fn takes(&self) -> Takes {
        Takes::Words(self.0.iter().map(|(name, _)| *name).collect())
    }
}

/// True or false.
pub(super) struct Flag;

impl Kind<bool> for Flag {
    fn of(&self, value: &ConfigValue<'_>) -> Result<bool, String> {
        value.get_ref().as_bool().ok_or_else(|| "takes true or false".to_owned())
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }

    fn takes(&self) -> Takes {
        Takes::Flag
    }
}

/// A text of a certain form.
pub(super) struct Text {
    /// Description of the form, with an example.
    expects: &'static str,
    check: fn(&str) -> Result<(), String>,
}

pub(super) const fn text(expects: &'static str) -> Text {
    Text { expects, check: |_| Ok(()) }
}

impl Text {
    /// Sets the check that a text must pass; its error is the message to the user.
    pub(super) const fn check(self, check: fn(&str) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }
}

impl<T: FromStr + Display> Kind<T> for Text {
    fn of(&self, value: &ConfigValue<'_>) -> Result<T, String> {
        let Some(text) = value.get_ref().as_str() else {
            return Err(format!("takes {}, in quotes", self.expects));
        };
        let wrong = |_| format!("\"{text}\" is not {}", self.expects);
        (self.check)(text).and_then(|()| text.parse().map_err(wrong))
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }

    fn takes(&self) -> Takes {
        Takes::Text(self.expects)
    }
}

//! Reads members of the documents of [`crate::snapshot`]: their values, and their rates.

use serde_json::Value;

/// A document, or a part of it, at two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentPair<'a> {
    before: &'a Value,
    now: &'a Value,
    interval_s: f64,
}

impl<'a> DocumentPair<'a> {
    pub(crate) const fn new(before: &'a Value, now: &'a Value, interval_s: f64) -> Self {
        Self { before, now, interval_s }
    }

    /// Returns the member `name` at both moments.
    pub(crate) fn part(&self, name: &str) -> Self {
        let part = |of: &'a Value| of.get(name).unwrap_or(&Value::Null);
        Self { before: part(self.before), now: part(self.now), ..*self }
    }

    /// Returns the rows of a list, each with the earlier row of the same `key`, or with null.
    pub(crate) fn rows(&self, list: &str, key: &str) -> Vec<Self> {
        let before = rows(self.before, list);
        let pair = |now: &'a Value| {
            let before = before.iter().find(|row| row[key] == now[key]).unwrap_or(&Value::Null);
            Self { before, now, ..*self }
        };
        rows(self.now, list).iter().map(pair).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.now.as_object().into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Returns how much a count grows per second; zero if it fell, as after a restart.
    pub(crate) fn rate(&self, name: &str) -> f64 {
        rate(number(self.before, name), number(self.now, name), self.interval_s)
    }

    /// Returns [`Self::rate`], rounded.
    pub(crate) fn whole_rate(&self, name: &str) -> u64 {
        whole(self.rate(name))
    }

    /// Returns how much a count of octets grows per second. Unit: bits.
    pub(crate) fn whole_bits(&self, name: &str) -> u64 {
        whole(8.0 * self.rate(name))
    }

    /// Returns how many PFCP requests were refused per second, from the group of N4 counters.
    pub(crate) fn refusals(&self) -> f64 {
        let refused = self.names().filter(|name| name.starts_with("refused_cause_"));
        refused.map(|name| self.rate(name)).sum()
    }

    /// Returns the present value of a member.
    pub(crate) fn get(&self, name: &str) -> &'a Value {
        &self.now[name]
    }

    /// Returns a member as a count; zero if it is no count.
    pub(crate) fn number(&self, name: &str) -> u64 {
        number(self.now, name)
    }

    /// Returns a member as a number; zero if it is no number.
    pub(crate) fn float(&self, name: &str) -> f64 {
        self.now[name].as_f64().unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        text(self.now, name)
    }
}

/// Returns how much a count grows per second; zero if it fell.
pub(crate) fn rate(before: u64, now: u64, interval_s: f64) -> f64 {
    let grown = adit_operate::metrics::as_gauge(now.saturating_sub(before));
    if interval_s > 0.0 { grown / interval_s } else { 0.0 }
}

pub(crate) fn whole(rate: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are not negative, and the cast saturates"
    )]
    let rate = rate.round() as u64;
    rate
}

/// Returns a member of an object as a count; zero if the object lacks it.
pub(crate) fn number(of: &Value, member: &str) -> u64 {
    of.get(member).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns a member of an object as text; empty if the object lacks it.
pub(crate) fn text(of: &Value, member: &str) -> String {
    match of.get(member) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

pub(crate) fn rows<'a>(document: &'a Value, list: &str) -> &'a [Value] {
    document.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

//! Several fast rules of one direction, of which SDF filters select one for each packet.
//!
//! The fast rules follow the lines of the compiled matcher. They are part of the published rules
//! and are freed with them; sessions without filters need no memory for them.

use adit_types::Direction;

use crate::fast_rule::FastRule;
use crate::matcher::{FlowKey, MatcherLine, MatcherRoot, MatcherView};
use crate::packed_fast_rule::PackedFastRule;
use crate::published::PublishedRules;
use crate::rule::SessionRules;

/// Maximum number of PDRs of a selector.
pub(super) const SELECTOR_PDRS_MAX: usize = 16;

/// The index of a PDR that has no fast rule.
const NO_FAST_RULE: u64 = 0xf;

/// For each of the first 16 PDRs, the index of its fast rule among those after the matcher. Four
/// bits for each PDR, from the lowest; 15 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FastRuleNumbers(u64);

impl FastRuleNumbers {
    const NONE: Self = Self(u64::MAX);

    const fn set(&mut self, pdr: usize, number: u64) {
        self.0 &= !(NO_FAST_RULE << (pdr * 4));
        self.0 |= number << (pdr * 4);
    }

    /// Returns the index of the fast rule of a PDR below [`SELECTOR_PDRS_MAX`].
    #[inline]
    const fn get(self, pdr: usize) -> u64 {
        self.0 >> (pdr * 4) & NO_FAST_RULE
    }
}

/// Selects one of the fast rules that are stored after the lines of a matcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedSelector {
    /// [`PackedFastRule::RELAY`] if one of the fast rules has this flag.
    flags: u64,
    /// How many lines the matcher has, without the fast rules after them.
    matcher_lines: u32,
    numbers: FastRuleNumbers,
}

impl PackedSelector {
    /// Appends the fast rules of one direction, after `refine` has changed them, to the direction's
    /// matcher. `None` without a matcher or without any fast rule.
    pub(super) fn append(
        rules: &mut SessionRules,
        direction: Direction,
        refine: impl Fn(FastRule) -> FastRule,
    ) -> Option<Self> {
        let matcher = rules.matcher(direction)?;
        let matcher_lines = u32::try_from(matcher.lines().len()).ok()?;
        let mut lines: Vec<MatcherLine> = Vec::new();
        let (mut numbers, mut flags) = (FastRuleNumbers::NONE, 0);
        for (at, pdr) in rules.pdrs(direction).iter().take(SELECTOR_PDRS_MAX).enumerate() {
            let Ok(rule) = FastRule::of_pdr(rules, pdr, direction) else { continue };
            let rule = PackedFastRule::from(&refine(rule));
            let line = rule.to_line();
            let number = lines.iter().position(|known| *known == line).unwrap_or(lines.len());
            let Some(number) = u64::try_from(number).ok().filter(|number| *number < NO_FAST_RULE)
            else {
                continue;
            };
            if lines.len() as u64 == number {
                lines.push(line);
                flags |= rule.flags() & PackedFastRule::RELAY;
            }
            numbers.set(at, number);
        }
        if lines.is_empty() {
            return None;
        }
        rules.matcher_mut(direction)?.append(&lines);
        Some(Self { flags, matcher_lines, numbers })
    }

    /// Returns the flags, which are stored in front of the words.
    #[inline]
    #[must_use]
    pub const fn flags(self) -> u64 {
        self.flags
    }

    /// Returns the selector as two words, which are stored after its flags.
    #[must_use]
    pub fn to_words(self) -> [u64; 2] {
        [self.numbers.0, self.matcher_lines.into()]
    }

    /// Restores a selector from [`PackedSelector::flags`] and [`PackedSelector::to_words`]; ignores
    /// the upper half of the second word.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "written from this width")]
    pub const fn of_words(flags: u64, [numbers, matcher_lines]: [u64; 2]) -> Self {
        let matcher_lines = matcher_lines as u32;
        Self { flags, matcher_lines, numbers: FastRuleNumbers(numbers) }
    }

    /// Combines the selector with the matcher of the published rules that were compiled with it.
    #[must_use]
    pub fn view(self, rules: &PublishedRules, direction: Direction) -> Option<SelectorView<'_>> {
        let matcher = rules.matcher(direction)?;
        Some(SelectorView::new(self, matcher.roots(), matcher.lines()))
    }
}

/// A selector with the lines of the matcher and fast rules that it reads.
#[derive(Debug, Clone, Copy)]
pub struct SelectorView<'a> {
    selector: PackedSelector,
    roots: [MatcherRoot; 2],
    /// The lines of the matcher, then one for each fast rule.
    lines: &'a [MatcherLine],
}

impl<'a> SelectorView<'a> {
    /// Views roots and lines of a matcher, which may be copies outside the published rules.
    #[inline]
    #[must_use]
    pub const fn new(
        selector: PackedSelector,
        roots: [MatcherRoot; 2],
        lines: &'a [MatcherLine],
    ) -> Self {
        Self { selector, roots, lines }
    }

    /// Returns the line of the packet's fast rule ([`PackedFastRule::of_line`]). `None` if the
    /// packet has none and must take the stages.
    // PERF (adit-bench datapath --sdf): a call would pass the key through memory.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: &FlowKey) -> Option<&'a MatcherLine> {
        let found = MatcherView::new(self.roots, self.lines).first(key)?;
        if found.needs_check || found.pdr >= SELECTOR_PDRS_MAX {
            return None;
        }
        let number = usize::try_from(self.selector.numbers.get(found.pdr)).ok()?;
        // There are fewer than 15 fast rules, so number 15 is beyond the last line.
        self.lines.get(self.selector.matcher_lines as usize + number)
    }
}

//! Several fast rules of one direction: the SDF filters of the session select the one of a packet.
//!
//! A selector looks up lines of the published rules of its session. The cell of the session refers to
//! them, so that a packet does not visit the rules themselves on its way to the lines.

use core::fmt;

use adit_rules::compile::{PackedSelector, SelectorView};
use adit_rules::{FlowKey, MatcherLine, MatcherRoot, PublishedRules};
use adit_types::{Direction, SessionIndex};

use crate::fast_rule::{
    CellWords, FastRuleCell, FastRuleCellRef, FastRuleSnapshot, FastRuleTable, WrittenRule,
};
use crate::prefetch;
use crate::publish::SlotGuard;

/// Leads packets of one direction of a session to their fast rule.
#[derive(Clone, Copy)]
pub struct FastRuleSelector<'a> {
    view: SelectorView<'a>,
    /// Where the session's traffic is counted.
    cell: &'a FastRuleCell,
}

impl fmt::Debug for FastRuleSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleSelector").field("view", &self.view).finish_non_exhaustive()
    }
}

/// The fast rule of one packet.
#[derive(Clone, Copy)]
pub struct SelectedFastRule<'a> {
    line: &'a MatcherLine,
    cell: &'a FastRuleCell,
}

impl fmt::Debug for SelectedFastRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedFastRule").field("line", self.line).finish_non_exhaustive()
    }
}

/// The words of a cell that refers to the lines of published rules: where they begin, both roots, the
/// numbers of the selector, and in one word the number of all lines above that of the matcher's.
fn to_words(
    selector: PackedSelector,
    rules: &PublishedRules,
    direction: Direction,
) -> Option<CellWords> {
    let matcher = rules.matcher(direction)?;
    let lines = matcher.lines();
    let [numbers, matcher_lines] = selector.to_words();
    let counts = (lines.len() as u64) << 32 | matcher_lines;
    let [v4, v6] = matcher.roots().map(MatcherRoot::to_bits);
    Some(CellWords { first: lines.as_ptr().cast_mut(), words: [v4, v6, numbers, counts] })
}

impl FastRuleTable {
    /// Lets packets of one direction select among fast rules. For the publisher only, with the rules
    /// that it published last for this session.
    pub(crate) fn set_selector(
        &self,
        session: SessionIndex,
        direction: Direction,
        rules: &PublishedRules,
        selector: PackedSelector,
    ) -> WrittenRule {
        let words = to_words(selector, rules, direction);
        let cell = self.cell(session, direction).zip(words);
        cell.map_or(WrittenRule::NONE, |(cell, words)| cell.write_selector(words))
    }
}

impl<'g> FastRuleCellRef<'g> {
    /// The selector of one direction; `None` without one, and while it is written.
    #[inline]
    pub(crate) fn selector(
        self,
        _guard: SlotGuard<'g, PublishedRules>,
    ) -> Option<FastRuleSelector<'g>> {
        let Self(cell) = self;
        let CellWords { first, words } = cell.read_selector()?;
        let [v4, v6, numbers, counts] = words;
        // JUSTIFICATION: the lines are as many as the session's filters need; room of a fixed size
        // would cost all sessions what few have.
        // SAFETY: the words are of one moment and of a selector, so `first` and the count were taken
        // from the lines of published rules, which do not change. The publisher replaces the words
        // before those rules leave their slot, so the guard keeps the lines alive as if it had loaded
        // the rules from there.
        let lines =
            unsafe { core::slice::from_raw_parts(first.cast_const(), (counts >> 32) as usize) };
        let roots = [v4, v6].map(MatcherRoot::from_bits);
        let view = SelectorView::new(PackedSelector::of_words([numbers, counts]), roots, lines);
        Some(FastRuleSelector { view, cell })
    }
}

impl<'a> FastRuleSelector<'a> {
    /// Prefetches the lines that a packet of the family needs first.
    #[inline]
    pub(crate) fn prefetch(&self, is_v6: bool) {
        let lines = self.view.first_lines(is_v6);
        // PERF (datapath --sdf): no branch between one line and two, as families differ in that.
        if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
            prefetch::read(first);
            prefetch::read(last);
        }
        if lines.len() > 2 {
            lines.iter().for_each(prefetch::read);
        }
    }

    /// The fast rule of the packet of `key`. `None` when only the rules decide.
    // PERF (datapath --sdf): a call would pass the key through memory.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: &FlowKey) -> Option<SelectedFastRule<'a>> {
        Some(SelectedFastRule { line: self.view.find(key)?, cell: self.cell })
    }
}

impl<'a> SelectedFastRule<'a> {
    /// Prefetches its line.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.line);
    }

    /// The fast rule.
    #[inline]
    #[must_use]
    pub fn fast_rule(self) -> FastRuleSnapshot<'a> {
        FastRuleSnapshot::of_line(self.line, self.cell)
    }
}

//! Several fast rules of one direction: SDF filters select the one that applies to a packet.
//!
//! The fast rules and the matcher of the filters are lines in the memory of the session's published
//! rules. The session's cell holds the address of these lines, so a packet finds them without
//! reading the published rules. A single filter is stored in the cell itself.

use core::fmt;

use adit_rules::compile::{FilterKey, PackedFilter, PackedSelector, SelectorView};
use adit_rules::{FlowKey, MatcherLine, MatcherRoot, PublishedRules};
use adit_types::{Direction, SessionIndex};

use crate::fast_rule::FastRuleTable;
use crate::fast_rule_cell::{
    CellFlags, CellKind, CellWords, FastRuleCell, FastRuleCellRef, FastRuleSnapshot, WrittenRule,
};
use crate::prefetch;
use crate::publish::SlotGuard;

/// Selects fast rules for packets of one direction of a session.
#[derive(Clone, Copy)]
pub struct FastRuleSelector<'a> {
    view: SelectorView<'a>,
    /// The flags of `cell` when the selector was read.
    flags: CellFlags,
    /// The cell that counts the session's traffic.
    cell: &'a FastRuleCell,
}

impl fmt::Debug for FastRuleSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleSelector").field("view", &self.view).finish_non_exhaustive()
    }
}

/// A single SDF filter that selects fast rules for packets of one direction of a session.
#[derive(Clone, Copy)]
pub struct FastRuleFilter<'a> {
    filter: PackedFilter,
    /// The line of the first fast rule.
    first: *const MatcherLine,
    /// The cell that counts the session's traffic.
    cell: &'a FastRuleCell,
    /// Keeps the lines alive.
    _guard: SlotGuard<'a, PublishedRules>,
}

impl fmt::Debug for FastRuleFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleFilter").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// The fast rule that SDF filters selected for a packet, not yet copied from its line.
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

/// Returns the words of a cell that refers to lines of published rules: the lines of the matcher,
/// then one line for each fast rule.
///
/// | word | |
/// |---|---|
/// | `first` | address of the lines |
/// | 0, 1 | where lookups of IPv4 and of IPv6 packets begin ([`MatcherRoot`]) |
/// | 2 | four bits for each of the first 16 PDRs: the index of its fast rule, 15 if it has none |
/// | 3 | bits 63..32: number of lines; 31..0: number of the matcher's lines |
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
    /// Writes a selector into the cell of one direction. `rules` are those published last for this
    /// session; if they have no matcher, writes nothing and returns [`WrittenRule::NONE`]. Workers
    /// do not read the selector before [`FastRuleTable::activate`] is called with the returned
    /// value. For the publisher only.
    pub(crate) fn set_selector(
        &self,
        session: SessionIndex,
        direction: Direction,
        rules: &PublishedRules,
        selector: PackedSelector,
    ) -> WrittenRule {
        let words = to_words(selector, rules, direction);
        let cell = self.cell(session, direction).zip(words);
        cell.map_or(WrittenRule::NONE, |(cell, words)| {
            cell.write_reference(selector.flags(), words)
        })
    }

    /// Writes a filter into the cell of one direction; otherwise like
    /// [`FastRuleTable::set_selector`]. The word `first` is the address of the fast rules' lines;
    /// the other words are those of the filter.
    pub(crate) fn set_filter(
        &self,
        session: SessionIndex,
        direction: Direction,
        rules: &PublishedRules,
        filter: PackedFilter,
    ) -> WrittenRule {
        let lines = filter.lines(rules, direction);
        let cell = self.cell(session, direction).zip(lines);
        cell.map_or(WrittenRule::NONE, |(cell, lines)| {
            let [value, mask, ports] = filter.words();
            let words =
                CellWords { first: lines.as_ptr().cast_mut(), words: [value, mask, ports, 0] };
            cell.write_reference(filter.flags(), words)
        })
    }
}

impl<'g> FastRuleCellRef<'g> {
    /// Returns the selector; `None` if the cell holds no active one: it is empty, holds a fast rule
    /// or filter, is being written, or is not activated yet.
    #[inline]
    pub(crate) fn selector(
        self,
        _guard: SlotGuard<'g, PublishedRules>,
    ) -> Option<FastRuleSelector<'g>> {
        let Self(cell) = self;
        let (head, CellWords { first, words }) = cell.read_if(CellKind::SELECTOR)?;
        let [v4, v6, numbers, counts] = words;
        // JUSTIFICATION: the number of lines depends on the session's filters; room in the cell for
        // any number would take memory of all sessions, although few have filters. SAFETY:
        // `read_if` returns the words of one selector, so `first` and the count are those of the
        // lines of published rules, which never change. The publisher replaces the words before
        // those rules leave their slot, so the guard keeps the lines alive as if it had loaded the
        // rules from the slot.
        let lines =
            unsafe { core::slice::from_raw_parts(first.cast_const(), (counts >> 32) as usize) };
        let roots = [v4, v6].map(MatcherRoot::from_bits);
        let view =
            SelectorView::new(PackedSelector::of_words(head, [numbers, counts]), roots, lines);
        Some(FastRuleSelector { view, flags: CellFlags::of_head(head), cell })
    }

    /// Returns the filter; `None` if the cell holds no active one of this kind.
    #[inline(always)]
    // PERF (adit-bench datapath --sdf): a call would pass the words through memory.
    pub(crate) fn filter(
        self,
        kind: CellKind,
        guard: SlotGuard<'g, PublishedRules>,
    ) -> Option<FastRuleFilter<'g>> {
        let Self(cell) = self;
        let (head, CellWords { first, words: [value, mask, ports, _] }) = cell.read_if(kind)?;
        Some(FastRuleFilter {
            filter: PackedFilter::of_words(head, [value, mask, ports]),
            first,
            cell,
            _guard: guard,
        })
    }

    /// Prefetches the lines of a selector that a packet of the address family needs first. Returns
    /// false if the cell holds no active selector.
    #[inline]
    pub(crate) fn prefetch_selector(self, is_v6: bool) -> bool {
        let Some((first, root)) = self.peek_selector(usize::from(is_v6)) else { return false };
        let lines = MatcherRoot::from_bits(root).first_lines(is_v6);
        let line = |number: usize| first.wrapping_add(number);
        // PERF (adit-bench datapath --sdf): one line or two, which depends on the family, are
        // prefetched without a branch, which would be mispredicted.
        prefetch::address(line(lines.start));
        prefetch::address(line(lines.end.saturating_sub(1)));
        if lines.len() > 2 {
            lines.map(line).for_each(prefetch::address);
        }
        true
    }
}

impl<'a> FastRuleFilter<'a> {
    /// Returns the fast rule for the packet of `key`. `None` if the stages have to classify the
    /// packet: it does not match, and packets that do not match have no fast rule.
    // PERF (adit-bench datapath --sdf): a call would pass the key through memory.
    #[inline(always)]
    pub(crate) fn select(&self, key: &FilterKey) -> Option<SelectedFastRule<'a>> {
        let number = self.filter.select(key)?;
        // JUSTIFICATION: see `FastRuleCellRef::selector`.
        // SAFETY: head and words are those of one filter, so `first` is the address of its lines,
        // which belong to published rules and never change. `select` returns the number of one of
        // them. The publisher replaces the words before those rules leave their slot, so the guard
        // keeps the lines alive as if it had loaded the rules from the slot.
        let line = unsafe { &*self.first.wrapping_add(number) };
        Some(SelectedFastRule { line, cell: self.cell })
    }

    /// Returns the flags of the cell when the filter was read.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> CellFlags {
        CellFlags::of_head(self.filter.flags())
    }

    /// Returns the filter as the cell stores it.
    #[inline]
    #[must_use]
    pub const fn packed(&self) -> &PackedFilter {
        &self.filter
    }
}

impl<'a> FastRuleSelector<'a> {
    /// Returns the flags of the cell when the selector was read.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> CellFlags {
        self.flags
    }

    /// Returns the fast rule for the packet of `key`. `None` if the stages have to classify the
    /// packet: no filter matches, one needs the whole packet, or the PDR has no fast rule or an
    /// index above 15.
    // PERF (adit-bench datapath --sdf): a call would pass the key through memory.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: &FlowKey) -> Option<SelectedFastRule<'a>> {
        Some(SelectedFastRule { line: self.view.find(key)?, cell: self.cell })
    }
}

impl<'a> SelectedFastRule<'a> {
    /// Prefetches the line of the fast rule.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.line);
    }

    /// Copies the fast rule from its line.
    #[inline]
    #[must_use]
    pub fn fast_rule(self) -> FastRuleSnapshot<'a> {
        FastRuleSnapshot::of_line(self.line, self.cell)
    }
}

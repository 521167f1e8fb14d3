//! Several expresses of one direction: which one a packet takes is told by its session's SDF filters.
//!
//! The expresses stand behind the lines of the compiled matcher, which belong to the published
//! rules. So they live as long as those, and sessions without filters pay nothing for them.

use core::{fmt, ptr};

use adit_rules::{
    FastRule, FlowKey, MatcherLine, MatcherRoot, MatcherView, PublishedRules, SessionRules,
};
use adit_types::{Direction, SessionIndex};

use crate::fast_rule::{
    self, FastRuleLine, FastRuleSlot, FastRuleTable, WORDS, WrittenRule, choice_line,
};
use crate::prefetch;
use crate::publish::SlotGuard;

/// PDRs that a choice knows: four bits of one word for each.
const PDRS_MAX: usize = 16;

/// No express.
const NONE: u64 = 0xf;

/// What leads packets of one direction of a session to their express.
#[derive(Clone, Copy)]
pub struct FastRuleSelector<'a> {
    /// The session's line, where its traffic is counted.
    home: &'a fast_rule::FastRuleCell,
    roots: [MatcherRoot; 2],
    /// The matcher's, behind them one for each express.
    lines: &'a [MatcherLine],
    /// How many are the matcher's.
    matcher_lines: u32,
    /// Of each PDR, which express it has.
    of_pdrs: u64,
}

impl fmt::Debug for FastRuleSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { home: _, roots, lines, matcher_lines, of_pdrs } = self;
        f.debug_struct("Choice")
            .field("roots", roots)
            .field("lines", &lines.len())
            .field("matcher_lines", matcher_lines)
            .field("of_pdrs", of_pdrs)
            .finish()
    }
}

/// The express of one packet.
#[derive(Clone, Copy)]
pub struct SelectedFastRule<'a> {
    line: &'a MatcherLine,
    home: &'a fast_rule::FastRuleCell,
}

impl fmt::Debug for SelectedFastRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").field("line", self.line).finish_non_exhaustive()
    }
}

/// What a choice needs beyond the matcher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectorPlan {
    matcher_lines: u32,
    of_pdrs: u64,
}

impl SelectorPlan {
    /// Puts the expresses of one direction, each refined, behind its matcher; `None` without a matcher or any
    /// express.
    pub(crate) fn append(
        rules: &mut SessionRules,
        direction: Direction,
        refine: impl Fn(FastRule) -> FastRule,
    ) -> Option<Self> {
        let matcher = rules.matcher(direction)?;
        let matcher_lines = u32::try_from(matcher.lines().len()).ok()?;
        let mut lines: Vec<MatcherLine> = Vec::new();
        let mut of_pdrs = u64::MAX;
        for (at, pdr) in rules.pdrs(direction).iter().take(PDRS_MAX).enumerate() {
            let Some(express) = FastRule::of_pdr(rules, pdr, direction) else { continue };
            let line = choice_line(&refine(express));
            let number = lines.iter().position(|known| *known == line).unwrap_or(lines.len());
            let Some(number) = u64::try_from(number).ok().filter(|number| *number < NONE) else {
                continue;
            };
            if lines.len() as u64 == number {
                lines.push(line);
            }
            of_pdrs ^= (NONE ^ number) << (at * 4);
        }
        if lines.is_empty() {
            return None;
        }
        rules.matcher_mut(direction)?.append(&lines);
        Some(Self { matcher_lines, of_pdrs })
    }
}

impl SelectorPlan {
    /// The words of a line that leads to the choice in published rules.
    fn to_words(self, rules: &PublishedRules, direction: Direction) -> Option<[u64; WORDS]> {
        let matcher = rules.matcher(direction)?;
        let lines = matcher.lines();
        let counts = (lines.len() as u64) << 32 | u64::from(self.matcher_lines);
        let start = lines.as_ptr().expose_provenance() as u64;
        let [v4, v6] = matcher.roots();
        Some([start, v4.to_bits(), v6.to_bits(), self.of_pdrs, counts])
    }
}

impl FastRuleTable {
    /// Lets packets of one direction choose among expresses. For the publisher only, with lines of
    /// the rules that it published last.
    pub(crate) fn set_selector(
        &self,
        session: SessionIndex,
        direction: Direction,
        rules: &PublishedRules,
        plan: SelectorPlan,
    ) -> WrittenRule {
        let words = plan.to_words(rules, direction);
        let line = self.cell(session, direction).zip(words);
        line.map_or(WrittenRule::NONE, |(line, words)| line.write_choice(words))
    }
}

impl<'g> FastRuleSlot<'g> {
    /// The choice of one direction; `None` without one, and while it is written.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "what was written from this width")]
    pub(crate) fn selector(
        self,
        _guard: SlotGuard<'g, PublishedRules>,
    ) -> Option<FastRuleSelector<'g>> {
        let Self(home) = self;
        let words = home.read_choice()?;
        let [start, v4, v6, of_pdrs, counts] = words;
        let start = ptr::with_exposed_provenance::<MatcherLine>(start as usize);
        // JUSTIFICATION: the lines are as many as the session's filters need; room of a fixed size
        // would cost all sessions what few have.
        // SAFETY: the words are of one moment, so that they are those of a choice: address and
        // number of lines of published rules, which do not change. They were written anew before
        // those rules left their slot, so that the guard keeps the lines as if it had loaded the
        // rules from there.
        let lines = unsafe { core::slice::from_raw_parts(start, (counts >> 32) as usize) };
        let roots = [v4, v6].map(MatcherRoot::from_bits);
        Some(FastRuleSelector { home, roots, lines, matcher_lines: counts as u32, of_pdrs })
    }
}

impl<'a> FastRuleSelector<'a> {
    /// Asks for the lines that a packet of the family needs first.
    #[inline]
    pub(crate) fn prefetch(&self, is_v6: bool) {
        let first = self.roots[usize::from(is_v6)].first_lines(is_v6);
        let lines = self.lines.get(first).unwrap_or_default();
        // PERF: without a branch between one line and two, as families differ in that.
        if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
            prefetch::read(first);
            prefetch::read(last);
        }
        if lines.len() > 2 {
            lines.iter().for_each(prefetch::read);
        }
    }

    /// The express of the packet of `key`. `None` where only the rules tell.
    // PERF: a call would pass the key through memory.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: &FlowKey) -> Option<SelectedFastRule<'a>> {
        let found = MatcherView::new(self.roots, self.lines).first(key)?;
        if found.needs_check || found.pdr >= PDRS_MAX {
            return None;
        }
        let number = self.of_pdrs >> (found.pdr * 4) & NONE;
        let at = self.matcher_lines as usize + usize::try_from(number).ok()?;
        // Behind the last express there are no lines, whatever the number says.
        Some(SelectedFastRule { line: self.lines.get(at)?, home: self.home })
    }
}

impl<'a> SelectedFastRule<'a> {
    /// Asks for the line.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.line);
    }

    /// The express.
    #[inline]
    #[must_use]
    pub fn fast_rule(self) -> FastRuleLine<'a> {
        FastRuleLine::of_choice_line(self.line, self.home)
    }
}

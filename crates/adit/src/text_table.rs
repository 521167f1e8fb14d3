//! Tables for people: a line per row, and as many columns as the terminal has room for.

use std::io::IsTerminal;

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, Width, presets};

/// A list of a document, and the columns of the table in which `adit show` prints it, most
/// important first.
#[derive(Debug)]
pub(crate) struct TextList {
    pub name: &'static str,
    pub columns: &'static [&'static str],
}

/// Declares the tables of a document beside its type: for each list, the members of its rows that
/// become columns. A member's name ends with its unit. A narrow terminal leaves out the last
/// columns.
macro_rules! tables {
    ($document:ty { $($list:ident $(as $name:literal)?: $row:ty [$($column:ident),+ $(,)?]),+ $(,)? }) => {
        impl $document {
            pub(crate) const TABLES: &'static [$crate::text_table::TextList] = {
                // Lists and columns that are no members do not compile.
                $(let _ = |document: &$document, row: &$row| {
                    let _ = &document.$list;
                    $(let _ = &row.$column;)+
                };)+
                &[$($crate::text_table::TextList {
                    name: [$($name,)? stringify!($list)][0],
                    columns: &[$(stringify!($column)),+],
                }),+]
            };
        }
    };
}
pub(crate) use tables;

/// Declares the page of a list that grows with sessions or peers, and its table.
macro_rules! page {
    ($(#[$doc:meta])* $page:ident { $list:ident $(as $name:literal)?: $row:ty [$($column:ident),+ $(,)?] $(,)? }) => {
        $(#[$doc])*
        #[expect(dead_code, reason = "a description: a page is made of JSON")]
        #[derive(utoipa::ToSchema)]
        pub(crate) struct $page {
            $(#[schema(rename = $name)])?
            $list: Vec<$row>,
            /// Pass it as `cursor` to get the next page; null after the last one.
            next: Option<String>,
        }

        $crate::text_table::tables!($page { $list $(as $name)?: $row [$($column),+] });
    };
}
pub(crate) use page;

/// Columns that contain sentences, which are wrapped to further lines.
const SENTENCE_COLUMNS: [&str; 3] = ["text", "reason", "detail"];

/// Minimum width of text in [`SENTENCE_COLUMNS`]. Unit: characters.
const SENTENCE_WIDTH_MIN: u16 = 24;

/// Space on both sides of a column together. Unit: characters.
const PADDING: u16 = 2;

/// Returns the width of the terminal; `None` if standard output is no terminal, or is a serial
/// console, which has no width. Unit: characters.
pub(crate) fn terminal_width() -> Option<u16> {
    let size = std::io::stdout().is_terminal().then(ratatui::crossterm::terminal::size);
    size?.ok().map(|(columns, _)| columns).filter(|columns| *columns > 1)
}

/// The columns of a table, most important first.
#[derive(Debug, Clone)]
pub(crate) struct TextColumns {
    width: Option<u16>,
    /// Names of the columns that are shown.
    pub shown: Vec<&'static str>,
    /// Names of the columns for which there is no room.
    pub left_out: Vec<&'static str>,
    /// Widths of the shown columns after the first rows, so that later rows align with them.
    widths: Option<Vec<u16>>,
}

impl TextColumns {
    /// Shows all columns until the first rows are known. `width`: of the terminal; `None`: no
    /// limit.
    pub(crate) fn new(columns: &[&'static str], width: Option<u16>) -> Self {
        Self { width, shown: columns.to_vec(), left_out: Vec::new(), widths: None }
    }

    /// Renders rows as a table, with a header at the first call. Each row has a cell for each
    /// column in `shown`, which is all columns before the first call.
    pub(crate) fn table(&mut self, mut rows: Vec<Vec<String>>) -> String {
        let is_first = self.widths.is_none();
        if is_first {
            let kept = self.columns_that_fit(&rows);
            rows.iter_mut().for_each(|row| retain(row, &kept));
            for (name, is_kept) in core::mem::take(&mut self.shown).into_iter().zip(kept) {
                let list = if is_kept { &mut self.shown } else { &mut self.left_out };
                list.push(name);
            }
        }
        let mut table = plain_table(self.width);
        if is_first {
            table.set_header(self.shown.iter().map(|column| column.replace('_', " ")));
        }
        table.add_rows(rows);
        if let Some(widths) = &self.widths {
            let widths = widths.iter().map(|width| Width::Fixed(width.saturating_add(PADDING)));
            table.set_constraints(widths.map(ColumnConstraint::LowerBoundary));
        }
        let text = table.to_string();
        self.widths.get_or_insert_with(|| table.column_max_content_widths());
        text
    }

    /// Returns, by column, whether it fits: sentences always do, others while there is room.
    fn columns_that_fit(&self, rows: &[Vec<String>]) -> Vec<bool> {
        let Some(room) = self.width else { return vec![true; self.shown.len()] };
        let cell_width = |text: &str| u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let natural = self.shown.iter().enumerate().map(|(column, name)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell_width(cell)).max().unwrap_or(0);
            let width = widest.max(cell_width(name)).saturating_add(PADDING);
            let is_sentence = SENTENCE_COLUMNS.contains(name);
            (if is_sentence { width.min(SENTENCE_WIDTH_MIN + PADDING) } else { width }, is_sentence)
        });
        let natural: Vec<(u16, bool)> = natural.collect();
        let sentences = natural.iter().filter(|(_, is_sentence)| *is_sentence);
        let mut left = room.saturating_sub(sentences.map(|(width, _)| width).sum());
        let mut is_full = false;
        let kept = natural.iter().enumerate().map(|(at, &(width, is_sentence))| {
            // The first column always stays: it names the row's subject.
            is_full |= at > 0 && !is_sentence && width > left;
            let is_kept = is_sentence || !is_full;
            left = left.saturating_sub(if is_kept && !is_sentence { width } else { 0 });
            is_kept
        });
        kept.collect()
    }
}

/// Keeps the cells for which `kept` is true.
fn retain(cells: &mut Vec<String>, kept: &[bool]) {
    let mut kept = kept.iter();
    cells.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Makes a table without lines between its rows, at most `width` wide.
pub(crate) fn plain_table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table
}

/// Returns a count with the name of the counted things, such as `3 idle states` or `1 session`.
pub(crate) fn counted(count: usize, plural: &str) -> String {
    let name = plural.replace('_', " ");
    match name.strip_suffix('s') {
        Some(one) if count == 1 => format!("1 {one}"),
        _ => format!("{count} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Vec<String>> {
        let sentence =
            "one sentence that is longer than any terminal is wide, so that it is continued";
        let row = |n| {
            vec![
                format!("name{n}"),
                "12345678901234567890".to_owned(),
                "7".to_owned(),
                sentence.to_owned(),
            ]
        };
        (0..count).map(row).collect()
    }

    const COLUMNS: [&str; 4] = ["name", "octets", "pkts", "reason"];

    #[test]
    fn table_has_a_line_per_row_and_no_trailing_padding_without_a_terminal() {
        let mut columns = TextColumns::new(&COLUMNS, None);
        let text = columns.table(rows(3));
        assert_eq!(text.lines().count(), 2 + 3, "{text}");
        assert!(columns.left_out.is_empty());
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_from_the_end_and_sentences_are_continued() {
        for (width, shown) in [(80, 4), (58, 3), (40, 2), (10, 2)] {
            let mut columns = TextColumns::new(&COLUMNS, Some(width));
            let text = columns.table(rows(3));
            assert_eq!(columns.shown.len(), shown, "{width}: {text}");
            assert_eq!((columns.shown[0], columns.shown[shown - 1]), ("name", "reason"));
            assert_eq!(shown + columns.left_out.len(), COLUMNS.len());
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width.max(34)), "{width}: {text}");
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!(counted(1, "sessions"), "1 session");
        assert_eq!(counted(0, "idle_states"), "0 idle states");
        assert_eq!(counted(1, "shared"), "1 shared");
    }
}

//! Tables of the figures of reports: a row for each case, a column for each quantity.

use crate::quantity::{Figure, readers_unit};
use crate::report::Report;

/// With more columns than this a table has only medians.
const SPREADS_MAX: usize = 8;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FigureTable {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The figures of one case.
struct FigureRow<'r> {
    label: &'r str,
    case: &'r str,
    figures: Vec<&'r Figure>,
}

impl FigureRow<'_> {
    fn has_a_column_of(&self, other: &Self) -> bool {
        self.figures.iter().any(|own| other.figures.iter().any(|of| of.quantity == own.quantity))
    }
}

/// Makes the tables of reports of the same measurement, each report labeled with the options that
/// the others do not have. Cases without a quantity in common are in different tables.
#[must_use]
pub(crate) fn tables(reports: &[(String, &Report)]) -> Vec<FigureTable> {
    let mut rows: Vec<FigureRow<'_>> = Vec::new();
    for (label, report) in reports {
        for figure in &report.figures {
            match rows.iter_mut().find(|row| row.label == label && row.case == figure.case) {
                Some(row) => row.figures.push(figure),
                None => rows.push(FigureRow { label, case: &figure.case, figures: vec![figure] }),
            }
        }
    }
    let mut tables: Vec<Vec<FigureRow<'_>>> = Vec::new();
    for row in rows {
        match tables.iter_mut().find(|rows| rows.iter().any(|of| of.has_a_column_of(&row))) {
            Some(rows) => rows.push(row),
            None => tables.push(vec![row]),
        }
    }
    let table = |rows: &Vec<FigureRow<'_>>| match &rows[..] {
        [row] if reports.len() < 2 => upright(&row.figures),
        rows => wide(rows, reports.len() > 1),
    };
    tables.iter().map(table).collect()
}

/// Makes a table with a row for each figure.
fn upright(figures: &[&Figure]) -> FigureTable {
    let header = ["figure", "unit", "median", "lowest", "highest", "runs"];
    let row = |figure: &&Figure| {
        let values = [figure.median, figure.min, figure.max];
        let texts = values.map(|value| Figure::of("", &figure.unit, &[value]).text(false));
        let unit = readers_unit(&figure.unit).0.to_owned();
        let mut row = vec![figure.name.clone(), unit];
        row.extend(texts);
        row.push(figure.runs.to_string());
        row
    };
    FigureTable {
        header: header.map(str::to_owned).to_vec(),
        rows: figures.iter().map(row).collect(),
    }
}

/// Makes a table with a row for each case and label, and a column for each quantity.
fn wide(rows: &[FigureRow<'_>], labeled: bool) -> FigureTable {
    let of_cases = rows.iter().any(|row| !row.case.is_empty());
    let name = |figure: &Figure| {
        let name = if figure.quantity.is_empty() { &figure.name } else { &figure.quantity };
        format!("{name}, {}", readers_unit(&figure.unit).0)
    };
    let mut columns: Vec<String> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.figures) {
        let column = name(figure);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let spread = columns.len() <= SPREADS_MAX;
    let row = |of: &FigureRow<'_>| {
        let mut row = Vec::new();
        row.extend(labeled.then(|| of.label.to_owned()));
        row.extend(of_cases.then(|| of.case.to_owned()));
        row.extend(columns.iter().map(|column| {
            let found = of.figures.iter().find(|figure| name(figure) == *column);
            found.map_or_else(|| "–".to_owned(), |figure| figure.text(spread))
        }));
        row
    };
    let rows = rows.iter().map(row).collect();
    let first = [labeled.then_some("options"), of_cases.then_some("case")];
    let header = first.into_iter().flatten().map(str::to_owned).chain(columns.clone()).collect();
    FigureTable { header, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{higher, lower};

    #[test]
    fn cases_are_rows_and_quantities_columns() {
        let mut report = Report::default();
        report.add(higher("rate", "pps"), "uplink", [5_000_000, 4_000_000, 6_000_000]);
        report.add(lower("p50", "ns"), "uplink", [1500]);
        report.add(higher("rate", "pps"), "downlink", [1_000_000]);
        report.add(higher("sessions", "sessions"), "", [7]);
        let [cases, whole] = &tables(&[(String::new(), &report)])[..] else { panic!("two") };
        assert_eq!(whole.rows, [["sessions", "sessions", "7", "7", "7", "1"]]);
        assert_eq!(cases.header, ["case", "rate, Mpps", "p50, µs"]);
        assert_eq!(cases.rows[0], ["uplink", "5.00 (4.00 … 6.00)", "1.50"]);
        assert_eq!(cases.rows[1], ["downlink", "1.00", "–"]);
        let both = [("a=1".to_owned(), &report), ("a=2".to_owned(), &report)];
        let [cases, whole] = &tables(&both)[..] else { panic!("two") };
        assert_eq!(
            (&whole.header[..], cases.rows.len()),
            (&["options", "sessions, sessions"].map(str::to_owned)[..], 4)
        );
        assert_eq!(cases.rows[2][..2], ["a=2", "uplink"]);
        assert!(tables(&[(String::new(), &Report::default())]).is_empty());
    }
}

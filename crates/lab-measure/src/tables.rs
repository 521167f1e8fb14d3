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

/// The tables of reports of the same measurement, each with the options that the others do not have: one of the cases, and
/// one of the figures that belong to no case.
#[must_use]
pub(crate) fn tables(reports: &[(String, &Report)]) -> Vec<FigureTable> {
    let table = |of_cases: bool| {
        let mut rows: Vec<(&str, &str, Vec<&Figure>)> = Vec::new();
        for (label, report) in reports {
            for figure in report.figures.iter().filter(|of| of.case.is_empty() != of_cases) {
                let at = rows.iter_mut().find(|(of, case, _)| of == label && *case == figure.case);
                match at {
                    Some((.., figures)) => figures.push(figure),
                    None => rows.push((label, &figure.case, vec![figure])),
                }
            }
        }
        match &rows[..] {
            [] => None,
            [(.., figures)] if reports.len() < 2 => Some(upright(figures)),
            _ => Some(wide(&rows, reports.len() > 1, of_cases)),
        }
    };
    [table(false), table(true)].into_iter().flatten().collect()
}

/// A row for each figure.
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

/// A row for each case and label, a column for each quantity.
fn wide(rows: &[(&str, &str, Vec<&Figure>)], labeled: bool, of_cases: bool) -> FigureTable {
    let name = |figure: &Figure| {
        let name = if figure.quantity.is_empty() { &figure.name } else { &figure.quantity };
        format!("{name}, {}", readers_unit(&figure.unit).0)
    };
    let mut columns: Vec<String> = Vec::new();
    for figure in rows.iter().flat_map(|(.., figures)| figures) {
        let column = name(figure);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let spread = columns.len() <= SPREADS_MAX;
    let row = |(label, case, figures): &(&str, &str, Vec<&Figure>)| {
        let mut row = Vec::new();
        row.extend(labeled.then(|| (*label).to_owned()));
        row.extend(of_cases.then(|| (*case).to_owned()));
        row.extend(columns.iter().map(|column| {
            let found = figures.iter().find(|figure| name(figure) == *column);
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
        let [whole, cases] = &tables(&[(String::new(), &report)])[..] else { panic!("two") };
        assert_eq!(whole.rows, [["sessions", "sessions", "7", "7", "7", "1"]]);
        assert_eq!(cases.header, ["case", "rate, Mpps", "p50, µs"]);
        assert_eq!(cases.rows[0], ["uplink", "5.00 (4.00 … 6.00)", "1.50"]);
        assert_eq!(cases.rows[1], ["downlink", "1.00", "–"]);
        let both = [("a=1".to_owned(), &report), ("a=2".to_owned(), &report)];
        let [whole, cases] = &tables(&both)[..] else { panic!("two") };
        assert_eq!(
            (&whole.header[..], cases.rows.len()),
            (&["options", "sessions, sessions"].map(str::to_owned)[..], 4)
        );
        assert_eq!(cases.rows[2][..2], ["a=2", "uplink"]);
        assert!(tables(&[(String::new(), &Report::default())]).is_empty());
    }
}

//! `adit-lab compare A.json B.json`: prints ratios, with their spread, of the figures that two
//! reports have in common.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::progress;
use super::quantity::{Better, Figure};
use super::report::Report;
use crate::experiment::file::{self, OptionCheck};
use crate::experiment::paired::{self, Paired, PairedSide};
use crate::print::print_table;
use crate::tables::FigureTable;
use adit_lab_engine::clock::scaled;
use adit_lab_process::stop::Stop;

/// Options of `adit-lab compare`.
#[derive(Debug, clap::Args)]
pub struct CompareArguments {
    /// The reference report.
    a: PathBuf,
    /// The report to compare with it.
    b: PathBuf,
    /// A and B are experiment files; run them in turns.
    #[arg(long)]
    paired: bool,
    /// Rounds of --paired.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "paired",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Set an option of every measurement of A and B that has it, such as `sessions=1000`.
    #[arg(long, value_name = "OPTION=VALUE", requires = "paired")]
    set: Vec<String>,
    /// The same, only of A: `target=upf` for another target than in B.
    #[arg(long, value_name = "OPTION=VALUE", requires = "paired")]
    set_a: Vec<String>,
    /// The same, only of B.
    #[arg(long, value_name = "OPTION=VALUE", requires = "paired")]
    set_b: Vec<String>,
    /// Run the short form of each measurement.
    #[arg(long, requires = "paired")]
    quick: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the comparison.
///
/// # Errors
/// A file cannot be read or is not a report; the reports have no figure in common.
pub(crate) fn run(arguments: &CompareArguments, check: OptionCheck, stop: &Stop) -> Result<bool> {
    if arguments.paired {
        return run_paired(arguments, check, stop);
    }
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    for (report, path) in [(&a, &arguments.a), (&b, &arguments.b)] {
        if !report.complete {
            eprintln!("warning: {} was interrupted: its figures are incomplete", path.display());
        }
    }
    if (&a.machine.cpu, &a.machine.kernel) != (&b.machine.cpu, &b.machine.kernel) {
        eprintln!(
            "warning: the reports are from different machines ({}, {}; {}, {})",
            a.machine.cpu, a.machine.kernel, b.machine.cpu, b.machine.kernel
        );
    }
    let ratios = ratios(&a.figures, &b.figures);
    if ratios.is_empty() {
        bail!("the reports ({}, {}) have no figure in common", a.measurement, b.measurement);
    }
    deliver(&ratios, arguments.json)
}

/// Runs two experiments in turns and prints the ratios.
fn run_paired(arguments: &CompareArguments, check: OptionCheck, stop: &Stop) -> Result<bool> {
    let CompareArguments { a, b, rounds, quick, json, set, set_a, set_b, .. } = arguments;
    let side = |path, own: &[String]| -> Result<PairedSide<'_>> {
        Ok(PairedSide { path, set: file::overrides(&[set, own].concat())? })
    };
    let sides = [side(a, set_a)?, side(b, set_b)?];
    deliver(&paired::run(sides, *rounds, *quick, check, stop)?, *json)
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a report", path.display()))
}

/// Pairs the figures that both reports have, with the ratio of their medians and its bounds.
fn ratios(a: &[Figure], b: &[Figure]) -> Vec<Paired> {
    let pair = |a: &Figure| {
        let b = b.iter().find(|b| b.name == a.name && b.unit == a.unit)?;
        let permille = |b: u64, a: u64| if a == 0 { 0 } else { scaled(b, 1000, a) };
        let ratio_permille = Figure {
            median: permille(b.median, a.median),
            min: permille(b.min, a.max),
            max: permille(b.max, a.min),
            ..Figure::of(&a.name, "permille", &[])
        };
        let (name, unit, better) = (a.name.clone(), a.unit.clone(), a.better);
        let (a, b) = (a.clone(), b.clone());
        Some(Paired { name, unit, better, a, b, ratio_permille, at_ceiling: false })
    };
    a.iter().filter_map(pair).collect()
}

/// Returns whether B is better; empty if both are equal or neither direction is better.
fn verdict(pair: &Paired) -> &'static str {
    match (pair.better, pair.b.median.cmp(&pair.a.median)) {
        (Better::Neither, _) | (_, Ordering::Equal) => "",
        (Better::Higher, Ordering::Greater) | (Better::Lower, Ordering::Less) => "better",
        _ => "worse",
    }
}

/// Prints pairs as JSON or as a table.
fn deliver(pairs: &[Paired], json: bool) -> Result<bool> {
    if json {
        println!("{}", serde_json::to_string_pretty(pairs)?);
        return Ok(true);
    }
    let header = ["figure", "unit", "A", "B", "B/A", "spread", "B is"].map(str::to_owned).to_vec();
    let row = |pair: &Paired| {
        let Paired { name, unit, a, b, ratio_permille, at_ceiling, .. } = pair;
        let ceiling = if *at_ceiling { " (within 10 % of the tester's ceiling)" } else { "" };
        let Figure { median, min, max, .. } = ratio_permille;
        let [median, min, max] = [median, min, max].map(|permille| progress::ratio(*permille));
        vec![
            format!("{name}{ceiling}"),
            unit.clone(),
            a.median.to_string(),
            b.median.to_string(),
            median,
            format!("{min} … {max}"),
            verdict(pair).to_owned(),
        ]
    };
    print_table(&FigureTable { header, rows: pairs.iter().map(row).collect() });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_carries_the_spread_of_both_reports() {
        let a = [Figure::of("x", "pps", &[100, 110, 90])];
        let b = [Figure::of("x", "pps", &[200]), Figure::of("y", "pps", &[1])];
        let [ratio] = &ratios(&a, &b)[..] else { panic!("one figure in common") };
        assert_eq!((ratio.a.median, ratio.b.median, ratio.ratio_permille.median), (100, 200, 2000));
        assert_eq!((ratio.ratio_permille.min, ratio.ratio_permille.max), (1818, 2222));
        assert_eq!(verdict(ratio), "", "nothing says which direction is better");
        let of = |better| verdict(&Paired { better, ..ratio.clone() });
        assert_eq!([Better::Higher, Better::Lower].map(of), ["better", "worse"]);
    }

    #[test]
    fn figure_of_zero_gives_no_division() {
        let zero = [Figure::of("x", "pps", &[0])];
        assert_eq!(ratios(&zero, &zero)[0].ratio_permille.median, 0);
    }
}

//! `adit-lab compare A.json B.json`: prints ratios, with their spread, of the figures that two reports
//! have in common.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::progress;
use super::quantity::{Better, Figure};
use super::report::Report;
use crate::experiment::file::{self, OptionCheck};
use crate::experiment::paired::{self, PairedSide};
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

/// One figure of both reports. Ratios are in parts per thousand of A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FigureRatio {
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The direction in which it is better.
    pub better: Better,
    /// Median in A.
    pub a: u64,
    /// Median in B.
    pub b: u64,
    /// B / A, median to median.
    pub ratio_permille: u64,
    /// Lowest B / highest A.
    pub ratio_permille_min: u64,
    /// Highest B / lowest A.
    pub ratio_permille_max: u64,
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
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&ratios)?);
    } else {
        print(&ratios);
    }
    Ok(true)
}

/// Runs two experiments in turns and prints the ratios.
fn run_paired(arguments: &CompareArguments, check: OptionCheck, stop: &Stop) -> Result<bool> {
    let CompareArguments { a, b, rounds, quick, json, set, set_a, set_b, .. } = arguments;
    let side = |path, own: &[String]| -> Result<PairedSide<'_>> {
        Ok(PairedSide { path, set: file::overrides(&[set, own].concat())? })
    };
    let sides = [side(a, set_a)?, side(b, set_b)?];
    let pairs = paired::run(sides, *rounds, *quick, check, stop)?;
    if *json {
        println!("{}", serde_json::to_string_pretty(&pairs)?);
        return Ok(true);
    }
    let ratios: Vec<FigureRatio> = pairs
        .iter()
        .map(|pair| FigureRatio {
            name: if pair.at_ceiling {
                format!("{} (within 10 % of the tester's ceiling)", pair.name)
            } else {
                pair.name.clone()
            },
            unit: pair.unit.clone(),
            better: pair.better,
            a: pair.a.median,
            b: pair.b.median,
            ratio_permille: pair.ratio_permille.median,
            ratio_permille_min: pair.ratio_permille.min,
            ratio_permille_max: pair.ratio_permille.max,
        })
        .collect();
    print(&ratios);
    Ok(true)
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a report", path.display()))
}

fn ratios(a: &[Figure], b: &[Figure]) -> Vec<FigureRatio> {
    a.iter()
        .filter_map(|a| {
            let b = b.iter().find(|b| b.name == a.name && b.unit == a.unit)?;
            Some(FigureRatio {
                name: a.name.clone(),
                unit: a.unit.clone(),
                better: a.better,
                a: a.median,
                b: b.median,
                ratio_permille: permille(b.median, a.median),
                ratio_permille_min: permille(b.min, a.max),
                ratio_permille_max: permille(b.max, a.min),
            })
        })
        .collect()
}

/// `value / of` in parts per thousand; zero if `of` is zero.
fn permille(value: u64, of: u64) -> u64 {
    if of == 0 { 0 } else { adit_lab_engine::clock::scaled(value, 1000, of) }
}

/// Whether B is better, unless both are the same or neither direction is better.
fn verdict(ratio: &FigureRatio) -> &'static str {
    match (ratio.better, ratio.b.cmp(&ratio.a)) {
        (Better::Neither, _) | (_, Ordering::Equal) => "",
        (Better::Higher, Ordering::Greater) | (Better::Lower, Ordering::Less) => "better",
        _ => "worse",
    }
}

fn print(ratios: &[FigureRatio]) {
    let mut table = comfy_table::Table::new();
    table.set_header(["figure", "unit", "A", "B", "B/A", "spread", "B is"]);
    for ratio in ratios {
        let spread = format!(
            "{} … {}",
            progress::ratio(ratio.ratio_permille_min),
            progress::ratio(ratio.ratio_permille_max)
        );
        table.add_row([
            ratio.name.clone(),
            ratio.unit.clone(),
            ratio.a.to_string(),
            ratio.b.to_string(),
            progress::ratio(ratio.ratio_permille),
            spread,
            verdict(ratio).to_owned(),
        ]);
    }
    println!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_carries_the_spread_of_both_reports() {
        let a = [Figure::of("x", "pps", &[100, 110, 90])];
        let b = [Figure::of("x", "pps", &[200]), Figure::of("y", "pps", &[1])];
        let [ratio] = &ratios(&a, &b)[..] else { panic!("one figure in common") };
        assert_eq!((ratio.a, ratio.b, ratio.ratio_permille), (100, 200, 2000));
        assert_eq!((ratio.ratio_permille_min, ratio.ratio_permille_max), (1818, 2222));
        assert_eq!(verdict(ratio), "", "nothing says which direction is better");
        let of = |better| verdict(&FigureRatio { better, ..ratio.clone() });
        assert_eq!([Better::Higher, Better::Lower].map(of), ["better", "worse"]);
    }

    #[test]
    fn figure_of_zero_gives_no_division() {
        let zero = [Figure::of("x", "pps", &[0])];
        assert_eq!(ratios(&zero, &zero)[0].ratio_permille, 0);
    }
}

//! `adit-lab compare --paired A.toml B.toml`: runs two experiments in turns, so that slow changes
//! of the machine affect both alike. The experiments may have different targets.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use super::child::{self, ChildExit};
use super::file::{self, Experiment, OptionCheck};
use crate::quantity::{Better, Figure};
use crate::report::Report;
use crate::run_report::distinctions;
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::Stop;

/// A figure of both experiments, with the ratio B / A of each round in parts per thousand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Paired {
    /// Name of the figure.
    pub name: String,
    /// Unit of `a` and `b`.
    pub unit: String,
    /// The direction in which the figure is better.
    pub better: Better,
    /// The figure in A.
    pub a: Figure,
    /// The figure in B.
    pub b: Figure,
    /// B / A round by round.
    pub ratio_permille: Figure,
    /// True if a result was within 10 % of the tester's own ceiling.
    pub at_ceiling: bool,
}

/// An experiment file and the options that replace the file's.
#[derive(Debug)]
pub(crate) struct PairedSide<'a> {
    /// The file.
    pub path: &'a Path,
    /// Options by name, without `--`.
    pub set: Vec<(String, String)>,
}

/// A figure, and the index of its measurement in the experiment.
#[derive(Debug)]
struct MeasuredFigure {
    measure: usize,
    figure: Figure,
}

/// Results of all rounds of one experiment.
#[derive(Debug, Default)]
struct SideResults {
    rounds: Vec<Vec<MeasuredFigure>>,
    /// Warnings, each with the index of its measurement.
    warnings: Vec<(usize, String)>,
}

/// Runs both experiments `rounds` times, in alternating order.
///
/// # Errors
/// A file is not an experiment; a measurement failed; the experiments have no figure in common;
/// `stop` was raised.
pub(crate) fn run(
    [a, b]: [PairedSide<'_>; 2],
    rounds: u32,
    quick: bool,
    check: OptionCheck,
    stop: &Stop,
) -> Result<Vec<Paired>> {
    let experiments = [file::read(a.path, &a.set, check)?, file::read(b.path, &b.set, check)?];
    let mut results: [SideResults; 2] = Default::default();
    for round in 0..rounds {
        let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for at in order {
            let (Some(experiment), Some(result)) = (experiments.get(at), results.get_mut(at))
            else {
                continue;
            };
            let side = if at == 0 { "A" } else { "B" };
            eprintln!("== round {} of {rounds}, {side}: {}", round + 1, experiment.title);
            let figures = figures(experiment, quick, &mut result.warnings, stop)?;
            result.rounds.push(figures);
        }
    }
    let commands = |experiment: &Experiment| -> Vec<Vec<String>> {
        experiment.measures.iter().map(|measure| measure.command(quick)).collect()
    };
    let labels = distinctions(&experiments.first().map_or_else(Vec::new, commands));
    let pairs = pair(&results, &labels);
    if pairs.is_empty() {
        bail!("{} and {} have no figure in common", a.path.display(), b.path.display());
    }
    Ok(pairs)
}

/// Runs an experiment and returns the figures of all its measurements.
fn figures(
    experiment: &Experiment,
    quick: bool,
    warnings: &mut Vec<(usize, String)>,
    stop: &Stop,
) -> Result<Vec<MeasuredFigure>> {
    let mut figures = Vec::new();
    let folder = Scratch::create("paired")?;
    let out = folder.path().join("report.json");
    for (index, measure) in experiment.measures.iter().enumerate() {
        let ended = child::run(&measure.command(quick), &out, stop)?;
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        // A measurement that writes no report must not find the report of the previous one.
        let _ = std::fs::remove_file(&out);
        stop.check()?;
        if let ChildExit::RuledOut(why) | ChildExit::Failed(why) = ended {
            bail!("{}, {}: {why}", experiment.path.display(), measure.run);
        }
        let report: Report = serde_json::from_str(&text)?;
        let found = report.figures.into_iter();
        figures.extend(found.map(|figure| MeasuredFigure { measure: index, figure }));
        warnings.extend(report.warnings.into_iter().map(|warning| (index, warning)));
    }
    Ok(figures)
}

/// Pairs the figures of both experiments. If several measurements have a figure with the same name
/// and unit, the *k*-th figure of A belongs to the *k*-th of B. Its name then has the options in
/// which its measurement in A differs from the others.
fn pair(results: &[SideResults; 2], labels: &[Vec<String>]) -> Vec<Paired> {
    let [a, b] = results;
    let Some(first) = a.rounds.first() else { return Vec::new() };
    let mut pairs = Vec::new();
    for (index, measured) in first.iter().enumerate() {
        let Figure { name, unit, better, .. } = &measured.figure;
        let same =
            |other: &&MeasuredFigure| other.figure.name == *name && other.figure.unit == *unit;
        let before = first.iter().take(index).filter(same).count();
        let medians = |side: &SideResults| -> Vec<u64> {
            let found =
                side.rounds.iter().filter_map(|round| round.iter().filter(same).nth(before));
            found.map(|found| found.figure.median).collect()
        };
        let (values_a, values_b) = (medians(a), medians(b));
        let in_b = b.rounds.iter().find_map(|round| round.iter().filter(same).nth(before));
        let Some(in_b) = in_b.filter(|_| values_a.len() == values_b.len()) else { continue };
        let ratio = |(a, b): (&u64, &u64)| match a {
            0 => 0,
            a => adit_lab_engine::clock::scaled(*b, 1000, *a),
        };
        let ratios: Vec<u64> = values_a.iter().zip(&values_b).map(ratio).collect();
        let at_ceiling = |side: &SideResults, measure: usize| {
            side.warnings.iter().any(|(of, text)| {
                *of == measure && text.starts_with(name) && text.contains("tester's own ceiling")
            })
        };
        let is_unique = first.iter().filter(same).count() == 1;
        let label = labels.get(measured.measure).filter(|label| !is_unique && !label.is_empty());
        pairs.push(Paired {
            name: label
                .map_or_else(|| name.clone(), |label| format!("{name} ({})", label.join(", "))),
            unit: unit.clone(),
            better: *better,
            a: Figure::of(name, unit, &values_a),
            b: Figure::of(name, unit, &values_b),
            ratio_permille: Figure::of(name, "permille", &ratios),
            at_ceiling: at_ceiling(a, measured.measure) || at_ceiling(b, in_b.measure),
        });
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the rounds of an experiment; each measurement has one figure `x`.
    fn side(rounds: &[&[u64]]) -> SideResults {
        let figure = |(measure, value): (usize, &u64)| MeasuredFigure {
            measure,
            figure: Figure::of("x", "pps", &[*value]),
        };
        let round = |values: &&[u64]| values.iter().enumerate().map(figure).collect();
        SideResults { rounds: rounds.iter().map(round).collect(), warnings: Vec::new() }
    }

    #[test]
    fn ratio_is_of_each_round_so_that_drift_of_the_machine_cancels() {
        let mut results = [side(&[&[100], &[50]]), side(&[&[200], &[100]])];
        let [paired] = &pair(&results, &[])[..] else { panic!("one figure in common") };
        assert_eq!((paired.ratio_permille.min, paired.ratio_permille.max), (2000, 2000));
        assert_eq!((&*paired.name, paired.at_ceiling), ("x", false));
        let warning = "x: 1 is within 10 % of the tester's own ceiling (2)".to_owned();
        results[1].warnings.push((0, warning));
        assert!(pair(&results, &[])[0].at_ceiling);
        assert!(pair(&[side(&[&[1]]), side(&[&[]])], &[]).is_empty());
    }

    #[test]
    fn measurements_with_the_same_figures_are_paired_in_their_order() {
        let labels = [vec!["rules=plain".to_owned()], vec!["rules=real".to_owned()]];
        let mut results = [side(&[&[100, 10], &[100, 10]]), side(&[&[200, 50], &[200, 50]])];
        results[0].warnings.push((1, "x: near the tester's own ceiling".to_owned()));
        let pairs = pair(&results, &labels);
        let seen: Vec<_> = pairs
            .iter()
            .map(|pair| (&*pair.name, pair.ratio_permille.median, pair.at_ceiling))
            .collect();
        assert_eq!(seen, [("x (rules=plain)", 2000, false), ("x (rules=real)", 5000, true)]);
    }
}

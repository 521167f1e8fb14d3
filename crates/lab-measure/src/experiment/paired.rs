//! `adit-lab compare --paired A.toml B.toml`: runs two experiments in turns, so that slow changes of the
//! machine affect both alike.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::child;
use super::file::{self, Experiment, OptionCheck};
use crate::report::Figure;
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::Stop;

/// A figure of both experiments. Ratios are in parts per thousand of A, one per round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Paired {
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// In A.
    pub a: Figure,
    /// In B.
    pub b: Figure,
    /// B / A round by round.
    pub ratio_permille: Figure,
    /// True if a result was within 10 % of the tester's own ceiling.
    pub at_ceiling: bool,
}

/// Runs both experiments `rounds` times, in alternating order.
///
/// # Errors
/// A file is not an experiment; a measurement failed; the experiments have no figure in common;
/// interrupted.
pub(crate) fn run(
    a: &Path,
    b: &Path,
    rounds: u32,
    quick: bool,
    check: OptionCheck,
    stop: &Stop,
) -> Result<Vec<Paired>> {
    let experiments = [file::read(a, &[], check)?, file::read(b, &[], check)?];
    let mut results: [Vec<Vec<Figure>>; 2] = Default::default();
    let mut warnings = Vec::new();
    for round in 0..rounds {
        let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for at in order {
            let (Some(experiment), Some(result)) = (experiments.get(at), results.get_mut(at))
            else {
                continue;
            };
            eprintln!("== round {} of {rounds}: {}", round + 1, experiment.title);
            result.push(figures(experiment, quick, &mut warnings, stop)?);
        }
    }
    let pairs = pair(&results, &warnings);
    if pairs.is_empty() {
        bail!("{} and {} have no figure in common", a.display(), b.display());
    }
    Ok(pairs)
}

/// The figures of all measurements of an experiment.
fn figures(
    experiment: &Experiment,
    quick: bool,
    warnings: &mut Vec<String>,
    stop: &Stop,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let folder = Scratch::create("paired")?;
    let out = folder.path().join("report.json");
    for measure in &experiment.measures {
        let ended = child::run(&measure.command(quick), &out, stop)?;
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        // The next measurement may write no report: it must not find this one.
        let _ = std::fs::remove_file(&out);
        stop.check()?;
        if let Some(error) = ended.error {
            bail!("{}, {}: {error}", experiment.path.display(), measure.run);
        }
        let report: Value = serde_json::from_str(&text)?;
        let part = |name: &str| report.get(name).cloned().unwrap_or_default();
        figures.extend(serde_json::from_value::<Vec<Figure>>(part("figures"))?);
        warnings.extend(serde_json::from_value::<Vec<String>>(part("warnings"))?);
    }
    Ok(figures)
}

fn pair(results: &[Vec<Vec<Figure>>; 2], warnings: &[String]) -> Vec<Paired> {
    let [a, b] = results;
    let Some(first) = a.first() else { return Vec::new() };
    let values = |rounds: &[Vec<Figure>], of: &Figure| -> Vec<u64> {
        let same = |figure: &&Figure| figure.name == of.name && figure.unit == of.unit;
        let found = rounds.iter().filter_map(|round| round.iter().find(same));
        found.map(|figure| figure.median).collect()
    };
    first
        .iter()
        .filter_map(|figure| {
            let (a, b) = (values(a, figure), values(b, figure));
            if a.is_empty() || a.len() != b.len() {
                return None;
            }
            let ratio = |(a, b): (&u64, &u64)| match a {
                0 => 0,
                a => adit_lab_engine::clock::scaled(*b, 1000, *a),
            };
            let ratios: Vec<u64> = a.iter().zip(&b).map(ratio).collect();
            let (name, unit) = (&figure.name, &figure.unit);
            let marked = |text: &String| {
                text.starts_with(name.as_str()) && text.contains("tester's own ceiling")
            };
            Some(Paired {
                name: name.clone(),
                unit: unit.clone(),
                a: Figure::of(name, unit, &a),
                b: Figure::of(name, unit, &b),
                ratio_permille: Figure::of(name, "permille", &ratios),
                at_ceiling: warnings.iter().any(marked),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_of_each_round_so_that_drift_of_the_machine_cancels() {
        let round = |value| vec![Figure::of("x", "pps", &[value])];
        let results = [vec![round(100), round(50)], vec![round(200), round(100)]];
        let [paired] = &pair(&results, &[])[..] else { panic!("one figure in common") };
        assert_eq!((paired.ratio_permille.min, paired.ratio_permille.max), (2000, 2000));
        assert!(!paired.at_ceiling);
        let warning = "x: 1 is within 10 % of the tester's own ceiling (2)".to_owned();
        assert!(pair(&results, &[warning])[0].at_ceiling);
        assert!(pair(&[vec![round(1)], vec![Vec::new()]], &[]).is_empty());
    }
}

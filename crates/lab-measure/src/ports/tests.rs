//! Rounds and figures of turns without a network.

use std::cell::RefCell;

use clap::Parser;

use super::*;
use crate::command::{MeasureCli, MeasureCommand};

fn arguments(words: &[&str]) -> Box<PortsArguments> {
    let words = ["adit-lab", "ports"].iter().chain(words);
    match MeasureCli::try_parse_from(words).unwrap().command {
        MeasureCommand::Ports(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn seen(direction: PortDirection, mpkts_per_cpu_s: f64) -> TurnFigures {
    TurnFigures {
        direction,
        offered_mpps: 2.0,
        mpps: 1.25,
        cpu_percent: 50.0,
        sender_percent: 40.0,
        receiver_percent: 20.0,
        mpkts_per_cpu_s,
    }
}

/// Measures with `turn`. Returns the report and the result.
fn measured(
    words: &[&str],
    turn: impl Fn(PortKind) -> Result<Vec<TurnFigures>>,
) -> (Report, Result<()>) {
    let (mut report, stop) = (Report::default(), Stop::default());
    let cores = PortsCores { worker: 0, tester: 1 };
    let turns = PortsTurns { arguments: &arguments(words), cores, turn };
    let ((), cases) = turns.prepare(&mut report, &stop).unwrap().unwrap();
    let result = cases.iter().try_for_each(|case| turns.measure(&mut (), case, &mut report, &stop));
    turns.conclude((), &mut report).unwrap();
    (report, result)
}

#[test]
fn figures_are_medians_and_ratios_are_of_the_same_round() {
    let values = RefCell::new([3.0, 1.0, 9.0, 2.0, 4.0, 4.0].into_iter());
    let turn = |_| Ok(vec![seen(PortDirection::Uplink, values.borrow_mut().next().unwrap())]);
    let (report, _) = measured(&["--io=xdp,af-xdp", "--rounds=3"], turn);
    let find = |name: &str| {
        let figure = report.figures.iter().find(|figure| figure.name == name).unwrap();
        (figure.median, figure.min, figure.max)
    };
    assert_eq!(find("packets per CPU-second, xdp, uplink"), (4_000_000, 3_000_000, 9_000_000));
    assert_eq!(find("rate, af-xdp, uplink"), (1_250_000, 1_250_000, 1_250_000));
    assert_eq!(find("share of a core, xdp, uplink"), (500, 500, 500));
    assert_eq!(find("ratio to af-xdp, xdp, uplink"), (3000, 1000, 4500));
    assert_eq!(find("ratio to af-xdp, af-xdp, uplink"), (1000, 1000, 1000));
}

#[test]
fn turn_that_fails_ends_the_rounds_and_keeps_earlier_turns() {
    let turn = |io| match io {
        PortKind::Kernel => Ok(PortDirection::ALL.map(|of| seen(of, 1.0)).to_vec()),
        _ => anyhow::bail!("no native XDP"),
    };
    let (report, result) = measured(&["--io=kernel,xdp"], turn);
    assert_eq!(result.unwrap_err().to_string(), "no native XDP");
    let cases: Vec<&str> = report.figures.iter().map(|figure| &*figure.case).collect();
    assert!(cases.contains(&"kernel, uplink") && cases.contains(&"kernel, downlink"), "{cases:?}");
}

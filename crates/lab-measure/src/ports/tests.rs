//! Rounds and figures of turns without a network.

use clap::Parser;

use super::*;
use crate::command::{MeasureCli, MeasureCommand};
use crate::report::{Figure, ReportHeader};

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

/// The report of turns whose packets per CPU-second are `uplink` in the order of measurement.
fn measured(words: &[&str], uplink: &[f64]) -> PortsReport {
    let (arguments, mut values) = (arguments(words), uplink.iter());
    let mut report = PortsReport::new(&arguments).unwrap();
    let turn = |_| Ok(vec![seen(PortDirection::Uplink, *values.next().unwrap())]);
    arguments.rounds(&mut report, &Stop::default(), turn).unwrap();
    report.close(ReportHeader::default());
    report
}

#[test]
fn figures_are_medians_and_ratios_are_of_the_same_round() {
    let report = measured(&["--io=xdp,af-xdp", "--rounds=3"], &[3.0, 1.0, 9.0, 2.0, 4.0, 4.0]);
    let find = |name: &str| {
        let found = report.figures.iter().find(|figure| figure.name == name);
        let Figure { median, min, max, .. } = found.unwrap();
        (*median, *min, *max)
    };
    assert_eq!(find("packets per CPU-second, xdp, uplink"), (4_000_000, 3_000_000, 9_000_000));
    assert_eq!(find("rate, af-xdp, uplink"), (1_250_000, 1_250_000, 1_250_000));
    assert_eq!(find("share of a core, xdp, uplink"), (500, 500, 500));
    assert_eq!(find("ratio to af-xdp, xdp, uplink"), (3000, 1000, 4500));
    assert_eq!(find("ratio to af-xdp, af-xdp, uplink"), (1000, 1000, 1000));
    let row = report.groups()[0].row();
    assert_eq!(row[..2], ["uplink", "xdp"]);
    assert_eq!(
        row[4..],
        ["50 (50 to 50)", "4.000 (3.000 to 9.000)", "3.00 (1.00 to 4.50)", "40, 20"]
    );
}

#[test]
fn turn_that_fails_ends_the_rounds_and_keeps_earlier_turns() {
    let arguments = arguments(&["--io=kernel,xdp"]);
    let mut report = PortsReport::new(&arguments).unwrap();
    let turn = |io| match io {
        PortKind::Kernel => Ok(PortDirection::ALL.map(|of| seen(of, 1.0)).to_vec()),
        _ => anyhow::bail!("no native XDP"),
    };
    let error = arguments.rounds(&mut report, &Stop::default(), turn).unwrap_err();
    assert_eq!((error.to_string().as_str(), report.turns.len()), ("no native XDP", 2));
}

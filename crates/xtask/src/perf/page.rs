//! The suite's document as a page in Markdown: one report of a packet's cost, in cycles, in
//! instructions and over the wire.

use std::fmt::Write;

use serde_json::Value;

/// The columns of cycles.
const CYCLES: [&str; 4] = [
    "cycles_per_packet_median_burst",
    "cycles_per_packet",
    "cycles_per_packet_p99_burst",
    "median_burst_to_c_floor",
];

/// The page of a document.
pub(super) fn render(document: &Value) -> String {
    let machine = &document["machine"];
    let mut page = format!(
        "# What a packet costs: {}, {}\n\n",
        text(&document["date"]),
        text(&machine["cpu"])
    );
    if document["quick"] == true {
        page += "A quick run: its figures vary much.\n\n";
    }
    page += "| machine | |\n|---|---|\n";
    for (name, value) in machine.as_object().into_iter().flatten() {
        line(&mut page, [name.replace('_', " "), text(value)]);
    }
    line(&mut page, ["stolen during the run, by CPU (ms)".to_owned(), text(&document["steal_ms"])]);
    datapath(&mut page, &document["benches"]);
    models(&mut page, &document["benches"]["models"]);
    instructions(&mut page, &document["benches"]["instructions"]);
    wire(&mut page, &document["wire"]);
    page
}

/// Cycles of worker and floors.
fn datapath(page: &mut String, benches: &Value) {
    *page += "\n## Cycles\n\n\
        `adit bench datapath`: TSC cycles per packet, packets in the cache. The last column is the median to that of \
        the C floor of the same run.\n\n\
        | bench | sessions | active | burst | direction | | median burst | mean | 99 % of bursts | to C floor |\n\
        |---|---|---|---|---|---|---|---|---|---|\n";
    for (name, bench) in benches.as_object().into_iter().flatten() {
        if bench["bench"] != "datapath" {
            continue;
        }
        for row in bench["rows"].as_array().into_iter().flatten() {
            let names = ["sessions", "active_sessions", "burst_pkts", "direction", "what"];
            let cells = names.into_iter().chain(CYCLES).map(|name| text(&row[name]));
            line(page, std::iter::once(name.clone()).chain(cells));
        }
    }
}

/// Columns of the execution models, and their heads.
const MODELS: [(&str, &str); 8] = [
    ("model", "model"),
    ("stages", "stages"),
    ("direction", "direction"),
    ("cycles_per_packet", "all threads"),
    ("rx_tx_cycles", "receiver"),
    ("scheduler_cycles", "scheduler"),
    ("worker_cycles", "worker"),
    ("worker_to_run_to_completion", "speed of the worker"),
];

/// Cycles of each thread of the execution models.
fn models(page: &mut String, bench: &Value) {
    let Some(rows) = bench["rows"].as_array() else { return };
    *page += "\n## Execution models\n\n\
        `adit bench models`: TSC cycles per packet by thread, over DPDK's packet buffers. The last column compares the \
        worker with that of run to completion in the same run.\n\n";
    line(page, MODELS.map(|(_, head)| head.to_owned()));
    line(page, MODELS.map(|_| "---".to_owned()));
    for row in rows {
        line(page, MODELS.map(|(name, _)| text(&row[name])));
    }
}

fn instructions(page: &mut String, document: &Value) {
    *page += "\n## Instructions\n\n";
    if let Some(reason) = document["left_out"].as_str() {
        let _ = writeln!(page, "Left out: {reason}.");
        return;
    }
    let _ = writeln!(page, "`cargo xtask perf instructions`: {}.\n", text(&document["about"]));
    let parts = super::instructions::used_parts(document);
    let head = ["mode", "direction", "all"].into_iter().chain(parts.iter().copied());
    line(page, head.clone().map(str::to_owned));
    line(page, head.map(|_| "---".to_owned()));
    for row in document["rows"].as_array().into_iter().flatten() {
        let first = ["mode", "direction", "instructions_per_packet"].map(|name| text(&row[name]));
        let cells = parts.iter().map(|part| text(&row["parts"][*part]));
        line(page, first.into_iter().chain(cells));
    }
}

fn wire(page: &mut String, document: &Value) {
    *page += "\n## Wire\n\n";
    if let Some(reason) = document["left_out"].as_str() {
        let _ = writeln!(page, "Left out: {reason}.");
        return;
    }
    if document["quick"] == true {
        *page += "The short form of the experiments: its figures vary much.\n\n";
    }
    for experiment in document["experiments"].as_array().into_iter().flatten() {
        let measurements = experiment["measurements"].as_array();
        let done = measurements.map_or(0, Vec::len);
        let (title, file) = (text(&experiment["title"]), text(&experiment["file"]));
        let planned = text(&experiment["planned"]);
        let _ = writeln!(
            page,
            "### {title}\n\n`adit-lab run {file}`: {done} of {planned} measurements\n"
        );
        *page +=
            "| options | figure | median | lowest | highest | runs |\n|---|---|---|---|---|---|\n";
        for measurement in measurements.into_iter().flatten() {
            let options = options(&measurement["command"]);
            if let Some(error) = measurement["error"].as_str() {
                line(page, [options.clone(), format!("failed: {error}")]);
            }
            for ratio in measurement["ratios"].as_array().into_iter().flatten() {
                let name = format!("adit / testpmd, {}, per mille", text(&ratio["direction"]));
                let cells =
                    ["median", "min", "max"].map(|of| text(&ratio[format!("{of}_permille")]));
                line(page, [options.clone(), name].into_iter().chain(cells));
            }
            for figure in measurement["figures"].as_array().into_iter().flatten() {
                let cells =
                    ["name", "median", "min", "max", "runs"].map(|name| text(&figure[name]));
                line(page, std::iter::once(options.clone()).chain(cells));
            }
        }
        warnings(page, measurements.into_iter().flatten());
        *page += "\n";
    }
}

/// Warnings to read before using the figures of each measurement.
fn warnings<'v>(page: &mut String, measurements: impl Iterator<Item = &'v Value>) {
    *page += "\nWarnings:\n\n";
    for measurement in measurements {
        for warning in measurement["warnings"].as_array().into_iter().flatten() {
            let _ = writeln!(page, "- {}: {}", options(&measurement["command"]), text(warning));
        }
    }
}

/// The options that differ between the measurements of the experiments.
fn options(command: &Value) -> String {
    let words = command.as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_own = |word: &&str| {
        ["--rules=", "--excess=", "--sessions="].iter().any(|name| word.starts_with(name))
    };
    let own: Vec<_> = words.filter(is_own).map(|word| word.trim_start_matches("--")).collect();
    own.join(" ")
}

fn line(page: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> =
        cells.into_iter().map(|cell| cell.replace('|', "/").replace('\n', " ")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_has_cycles_instructions_and_wire() {
        let row = json!({ "what": "worker", "direction": "uplink", "sessions": 1000, "active_sessions": 1000,
            "burst_pkts": 32, "cycles_per_packet": 50.1, "cycles_per_packet_median_burst": 48.5,
            "cycles_per_packet_p99_burst": 60.0, "median_burst_to_c_floor": 1.9 });
        let instructions = json!({ "about": "instructions per packet", "rows": [
            { "mode": "--vlan", "direction": "uplink", "instructions_per_packet": 12.5, "parts": { "send": 12.5 } }] });
        let figure =
            json!({ "name": "loss-free, uplink", "median": 9, "min": 8, "max": 10, "runs": 3 });
        let model = json!({ "model": "pipeline", "direction": "uplink", "cycles_per_packet": 150.5,
            "rx_tx_cycles": 70.0, "scheduler_cycles": 0.0, "worker_cycles": 80.5,
            "worker_to_run_to_completion": 0.87 });
        let document = json!({ "date": "2026-01-02", "machine": { "cpu": "A|B" }, "quick": false,
            "steal_ms": { "0": 5 },
            "benches": { "sessions": { "bench": "datapath", "rows": [row] }, "n4": { "x": 1 },
                "models": { "bench": "models", "rows": [model] },
                "instructions": instructions },
            "wire": { "quick": true, "experiments": [{ "title": "Rules", "file": "r.toml", "planned": 2,
                "measurements": [
                    { "command": ["throughput", "--rules=real", "--runs=3"], "error": null, "figures": [figure],
                        "ratios": [{ "direction": "uplink", "median_permille": 7, "min_permille": 6,
                            "max_permille": 8 }], "warnings": ["disturbed"] },
                    { "command": ["throughput", "--rules=any"], "error": "died", "figures": null }] }] } });
        let page = render(&document);
        for wanted in [
            "| sessions | 1000 | 1000 | 32 | uplink | worker | 48.5 | 50.1 | 60.0 | 1.9 |",
            "| cpu | A/B |",
            "| pipeline |  | uplink | 150.5 | 70.0 | 0.0 | 80.5 | 0.87 |",
            "| mode | direction | all | send |",
            "| --vlan | uplink | 12.5 | 12.5 |",
            "2 of 2 measurements",
            "| rules=real | loss-free, uplink | 9 | 8 | 10 | 3 |",
            "| rules=real | adit / testpmd, uplink, per mille | 7 | 6 | 8 |",
            "- rules=real: disturbed",
            "| rules=any | failed: died |",
        ] {
            assert!(page.contains(wanted), "{wanted}\n{page}");
        }
    }

    #[test]
    fn page_names_what_was_left_out() {
        let document = json!({ "benches": { "instructions": { "left_out": "valgrind is missing" } },
            "wire": { "left_out": "--wire none" } });
        let page = render(&document);
        assert!(
            page.contains("Left out: valgrind is missing.")
                && page.contains("Left out: --wire none.")
        );
    }
}

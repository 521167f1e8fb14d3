//! `adit bench`: measurements of parts of adit in this process.

pub mod churn;
pub mod datapath;
mod io;
pub mod memory;
pub mod n4;
mod plant;
pub mod poll;
mod sessions;
mod smf;

/// Prints a flat document as JSON or as lines.
fn print(document: &serde_json::Value, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(document)?);
    } else {
        for (name, value) in document.as_object().into_iter().flatten() {
            println!("{:45} {value}", name.replace('_', " "));
        }
    }
    Ok(())
}

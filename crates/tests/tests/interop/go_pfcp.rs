//! A control function on `github.com/wmnsk/go-pfcp` against a running `adit`: it sends what pfcpsim
//! does not, and its parser judges the answers. The cases are in `interop/go-pfcp`.

use std::time::Duration;

use adit_tests::daemon::{Daemon, N3, N4};
use adit_tests::process::run;

const LIMIT: Duration = Duration::from_secs(60);
/// Fewer than these mean that the client lost some.
const CASES_MIN: usize = 28;

#[test]
fn control_function_on_go_pfcp_is_content_with_every_answer() {
    let Some(binaries) = adit_tests::go::build("go-pfcp", &["."]) else { return };
    let Some(daemon) = Daemon::start("go-pfcp", 2000) else { return };
    let output = run(daemon.command(&binaries.join("go-pfcp")).args([N4, N3]), LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cases: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(cases.len() >= CASES_MIN, "{cases:#?}");
    let failed: Vec<_> = cases.iter().filter(|case| case["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let skipped: Vec<_> = cases.iter().filter(|case| case["skipped"].is_string()).collect();
    assert!(skipped.is_empty(), "{skipped:#?}");
    assert_eq!(daemon.sessions(), 0, "every case ends its session");
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

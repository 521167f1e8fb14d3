//! Checks that each promise of SPECIFICATION.md names tests or benches that verify it, and that
//! these exist.
//!
//! A row of a table is a promise. Its last column names tests as `path#function`, and benches in
//! backticks, as PERF notes do.

use std::fs;

use anyhow::Context;
use cargo_metadata::Metadata;
use syn::visit::Visit;

use super::benches;
use super::source::SourceFile;

/// Adds a finding for each promise that no test or bench verifies, and for each of these that does
/// not exist.
///
/// # Errors
/// The document cannot be read.
pub(super) fn check(
    metadata: &Metadata,
    files: &[SourceFile],
    findings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let path = metadata.workspace_root.join("SPECIFICATION.md");
    let text = fs::read_to_string(&path).with_context(|| path.to_string())?;
    check_text(&text, files, findings);
    Ok(())
}

fn check_text(text: &str, files: &[SourceFile], findings: &mut Vec<String>) {
    let mut promises = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("SPECIFICATION.md:{number}");
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            continue;
        };
        let is_head = row.chars().all(|c| "-: |".contains(c)) || row.ends_with("held by ");
        if is_head {
            continue;
        }
        promises += 1;
        let holders: Vec<&str> =
            row.rsplit('|').next().unwrap_or_default().split('`').skip(1).step_by(2).collect();
        if holders.is_empty() {
            findings.push(format!("{place}: nothing holds this promise"));
        }
        for holder in holders.into_iter().filter(|holder| !exists(holder, files)) {
            findings.push(format!("{place}: there is no test or bench {holder}"));
        }
    }
    if promises == 0 {
        findings.push("SPECIFICATION.md: no promises".to_owned());
    }
}

fn exists(holder: &str, files: &[SourceFile]) -> bool {
    let Some((path, function)) = holder.split_once('#') else {
        return benches::exists(holder, files);
    };
    let Some(file) = files.iter().find(|file| file.path == path) else { return false };
    let mut tests = TestFunctions::default();
    tests.visit_file(&file.syntax);
    tests.names.iter().any(|name| name == function)
}

/// The names of the functions that a test harness runs.
#[derive(Default)]
struct TestFunctions {
    names: Vec<String>,
}

impl<'ast> Visit<'ast> for TestFunctions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            self.names.push(item.sig.ident.to_string());
        }
    }

    fn visit_macro(&mut self, macro_call: &'ast syn::Macro) {
        // The visitor does not see the functions inside `proptest!`.
        if macro_call.path.is_ident("proptest") {
            let text = macro_call.tokens.to_string();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split([' ', '(']).next());
            self.names.extend(names.map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let source = "#[test] fn one() {} fn helper() {} proptest! { #[test] fn two(x in 0..9) {} } \
            enum BenchCommand { Datapath(Options), N4 }";
        let files = [SourceFile::new("adit-x", "crates/x/tests/it.rs", source).unwrap()];
        let mut findings = Vec::new();
        check_text(text, &files, &mut findings);
        findings
    }

    #[test]
    fn promise_with_a_test_and_a_bench_is_held() {
        let text = "| promise | held by |\n|---|---|\n\
                    | a `b` | `crates/x/tests/it.rs#one` `crates/x/tests/it.rs#two` |\n\
                    | fast | `adit-bench datapath` |\n";
        assert_eq!(findings(text), Vec::<String>::new());
    }

    #[test]
    fn promise_without_holder_is_found() {
        assert_eq!(
            findings("| fast | held by hope |\n"),
            ["SPECIFICATION.md:1: nothing holds this promise"]
        );
    }

    #[test]
    fn holder_that_does_not_exist_is_found() {
        for holder in [
            "crates/x/tests/it.rs#gone",
            "crates/x/tests/it.rs#helper",
            "crates/x/tests/gone.rs#one",
            "adit-bench gone",
            "one",
        ] {
            assert_eq!(
                findings(&format!("| fast | `{holder}` |")),
                [format!("SPECIFICATION.md:1: there is no test or bench {holder}")]
            );
        }
    }

    #[test]
    fn document_without_promises_is_found() {
        assert_eq!(findings("# Promises\n").len(), 1);
    }
}

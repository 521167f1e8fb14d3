//! The rule of CONTRIBUTING for commits: a short subject that begins with its room, and the reason
//! in the body.

use std::process::Command;

use anyhow::{Context, bail};

/// Commits authored before this time are not checked: 2026-11-30T14:20:00Z, in Unix seconds.
const RULE_SINCE: u64 = 1_796_048_400;

/// Maximum length of a subject, so that lists of commits fit in a terminal. Unit: characters.
const SUBJECT_MAX: usize = 72;

/// One commit as `git log` prints it.
struct LoggedCommit<'a> {
    hash: &'a str,
    authored: u64,
    message: &'a str,
}

/// Checks the commits since the last tag, except merges.
///
/// # Errors
/// `git` cannot be run, or a commit breaks the rule; the message says what each commit lacks.
pub(crate) fn run() -> anyhow::Result<()> {
    if !git(&["rev-parse", "--git-dir"]).is_ok_and(|folder| !folder.is_empty()) {
        println!("skipped: no clone of git");
        return Ok(());
    }
    let range = match git(&["describe", "--tags", "--abbrev=0"]) {
        Ok(tag) => format!("{}..HEAD", tag.trim()),
        Err(_) => "HEAD".to_owned(),
    };
    let log = git(&["log", "--no-merges", "-z", "--format=%h %at%n%B", &range])?;
    let commits = log.split_terminator('\0').map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    let checked: Vec<&LoggedCommit> =
        commits.iter().filter(|one| one.authored >= RULE_SINCE).collect();
    let findings: Vec<String> = checked.iter().filter_map(|commit| finding(commit)).collect();
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    println!("{} commits in order", checked.len());
    Ok(())
}

/// Runs `git` and returns its output.
fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).output().context("git cannot be run")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse(entry: &str) -> anyhow::Result<LoggedCommit<'_>> {
    let (head, message) = entry.split_once('\n').context("git log printed no message")?;
    let (hash, authored) = head.split_once(' ').context("git log printed no date")?;
    Ok(LoggedCommit { hash, authored: authored.parse()?, message: message.trim_end() })
}

/// Returns what the commit lacks, if it lacks anything.
fn finding(commit: &LoggedCommit) -> Option<String> {
    let (subject, body) = commit.message.split_once('\n').unwrap_or((commit.message, ""));
    let len = subject.chars().count();
    let mut lacks = Vec::new();
    if len > SUBJECT_MAX {
        lacks.push(format!("its subject has {len} characters, {SUBJECT_MAX} at most"));
    }
    if !subject.contains(": ") {
        lacks.push("its subject names no room (`wire: …`)".to_owned());
    }
    if body.trim().is_empty() {
        lacks.push("its body has no reason".to_owned());
    } else if !body.starts_with('\n') {
        lacks.push("no empty line follows its subject".to_owned());
    }
    let lacks = (!lacks.is_empty()).then(|| lacks.join("; "))?;
    Some(format!(
        "{} {subject}\n  {lacks}; mend it: git rebase --interactive {}^",
        commit.hash, commit.hash
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(message: &str) -> String {
        finding(&LoggedCommit { hash: "1234567", authored: RULE_SINCE, message })
            .unwrap_or_default()
    }

    #[test]
    fn commit_with_room_and_reason_is_in_order() {
        assert_eq!(lacks("wire: a shorter walk\n\nIt visited each octet twice."), "");
    }

    #[test]
    fn each_gap_of_a_commit_is_named() {
        assert!(lacks("wire: a shorter walk").contains("no reason"));
        assert!(lacks("a shorter walk\n\nreason").contains("names no room"));
        assert!(lacks("wire: a shorter walk\nreason").contains("no empty line"));
        let long = format!("wire: {}\n\nreason", "x".repeat(SUBJECT_MAX - 5));
        assert!(lacks(&long).contains("73 characters"), "{long}");
    }
}

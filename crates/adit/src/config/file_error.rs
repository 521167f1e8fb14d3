//! Why a configuration file cannot be used.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::ConfigProblem;

/// Why the file at a path cannot be used.
#[derive(Debug)]
pub(crate) enum ConfigFileError {
    Unreadable(PathBuf, io::Error),
    /// The mistakes of the file.
    Mistakes(PathBuf, Vec<ConfigProblem>),
}

/// Returns the number of mistakes in words.
pub(crate) fn mistakes(problems: &[ConfigProblem]) -> String {
    match problems.len() {
        1 => "1 mistake".to_owned(),
        count => format!("{count} mistakes"),
    }
}

/// Prints a line for each mistake.
impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Mistakes(path, problems) => {
                write!(f, "{}: {}", path.display(), mistakes(problems))?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigFileError {}

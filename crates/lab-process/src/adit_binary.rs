//! Finds the `adit` binary that the lab starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::stop::environment;

/// Returns the path of the binary under test: `given`, or `adit` in the directory of this program.
///
/// # Errors
/// There is no such file.
pub fn find_binary(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().context("find this program")?.with_file_name("adit"),
    };
    if !path.is_file() {
        return Err(environment(format!(
            "there is no adit at {}: build it (cargo build --release) or name it with --adit PATH",
            path.display()
        )));
    }
    path.canonicalize().context("resolve the path of adit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_that_does_not_exist_is_an_environment_error() {
        let error = find_binary(Some(Path::new("/nonexistent/adit"))).unwrap_err();
        assert!(error.is::<crate::stop::EnvironmentError>());
        assert!(error.to_string().contains("--adit PATH"));
    }
}

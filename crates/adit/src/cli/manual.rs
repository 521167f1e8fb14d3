//! `adit completions` and `adit man`, made from the command line itself.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::AditCli;

/// Prints the completions for `shell`.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut command = AditCli::command();
    let mut written = Vec::new();
    clap_complete::generate(shell, &mut command, "adit", &mut written);
    Ok(std::io::stdout().lock().write_all(&written)?)
}

/// Prints the manual page of `adit`, or writes the pages of all commands into `folder`.
///
/// # Errors
/// Standard output or `folder` cannot be written.
pub(crate) fn man(folder: Option<&Path>) -> anyhow::Result<()> {
    let command = AditCli::command().disable_help_subcommand(true);
    match folder {
        None => Ok(Man::new(command).render(&mut std::io::stdout().lock())?),
        Some(folder) => {
            let cannot = || format!("cannot write manual pages into {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            clap_mangen::generate_to(command, folder).with_context(cannot)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        man(Some(folder.path())).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page("adit.1").contains(".TH adit 1"));
        assert!(page("adit-show.1").contains("\\-\\-dnn"));
        assert!(page("adit-host-plan.1").contains("adit\\-host\\-plan"));
    }

    #[test]
    fn completions_of_each_shell_know_the_commands() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let mut written = Vec::new();
            clap_complete::generate(shell, &mut AditCli::command(), "adit", &mut written);
            let text = String::from_utf8(written).unwrap();
            assert!(text.contains("takeover") && text.contains("explain"), "{shell}");
        }
    }
}

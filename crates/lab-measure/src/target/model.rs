//! Which targets have an execution model.

use anyhow::Result;

use super::{ExecutionModel, TargetArguments, TargetKind};
use adit_lab_process::stop::environment;

impl TargetArguments {
    /// Checks that a model is for an adit that the tester starts.
    ///
    /// # Errors
    /// The target is another one.
    pub(crate) fn check_model(&self) -> Result<()> {
        if self.model == ExecutionModel::RunToCompletion || self.target == TargetKind::Adit {
            return Ok(());
        }
        Err(environment(format!(
            "--model is for the adit that adit-lab starts; the target {} has its own configuration",
            self.target.name()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct TargetCli {
        #[command(flatten)]
        target: TargetArguments,
    }

    #[test]
    fn model_is_refused_for_a_target_that_adit_lab_does_not_configure() {
        use clap::Parser;
        let check = |words: &[&str]| {
            let words = std::iter::once(&"x").chain(words);
            TargetCli::try_parse_from(words).unwrap().target.check_model()
        };
        check(&["--model", "eventdev-sw"]).unwrap();
        check(&["--target", "upf"]).unwrap();
        let error = check(&["--target", "testpmd", "--model", "pipeline"]).unwrap_err();
        assert!(error.to_string().contains("the target testpmd has its own"), "{error}");
    }
}

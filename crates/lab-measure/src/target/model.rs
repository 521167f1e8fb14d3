//! Which targets have an execution model.

use anyhow::Result;

use super::{ExecutionModel, PollChoice, TargetArguments, TargetKind};
use adit_lab_process::stop::environment;

impl TargetArguments {
    /// Checks that a model, a placement and what threads do without packets are for an adit that the tester starts.
    ///
    /// # Errors
    /// The target is another one.
    pub(crate) fn check_model(&self) -> Result<()> {
        let options = [
            ("--model", self.model != ExecutionModel::RunToCompletion),
            ("--placement", self.placement.is_some()),
            ("--poll", self.poll != PollChoice::Busy),
            ("--scale-frequency", self.scale_frequency),
        ];
        let given = options.iter().find(|(_, is_given)| *is_given);
        if let Some((option, _)) = given.filter(|_| self.target != TargetKind::Adit) {
            return Err(environment(format!(
                "{option} is for the adit that adit-lab starts; the target {} has its own configuration",
                self.target.name()
            )));
        }
        let is_eventdev = !matches!(
            self.model,
            ExecutionModel::RunToCompletion
                | ExecutionModel::Pipeline
                | ExecutionModel::PipelineRss
        );
        match is_eventdev {
            true if self.placement.is_some() => Err(environment(
                "--placement is for the models run-to-completion, pipeline and pipeline-rss",
            )),
            true if self.poll == PollChoice::Adaptive => Err(environment(
                "--poll adaptive is not for the event-driven models: a scheduler wakes nobody",
            )),
            _ => Ok(()),
        }
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
        let error = check(&["--target", "upf", "--placement", "numa"]).unwrap_err();
        assert!(error.to_string().starts_with("--placement is for the adit"), "{error}");
        let error = check(&["--model", "eventdev-sw", "--placement", "uma"]).unwrap_err();
        assert!(error.to_string().contains("run-to-completion, pipeline"), "{error}");
        let error = check(&["--model", "eventdev-dsw", "--poll", "adaptive"]).unwrap_err();
        assert!(error.to_string().contains("a scheduler wakes nobody"), "{error}");
    }
}

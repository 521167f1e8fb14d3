//! Combinations of a model with other options.

use anyhow::Result;

use super::{ExecutionModel, PollChoice, TargetArguments};
use adit_lab_process::stop::environment;

impl TargetArguments {
    /// Checks that the model of a started adit fits its placement and its threads without packets.
    ///
    /// # Errors
    /// The model does not fit.
    pub(crate) fn check_model(&self) -> Result<()> {
        let is_eventdev = !matches!(
            self.adit.model,
            ExecutionModel::RunToCompletion
                | ExecutionModel::Pipeline
                | ExecutionModel::PipelineRss
        );
        match is_eventdev {
            true if self.adit.placement.is_some() => Err(environment(
                "--placement is for the models run-to-completion, pipeline and pipeline-rss",
            )),
            true if self.adit.poll == PollChoice::Adaptive => Err(environment(
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
    struct ModelCli {
        #[command(flatten)]
        target: TargetArguments,
    }

    #[test]
    fn event_driven_model_is_refused_with_placement_and_with_sleeping_threads() {
        use clap::Parser;
        let check = |words: &[&str]| {
            let words = std::iter::once(&"x").chain(words);
            ModelCli::try_parse_from(words).unwrap().target.check_model()
        };
        check(&["--model", "eventdev-sw"]).unwrap();
        check(&["--model", "pipeline", "--placement", "numa", "--poll", "adaptive"]).unwrap();
        let error = check(&["--model", "eventdev-sw", "--placement", "uma"]).unwrap_err();
        assert!(error.to_string().contains("run-to-completion, pipeline"), "{error}");
        let error = check(&["--model", "eventdev-dsw", "--poll", "adaptive"]).unwrap_err();
        assert!(error.to_string().contains("a scheduler wakes nobody"), "{error}");
    }
}

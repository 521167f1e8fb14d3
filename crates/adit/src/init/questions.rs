//! Asks for values that no option gives: one line each, with the proposed answer in brackets.

use std::io::{BufRead, Write};

use anyhow::bail;

/// Source of the answers.
pub(super) enum AnswerSource<'a> {
    /// A user at a terminal. `wait` returns once a line can be read, or the error to end with.
    Terminal {
        input: &'a mut dyn BufRead,
        output: &'a mut dyn Write,
        wait: &'a dyn Fn() -> anyhow::Result<()>,
    },
    /// No user: the proposed answers are taken.
    Proposed,
    /// No user and no proposed answers: every question remains open.
    Missing,
}

/// A question, and the option that answers it.
pub(super) struct Question<'a> {
    pub option: &'static str,
    pub text: &'a str,
    /// The proposed answer.
    pub proposed: Option<String>,
}

/// Asks questions, and notes those without an answer.
pub(super) struct Questions<'a> {
    answers: AnswerSource<'a>,
    missing: Vec<&'static str>,
}

impl<'a> Questions<'a> {
    pub(super) const fn new(answers: AnswerSource<'a>) -> Self {
        Self { answers, missing: Vec::new() }
    }

    /// Returns the answer to a question. `read` parses it, or says what is wrong with it: then a
    /// user at a terminal is asked again. `None`: there is no answer, and [`Self::finish`] will
    /// fail.
    ///
    /// # Errors
    /// The input ends, a signal arrives, or the proposed answer is wrong.
    pub(super) fn ask<T>(
        &mut self,
        question: &Question<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<Option<T>> {
        let Question { option, text, proposed } = question;
        let (input, output, wait) = match (&mut self.answers, proposed) {
            (AnswerSource::Terminal { input, output, wait }, _) => (input, output, wait),
            (AnswerSource::Proposed, Some(proposed)) => {
                let read = read(proposed).map_err(|what| anyhow::anyhow!("{what} ({option})"));
                return read.map(Some);
            }
            (AnswerSource::Proposed | AnswerSource::Missing, _) => {
                self.missing.push(option);
                return Ok(None);
            }
        };
        loop {
            let shown = proposed.as_ref().map_or_else(String::new, |text| format!(" [{text}]"));
            write!(output, "{text}{shown}: ")?;
            output.flush()?;
            let mut line = String::new();
            if let Err(error) = wait() {
                writeln!(output)?;
                return Err(error);
            }
            if input.read_line(&mut line)? == 0 {
                writeln!(output)?;
                bail!("the answers ended before {option}; nothing was written");
            }
            let line = match (line.trim(), proposed) {
                ("", Some(proposed)) => proposed,
                (line, _) => line,
            };
            match read(line) {
                Ok(value) => return Ok(Some(value)),
                Err(what) => writeln!(output, "  {what}")?,
            }
        }
    }

    /// # Errors
    /// Answers are missing; the text names their options.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let missing = self.missing.join(", ");
        match self.answers {
            _ if missing.is_empty() => Ok(()),
            AnswerSource::Missing => {
                bail!(
                    "there is no terminal to ask at: give {missing}, or --yes to take what is proposed"
                )
            }
            _ => bail!("this host proposes nothing for {missing}: give these options"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u8, String> {
        text.parse().map_err(|_| format!("\"{text}\" is no number"))
    }

    fn question(proposed: Option<&str>) -> Question<'static> {
        Question { option: "--n", text: "How many?", proposed: proposed.map(str::to_owned) }
    }

    /// The answer to a question at a terminal, and the text that appears there.
    fn at_terminal(lines: &str, proposed: Option<&str>) -> (Result<Option<u8>, String>, String) {
        let (mut input, mut output) = (lines.as_bytes(), Vec::new());
        let wait = &|| Ok(());
        let answers = AnswerSource::Terminal { input: &mut input, output: &mut output, wait };
        let answer = Questions::new(answers).ask(&question(proposed), number);
        (answer.map_err(|error| error.to_string()), String::from_utf8(output).unwrap())
    }

    #[test]
    fn enter_takes_what_is_proposed_and_a_wrong_answer_is_asked_for_again() {
        assert_eq!(at_terminal("\n", Some("7")), (Ok(Some(7)), "How many? [7]: ".to_owned()));
        let (answer, shown) = at_terminal("many\n 3 \n", None);
        assert_eq!(answer, Ok(Some(3)));
        assert_eq!(shown, "How many?:   \"many\" is no number\nHow many?: ");
        let (answer, _) = at_terminal("many\n", None);
        assert!(answer.unwrap_err().contains("nothing was written"));
    }

    #[test]
    fn answers_that_nobody_gives_are_named_together() {
        let mut nobody = Questions::new(AnswerSource::Missing);
        for option in ["--n3", "--n6"] {
            let question = Question { option, ..question(Some("1")) };
            assert_eq!(nobody.ask(&question, number).unwrap(), None);
        }
        assert!(nobody.finish().unwrap_err().to_string().contains("give --n3, --n6, or --yes"));
        let mut proposed = Questions::new(AnswerSource::Proposed);
        assert_eq!(proposed.ask(&question(Some("1")), number).unwrap(), Some(1));
        assert_eq!(proposed.ask(&question(None), number).unwrap(), None);
        assert!(proposed.finish().unwrap_err().to_string().contains("nothing for --n:"));
    }
}

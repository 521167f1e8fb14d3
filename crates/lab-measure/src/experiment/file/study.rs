//! `[[study]]`: figures of a study.

use std::ops::Range;

use anyhow::Result;

use super::{ExperimentSource, TomlTable, TomlValue};
use crate::run_report::{Study, StudyValue};

impl ExperimentSource<'_> {
    /// Reads one table; the file has `measures` measurements.
    pub(super) fn study(
        &self,
        table: &TomlTable<'_>,
        span: &Range<usize>,
        measures: usize,
    ) -> Result<Study> {
        self.known_keys(table, "study", &["source", "machine", "unit", "values"])?;
        let text = |key: &str| -> Result<String> {
            self.text_of(table, key)?.ok_or_else(|| self.problem(span, key, "is missing"))
        };
        let wrong = || self.problem(span, "values", "expected a list of { label = … }");
        let values = table.get("values").and_then(|value| value.get_ref().as_array());
        let values = values.ok_or_else(wrong)?.iter().map(|value| {
            let table = value.get_ref().as_table().ok_or_else(wrong)?;
            self.study_value(table, &value.span(), measures)
        });
        Ok(Study {
            source: text("source")?,
            machine: text("machine")?,
            unit: text("unit")?,
            values: values.collect::<Result<_>>()?,
        })
    }

    fn study_value(
        &self,
        table: &TomlTable<'_>,
        span: &Range<usize>,
        measures: usize,
    ) -> Result<StudyValue> {
        self.known_keys(table, "values", &["label", "value", "measure", "figure", "note"])?;
        let label = self.text_of(table, "label")?;
        let label = label.ok_or_else(|| self.problem(span, "label", "is missing"))?;
        let value = table.get("value").map(|value| self.study_number(value)).transpose()?;
        let (figure, note) = (self.text_of(table, "figure")?, self.text_of(table, "note")?);
        let measure = match table.get("measure") {
            None => None,
            Some(value) => {
                let number = self.word(value, "measure")?.parse().ok();
                let number = number.filter(|number| (1..=measures).contains(number));
                Some(number.ok_or_else(|| {
                    let what =
                        format!("is not one of the measurements 1 to {measures} of this file");
                    self.problem(&value.span(), "measure", what)
                })?)
            }
        };
        if measure.is_some() != figure.is_some() {
            return Err(self.problem(span, "figure", "measure and figure go together"));
        }
        if measure.is_none() && note.is_none() {
            let what = "is missing; expected measure and figure, or a note why there are none";
            return Err(self.problem(span, "note", what));
        }
        Ok(StudyValue { label, value, measure, figure, note })
    }

    fn study_number(&self, value: &TomlValue<'_>) -> Result<f64> {
        let number = self.word(value, "value")?.parse().ok();
        number.ok_or_else(|| self.problem(&value.span(), "value", "expected a number"))
    }
}

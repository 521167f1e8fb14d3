//! Writes an answer as JSON text while its pages arrive.

use std::io::Write;

use anyhow::bail;
use serde_json::Value;

use super::AnswerPage;

/// Writes one document, with one line per row of a list.
pub(super) struct DocumentWriter<W> {
    out: W,
    is_begun: bool,
    list: Option<&'static str>,
    rows: usize,
}

impl<W: Write> DocumentWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, is_begun: false, list: None, rows: 0 }
    }

    /// Writes the next page. Returns how many rows it has.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn page(&mut self, page: AnswerPage) -> anyhow::Result<usize> {
        let mut rows = 0;
        if let Some(list) = page.list {
            if self.list != Some(list) {
                self.end_list()?;
                self.key(list)?;
                self.out.write_all(b"[")?;
                (self.list, self.rows) = (Some(list), 0);
            }
            for row in (page.rows)() {
                self.out.write_all(if self.rows == 0 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut self.out, &row)?;
                self.rows += 1;
                rows += 1;
            }
        }
        for (key, value) in &(page.members)() {
            self.end_list()?;
            self.key(key)?;
            serde_json::to_writer(&mut self.out, value)?;
        }
        Ok(rows)
    }

    /// Ends the document.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.end_list()?;
        self.out.write_all(if self.is_begun { b"}\n" } else { b"{}\n" })?;
        Ok(self.out.flush()?)
    }

    /// Writes `error` instead of a document.
    ///
    /// # Errors
    /// Those of the output. If part of the document has been written, it stays incomplete, which the reader
    /// detects.
    pub(super) fn refuse(mut self, error: &Value) -> anyhow::Result<()> {
        if self.is_begun {
            bail!("the answer was cut short: {error}");
        }
        serde_json::to_writer(&mut self.out, error)?;
        self.out.write_all(b"\n")?;
        Ok(self.out.flush()?)
    }

    fn key(&mut self, key: &str) -> anyhow::Result<()> {
        self.out.write_all(if self.is_begun { b"," } else { b"{" })?;
        self.is_begun = true;
        serde_json::to_writer(&mut self.out, key)?;
        Ok(self.out.write_all(b":")?)
    }

    fn end_list(&mut self) -> anyhow::Result<()> {
        if self.list.take().is_some() {
            self.out.write_all(if self.rows == 0 { b"]" } else { b"\n]" })?;
        }
        Ok(())
    }
}

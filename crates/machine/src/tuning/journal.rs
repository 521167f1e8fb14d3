//! The journal, which has the previous values and is written before anything changes.

use std::io;

use crate::tuning::{HostFiles, SettingForm, SettingPlace, TuningError, TuningProfile};

/// Path of the journal. A restart of the machine empties `/run`, and also resets the settings.
pub const JOURNAL_PATH: &str = "run/adit/host-tuning.journal";

const FIRST_LINE: &str = "adit host tuning 1";
const LAST_LINE: &str = "end";

/// All changes of one `apply`, or all that [`super::FrequencyScaling`] may make, in the order of
/// writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TuningJournal {
    pub profile: String,
    pub entries: Vec<JournalEntry>,
}

/// One change of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalEntry {
    pub place: SettingPlace,
    pub form: SettingForm,
    pub path: String,
    /// The previous value; empty for a file that did not exist.
    pub previous: String,
    pub wanted: String,
}

impl TuningJournal {
    pub(crate) fn new(profile: TuningProfile) -> Self {
        Self { profile: profile.name().to_owned(), entries: Vec::new() }
    }

    /// Reads the journal of `apply`; `None` if there is none.
    pub(crate) fn read(files: &dyn HostFiles) -> Result<Option<Self>, TuningError> {
        Self::read_at(files, JOURNAL_PATH)
    }

    /// Reads a journal; `None` if there is none.
    pub(crate) fn read_at(files: &dyn HostFiles, path: &str) -> Result<Option<Self>, TuningError> {
        match files.read(path) {
            Ok(text) => Self::parse(&text)
                .map(Some)
                .map_err(|line| TuningError::DamagedJournal { journal: path.to_owned(), line }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TuningError::unreadable(path, error)),
        }
    }

    pub(crate) fn keep(&self, files: &mut dyn HostFiles) -> Result<(), TuningError> {
        self.keep_at(files, JOURNAL_PATH)
    }

    pub(crate) fn keep_at(&self, files: &mut dyn HostFiles, path: &str) -> Result<(), TuningError> {
        files.keep(path, &self.text()).map_err(|error| TuningError::Journal {
            journal: path.to_owned(),
            error,
            state: "nothing was changed",
        })
    }

    pub(crate) fn forget(files: &mut dyn HostFiles) -> Result<(), TuningError> {
        Self::forget_at(files, JOURNAL_PATH)
    }

    pub(crate) fn forget_at(files: &mut dyn HostFiles, path: &str) -> Result<(), TuningError> {
        files.forget(path).map_err(|error| TuningError::Journal {
            journal: path.to_owned(),
            error,
            state: "all settings were taken back",
        })
    }

    /// Formats the journal. Values have neither tabs nor line ends: `check` accepts no value of the
    /// kernel's files that has.
    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nprofile\t{}\n", self.profile);
        for entry in &self.entries {
            let JournalEntry { place, form, path, previous, wanted } = entry;
            let place = match place {
                SettingPlace::File => "file",
                SettingPlace::Folder => "folder",
                SettingPlace::NewFile => "new-file",
            };
            text.push_str(&format!("{place}\t{form}\t{path}\t{previous}\t{wanted}\n"));
        }
        text.push_str(LAST_LINE);
        text.push('\n');
        text
    }

    /// Parses the journal.
    ///
    /// # Errors
    /// The number of the first malformed line.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut lines = (1..).zip(text.lines());
        let mut number = 1;
        let mut next = || {
            let line = lines.next();
            number = line.map_or(number + 1, |(number, _)| number);
            (number, line.map(|(_, line)| line))
        };
        let (line, first) = next();
        first.filter(|first| *first == FIRST_LINE).ok_or(line)?;
        let (line, profile) = next();
        let profile = profile.and_then(|text| text.strip_prefix("profile\t")).ok_or(line)?;
        let mut journal = Self { profile: profile.to_owned(), entries: Vec::new() };
        loop {
            let (line, text) = next();
            match text {
                Some(LAST_LINE) => return Ok(journal),
                Some(text) => journal.entries.push(JournalEntry::parse(text).ok_or(line)?),
                None => return Err(line),
            }
        }
    }
}

impl JournalEntry {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let place = match parts.next()? {
            "file" => SettingPlace::File,
            "folder" => SettingPlace::Folder,
            "new-file" => SettingPlace::NewFile,
            _ => return None,
        };
        let form = parts.next()?.parse().ok()?;
        let path = parts.next()?.to_owned();
        let leaves_root = path.starts_with('/') || path.split('/').any(|part| part == "..");
        let entry = Self {
            place,
            form,
            path,
            previous: parts.next()?.to_owned(),
            wanted: parts.next()?.to_owned(),
        };
        (parts.next().is_none() && !leaves_root).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> TuningJournal {
        let mut journal = TuningJournal::new(TuningProfile::Rt);
        journal.entries.push(JournalEntry {
            place: SettingPlace::File,
            form: SettingForm::Choice,
            path: "sys/a".to_owned(),
            previous: String::new(),
            wanted: "madvise".to_owned(),
        });
        journal
    }

    #[test]
    fn journal_survives_its_text() {
        assert_eq!(TuningJournal::parse(&journal().text()), Ok(journal()));
    }

    #[test]
    fn journal_that_ends_early_or_is_changed_is_refused_by_line() {
        let text = journal().text();
        for end in 0..text.len() - 1 {
            let is_whole = &text[..end] == text.trim_end();
            assert_eq!(TuningJournal::parse(&text[..end]).is_ok(), is_whole, "{}", &text[..end]);
        }
        assert_eq!(TuningJournal::parse(&text.replace("sys/a", "/sys/a")), Err(3));
        assert_eq!(TuningJournal::parse(&text.replace("sys/a", "sys/../etc/a")), Err(3));
        assert_eq!(TuningJournal::parse(&text.replace("choice", "chance")), Err(3));
        assert_eq!(TuningJournal::parse(""), Err(2));
    }
}

//! Applies settings and reverts them.

use std::io;

use crate::tuning::journal::{JournalEntry, TuningJournal};
use crate::tuning::{
    CheckedSetting, HostFiles, JOURNAL_PATH, SettingPlace, SettingState, TuningError,
    TuningRequest, TuningSetting, check,
};

/// The result of `apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedTuning {
    /// Settings that were written.
    pub written: Vec<TuningSetting>,
    /// Optional settings that the kernel refused, each with its reason.
    pub refused: Vec<String>,
    /// Number of settings that differ from the request and cannot be changed.
    pub fixed_count: usize,
}

/// The result of `revert`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevertedTuning {
    /// Paths that were restored, with the restored value.
    pub restored: Vec<String>,
    /// Settings that another program changed or removed meanwhile, and that therefore stay, each as
    /// a sentence.
    pub left: Vec<String>,
}

/// Writes all settings of `request` that differ and can be changed. If one fails, reverts those
/// already written.
///
/// Before the first setting changes, the journal is durable and has the old and the new value of
/// each. So [`revert`] can find out how far an interrupted call came.
///
/// # Errors
/// The request does not fit the machine, settings are applied already, no setting that differs can
/// be changed, or the kernel refuses one.
pub fn apply(
    files: &mut dyn HostFiles,
    request: &TuningRequest,
) -> Result<AppliedTuning, TuningError> {
    if let Some(journal) = TuningJournal::read(files)? {
        return Err(TuningError::AlreadyApplied { profile: journal.profile });
    }
    let report = check(files, request)?;
    let differs = |checked: &CheckedSetting| checked.state == SettingState::Differs;
    let changes: Vec<_> = report.settings.iter().filter(|one| differs(one)).cloned().collect();
    let mut fixed = report.settings.iter().filter_map(|checked| match &checked.state {
        SettingState::Fixed(why) => Some(why),
        SettingState::Fits | SettingState::Differs => None,
    });
    if changes.is_empty() {
        return match fixed.next() {
            None => Ok(AppliedTuning::default()),
            Some(why) => {
                Err(TuningError::NothingChangeable { why: why.clone(), count: 1 + fixed.count() })
            }
        };
    }
    let mut journal = TuningJournal::new(request.profile);
    journal.entries = changes.iter().map(entry).collect();
    journal.keep(files)?;
    let mut applied = AppliedTuning { fixed_count: fixed.count(), ..AppliedTuning::default() };
    for (index, change) in changes.into_iter().enumerate() {
        match write(files, &journal.entries[index]) {
            Ok(()) => applied.written.push(change.setting),
            Err(failure) if change.setting.may_be_refused => applied.refused.push(failure.why),
            Err(failure) => {
                journal.entries.truncate(index + usize::from(failure.may_be_written));
                return Err(undo(files, &journal, failure.why));
            }
        }
    }
    Ok(applied)
}

/// Reverts the settings that the last [`apply`] wrote, even if that call was interrupted. A setting
/// that another program has changed since stays as it is.
///
/// # Errors
/// Nothing is applied, the journal is damaged, or the kernel refuses a previous value.
pub fn revert(files: &mut dyn HostFiles) -> Result<RevertedTuning, TuningError> {
    let journal = TuningJournal::read(files)?;
    let journal = journal.ok_or(TuningError::NotApplied { journal: JOURNAL_PATH })?;
    let taken_back = take_back(files, &journal);
    if !taken_back.failed.is_empty() {
        return Err(TuningError::HalfReverted { left: taken_back.failed.join("; ") });
    }
    TuningJournal::forget(files)?;
    Ok(taken_back.reverted)
}

fn entry(change: &CheckedSetting) -> JournalEntry {
    let setting = &change.setting;
    JournalEntry {
        place: setting.place,
        form: setting.form,
        path: setting.path.clone(),
        previous: change.current.clone().unwrap_or_default(),
        wanted: setting.wanted.clone(),
    }
}

/// The reason why a value could not be set.
pub(crate) struct WriteFailure {
    pub(crate) why: String,
    /// False if the value was certainly not written.
    may_be_written: bool,
}

/// Writes one value and reads it back, since the kernel changes some values without an error.
pub(crate) fn write(files: &mut dyn HostFiles, entry: &JournalEntry) -> Result<(), WriteFailure> {
    let JournalEntry { path, wanted, previous, .. } = entry;
    let before = |why| WriteFailure { why, may_be_written: false };
    let after = |why| WriteFailure { why, may_be_written: true };
    let failed = |error: io::Error| format!("/{path} does not take \"{wanted}\": {error}");
    if entry.place == SettingPlace::Folder {
        let made = files.make_folder(path);
        return made.map_err(|error| before(format!("/{path} cannot be made: {error}")));
    }
    if entry.place == SettingPlace::File {
        let now = value(files, entry).map_err(failed).map_err(before)?;
        if now != *previous {
            return Err(before(format!(
                "/{path} changed from \"{previous}\" to \"{now}\" meanwhile; somebody else tunes this machine"
            )));
        }
    }
    files.write(path, wanted).map_err(failed).map_err(after)?;
    let now = value(files, entry).map_err(failed).map_err(after)?;
    match now == *wanted {
        true => Ok(()),
        false => Err(after(format!("/{path} has \"{now}\" after \"{wanted}\" was written"))),
    }
}

fn value(files: &dyn HostFiles, entry: &JournalEntry) -> io::Result<String> {
    files.read(&entry.path).map(|text| entry.form.value(&text))
}

/// Reverts everything after a failure, and returns the error to report.
fn undo(files: &mut dyn HostFiles, journal: &TuningJournal, why: String) -> TuningError {
    let taken_back = take_back(files, journal);
    if !taken_back.failed.is_empty() {
        return TuningError::HalfApplied { why, left: taken_back.failed.join("; ") };
    }
    if let Err(error) = TuningJournal::forget(files) {
        return error;
    }
    let left = taken_back.reverted.left;
    let why = std::iter::once(why).chain(left).collect::<Vec<_>>().join("; ");
    TuningError::Undone { why }
}

#[derive(Default)]
pub(crate) struct RevertOutcome {
    pub(crate) reverted: RevertedTuning,
    pub(crate) failed: Vec<String>,
}

/// Reverts entries in reverse order: the value written last may keep the others from changing.
pub(crate) fn take_back(files: &mut dyn HostFiles, journal: &TuningJournal) -> RevertOutcome {
    let mut taken_back = RevertOutcome::default();
    for entry in journal.entries.iter().rev() {
        match entry.place {
            SettingPlace::File => restore(files, entry, &mut taken_back),
            SettingPlace::Folder => remove(files, entry, &mut taken_back),
            // The kernel removes the file together with its folder.
            SettingPlace::NewFile => {}
        }
    }
    taken_back
}

fn restore(files: &mut dyn HostFiles, entry: &JournalEntry, taken_back: &mut RevertOutcome) {
    let JournalEntry { path, previous, wanted, .. } = entry;
    let now = match value(files, entry) {
        Ok(now) => now,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            taken_back.reverted.left.push(format!("/{path} no longer exists"));
            return;
        }
        Err(error) => {
            taken_back.failed.push(format!("/{path} cannot be read: {error}"));
            return;
        }
    };
    if now == *previous {
        return;
    }
    if now != *wanted {
        let what = format!("/{path} has \"{now}\", which somebody else wrote, and keeps it");
        taken_back.reverted.left.push(what);
        return;
    }
    let written = files.write(path, previous).and_then(|()| value(files, entry));
    match written {
        Ok(now) if now == *previous => taken_back.reverted.restored.push(path.clone()),
        Ok(now) => {
            let what = format!("/{path} has \"{now}\" after \"{previous}\" was written");
            taken_back.failed.push(what);
        }
        Err(error) => {
            taken_back.failed.push(format!("/{path} does not take \"{previous}\" back: {error}"));
        }
    }
}

fn remove(files: &mut dyn HostFiles, entry: &JournalEntry, taken_back: &mut RevertOutcome) {
    let path = &entry.path;
    if !files.exists(path) {
        return;
    }
    match files.remove_folder(path) {
        Ok(()) => taken_back.reverted.restored.push(path.clone()),
        Err(error) => {
            let what = format!("/{path} cannot be removed ({error}); end the processes in it");
            taken_back.failed.push(what);
        }
    }
}

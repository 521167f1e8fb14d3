//! The result of a reload of the configuration, or why it did nothing.

use std::path::Path;

use serde::Serialize;
use utoipa::ToSchema;

use crate::config::{Config, ConfigChange, ConfigFileError, ConfigProblem, KeyRefusal, mistakes};

/// The result of a reload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReloadDocument {
    /// The result, in words.
    pub outcome: String,
    pub changed: Vec<ChangedKey>,
}

/// A key that changed.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ChangedKey {
    /// Key path, such as "n4.t1_ms".
    pub key: String,
    /// The change, in words.
    pub change: String,
}

impl From<ConfigChange> for ChangedKey {
    fn from(ConfigChange { key, change, effect: _ }: ConfigChange) -> Self {
        Self { key, change }
    }
}

/// Why a reload changed nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReloadRefusal {
    /// The reason, in a sentence that does not name the keys.
    what: String,
    pub keys: Vec<KeyRefusal>,
}

impl ReloadRefusal {
    /// Makes a refusal for the reason `what`. `keys`: the keys at fault.
    pub(crate) fn new(what: String, keys: Vec<KeyRefusal>) -> Self {
        Self { what, keys }
    }

    /// Makes a refusal for keys that a running adit cannot change.
    pub(crate) fn of_keys(keys: Vec<KeyRefusal>) -> Self {
        let what = match keys.len() {
            1 => "one key cannot change in a running adit".to_owned(),
            count => format!("{count} keys cannot change in a running adit"),
        };
        Self { what, keys }
    }

    /// Returns the whole refusal as text, a line for each key.
    pub(crate) fn text(&self) -> String {
        let Self { what, keys } = self;
        let lines = keys.iter().map(|KeyRefusal { key, why }| format!("\n  {key}: {why}"));
        format!("nothing was changed: {what}{}", lines.collect::<String>())
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// The file cannot be read, or has mistakes, which are listed with their lines.
pub(crate) fn read(path: &Path) -> Result<Config, ReloadRefusal> {
    Config::load(path).map_err(|error| match error {
        ConfigFileError::Unreadable(..) => ReloadRefusal::new(error.to_string(), Vec::new()),
        ConfigFileError::Mistakes(path, problems) => {
            let what = format!("{} has {}", path.display(), mistakes(&problems));
            ReloadRefusal::new(what, problems.into_iter().map(refusal).collect())
        }
    })
}

fn refusal(ConfigProblem { line, path, what }: ConfigProblem) -> KeyRefusal {
    let key = match path.as_str() {
        "" => format!("line {line}"),
        path => format!("line {line}: {path}"),
    };
    KeyRefusal { key, why: what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_mistakes_is_refused_with_each_of_them_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("adit.toml");
        assert!(read(&path).unwrap_err().text().contains("cannot read"));
        std::fs::write(&path, include_str!("../../../../adit.example.toml")).unwrap();
        assert!(read(&path).is_ok());
        std::fs::write(&path, "[node]\nid = \"10.0.4.2\"\nname = 1\n[n4\n").unwrap();
        let refusal = read(&path).unwrap_err();
        assert!(refusal.keys.iter().any(|of| of.key == "line 3: node.name"), "{refusal:?}");
        let text = refusal.text();
        assert!(text.starts_with("nothing was changed: ") && text.contains("not TOML"), "{text}");
    }
}

//! Version and revision of this program.

/// The revision of the sources, as git names it; `unknown` if the build could not read it.
pub(crate) const REVISION: &str = env!("ADIT_REVISION");

/// Output of `adit --version` after the program's name.
pub(crate) const VERSION_LINE: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (revision ", env!("ADIT_REVISION"), ")");

#[cfg(test)]
mod tests {
    /// Versions of formats that outlive a process or leave it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct FormatVersions {
        records: u8,
        packed_sessions: u8,
        journal: u32,
        shared_store: u32,
        replication: u64,
        api: u32,
    }

    const WRITTEN: FormatVersions = FormatVersions {
        records: adit_n4::RECORD_VERSION,
        packed_sessions: adit_session::PackedRecord::VERSION,
        journal: adit_store::FORMAT_VERSION,
        shared_store: adit_shared_store::FORMAT_VERSION,
        replication: adit_shared_store::replication::PROTOCOL_VERSION,
        // The paths of the HTTP interface begin with `/v1`.
        api: 1,
    };

    const RELEASES: &str = include_str!("../../../releases.toml");
    const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Releases {
        release: Vec<Release>,
        unreleased: FormatVersions,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Release {
        version: String,
        date: String,
        revision: String,
        formats: FormatVersions,
    }

    #[test]
    fn releases_toml_has_the_versions_that_this_program_writes() {
        let releases: Releases = toml::from_str(RELEASES).unwrap();
        assert_eq!(releases.unreleased, WRITTEN);
    }

    #[test]
    fn each_release_has_a_revision_and_its_place_in_the_changelog() {
        let releases: Releases = toml::from_str(RELEASES).unwrap();
        let headings = CHANGELOG.lines().filter_map(|line| line.strip_prefix("## "));
        let mut expected = vec!["Unreleased".to_owned()];
        for Release { version, date, revision, .. } in releases.release.iter().rev() {
            let is_hash = revision.len() == 40 && revision.bytes().all(|o| o.is_ascii_hexdigit());
            assert!(is_hash, "{version}: {revision:?} is no full hash");
            expected.push(format!("{version} ({date})"));
        }
        assert_eq!(headings.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_version_of_a_format_is_below_that_of_a_release() {
        let releases: Releases = toml::from_str(RELEASES).unwrap();
        let all = |formats: &FormatVersions| {
            let FormatVersions { records, packed_sessions, .. } = *formats;
            let FormatVersions { journal, shared_store, replication, api, .. } = *formats;
            let narrow = [u64::from(records), u64::from(packed_sessions), replication];
            let wide = [journal, shared_store, api].map(u64::from);
            narrow.into_iter().chain(wide).collect::<Vec<_>>()
        };
        let written = all(&WRITTEN);
        for Release { version, formats, .. } in &releases.release {
            let is_known = all(formats).iter().zip(&written).all(|(old, new)| old <= new);
            assert!(is_known, "{version}: {formats:?} beside {WRITTEN:?}");
        }
    }
}

//! Large pages for the session tables. Beyond some ten thousand sessions, forwarding is slower
//! without them.
//!
//! The tables request transparent huge pages from the kernel (2 MiB on x86-64). A setting of the
//! host decides whether the kernel grants them.

use std::fs;

const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Checks that the host grants huge pages to the session tables, as far as memory is free.
///
/// # Errors
/// The tables get ordinary pages; the text names the reason and a remedy.
pub fn check_host() -> Result<(), String> {
    check(fs::read_to_string(SETTING).ok().as_deref())
}

/// Checks `setting`, which lists the kernel's choices with the active one in brackets; `None` if
/// the kernel has no such setting.
fn check(setting: Option<&str>) -> Result<(), String> {
    let ordinary = "session tables take ordinary pages, which is slower with many sessions";
    match setting {
        Some(choices) if choices.contains("[never]") => {
            Err(format!("{ordinary}; allow large ones with `echo madvise > {SETTING}`"))
        }
        Some(_) => Ok(()),
        None => Err(format!("{ordinary}: this kernel has no transparent huge pages")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn pages_follow_the_setting_of_the_host() {
        assert_eq!(check(Some("[always] madvise never\n")), Ok(()));
        assert_eq!(check(Some("always [madvise] never\n")), Ok(()));
        let forbidden = check(Some("always madvise [never]\n")).unwrap_err();
        assert!(forbidden.contains("echo madvise >"), "{forbidden}");
        let unsupported = check(None).unwrap_err();
        assert!(unsupported.contains("no transparent huge pages"), "{unsupported}");
    }
}

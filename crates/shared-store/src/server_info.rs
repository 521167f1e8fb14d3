//! The reports of a server on its memory, its files and its replicas (`INFO`).

use adit_transport::resp::RespValue;

use crate::scripts::{number, octets};

/// The reserve of memory, kept for changes that free memory: one part in this many of the limit;
/// and the maximum of the reserve.
const RESERVE_DIVISOR: u64 = 8;
const RESERVE_OCTETS_MAX: u64 = 64 << 20;

/// Values from replies to `INFO`, a command that a server may refuse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// Octets that the server uses; and may use, zero without a limit.
    used: u64,
    most: u64,
    /// Octets of `used` that do not count towards the limit.
    not_counted: u64,
    policy: String,
    has_append_only_file: Option<bool>,
    replicas: Option<u64>,
}

impl ServerInfo {
    /// Takes in a reply to `INFO`, whichever sections it has.
    pub(crate) fn take(&mut self, value: RespValue<'_>) {
        let text = octets(value).map(String::from_utf8_lossy).unwrap_or_default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let found = number(value.as_bytes());
            match name {
                "used_memory" => self.used = found.unwrap_or(0),
                "maxmemory" => self.most = found.unwrap_or(0),
                "mem_not_counted_for_evict" => self.not_counted = found.unwrap_or(0),
                "maxmemory_policy" => self.policy = value.chars().take(64).collect(),
                "aof_enabled" => self.has_append_only_file = found.map(|found| found != 0),
                "connected_slaves" => self.replicas = found,
                _ => {}
            }
        }
    }

    /// True if only the reserve of memory is left.
    pub(crate) fn is_full(&self) -> bool {
        let reserve = (self.most / RESERVE_DIVISOR).min(RESERVE_OCTETS_MAX);
        let counted = self.used.saturating_sub(self.not_counted);
        self.most > 0 && counted.saturating_add(reserve) > self.most
    }

    /// Returns a text if the server is set to evict records when its memory is full.
    pub(crate) fn eviction_warning(&self) -> Option<String> {
        let evicts = self.most > 0 && self.policy.starts_with("allkeys-");
        evicts.then(|| {
            format!(
                "it removes records when its memory is full (maxmemory-policy {}), all sessions at once: set it to noeviction",
                self.policy
            )
        })
    }

    /// Returns advice to operators about the server's settings.
    pub(crate) fn warnings(&self, wanted_replicas: u32) -> Vec<String> {
        let is_volatile = self.has_append_only_file == Some(false) && self.replicas == Some(0);
        let volatile = is_volatile.then(|| {
            "it has no append-only file and no replica: what it has is lost when it ends (set appendonly yes)".to_owned()
        });
        let replicas = self.replicas.filter(|replicas| *replicas < u64::from(wanted_replicas));
        let lacking = replicas.map(|replicas| {
            format!(
                "it has {replicas} replicas and acknowledge_replicas is {wanted_replicas}: no change is accepted before it has as many"
            )
        });
        self.eviction_warning().into_iter().chain(volatile).chain(lacking).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> ServerInfo {
        let mut info = ServerInfo::default();
        info.take(RespValue::Bulk(text.as_bytes()));
        info
    }

    #[test]
    fn server_is_full_when_only_the_reserve_is_left() {
        let full = |text: &str| info(text).is_full();
        assert!(!full("used_memory:5000000\r\nmaxmemory:0\r\n"), "without a limit");
        assert!(!full("# Memory\r\nused_memory:80\r\nmaxmemory:100\r\n"));
        assert!(full("used_memory:89\r\nmaxmemory:100\r\n"));
        assert!(!full("used_memory:89\r\nmaxmemory:100\r\nmem_not_counted_for_evict:20\r\n"));
        assert!(!full("ERR"));
    }

    #[test]
    fn settings_that_lose_records_are_named() {
        let evicting = info("maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n");
        assert!(evicting.eviction_warning().unwrap().contains("maxmemory-policy allkeys-lru"));
        assert_eq!(
            info("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n").eviction_warning(),
            None
        );
        assert_eq!(
            info("maxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n").eviction_warning(),
            None
        );
        let forgetful = info("aof_enabled:0\r\nconnected_slaves:0\r\n");
        assert!(forgetful.warnings(0)[0].contains("no append-only file"));
        assert_eq!(forgetful.warnings(1).len(), 2);
        assert_eq!(info("aof_enabled:1\r\nconnected_slaves:1\r\n").warnings(1), [""; 0]);
        assert_eq!(info("").warnings(2), [""; 0], "a server that refuses INFO");
    }
}

//! `adit takeover`: makes a standby the active adit, and waits until it is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;

use crate::admin::AdminAct;
use crate::request::http_client::{HttpRequest, document};

/// How long the active adit may take to record the last usage and to stop.
const TAKEOVER_WAIT_MAX: Duration = Duration::from_secs(30);

/// Interval at which the standby's role is polled.
const ROLE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Makes the standby that listens at `socket` the active adit.
///
/// # Errors
/// The adit at `socket` is no standby, or does not become active in time.
pub(crate) fn take_over(socket: &Path) -> anyhow::Result<()> {
    document(socket, &AdminAct::TakeOver.request())?;
    let asked = Instant::now();
    loop {
        let store = document(socket, &HttpRequest::new("GET", "/v1/store"))?;
        if store.get("role").and_then(Value::as_str) == Some("active") {
            let epoch = store.get("epoch").and_then(Value::as_u64).unwrap_or_default();
            println!("active after {} ms, epoch {epoch}", asked.elapsed().as_millis());
            return Ok(());
        }
        if asked.elapsed() > TAKEOVER_WAIT_MAX {
            bail!(
                "the active adit still holds the lease after {} s; see its log, and `adit show store`",
                TAKEOVER_WAIT_MAX.as_secs()
            );
        }
        std::thread::sleep(ROLE_POLL_INTERVAL);
    }
}

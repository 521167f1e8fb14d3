//! A reload of the configuration while packets are forwarded: checked whole, then applied whole.

use std::sync::Arc;

use adit_operate::api::ApiCredentials;
use adit_tables::PreparedRoutes;
use adit_types::Nanos;
use serde_json::Value;
use tracing::{info, warn};

use super::ControlThread;
use crate::admin::reload::{ReloadDocument, ReloadRefusal, read};
use crate::admin::{AdminAnswer, AnswerSink};
use crate::config::{ChangeEffect, Config, ConfigChange, KeyRefusal, RunningParts, compare};
use crate::kernel_routes::settings;
use crate::log::log_filter;
use crate::{http_api, wiring};

/// How long a reload waits for its new gateways to be resolved before it is applied all the same.
const GATEWAY_WAIT_MAX: Nanos = Nanos::from_secs(1);

/// A configuration that was checked. Everything that could fail has been done.
struct CheckedReload {
    config: Config,
    changes: Vec<ConfigChange>,
    routes: Option<PreparedRoutes>,
    credentials: Option<ApiCredentials>,
}

/// A reload that waits until its new gateways are resolved.
pub(super) struct PendingReload {
    checked: CheckedReload,
    since: Nanos,
    answer: AnswerSink,
}

impl ControlThread {
    /// Reads and checks the configuration again. The answer leaves when it is applied, or refused.
    pub(super) fn begin_reload(&mut self, now: Nanos, answer: AnswerSink) {
        if let Some(refused) = self.refusal_while_passive() {
            return answer(refused);
        }
        if self.reload.is_some() {
            let why = "a reload is under way; try again";
            return answer(AdminAnswer::Refused(why.to_owned()));
        }
        match self.check_reload() {
            Ok(checked) => self.reload = Some(PendingReload { checked, since: now, answer }),
            Err(refusal) => answer(AdminAnswer::RefusedKeys(refusal.text(), refusal.keys)),
        }
    }

    /// Does everything that can fail. Nothing that is in use changes: new interfaces are added,
    /// which no rule names yet, and new gateways begin to be resolved.
    fn check_reload(&mut self) -> Result<CheckedReload, ReloadRefusal> {
        let parts = &mut self.parts;
        let config = read(&parts.files.config)?;
        let running = RunningParts { has_offload: parts.publisher.offload().is_some() };
        let mut changes =
            compare(&parts.config, &config, running).map_err(ReloadRefusal::of_keys)?;
        let refuse = |key: &str, why: String| {
            ReloadRefusal::of_keys(vec![KeyRefusal { key: key.to_owned(), why }])
        };
        let credentials = config.api.as_ref().map(http_api::credentials).transpose();
        let credentials = credentials.map_err(|refusal| {
            ReloadRefusal::new("a file cannot be used".to_owned(), vec![refusal])
        })?;
        let access = parts.files.api.as_ref().zip(credentials.as_ref());
        if access.is_some_and(|(access, credentials)| !access.has_same_files(credentials)) {
            let change = "its files have other contents".to_owned();
            let (key, effect) = ("api".to_owned(), ChangeEffect::Plain);
            changes.push(ConfigChange { key, change, effect });
        }
        if !parts.publisher.can_set_aggregates(&config.qos.aggregates()) {
            let why = "the limits that sessions share are those of the start; restart adit";
            return Err(refuse("qos", why.to_owned()));
        }
        let is_route = |of: &ConfigChange| {
            use ChangeEffect::{GtpuRoutes, Interfaces, Routes};
            matches!(of.effect, Routes | GtpuRoutes | Interfaces)
        };
        let publisher = &mut parts.publisher;
        let known = publisher.interfaces();
        let routes = changes.iter().any(is_route).then(|| wiring::routes_config(&config, known));
        // Added before all else, so that gateways on them can be resolved. No rule names them yet.
        let routes = routes.map(|routes| {
            publisher.add_interfaces(&routes)?;
            publisher.prepare_routes(routes)
        });
        let routes = routes.transpose().map_err(|error| refuse("route", error.to_string()))?;
        Ok(CheckedReload { config, changes, routes, credentials })
    }

    /// Applies a checked configuration once its gateways are resolved, or after a limited wait.
    pub(super) fn continue_reload(&mut self, now: Nanos) {
        let publisher = &self.parts.publisher;
        let is_due = |pending: &mut PendingReload| {
            let routes = pending.checked.routes.as_ref();
            now.since(pending.since) >= GATEWAY_WAIT_MAX
                || routes.is_none_or(|routes| publisher.unresolved_gateway(routes).is_none())
        };
        if let Some(pending) = self.reload.take_if(is_due) {
            self.apply_reload(now, pending);
        }
    }

    /// Applies a checked configuration. Nothing here can fail.
    fn apply_reload(&mut self, now: Nanos, pending: PendingReload) {
        let PendingReload { checked, answer, .. } = pending;
        let CheckedReload { config, changes, routes, credentials } = checked;
        let parts = &mut self.parts;
        let silent = routes.as_ref().and_then(|routes| parts.publisher.unresolved_gateway(routes));
        if let Some(routes) = routes {
            parts.publisher.publish_routes(routes);
        }
        parts.publisher.set_aggregates(&config.qos.aggregates());
        let needs_rules = |of: &ConfigChange| {
            use ChangeEffect::{GtpuRoutes, Interfaces, Rules};
            matches!(of.effect, Rules | GtpuRoutes | Interfaces)
        };
        if config.interfaces.len() > parts.names.len() {
            parts.names = config.interfaces.iter().map(|of| of.name.clone()).collect();
            self.neighbors.announce(now, &parts.publisher);
        }
        let node = wiring::node_after_reload(&config, parts.node.config());
        parts.node.reconfigure(now, node, changes.iter().any(needs_rules));
        parts.keeps_at_stop = config.store.keeps_at_stop;
        if let Some((access, credentials)) = parts.files.api.as_ref().zip(credentials) {
            access.set(credentials);
        }
        if config.log.levels != parts.config.log.levels {
            let levels = config.log.levels.as_deref();
            if let Err(why) = levels.map_or_else(log_filter::reset, log_filter::set) {
                warn!(why, "the levels of the log stay");
            }
        }
        if let Some(routes) = &mut parts.kernel_routes {
            routes.reconfigure(settings::followed(&config), &mut parts.publisher);
        }
        if let Some(announcements) = &mut parts.announcements {
            announcements.reconfigure(settings::announcing(&config));
        }
        parts.config = Arc::new(config);
        for ConfigChange { key, change, .. } in &changes {
            info!(key, change, "configuration changed");
        }
        answer(document(changes, silent));
    }
}

/// Makes the answer: the changes, and the gateway that did not answer.
fn document(changes: Vec<ConfigChange>, silent: Option<std::net::IpAddr>) -> AdminAnswer {
    let mut outcome = match changes.len() {
        0 => "nothing changed".to_owned(),
        1 => "one change".to_owned(),
        count => format!("{count} changes"),
    };
    if let Some(gateway) = silent {
        outcome.push_str(&format!("; the gateway {gateway} does not answer"));
    }
    let changed = changes.into_iter().map(Into::into).collect();
    match serde_json::to_value(ReloadDocument { outcome, changed }) {
        Ok(Value::Object(members)) => AdminAnswer::document(members),
        _ => unreachable!("a structure with strings is an object"),
    }
}

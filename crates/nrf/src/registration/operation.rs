//! One request of a registration and its body.

use adit_types::Nanos;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answer::TOKEN_REQUEST;
use crate::instance_id::NfInstanceUuid;
use crate::profile::{NfProfile, NfStatus};
use crate::registration::RequestContent;
use crate::server::NrfServer;

/// A request until its last answer: it is repeated after redirections and requests for tokens.
#[derive(Debug)]
pub(crate) struct Operation {
    pub kind: OperationKind,
    /// Index of the NRF in the configuration.
    pub server: usize,
    pub uri: String,
    pub content: RequestContent,
    pub began: Nanos,
    pub redirects: u8,
    /// True while the open request is one for a token.
    pub requests_token: bool,
    /// True until the token has been renewed because the NRF refused it.
    pub may_renew_token: bool,
    /// Why the NRF grants no token: the registration is tried without one.
    pub token_refusal: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// NFRegister.
    Register,
    /// NFUpdate: a heartbeat, with what has changed.
    Update,
    /// NFUpdate with the whole profile.
    Replace,
    /// NFDeregister.
    Deregister,
}

/// A request as it is sent.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations, reason = "nobody prints a token")]
pub(crate) struct NrfRequest {
    pub method: &'static str,
    pub uri: String,
    pub content_type: Option<&'static str>,
    pub token: Option<String>,
    pub instance: NfInstanceUuid,
    pub body: Vec<u8>,
}

/// The body that a whole profile is sent in. Spec: TS 29.510 §6.1.6.2.2.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredProfile<'a> {
    nf_instance_id: String,
    nf_type: &'static str,
    nf_status: NfStatus,
    #[serde(rename = "heartBeatTimer", skip_serializing_if = "Option::is_none")]
    heartbeat_s: Option<u64>,
    load: u8,
    #[serde(flatten)]
    profile: &'a NfProfile,
}

/// An operation of JSON Patch. Spec: RFC 6902 §4.
#[derive(Serialize)]
struct PatchOperation {
    op: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

impl OperationKind {
    /// True for NFUpdate.
    pub(crate) const fn is_update(self) -> bool {
        matches!(self, Self::Update | Self::Replace)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Register => "the registration",
            Self::Update | Self::Replace => "a heartbeat",
            Self::Deregister => "the deregistration",
        }
    }
}

impl Operation {
    pub(crate) const fn new(
        kind: OperationKind,
        server: usize,
        uri: String,
        content: RequestContent,
        began: Nanos,
    ) -> Self {
        Self {
            kind,
            server,
            uri,
            content,
            began,
            redirects: 0,
            requests_token: false,
            may_renew_token: true,
            token_refusal: None,
        }
    }

    /// The name of the request that is open, for operators.
    pub(crate) const fn name(&self) -> &'static str {
        if self.requests_token { TOKEN_REQUEST } else { self.kind.name() }
    }

    /// Makes the HTTP request. `held`: the content that the NRF has; an update sends the
    /// differences.
    pub(crate) fn request(
        &self,
        held: Option<&RequestContent>,
        instance: NfInstanceUuid,
        heartbeat: Option<Nanos>,
        token: Option<String>,
    ) -> NrfRequest {
        let (method, content_type, body) = match self.kind {
            OperationKind::Register | OperationKind::Replace => {
                let RequestContent { profile, status, load } = &self.content;
                let profile = RegisteredProfile {
                    nf_instance_id: instance.to_string(),
                    nf_type: "UPF",
                    nf_status: *status,
                    heartbeat_s: heartbeat.map(|span| span.to_duration().as_secs()),
                    load: *load,
                    profile,
                };
                ("PUT", Some("application/json"), json(&profile))
            }
            OperationKind::Update => {
                let items = patch(held, &self.content);
                ("PATCH", Some("application/json-patch+json"), json(&items))
            }
            OperationKind::Deregister => ("DELETE", None, Vec::new()),
        };
        NrfRequest { method, uri: self.uri.clone(), content_type, token, instance, body }
    }
}

impl NrfRequest {
    /// Makes a request for a token. Spec: TS 29.510 §5.4.2.2, §6.3.5.2.2.
    pub(crate) fn token(server: &NrfServer, instance: NfInstanceUuid) -> Self {
        let body = format!(
            "grant_type=client_credentials&nfInstanceId={instance}&nfType=UPF&targetNfType=NRF&scope=nnrf-nfm"
        );
        Self {
            method: "POST",
            uri: server.token_uri(),
            content_type: Some("application/x-www-form-urlencoded"),
            token: None,
            instance,
            body: body.into_bytes(),
        }
    }
}

/// Makes the patch of a heartbeat, with the attributes of the profile that differ from `held`. The
/// NRF may lack attributes that were sent, such as a load of 0, so they are added: that replaces an
/// attribute that exists (RFC 6902 §4.1). Spec: TS 29.510 §5.2.2.3.
fn patch(held: Option<&RequestContent>, current: &RequestContent) -> Vec<PatchOperation> {
    let item = |op, name: &str, value| PatchOperation { op, path: format!("/{name}"), value };
    let status = serde_json::to_value(current.status).ok();
    let load = Some(current.load.into());
    let mut items = vec![item("replace", "nfStatus", status), item("add", "load", load)];
    let Some(held) = held.filter(|held| held.profile != current.profile) else { return items };
    let (old, new) = (attributes(&held.profile), attributes(&current.profile));
    let changed = new.iter().filter(|(name, value)| old.get(*name) != Some(*value));
    items.extend(changed.map(|(name, value)| item("add", name, Some(value.clone()))));
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    items.extend(gone.map(|name| item("remove", name, None)));
    items
}

fn attributes(profile: &NfProfile) -> Map<String, Value> {
    match serde_json::to_value(profile) {
        Ok(Value::Object(attributes)) => attributes,
        _ => Map::new(),
    }
}

/// Serializes a body. This cannot fail: a body has only strings, numbers and lists.
fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

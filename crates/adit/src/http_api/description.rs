//! The description of the interface in OpenAPI 3.1, generated from the handlers and from the
//! documents that they return.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use serde_json::{Map, Value};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::state::ApiState;
use super::{acts, health, live, reads, session, taps};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Adit",
        description = "State and acts of a User Plane Function. Failures are problem documents (RFC 9457). Rates are \
                       per second, and counters begin with the process.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        version = env!("CARGO_PKG_VERSION"),
    ),
    components(schemas(adit_operate::api::ProblemDocument)),
    modifiers(&BearerTokens),
    security(("token" = [])),
    tags(
        (name = "node", description = "This adit"),
        (name = "sessions", description = "Associations and sessions"),
        (name = "packets", description = "What happens to packets"),
        (name = "network", description = "Neighbors, paths and routes"),
        (name = "acts", description = "Changes, traces and captures; over the network they take a token with the role act"),
        (name = "health", description = "Probes; they take no token"),
    ),
)]
struct InterfaceDescription;

/// Adds bearer tokens to the description as its security scheme.
struct BearerTokens;

impl Modify for BearerTokens {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = openapi.components.get_or_insert_with(Default::default);
        components.add_security_scheme("token", scheme);
    }
}

/// Returns the routes of all paths that the description lists.
pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(InterfaceDescription::openapi())
        .merge(reads::documents())
        .merge(reads::pages())
        .routes(routes!(reads::sessions))
        .routes(routes!(session::session, acts::end_session))
        .routes(routes!(reads::qos))
        .routes(routes!(live::live))
        .routes(routes!(acts::release_association))
        .routes(routes!(acts::discard_session))
        .routes(routes!(acts::end_tap))
        .routes(routes!(acts::drain))
        .routes(routes!(acts::drain_worker))
        .routes(routes!(acts::log))
        .routes(routes!(acts::take_over))
        .routes(routes!(acts::reload))
        .routes(routes!(taps::trace))
        .routes(routes!(taps::capture))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// Serializes the description as JSON. Serialization cannot fail: all keys are strings.
pub(super) fn text(description: &utoipa::openapi::OpenApi) -> String {
    let mut document = serde_json::to_value(description).unwrap_or_default();
    loosen_flattened(&mut document);
    document.to_string()
}

/// Returns the response whose body is `text`, the description.
pub(super) fn document(text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Corrects the schemas of optional structures that are flattened into their parent. The generator
/// describes such a part of the parent as "null, or this structure", but an object without the
/// structure's members is neither. So the part becomes a reference to the structure, and the
/// structure requires none of its members.
fn loosen_flattened(document: &mut Value) {
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut)
    else {
        return;
    };
    let mut loosened = Vec::new();
    for parts in schemas.values_mut().filter_map(|schema| schema.get_mut("allOf")) {
        for part in parts.as_array_mut().into_iter().flatten() {
            if let Some(target) = optional_target(part) {
                *part = Value::Object(Map::from_iter([("$ref".to_owned(), target.clone())]));
                loosened.extend(target.as_str().map(str::to_owned));
            }
        }
    }
    for target in loosened {
        let name = target.rsplit('/').next().unwrap_or_default();
        if let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) {
            schema.remove("required");
        }
    }
}

/// Returns the reference in a schema "null, or this reference"; `None` for any other schema.
fn optional_target(part: &Value) -> Option<Value> {
    let choices = part.get("oneOf")?.as_array()?;
    let is_null = |choice: &Value| choice.get("type").is_some_and(|kind| kind == "null");
    choices.iter().any(is_null).then_some(())?;
    choices.iter().find_map(|choice| choice.get("$ref")).cloned()
}

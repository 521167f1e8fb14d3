//! The dashboard, and the page to try the HTTP interface: files in the binary, which load nothing
//! from other servers.

use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use axum::routing::get;

use super::state::ApiState;

/// A file: its path, media type and contents.
struct PageFile {
    path: &'static str,
    kind: &'static str,
    contents: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $kind:expr, $file:literal) => {
        PageFile {
            path: $path,
            kind: $kind,
            contents: include_str!(concat!("../../pages/", $file)),
        }
    };
}

const FILES: &[PageFile] = &[
    file!("/", HTML, "index.html"),
    file!("/api", HTML, "api.html"),
    file!("/dashboard.css", CSS, "dashboard.css"),
    file!("/dashboard.js", SCRIPT, "dashboard.js"),
    file!("/elements.js", SCRIPT, "elements.js"),
    file!("/charts.js", SCRIPT, "charts.js"),
    file!("/trace.js", SCRIPT, "trace.js"),
    file!("/words.js", SCRIPT, "words.js"),
    file!("/api.js", SCRIPT, "api.js"),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
];

/// Returns a router that serves all files.
pub(super) fn router() -> Router<ApiState> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(move || async move { response(file) }))
    })
}

fn response(file: &PageFile) -> Response<Body> {
    let mut response = Response::new(Body::from(file.contents));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    // The browser must ask again: another adit at the same address may have other files.
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_api::PATHS_WITHOUT_TOKEN;

    #[test]
    fn files_need_no_token_and_load_nothing_from_elsewhere() {
        for file in FILES {
            assert!(PATHS_WITHOUT_TOKEN.contains(&file.path), "{}", file.path);
            for word in ["http://", "https://", "//cdn", "@import", "innerHTML", "eval("] {
                let text = file.contents.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(word), "{}: {word}", file.path);
            }
        }
    }

    #[test]
    fn pages_have_neither_inline_scripts_nor_inline_styles() {
        for file in FILES.iter().filter(|file| file.kind == HTML) {
            for word in [" style=", "<style", "onclick", "onload", "<script>"] {
                assert!(!file.contents.contains(word), "{}: {word}", file.path);
            }
        }
    }
}

//! Which web pages may call (`files-http.md` §1.2).

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::ServeError;

/// The allowed origins, compared exactly.
#[derive(Debug, Clone)]
pub(crate) enum Origins {
    Any,
    List(Vec<HeaderValue>),
}

impl Origins {
    pub(crate) fn parse(origins: &[String]) -> Result<Self, ServeError> {
        if origins.iter().any(|origin| origin == "*") {
            return Ok(Self::Any);
        }
        let parse = |origin: &String| {
            let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains('/') && origin.is_ascii()
            });
            let value = (is_origin || origin == "null").then(|| HeaderValue::from_str(origin).ok()).flatten();
            value.ok_or_else(|| {
                ServeError::Config(format!(
                    "allowed origin `{origin}`: write it as a browser sends it, for example https://app.example (no path, no slash at the end), or *"
                ))
            })
        };
        Ok(Self::List(origins.iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// Whether a request with this `Origin` header may be answered; without the header it always may. The file routes
    /// do not ask: there a browser refuses the reply by itself, because it lacks the CORS headers.
    pub(crate) fn allows(&self, origin: Option<&HeaderValue>) -> bool {
        match (self, origin) {
            (_, None) => true,
            (Self::Any, Some(origin)) => origin.to_str().is_ok(),
            (Self::List(list), Some(origin)) => list.contains(origin),
        }
    }

    /// The layer that answers preflights and adds the CORS headers, on all routes.
    pub(crate) fn layer(&self) -> CorsLayer {
        let allowed = match self {
            Self::Any => AllowOrigin::any(),
            Self::List(list) => AllowOrigin::list(list.clone()),
        };
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::OPTIONS])
            .allow_headers(ALLOWED_HEADERS.map(HeaderName::from_static))
            .expose_headers(EXPOSED_HEADERS.map(HeaderName::from_static))
    }
}

const ALLOWED_HEADERS: [&str; 17] = [
    "x-fsagent-principal",
    "x-fsagent-principal-revision",
    "x-fsagent-project",
    "x-fsagent-project-revision",
    "x-fsagent-project-readonly",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "authorization",
    "content-type",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "x-timeout-ms",
    "x-operation-id",
    "x-sync-history-epoch",
];

const EXPOSED_HEADERS: [&str; 3] = ["content-range", "etag", "retry-after"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_exactly() {
        let list = ["https://app.example".to_owned(), "tauri://localhost".to_owned()];
        let (some, any, none) =
            (Origins::parse(&list).unwrap(), Origins::parse(&["*".into()]).unwrap(), Origins::parse(&[]).unwrap());
        for (origin, in_some, in_any, in_none) in [
            (None, true, true, true),
            (Some("https://app.example"), true, true, false),
            (Some("tauri://localhost"), true, true, false),
            (Some("https://app.example:443"), false, true, false),
            (Some("https://APP.example"), false, true, false),
            (Some("null"), false, true, false),
            (Some("https://ümlaut.example"), false, false, false),
        ] {
            let origin = origin.map(|text| HeaderValue::from_bytes(text.as_bytes()).unwrap());
            let allows = |origins: &Origins| origins.allows(origin.as_ref());
            assert_eq!((allows(&some), allows(&any), allows(&none)), (in_some, in_any, in_none), "{origin:?}");
        }
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        assert!(Origins::parse(&["null".into()]).is_ok(), "pages of files and sandboxed frames send it");
        for origin in ["", "app.example", "https://", "https://app.example/", "https://a.example/x", "://x"] {
            assert!(Origins::parse(&[origin.to_owned()]).is_err(), "{origin}");
        }
    }
}

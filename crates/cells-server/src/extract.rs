//! Reading requests. What is malformed is refused here, before authentication, with a status and one line of plain text
//! (`files-http.md` §1.7). The line never quotes the request.

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

/// A JSON body: 415 without `application/json`, 413 when it is too large, 400 when it is not JSON, 422 when it has the
/// wrong shape.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match Json::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::JsonDataError(_)) => {
                Err(refuse(StatusCode::UNPROCESSABLE_ENTITY, "the JSON body has a wrong, missing or unknown member"))
            }
            Err(JsonRejection::JsonSyntaxError(_)) => Err(refuse(StatusCode::BAD_REQUEST, "the body is not JSON")),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json"))
            }
            Err(other) => Err(refuse(other.status(), "the body is too large or could not be read")),
        }
    }
}

/// The query: 400 when a parameter is missing, repeated or unknown.
pub(crate) struct StrictQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(_) => Err(refuse(StatusCode::BAD_REQUEST, "the query has a missing, repeated or unknown parameter")),
        }
    }
}

fn refuse(status: StatusCode, line: &'static str) -> Response {
    (status, line).into_response()
}

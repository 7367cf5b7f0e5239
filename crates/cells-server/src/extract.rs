//! Reading requests. What is malformed is refused here, before authentication, with a status and one line of plain text
//! (`files-http.md` §1.7). The line never quotes the request.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cells_protocol::limits::UPLOAD_MAX_BYTES;
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// A JSON body: 415 without `application/json`, 413 when it is too large, 400 when it is not JSON, 422 when it has the
/// wrong shape, 408 when it has not arrived after 30 s.
///
/// For routes that ignore `X-Timeout-Ms`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        json_within(BODY_READ_TIMEOUT, request, state).await.map(Self)
    }
}

/// A JSON body of a route with a deadline, refused as [`JsonBody`] is, and with 504 when it comes after the deadline.
pub(crate) struct TimedJsonBody<T> {
    pub(crate) body: T,
    /// It began before the body was read. Whether the header can be read is judged later than the credential is.
    pub(crate) deadline: Result<Deadline, Refusal>,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for TimedJsonBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let deadline = Deadline::start(request.headers());
        let bound = deadline.unwrap_or_else(|_| Deadline::longest());
        let body = bound.bound(json(request, state)).await.map_err(Refusal::into_response)??;
        Ok(Self { body, deadline })
    }
}

async fn json_within<T: DeserializeOwned, S: Send + Sync>(
    time: Duration,
    request: Request,
    state: &S,
) -> Result<T, Response> {
    let late = |_| refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    timeout(time, json(request, state)).await.map_err(late)?
}

async fn json<T: DeserializeOwned, S: Send + Sync>(request: Request, state: &S) -> Result<T, Response> {
    match Json::from_request(request, state).await {
        Ok(Json(value)) => Ok(value),
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

/// A body that is taken as it comes, of any type and size.
///
/// What nobody took when it is dropped is read and thrown away for a while: a connection that is closed with unread bytes
/// takes the reply from a client that still sends.
pub(crate) struct Upload {
    /// None when the body has ended.
    body: Option<BodyDataStream>,
    announced_bytes: Option<u64>,
}

impl Upload {
    /// `Content-Length`.
    pub(crate) fn announced_bytes(&self) -> Option<u64> {
        self.announced_bytes
    }

    /// The next bytes; none at the end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, axum::Error>> {
        let chunk = self.body.as_mut()?.next().await;
        if !matches!(chunk, Some(Ok(_))) {
            self.body = None;
        }
        chunk
    }
}

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let announced_bytes = length.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Self { body: Some(request.into_body().into_data_stream()), announced_bytes })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(mut body), Ok(runtime)) = (self.body.take(), Handle::try_current()) {
            let discard = async move {
                let mut left = UPLOAD_MAX_BYTES;
                while let Some(Ok(chunk)) = body.next().await {
                    let Some(rest) = left.checked_sub(chunk.len() as u64) else { break };
                    left = rest;
                }
            };
            runtime.spawn(timeout(DISCARD, discard));
        }
    }
}

fn refuse(status: StatusCode, line: &'static str) -> Response {
    (status, line).into_response()
}

/// How long the body of a request without a deadline may take to arrive.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a body is thrown away.
const DISCARD: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_json_body_that_stops_half_way_is_not_waited_for_forever() {
        let half = stream::iter([Ok::<_, Infallible>("{\"half\":")]).chain(stream::pending());
        let request = Request::post("/").header("content-type", "application/json");
        let request = request.body(Body::from_stream(half)).unwrap();
        let time = Duration::from_millis(10);
        let refused = json_within::<serde_json::Value, _>(time, request, &()).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

//! The error replies of the HTTP routes (`files-http.md` §1.7–1.8): a status and `{"code":"…"}`, nothing else.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rustix::io::Errno;

/// A request that is answered with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {code}")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
}

impl Refusal {
    pub(crate) const INVALID: Self = Self::new(StatusCode::BAD_REQUEST, "EINVAL");
    pub(crate) const NOT_A_DIRECTORY: Self = Self::new(StatusCode::BAD_REQUEST, "ENOTDIR");
    pub(crate) const UNAUTHENTICATED: Self = Self::new(StatusCode::UNAUTHORIZED, "EACCES");
    pub(crate) const DENIED: Self = Self::new(StatusCode::FORBIDDEN, "EACCES");
    pub(crate) const READ_ONLY: Self = Self::new(StatusCode::FORBIDDEN, "EROFS");
    pub(crate) const NOT_FOUND: Self = Self::new(StatusCode::NOT_FOUND, "ENOENT");
    pub(crate) const AUTHORIZATION_CHANGED: Self = Self::new(StatusCode::CONFLICT, "AUTHORIZATION_CHANGED");
    pub(crate) const OPERATION_UNKNOWN: Self = Self::new(StatusCode::NOT_FOUND, "OPERATION_UNKNOWN");
    pub(crate) const CANCELLED: Self = Self::new(StatusCode::REQUEST_TIMEOUT, "ECANCELLED");
    pub(crate) const EXISTS: Self = Self::new(StatusCode::CONFLICT, "EEXIST");
    pub(crate) const OPERATION_ID_REUSED: Self = Self::new(StatusCode::CONFLICT, "OPERATION_ID_REUSED");
    pub(crate) const CONFLICT: Self = Self::new(StatusCode::PRECONDITION_FAILED, "ECONFLICT");
    pub(crate) const DIRECTORY_LIMIT: Self = Self::new(StatusCode::PAYLOAD_TOO_LARGE, "DIRECTORY_LIMIT");
    pub(crate) const UPLOAD_LIMIT: Self = Self::new(StatusCode::PAYLOAD_TOO_LARGE, "UPLOAD_LIMIT");
    pub(crate) const UNSUPPORTED: Self = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "ECAPABILITY");
    pub(crate) const REVISION_REQUIRED: Self = Self::new(StatusCode::PRECONDITION_REQUIRED, "REVISION_REQUIRED");
    pub(crate) const OPERATION_LIMIT: Self = Self::new(StatusCode::TOO_MANY_REQUESTS, "OPERATION_LIMIT");
    pub(crate) const IO: Self = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "EIO");
    pub(crate) const STOPPING: Self = Self::new(StatusCode::SERVICE_UNAVAILABLE, "EIO");
    pub(crate) const TIMED_OUT: Self = Self::new(StatusCode::GATEWAY_TIMEOUT, "ETIMEDOUT");
    pub(crate) const DISK_FULL: Self = Self::new(StatusCode::INSUFFICIENT_STORAGE, "ENOSPC");

    pub(crate) const fn new(status: StatusCode, code: &'static str) -> Self {
        Self { status, code }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NOT_FOUND,
            Errno::EXIST => Self::EXISTS,
            Errno::NOTEMPTY => Self::new(StatusCode::CONFLICT, "ENOTEMPTY"),
            Errno::ISDIR => Self::new(StatusCode::CONFLICT, "EISDIR"),
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Self::DENIED,
            Errno::ROFS => Self::READ_ONLY,
            Errno::NOTDIR => Self::NOT_A_DIRECTORY,
            Errno::NAMETOOLONG => Self::INVALID,
            Errno::NOTSUP => Self::UNSUPPORTED,
            Errno::NOSPC | Errno::DQUOT => Self::DISK_FULL,
            _ => Self::IO,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(serde_json::json!({ "code": self.code }))).into_response()
    }
}

//! Error codes and the statuses they travel with (`files-http.md` §1.7, §1.8).

use std::io;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use rustix::io::Errno;
use serde_json::json;

/// One word of the error vocabulary, with its usual status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(pub(super) &'static str);

impl Code {
    pub(super) fn status(self) -> StatusCode {
        match self.0 {
            "EINVAL" | "ENOTDIR" => StatusCode::BAD_REQUEST,
            "EACCES" | "EROFS" => StatusCode::FORBIDDEN,
            "ENOENT" | "OPERATION_UNKNOWN" | "PROCESS_UNKNOWN" => StatusCode::NOT_FOUND,
            "ECANCELLED" => StatusCode::REQUEST_TIMEOUT,
            "EBUSY"
            | "EEXIST"
            | "ENOTEMPTY"
            | "EISDIR"
            | "OPERATION_ID_REUSED"
            | "STALE_SERVER_EPOCH"
            | "SERVER_ID_CHANGED" => StatusCode::CONFLICT,
            "ECONFLICT" => StatusCode::PRECONDITION_FAILED,
            "DIRECTORY_LIMIT" | "UPLOAD_LIMIT" => StatusCode::PAYLOAD_TOO_LARGE,
            "ECAPABILITY" => StatusCode::UNPROCESSABLE_ENTITY,
            "REVISION_REQUIRED" => StatusCode::PRECONDITION_REQUIRED,
            "OPERATION_LIMIT" | "PROCESS_LIMIT" => StatusCode::TOO_MANY_REQUESTS,
            "ETIMEDOUT" => StatusCode::GATEWAY_TIMEOUT,
            "ENOSPC" => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// As §1.8 maps what the system says.
impl From<io::Error> for Code {
    fn from(error: io::Error) -> Code {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Code("ENOENT"),
            Some(Errno::EXIST) => Code("EEXIST"),
            Some(Errno::NOTEMPTY) => Code("ENOTEMPTY"),
            Some(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV) => Code("EACCES"),
            Some(Errno::ROFS) => Code("EROFS"),
            Some(Errno::NOTDIR) => Code("ENOTDIR"),
            Some(Errno::ISDIR) => Code("EISDIR"),
            Some(Errno::NAMETOOLONG) => Code("EINVAL"),
            Some(Errno::NOSPC | Errno::DQUOT) => Code("ENOSPC"),
            Some(_) | None => Code("EIO"),
        }
    }
}

impl From<Errno> for Code {
    fn from(error: Errno) -> Code {
        Code::from(io::Error::from(error))
    }
}

/// A reply with a bare `{"code":…}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Code,
}

impl Refusal {
    /// A missing or wrong credential. The code alone would mean 403.
    pub(super) const UNAUTHENTICATED: Refusal = Refusal { status: StatusCode::UNAUTHORIZED, code: Code("EACCES") };
}

impl<C: Into<Code>> From<C> for Refusal {
    fn from(code: C) -> Refusal {
        let code = code.into();
        Refusal { status: code.status(), code }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "code": self.code.0 }))).into_response()
    }
}

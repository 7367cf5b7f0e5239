//! The table of `cells-0.4.md` §11.2: what a reply says about a mutation.

use cells_protocol::error::{EPOCH_CHANGED, Outcome};
use cells_protocol::receipts::Receipt;
use serde_json::Value;

/// What came of one HTTP request, whether it carried the mutation or asked for its receipt.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A receipt of this request id.
    Receipt(Receipt),
    /// The tool failed (`isError`).
    ToolError {
        /// The node's code, if it has the form of one.
        code: Option<String>,
    },
    /// A JSON-RPC error in a reply whose HTTP status is a success.
    RpcError {
        /// The JSON-RPC code.
        code: i64,
    },
    /// A reply whose HTTP status is not a success, whatever its body.
    HttpStatus {
        /// The status.
        status: u16,
        /// The node's code, if the body has one.
        code: Option<String>,
    },
    /// The request may have reached the node, and there is no usable reply: timeout or abort after sending, network
    /// failure, refused redirect; or a reply that is malformed, oversized or about another request.
    NoReply,
    /// The request was not sent: no credential, not valid, aborted before.
    NotSent,
}

/// What the reply to the mutation itself says.
#[derive(Debug, Clone, PartialEq)]
pub enum CallVerdict {
    /// It happened.
    Committed(Value),
    /// It did not happen.
    Rejected(Rejection),
    /// The node works on it.
    Running,
    /// The node does not know whether it happened.
    Undetermined {
        /// `EIO`, `ETIMEDOUT`, `HARNESS_RESTARTED`, or the reason of a newer node.
        code: String,
    },
    /// Nothing is known.
    Lost,
}

/// What the reply to a query of the receipt says.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryVerdict {
    /// It happened.
    Committed(Value),
    /// It did not happen.
    Rejected(Rejection),
    /// The node works on it.
    Running,
    /// The node does not know whether it happened.
    Undetermined {
        /// `EIO`, `ETIMEDOUT`, `HARNESS_RESTARTED`, or the reason of a newer node.
        code: String,
    },
    /// There is no receipt. The mutation may still arrive.
    Absent,
    /// The node cannot answer for that epoch any more.
    EpochGone,
    /// The query failed and says nothing about the mutation.
    NoAnswer,
}

/// How a mutation was refused. It had no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// It was not sent.
    NotSent,
    /// A final receipt says so.
    Receipt {
        /// The node's reason.
        code: String,
    },
    /// The node did not admit it.
    Tool {
        /// The node's reason.
        code: Option<String>,
    },
    /// The MCP endpoint refused the call.
    Rpc {
        /// The JSON-RPC code.
        code: i64,
    },
    /// The HTTP endpoint refused the call.
    HttpStatus {
        /// The status, 4xx.
        status: u16,
        /// The node's reason.
        code: Option<String>,
    },
}

impl Rejection {
    /// `not-started` when nothing was sent, else `not-committed`.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotSent => Outcome::NotStarted,
            Self::Receipt { .. } | Self::Tool { .. } | Self::Rpc { .. } | Self::HttpStatus { .. } => {
                Outcome::NotCommitted
            }
        }
    }

    /// The node's reason, if it gave one.
    pub fn remote_code(&self) -> Option<&str> {
        match self {
            Self::Receipt { code } => Some(code),
            Self::Tool { code } | Self::HttpStatus { code, .. } => code.as_deref(),
            Self::NotSent | Self::Rpc { .. } => None,
        }
    }

    /// The node runs in another epoch than the call was made for.
    pub fn is_epoch_change(&self) -> bool {
        matches!(self, Self::Tool { code: Some(code) } if code == EPOCH_CHANGED)
    }
}

/// Classifies the reply to the mutation itself.
pub fn classify_call(observation: Observation) -> CallVerdict {
    match observation {
        Observation::Receipt(Receipt::Committed(result)) => CallVerdict::Committed(result),
        Observation::Receipt(Receipt::NotCommitted { code }) => CallVerdict::Rejected(Rejection::Receipt { code }),
        Observation::Receipt(Receipt::Running) => CallVerdict::Running,
        Observation::Receipt(Receipt::Undetermined { code }) => CallVerdict::Undetermined { code },
        // The id names something on the node, possibly this very mutation.
        Observation::ToolError { code: Some(code) } if code == REQUEST_REUSED => CallVerdict::Lost,
        Observation::ToolError { code } => CallVerdict::Rejected(Rejection::Tool { code }),
        Observation::RpcError { code } => CallVerdict::Rejected(Rejection::Rpc { code }),
        Observation::HttpStatus { status, code } if matches!(status, 400..=407 | 409..=499) => {
            CallVerdict::Rejected(Rejection::HttpStatus { status, code })
        }
        Observation::HttpStatus { .. } | Observation::NoReply => CallVerdict::Lost,
        Observation::NotSent => CallVerdict::Rejected(Rejection::NotSent),
    }
}

/// Classifies the reply to a query of the receipt.
pub fn classify_query(observation: Observation) -> QueryVerdict {
    match observation {
        Observation::Receipt(Receipt::Committed(result)) => QueryVerdict::Committed(result),
        Observation::Receipt(Receipt::NotCommitted { code }) => QueryVerdict::Rejected(Rejection::Receipt { code }),
        Observation::Receipt(Receipt::Running) => QueryVerdict::Running,
        Observation::Receipt(Receipt::Undetermined { code }) => QueryVerdict::Undetermined { code },
        Observation::ToolError { code } => match code.as_deref() {
            Some("ENOENT") => QueryVerdict::Absent,
            Some(EPOCH_CHANGED) => QueryVerdict::EpochGone,
            Some(_) | None => QueryVerdict::NoAnswer,
        },
        Observation::RpcError { .. } | Observation::HttpStatus { .. } | Observation::NoReply | Observation::NotSent => {
            QueryVerdict::NoAnswer
        }
    }
}

const REQUEST_REUSED: &str = "HARNESS_REQUEST_REUSED";

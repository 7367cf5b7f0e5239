//! One mutation from its arrival to its receipt (`harness.md` §2.4, `cells-0.4.md` §12.1).

use std::pin::Pin;
use std::sync::Arc;

use cells_protocol::error::is_undetermined_code;
use cells_protocol::ids::PrincipalId;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::arguments::{Arguments, identity};
use super::commands::{OutputMode, place_output};
use super::instance::{Instance, guarded};
use super::plugin::{MutationCall, ToolError};
use super::receipts::{Admission, NewReceipt, ReceiptKey, ReceiptState};
use super::service::{Inner, blocking, receipt};
use super::tools::{Tool, ToolKind};

impl Inner {
    /// Admits, executes and answers a mutation. It runs in a task of its own, so that it goes on when the caller is gone.
    pub(super) async fn mutate(
        self: &Arc<Self>,
        principal: &PrincipalId,
        instance: Arc<Instance>,
        tool: &'static Tool,
        arguments: Arguments,
    ) -> Result<Value, ToolError> {
        let key = self.admissible(principal, &arguments)?;
        let request_id = key.request_id.clone();
        instance.driver.check(tool.name, &arguments)?;
        let place = match tool.kind {
            ToolKind::Mutation => Place::queue(&instance.queue).await,
            ToolKind::Steer => Place::queue(&instance.steers).await,
            _ => Place::Passing,
        };
        let new = NewReceipt {
            key,
            profile: instance.id.clone(),
            tool: tool.name.to_owned(),
            identity: identity(tool.name, &arguments),
            waits: matches!(place, Place::Waiting(_)),
        };
        let call = MutationCall { tool: tool.name.to_owned(), request_id: request_id.clone(), arguments };
        let (answer, answered) = oneshot::channel();
        self.tasks.spawn(Arc::clone(self).run(instance, new, call, place, answer));
        match tokio::time::timeout(self.answer_after, answered).await {
            Ok(Ok(answer)) => answer,
            // The task is gone without an answer: it was killed with the node.
            Ok(Err(_)) => Err(ToolError("EIO")),
            Err(_) => Ok(receipt(request_id.as_str(), ReceiptState::Running)),
        }
    }

    async fn run(
        self: Arc<Self>,
        instance: Arc<Instance>,
        new: NewReceipt,
        call: MutationCall,
        place: Place,
        answer: oneshot::Sender<Result<Value, ToolError>>,
    ) {
        let key = new.key.clone();
        let receipts = Arc::clone(&self.receipts);
        let admission = blocking(move || receipts.admit(&new)).await.unwrap_or(Err(ToolError("HARNESS_RECEIPT_STORE")));
        let done = match admission {
            Ok(Admission::Admitted) => Ok(self.execute(&instance, key, call, place).await),
            Ok(Admission::Known(state)) => Ok(receipt(key.request_id.as_str(), state)),
            Err(error) => Err(error),
        };
        // A caller that is gone asks for the receipt.
        let _ = answer.send(done);
    }

    /// Executes an admitted mutation in its turn and writes its outcome before giving it.
    async fn execute(&self, instance: &Instance, key: ReceiptKey, call: MutationCall, place: Place) -> Value {
        let waits = matches!(place, Place::Waiting(_));
        let _turn = place.take().await;
        let executed = match self.begin(&key, waits).await {
            Ok(()) => self.drive(instance, &key, call).await,
            Err(error) => Err(error),
        };
        let request_id = key.request_id.as_str().to_owned();
        let (state, answer) = match executed {
            Ok(result) => {
                let state = ReceiptState::Committed(result.to_string());
                (state, json!({"outcome": "committed", "requestId": request_id, "result": result}))
            }
            Err(error) => {
                let code = error.0.to_owned();
                let undetermined = is_undetermined_code(error.0);
                let state = if undetermined { ReceiptState::Unknown(code) } else { ReceiptState::NotCommitted(code) };
                (state.clone(), receipt(&request_id, state))
            }
        };
        let receipts = Arc::clone(&self.receipts);
        if blocking(move || receipts.finish(&key, state)).await.is_none() {
            tracing::error!("the outcome of a mutation was not written");
        }
        answer
    }

    /// The last moment before the effect. What fails here had none.
    async fn begin(&self, key: &ReceiptKey, waits: bool) -> Result<(), ToolError> {
        self.check_open().map_err(|_| ToolError("ECANCELLED"))?;
        if waits {
            let (receipts, key) = (Arc::clone(&self.receipts), key.clone());
            let started = blocking(move || receipts.start(&key)).await;
            started.unwrap_or(Err(ToolError("HARNESS_RECEIPT_STORE")))?;
        }
        Ok(())
    }

    async fn drive(&self, instance: &Instance, key: &ReceiptKey, call: MutationCall) -> Result<Value, ToolError> {
        if call.tool != "harness_command" {
            return guarded(|| instance.driver.execute(call)).await;
        }
        let keeps = instance.descriptor().capabilities.command_outputs;
        let mode = OutputMode::of(&call.arguments, keeps)?;
        let result = guarded(|| instance.driver.execute(call)).await?;
        let (outputs, key, profile) = (Arc::clone(&self.outputs), key.clone(), instance.id.clone());
        blocking(move || place_output(result, mode, &outputs, &key, &profile)).await.ok_or(ToolError("EIO"))
    }
}

/// Where a mutation stands among those of its instance.
enum Place {
    /// It does not wait.
    Passing,
    /// It is its turn, until this is dropped.
    First(OwnedMutexGuard<()>),
    /// It waits in line.
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>),
}

impl Place {
    /// Joins a line, before anything that takes time.
    async fn queue(line: &Arc<tokio::sync::Mutex<()>>) -> Self {
        let mut turn: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(Arc::clone(line).lock_owned());
        match futures::poll!(turn.as_mut()) {
            std::task::Poll::Ready(guard) => Self::First(guard),
            std::task::Poll::Pending => Self::Waiting(turn),
        }
    }

    /// Waits for the turn.
    async fn take(self) -> Option<OwnedMutexGuard<()>> {
        match self {
            Self::Passing => None,
            Self::First(turn) => Some(turn),
            Self::Waiting(line) => Some(line.await),
        }
    }
}

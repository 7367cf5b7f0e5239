//! One child, from its start to its reaping.

use std::{process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Child,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::Status;

/// Waits until the child was reaped and its group killed, and gives the terminal status.
pub(super) async fn follow(mut child: Child, limit: Duration, stop: &CancellationToken) -> Status {
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let stdout = child.stdout.take().map(|pipe| tokio::spawn(read(pipe, stop.clone())));
    let stderr = child.stderr.take().map(|pipe| tokio::spawn(read(pipe, stop.clone())));
    let end = tokio::select! {
        status = child.wait() => End::Exited(status.ok()),
        () = stop.cancelled() => End::Stopped("cancelled"),
        () = tokio::time::sleep(limit) => End::Stopped("timed-out"),
    };
    if let Some(group) = group {
        // Also what the command left in the background. A group that is gone already is the usual case.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let reaped = child.wait().await.is_ok();
    let (stdout, stdout_truncated) = output(stdout).await;
    let (stderr, stderr_truncated) = output(stderr).await;
    let (state, code, error) = match (reaped, end) {
        (false, _) => ("unknown", None, Some("REAP_FAILED")),
        (true, End::Exited(status)) => ("exited", status.and_then(|status| status.code()), None),
        (true, End::Stopped(state)) => (state, None, None),
    };
    Status { state, stdout, stderr, code, error, truncated: stdout_truncated || stderr_truncated }
}

enum End {
    Exited(Option<ExitStatus>),
    Stopped(&'static str),
}

struct Output {
    bytes: Vec<u8>,
    truncated: bool,
}

/// Reads to the end, or to the bound of a stream; there it stops the command.
async fn read(mut pipe: impl AsyncRead + Unpin, stop: CancellationToken) -> Output {
    let mut bytes = Vec::new();
    // A pipe that breaks has ended.
    let _ = (&mut pipe).take(OUTPUT_MAX_BYTES + 1).read_to_end(&mut bytes).await;
    let truncated = bytes.len() as u64 > OUTPUT_MAX_BYTES;
    if truncated {
        bytes.pop();
        stop.cancel();
    }
    Output { bytes, truncated }
}

/// The text of a stream, and whether something is missing. Empty when somebody keeps the pipe open after the end.
async fn output(reader: Option<JoinHandle<Output>>) -> (String, bool) {
    let Some(mut reader) = reader else { return (String::new(), true) };
    match timeout(PIPE_GRACE, &mut reader).await {
        Ok(Ok(output)) => (String::from_utf8_lossy(&output.bytes).into_owned(), output.truncated),
        Ok(Err(_)) | Err(_) => {
            reader.abort();
            (String::new(), true)
        }
    }
}

const OUTPUT_MAX_BYTES: u64 = 65_536;
const PIPE_GRACE: Duration = Duration::from_secs(5);

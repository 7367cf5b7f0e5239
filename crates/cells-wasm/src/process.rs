//! Commands on a node. `pkg/src/process.js` is the other side.

use cells_driver::{ExecOptions, OnOutput, OutputStream, ProcessMount, ProcessSpec, Result};
use js_sys::{Function, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::convert::{Argument, is_absent, member};
use crate::driver::CellsDriver;
use crate::error::thrown;
use crate::promise::{mutation, promise};

#[wasm_bindgen]
impl CellsDriver {
    /// A session in which commands run.
    pub fn process(&self, target: &JsValue, spec: &JsValue) -> Result<ProcessSession, JsValue> {
        let session = crate::convert::connection(PROCESS, target)
            .and_then(|connection| self.client.process(&connection, process_spec(spec)?));
        Ok(ProcessSession(session.map_err(|error| thrown(&error))?))
    }
}

/// Runs commands on a node.
#[wasm_bindgen(skip_typescript)]
pub struct ProcessSession(cells_driver::ProcessSession);

#[wasm_bindgen]
impl ProcessSession {
    /// Runs `command` to its end. `on_output(is_stderr, bytes)` gets what it writes, and never throws.
    pub fn exec(&self, command: &JsValue, args: &JsValue, options: &JsValue, on_output: Option<Function>) -> Promise {
        const EXEC: &str = "exec";
        mutation(EXEC, options, |operation| {
            let argument = |name| Argument { operation: EXEC, name };
            let command = argument("command").string(command)?;
            let args = if is_absent(args) {
                Vec::new()
            } else {
                argument("args").list(args, |arg| argument("args").string(arg))?
            };
            let options = ExecOptions {
                cwd: argument("cwd").optional_string(&member(options, "cwd"))?,
                timeout_ms: operation.timeout_ms,
                cancel: operation.cancel,
                on_output: on_output.map(teller),
                on_dispatch: None,
            };
            let session = self.0.clone();
            Ok(async move {
                let exit = session.exec(&command, &args, options).await?;
                let result = Object::new();
                let set = |name: &str, value: &JsValue| {
                    let _ = Reflect::set(&result, &name.into(), value);
                };
                set("stdout", &exit.stdout.into());
                set("stderr", &exit.stderr.into());
                set("code", &exit.code.map_or(JsValue::NULL, |code| JsValue::from_f64(code as f64)));
                set("truncated", &exit.truncated.into());
                set("hasGaps", &exit.has_gaps.into());
                Ok(result.into())
            })
        })
    }

    /// Ends the session and confirms the end of every process.
    pub fn release(&self, options: &JsValue) -> Promise {
        promise("release", options, |operation| {
            let session = self.0.clone();
            Ok(async move { session.release(operation).await.map(|()| JsValue::UNDEFINED) })
        })
    }
}

fn teller(on_output: Function) -> OnOutput {
    Box::new(move |stream, bytes| {
        let is_stderr = JsValue::from(stream == OutputStream::Stderr);
        let _ = on_output.call2(&JsValue::UNDEFINED, &is_stderr, &Uint8Array::from(bytes.as_ref()));
    })
}

fn process_spec(spec: &JsValue) -> Result<ProcessSpec> {
    let string = |object: &JsValue, key, name| Argument { operation: PROCESS, name }.string(&member(object, key));
    let mount = |mount: &JsValue| {
        Ok(ProcessMount {
            alias: string(mount, "alias", "mount.alias")?,
            path: string(mount, "path", "mount.path")?,
            at: string(mount, "at", "mount.at")?,
            access: string(mount, "access", "mount.access")?,
        })
    };
    Ok(ProcessSpec {
        server_id: string(spec, "serverId", "spec.serverId")?,
        epoch: string(spec, "epoch", "spec.epoch")?,
        cwd: string(spec, "cwd", "spec.cwd")?,
        mounts: Argument { operation: PROCESS, name: "spec.mounts" }.list(&member(spec, "mounts"), mount)?,
    })
}

const PROCESS: &str = "process";

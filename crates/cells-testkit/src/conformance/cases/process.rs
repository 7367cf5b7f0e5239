//! Processes (`files-http.md` §6) and their live output.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, get, mkdir, post, put, read},
    check::Check,
    declared::Need,
    scene::Scene,
};

const PROCESS: &[Need] = &[Need::Process];

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("process", PROCESS, name, steps);
    let run = |script: &str, end: fn(Step) -> Step| vec![start("{one}", script), end(ended("{one}"))];
    let refused =
        |changes: Value, status: &'static [u16], code: &'static str| changed("{one}", changes).refused(status, code);
    let mount = |alias: &str, path: &str, at: &str, access: &str| json!({ "alias": alias, "path": path, "at": at, "access": access });
    vec![
        case(
            "a command ends with its output and its code",
            run("printf out; printf err >&2; exit 3", |end| {
                end.json("", status("exited", "out", "err", Some(3)))
            }),
        ),
        case(
            "a command that a signal ends has no code of its own",
            run("kill -9 $$", |end| {
                // Behind a sandbox the shell convention is all there is.
                end.json("/state", "exited").check(Check::Holds("code null or 137", |reply| {
                    reply.json["code"].is_null() || reply.json["code"] == 137
                }))
            }),
        ),
        case(
            "a command has no input and a small environment",
            run("cat; printf '%s|%s' \"$HOME\" \"$LANG\"", |end| {
                end.json("/state", "exited").json("/stdout", "/tmp|C.UTF-8").json("/code", 0)
            }),
        ),
        case(
            "output that is no UTF-8 is repaired",
            run("printf 'a\\377b'", |end| end.json("/stdout", "a\u{fffd}b")),
        ),
        case(
            "a command works in its directory, and its files are there afterwards",
            vec![
                mkdir("sub").committed(),
                changed("{one}", json!({ "cwd": "/workspace/sub", "args": ["-c", "printf made > file"] })).status(&[200]),
                ended("{one}").json("/state", "exited").json("/code", 0),
                read("sub/file").while_value("/code", "EBUSY").status(&[200]).check(Check::Bytes(b"made".to_vec())),
            ],
        ),
        case(
            "a file that a command changed has another revision",
            vec![
                put("a", "old").create().committed().keep("revision", "/result/revision"),
                start("{one}", "printf newer > a"),
                ended("{one}").json("/code", 0),
                put("a", "mine").matching("{revision}").while_value("/code", "EBUSY").not_committed(&[412], "ECONFLICT"),
                read("a").check(Check::Bytes(b"newer".to_vec())),
            ],
        ),
        case(
            "a request id starts one command, once",
            vec![
                start("{one}", "printf x >> file"),
                ended("{one}").json("/code", 0),
                start("{one}", "printf y >> file").json("/state", "exited"),
                ended("{one}"),
                read("file").while_value("/code", "EBUSY").check(Check::Bytes(b"x".to_vec())),
            ],
        ),
        case(
            "a running command can be cancelled",
            vec![
                start("{one}", "sleep 60").json("", status("running", "", "", None)),
                cancel("{one}").status(&[200]).check(Check::OneOf("/state", &["running", "cancelled"])),
                ended("{one}").json("/state", "cancelled").json("/code", Value::Null),
                cancel("{one}").json("/state", "cancelled"),
            ],
        ),
        case(
            "a cancel before the start is a fence",
            vec![
                cancel("{one}").json("", status("cancelled", "", "", None)),
                start("{one}", "printf x > file").json("/state", "cancelled"),
                read("file").refused(&[404], "ENOENT"),
            ],
        ),
        case(
            "a cancel after the end changes nothing",
            vec![
                start("{one}", "printf x"),
                ended("{one}").json("/state", "exited"),
                cancel("{one}").json("", status("exited", "x", "", Some(0))),
            ],
        ),
        case(
            "a command that takes too long is ended",
            vec![
                changed("{one}", json!({ "args": ["-c", "printf x; sleep 60"], "timeoutMs": 300 })).status(&[200]),
                ended("{one}").json("/state", "timed-out").json("/code", Value::Null),
            ],
        ),
        case(
            "output above 64 KiB is cut, and says so",
            run("head -c 100000 /dev/zero | tr '\\0' x; sleep 60", |end| {
                end.json("/truncated", true).json("/state", "cancelled").check(Check::Holds("at most 65,536 bytes", |reply| {
                    reply.json["stdout"].as_str().is_some_and(|text| text.len() <= 65_536)
                }))
            }),
        ),
        case(
            "a command that is not there fails",
            vec![
                changed("{one}", json!({ "command": "/no/such/command", "args": [] })).status(&[200]),
                // A sandbox finds out only inside.
                ended("{one}").check(Check::Holds("failed, or exited with a code", |reply| {
                    let status = &reply.json;
                    (status["state"] == "failed" && status["error"] == "SPAWN_FAILED")
                        || (status["state"] == "exited" && status["code"].as_i64().is_some_and(|code| code != 0))
                })),
            ],
        ),
        case(
            "a process that nobody started is unknown",
            vec![query("{epoch}", "{one}").refused(&[404], "PROCESS_UNKNOWN")],
        ),
        case(
            "another epoch is stale",
            vec![
                refused(json!({ "epoch": "0000" }), &[409], "STALE_SERVER_EPOCH"),
                query("0000", "{one}").refused(&[409], "STALE_SERVER_EPOCH"),
                post("/v1/processes/0000/{one}/cancel", json!({})).refused(&[409], "STALE_SERVER_EPOCH"),
            ],
        ),
        case(
            "another server id has changed",
            vec![refused(json!({ "serverId": "another" }), &[409], "SERVER_ID_CHANGED")],
        ),
        case(
            "a request id is well formed",
            vec![
                changed("a.b", json!({})).refused(&[400], "EINVAL"),
                query("{epoch}", "a.b").refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a start has exactly its members",
            vec![
                changed("{one}", json!({ "more": 1 })).status(&[422]),
                changed("{one}", json!({ "timeoutMs": -1 })).status(&[422]),
                changed("{one}", json!({ "mounts": "none" })).status(&[422]),
            ],
        ),
        case(
            "a start that is refused leaves no record",
            vec![
                refused(json!({ "command": "" }), &[400], "EINVAL"),
                refused(json!({ "args": ["a\0b"] }), &[400], "EINVAL"),
                refused(json!({ "args": ["x".repeat(32_768)] }), &[400], "EINVAL"),
                refused(json!({ "timeoutMs": 0 }), &[400], "EINVAL"),
                refused(json!({ "timeoutMs": 300_001 }), &[400], "EINVAL"),
                refused(json!({ "mounts": [] }), &[400], "EINVAL"),
                query("{epoch}", "{one}").refused(&[404], "PROCESS_UNKNOWN"),
                start("{one}", "exit 0"),
                ended("{one}").json("/state", "exited"),
            ],
        ),
        case(
            "a working directory lies in a mount and exists",
            vec![
                refused(json!({ "cwd": "workspace" }), &[400], "EINVAL"),
                refused(json!({ "cwd": "/workspace/../x" }), &[400], "EINVAL"),
                refused(json!({ "cwd": "/elsewhere" }), &[400], "EINVAL"),
                refused(json!({ "cwd": "/workspace/missing" }), &[404], "ENOENT"),
            ],
        ),
        case(
            "a mount has a place of its own",
            ["/", "workspace", "/usr/x", "/tmp", "/a/", "/a/../b", "/a//b"]
                .map(|at| refused(json!({ "mounts": [mount("{alias}", "{dir}", at, "rw")], "cwd": at }), &[400], "EINVAL"))
                .into_iter()
                .chain([
                    refused(
                        json!({ "mounts": [mount("{alias}", "{dir}", "/workspace", "rw"), mount("{alias}", "{dir}", "/workspace", "rw")] }),
                        &[400],
                        "EINVAL",
                    ),
                    refused(json!({ "mounts": [mount("{alias}", "{dir}", "/workspace", "wx")] }), &[400], "EINVAL"),
                ])
                .collect(),
        ),
        case(
            "a mount needs an export and a directory in it",
            vec![
                refused(json!({ "mounts": [mount("no-such-export", "", "/workspace", "ro")] }), &[403], "EACCES"),
                refused(json!({ "mounts": [mount("{alias}", "{dir}/missing", "/workspace", "rw")] }), &[404], "ENOENT"),
                refused(json!({ "mounts": [mount("{alias}", "{dir}/..", "/workspace", "rw")] }), &[400], "EINVAL"),
            ],
        ),
        case(
            "what is mounted read-only is not mounted writable, too",
            vec![
                mkdir("sub").committed(),
                refused(
                    json!({ "mounts": [mount("{alias}", "{dir}", "/workspace", "ro"), mount("{alias}", "{dir}/sub", "/sub", "rw")] }),
                    &[403],
                    "EROFS",
                ),
            ],
        ),
        Case::steps(
            "process",
            &[Need::Process, Need::ReadOnly],
            "a read-only export is not mounted writable",
            [refused(json!({ "mounts": [mount("{ro}", "", "/workspace", "rw")] }), &[403], "EROFS")],
        ),
        Case::program("process", &[Need::LiveOutput], "output can be followed while the command runs", |scene| {
            Box::pin(live_output(scene))
        }),
        Case::steps(
            "process",
            &[Need::LiveOutput],
            "kept output above 64 KiB does not end the command",
            [
                changed(
                    "{one}",
                    json!({ "args": ["-c", "head -c 100000 /dev/zero | tr '\\0' x; exit 7"], "keepOutput": true }),
                )
                .status(&[200]),
                ended("{one}").json("/state", "exited").json("/code", 7),
                output("{one}", 65_536, 0).json("/stdout/offset", 65_536).check(Check::Holds("the rest of it", |reply| {
                    decoded(&reply.json["stdout"]) == vec![b'x'; 34_464]
                })),
            ],
        ),
    ]
}

fn status(state: &str, stdout: &str, stderr: &str, code: Option<i32>) -> Value {
    json!({ "state": state, "stdout": stdout, "stderr": stderr, "code": code, "error": null, "truncated": false })
}

/// A start of `/bin/sh` in the directory of the case, with these members changed.
fn changed(id: &str, changes: Value) -> Step {
    let mut body = json!({
        "serverId": "{server}", "epoch": "{epoch}", "requestId": id, "command": "/bin/sh", "args": ["-c", "exit 0"],
        "cwd": "/workspace", "timeoutMs": 20_000,
        "mounts": [{ "alias": "{alias}", "path": "{dir}", "at": "/workspace", "access": "rw" }],
    });
    if let (Some(body), Value::Object(changes)) = (body.as_object_mut(), changes) {
        body.extend(changes);
    }
    // An older node starts nothing while any file is in use.
    post("/v1/processes", body).while_value("/code", "EBUSY")
}

fn start(id: &str, script: &str) -> Step {
    changed(id, json!({ "args": ["-c", script] })).status(&[200])
}

fn query(epoch: &str, id: &str) -> Step {
    get(&format!("/v1/processes/{epoch}/{id}"))
}

/// Asks until the process ended.
fn ended(id: &str) -> Step {
    query("{epoch}", id).while_value("/state", "running").status(&[200])
}

fn cancel(id: &str) -> Step {
    post(&format!("/v1/processes/{{epoch}}/{id}/cancel"), Value::Null).bytes("").without("content-type")
}

fn output(id: &str, stdout: u64, stderr: u64) -> Step {
    get(&format!("/v1/processes/{{epoch}}/{id}/output"))
        .query("stdout", stdout.to_string())
        .query("stderr", stderr.to_string())
        .status(&[200])
}

fn decoded(stream: &Value) -> Vec<u8> {
    STANDARD.decode(stream["data"].as_str().unwrap_or_default()).unwrap_or_default()
}

async fn live_output(scene: &mut Scene<'_>) -> Result<(), String> {
    let script = "printf one; while [ ! -e go ]; do sleep 0.05; done; printf two; printf err >&2";
    scene.play(&changed("{one}", json!({ "args": ["-c", script], "keepOutput": true })).status(&[200])).await?;
    scene
        .play(
            &output("{one}", 0, 0)
                .json("/state", "running")
                .json("/stdout/offset", 0)
                .check(Check::Holds("what was printed until now", |reply| decoded(&reply.json["stdout"]) == b"one")),
        )
        .await?;
    scene.play(&put("go", "").create().committed()).await?;
    scene.play(&ended("{one}").json("/state", "exited").json("/code", 0)).await?;
    scene
        .play(
            &output("{one}", 3, 0)
                .json("/stdout/offset", 3)
                .json("/state", "exited")
                .check(Check::Holds("what followed, of both streams", |reply| {
                    decoded(&reply.json["stdout"]) == b"two" && decoded(&reply.json["stderr"]) == b"err"
                })),
        )
        .await
}

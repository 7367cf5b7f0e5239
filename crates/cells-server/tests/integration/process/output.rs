//! Bounds of output, and output while a process runs.

use cells_server::Execution;
use serde_json::json;

use super::support::{ProcessNode, data, models, next_offset};
use crate::support::refusal;

const KEPT: u64 = 8 * 1024 * 1024;

#[tokio::test]
async fn too_much_output_ends_a_command_that_does_not_keep_it() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for (script, state, stdout, stderr, truncated) in [
            ("head -c 65536 /dev/zero | tr '\\0' x", "exited", 65_536, 0, false),
            ("yes", "cancelled", 65_536, 0, true),
            ("yes >&2", "cancelled", 0, 65_536, true),
        ] {
            let status = node.run(&node.shell(script)).await;
            let length = |name: &str| status[name].as_str().unwrap().len();
            assert_eq!(
                (&status["state"], length("stdout"), length("stderr"), &status["truncated"]),
                (&json!(state), stdout, stderr, &json!(truncated)),
                "{model:?} {script}"
            );
        }
    }
}

#[tokio::test]
async fn output_comes_while_the_command_runs() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        for keep in [false, true] {
            let mut start =
                node.shell("printf one; while [ ! -e go ]; do sleep 0.02; done; printf two; printf err >&2");
            start["keepOutput"] = json!(keep);
            let id = node.begin(&start).await;
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let reply = node.output(&id, seen.len() as u64, 0).await.json();
                assert_eq!((&reply["state"], &reply["stdout"]["truncated"]), (&json!("running"), &json!(false)));
                seen.extend(data(&reply["stdout"]));
            }
            assert_eq!(seen, b"one");
            assert_eq!(node.output(&id, 4, 0).await.refusal(), refusal(400, "EINVAL"), "beyond the end");
            std::fs::write(node.node.path("rw/go"), "").unwrap();
            let status = node.end(&id).await;
            assert_eq!((&status["stdout"], &status["stderr"]), (&json!("onetwo"), &json!("err")), "{model:?}");
            let reply = node.output(&id, 3, 1).await.json();
            assert_eq!(
                reply,
                json!({ "stdout": { "offset": 3, "data": "dHdv", "truncated": false },
                    "stderr": { "offset": 1, "data": "cnI=", "truncated": false }, "state": "exited" })
            );
            std::fs::remove_file(node.node.path("rw/go")).unwrap();
        }
    }
}

#[tokio::test]
async fn the_newest_eight_mebibytes_are_kept() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let mut start = node.shell("yes abcdefg | head -c 9000000; printf end");
        start["keepOutput"] = json!(true);
        let status = node.run(&start).await;
        assert_eq!((&status["state"], &status["truncated"]), (&json!("exited"), &json!(true)), "{model:?}");
        let text = status["stdout"].as_str().unwrap();
        assert!(text.len() == 65_536 && text.ends_with("end"), "{}", text.len());

        let total = 9_000_003;
        let id = &start["requestId"];
        let first = node.output(id, 0, 0).await.json();
        assert_eq!((&first["stdout"]["offset"], &first["stdout"]["truncated"]), (&json!(total - KEPT), &json!(true)));
        let (mut offset, mut whole) = (next_offset(&first["stdout"]), data(&first["stdout"]));
        loop {
            let chunk = node.output(id, offset, 0).await.json()["stdout"].take();
            assert_eq!((&chunk["offset"], &chunk["truncated"]), (&json!(offset), &json!(false)));
            whole.extend(data(&chunk));
            offset = next_offset(&chunk);
            if data(&chunk).len() < 65_536 {
                break;
            }
        }
        assert_eq!((offset, whole.len() as u64), (total, KEPT));
        let expected =
            |at: u64| if at < 9_000_000 { b"abcdefg\n"[(at % 8) as usize] } else { b"end"[(at - 9_000_000) as usize] };
        let is_right = whole.iter().enumerate().all(|(at, byte)| *byte == expected(total - KEPT + at as u64));
        assert!(is_right, "{model:?}");
    }
}

#[tokio::test]
async fn offsets_are_two_decimal_numbers() {
    let node = ProcessNode::start(Execution::Host).await;
    let id = node.begin(&node.shell("true")).await;
    for query in [
        "",
        "?stdout=0",
        "?stdout=0&stderr=x",
        "?stdout=0&stderr=-1",
        "?stdout=0&stderr=0&stdout=0",
        "?stdout=0&stderr=0&x=1",
    ] {
        let request = node.request(reqwest::Method::GET, &id, &format!("/output{query}"));
        assert_eq!(crate::support::Reply::of(request).await.status, 400, "{query}");
    }
}

//! The process topic of the event stream (`cells-0.4.md` §2).

use cells_server::Execution;
use reqwest::Response;
use serde_json::{Value, json};

use super::support::{ProcessNode, models};

/// The frames of a stream.
struct Frames {
    response: Response,
    text: String,
}

impl Frames {
    async fn open(node: &ProcessNode, topics: Value) -> Self {
        let request = json!({"version": 1, "clientId": "c", "topics": topics});
        let response = node.post("/v1/events", &request).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// Name and data of the next frame.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (name, data) = frame.split_once("\ndata: ").unwrap();
                let frame = (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                return frame;
            }
            let chunk = self.response.chunk().await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn topic(id: &str, epoch: &str, request_id: &Value) -> Value {
    json!({"id": id, "kind": "process", "epoch": epoch, "requestId": request_id})
}

#[tokio::test]
async fn a_topic_tells_the_end_once_and_again_to_who_comes_later() {
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let (slow, fast) =
            (node.shell("echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 3"), node.shell("true"));
        let (slow, fast) = (node.begin(&slow).await, node.begin(&fast).await);
        node.wait_for(&slow, "ready").await;
        node.end(&fast).await;
        let topics = json!([topic("s", &node.epoch, &slow), topic("f", &node.epoch, &fast)]);
        let mut frames = Frames::open(&node, topics).await;
        assert_eq!(frames.next().await.0, "ready");
        for id in ["s", "f"] {
            assert_eq!(frames.next().await, ("open".to_owned(), json!({"topic": id, "kind": "process"})));
        }
        let (name, told) = frames.next().await;
        assert_eq!((name.as_str(), &told["topic"], &told["requestId"]), ("process", &json!("f"), &fast), "{model:?}");
        std::fs::write(node.node.path("rw").join("go"), "").unwrap();
        let (name, told) = frames.next().await;
        let status = node.end(&slow).await;
        assert_eq!(status["code"], 3);
        let expected = json!({"topic": "s", "epoch": node.epoch, "requestId": slow, "process": status});
        assert_eq!((name.as_str(), told), ("process", expected));
        let mut later = Frames::open(&node, json!([topic("again", &node.epoch, &slow)])).await;
        for expected in ["ready", "open", "process"] {
            assert_eq!(later.next().await.0, expected);
        }
    }
}

#[tokio::test]
async fn a_topic_that_cannot_be_told_of_is_an_error() {
    let node = ProcessNode::start(Execution::Off).await;
    let mut frames = Frames::open(&node, json!([topic("a", &node.epoch, &json!("x"))])).await;
    assert_eq!(frames.next().await.0, "ready");
    let error = |topic: &str, code: &str| ("error".to_owned(), json!({"topic": topic, "code": code, "final": true}));
    assert_eq!(frames.next().await, error("a", "ECAPABILITY"));
    for model in models().await {
        let node = ProcessNode::start(model).await;
        let topics = json!([topic("a", &node.epoch, &json!("x")), topic("b", "another-epoch", &json!("x"))]);
        let mut frames = Frames::open(&node, topics).await;
        assert_eq!(frames.next().await.0, "ready");
        assert_eq!(frames.next().await, error("a", "PROCESS_UNKNOWN"));
        assert_eq!(frames.next().await, error("b", "STALE_SERVER_EPOCH"));
        // A process that was cancelled before it started will never run: that is its end.
        let id = json!("cancelled-before");
        node.cancel(&id).await;
        let mut frames = Frames::open(&node, json!([topic("c", &node.epoch, &id)])).await;
        for expected in ["ready", "open"] {
            assert_eq!(frames.next().await.0, expected);
        }
        assert_eq!(frames.next().await.1["process"]["state"], "cancelled");
    }
}
